"""Ridge regression with kernel, alpha and output operator selected by leave-one-out."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ovk.base import (
    Array,
    DeviceMatrix,
    Indices,
    Targets,
    check_alpha,
    check_alphas,
    check_choice,
    check_frame,
    check_groups,
    check_inputs,
    is_on_device,
    one_blas_thread,
    positive,
    progress_shown,
    threads_for,
    to_device_of,
)
from ovk.batch.ridge.landmarks import LandmarkLeaveOneOut, LandmarkRidge, choose_landmarks, landmark_ridge
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import (
    TrainingData,
    merge_same_inputs,
    new_generator,
    robust_targets,
    rows_held_out_together,
    same_inputs,
    solve_ridge,
)
from ovk.batch.ridge.table_inputs import FrameColumns, InputScaling, is_frame, mean_and_deviation, reject_missing
from ovk.batch.tuning.automatic import (
    ALPHAS,
    MAX_WIDTH_ROWS,
    AutomaticChoice,
    Comparison,
    automatic_choice,
    best_form,
    edge_of_grid,
    mean_loss,
)
from ovk.batch.tuning.error_surface import (
    CandidateErrors,
    candidate_kernels,
    candidate_operators,
    output_dim_of,
    with_operator,
)
from ovk.intervals import NoiseScale
from ovk.operators import Dense, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel, row_slices

#: Default maximum numbers of rows without landmarks in double and in single precision (a matrix of 1.6 GB), and number
#: of rows on which candidates are compared if there are more than the first.
MAX_EXACT_ROWS, MAX_SINGLE_ROWS, MAX_COMPARED_ROWS = 5000, 20_000, 2000
#: Minimum alpha, relative to the scale of the outputs, for single precision; rounding slows convergence below it.
MIN_SINGLE_ALPHA = 1e-5
#: Landmarks by default. With m landmarks each row adds m^2 products to an (m, m) sum, and with missing outputs to one
#: sum for each output: above these numbers of products and of stored entries (400 MB) there are fewer landmarks.
DEFAULT_LANDMARKS, MAX_LANDMARK_PRODUCTS, MAX_LANDMARK_ENTRIES = 4000, 1e13, 5e7
#: Landmarks that give the variances of intervals if the fit uses all rows.
INTERVAL_LANDMARKS = 1500
#: A choice at the edge of its grid is reported for this many alphas and rows: fewer alphas are a choice between them,
#: and in fewer rows the errors of neighbours differ by chance.
MIN_GRID, MIN_EDGE_ROWS = 5, 40
#: Tried for a given kernel if the error still falls at the smallest default alpha.
SMALL_ALPHAS = np.logspace(-10, -7, 4)
#: Residuals of this many robust deviations are outliers. Huber's loss is tried from this share of them, if at least
#: this share of the outliers is on each side.
OUTLIER_SCALES, MIN_OUTLIERS, MIN_SIDE = 4.0, 0.01, 0.25
#: Threshold of the robust mean of residuals, in robust deviations, and its largest value with Huber's loss, relative to
#: that with the squared loss.
HUBER_THRESHOLD, MAX_HUBER_ERROR = 1.345, 0.98
#: Minimum number of rows for comparing normal scores of skewed inputs with the inputs themselves.
MIN_FORM_ROWS = 40
#: With landmarks: maximum number of rows whose leave-one-out residuals are kept for intervals, and minimum number of
#: rows without the landmarks.
MAX_INTERVAL_ROWS, MIN_INTERVAL_ROWS = 2000, 50


@dataclass(eq=False, repr=False)
class OVKRidgeCV(OVKRegressor):
    """`OVKRidge` with kernel, alpha and output operator selected by exact leave-one-out.

    If no kernel is given, all settings are selected automatically. Inputs are standardised. The candidates are the
    linear kernel, Gaussian, Matern (smoothness 3/2) and Laplacian kernels with several length scales, and sums of the
    best of them, with an alpha for each output; they are compared by robust leave-one-out errors. If outputs are
    missing, coupling of the outputs is a candidate too.

    With a kernel, the leave-one-out errors have a closed form: for a separable kernel, the errors of all alphas and
    operators cost one eigendecomposition of the scalar gram and small products. Rows with the same inputs are left out
    together, because a copy would reveal the answer; repeating a row is equivalent to doubling its weight.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, or a list of candidates; selected automatically by default
        A user-supplied kernel receives the raw, unscaled inputs.
    alphas : sequence of floats > 0, optional
        Candidates; by default 25 values from 1e-6 to 1e2 (and four down to 1e-10 if the error still falls at 1e-6),
        or 22 from 1e-10 to 1e3 without a kernel. A warning is given if the selected alpha, or length scale, is at the
        edge of its grid and the error still falls there.
    omegas : sequence of floats in [0, 1], optional
        Candidate operators ``MixedEffect(omega)``, which replace the kernel's operator.
    operators : sequence of output operators, optional
        Candidate operators, which replace the kernel's operator.
    leave_out : "row" or "entry"
        Leave out all outputs of a row (error at new points), or one output of a row at a time (error of imputed
        entries).
    scored_outputs : sequence of ints, optional
        Outputs whose errors are minimised; all by default.
    alpha_per_target : bool
        Select an alpha for each output (always done without a kernel). For coupled outputs, the ratios of the alphas
        are those without coupling, and a common factor is selected.
    fit_intercept : bool
        Learn an unpenalised constant for each output.
    loss : "auto", "squared" or "huber"
        As in `OVKRidge`, for the final fit; without a kernel the selection uses the robust weights too. "auto" uses
        Huber's loss if leave-one-out residuals have symmetric heavy tails and it lowers their robust mean. It requires
        that the kernel is selected, complete outputs and at most 5,000 rows; otherwise it is "squared". Intervals of
        fits with Huber's loss are too narrow by a few percent of coverage.
    standardize : bool
        Without a kernel: scale the inputs to mean 0 and standard deviation 1, unless they are sparse; or replace
        columns that are skewed or have heavy tails by their normal scores, if that lowers the leave-one-out error by
        3%. Words in columns of a data frame always become indicator columns, and dates sines and cosines of the time of
        day, week and year. `predict` warns about values outside the training range by more than three times its width.
    missing_inputs : "impute" or "error"
        Without a kernel: replace nan in X by the column mean and add an indicator column, or reject it.
    metric : "auto" or bool
        Without a kernel: also try kernels in metrics of the inputs learned by `GradientMetric`, each evaluated on rows
        that it was not learned from. Useful if few inputs or directions matter; needs 50 rows (or groups), and takes
        two to three times as long. "auto" tries them with at least 2 dense inputs, and at most half
        as many as rows (200 above 400 rows).
    time_order : bool
        Without a kernel: rows are in time order, and candidates are compared by predicting later rows from earlier
        ones.
    landmarks : "auto", None, int or (m, p) array
        Use Nystrom features of that many rows, or of these points, as in `OVKRidge`. "auto" uses all rows up to 20,000,
        above 5,000 with the kernel matrix in single precision (1.6 GB for 20,000) and the solution refined to double
        precision, and 4,000 landmarks above that, fewer above 625,000 rows or with missing values in more than three
        outputs, with a warning. Above 5,000 rows it also
        uses landmarks with missing outputs, sparse inputs or loss="huber", and for outputs almost without noise. None
        always uses all rows. Above 5,000 rows, the candidates of a given kernel are compared on 2,000 rows.
    tol : float >= 0
        Relative error allowed in the leave-one-out solutions, which speeds up scalar grams of low numerical rank; 0
        always computes the full eigendecomposition.
    dtype : "float64" or "float32"
        As in `OVKRidge`, for the final fit. Given kernels are compared in double precision.
    n_jobs : int, optional
        Number of threads that evaluate candidates, -1 for one per processor; BLAS then has one thread in each. The
        result does not depend on the number. By default candidates are evaluated one after another.
    verbose : bool, optional
        As in `OVKRidge`.
    random_state : int, Generator or None
        Seed of the landmarks and, without a kernel, of the rows (at most 400 or 1,000) used to select settings.

    Attributes
    ----------
    choice_ : the automatic choice, with the `names` of all candidates, the chosen one first, and their robust
        leave-one-out `errors`, (candidates, alphas, d); it prints as a table. None if a kernel was given
    alpha_ : selected alpha; (d,) without a kernel, and with `alpha_per_target`
    alphas_ : (alphas,) all candidates
    kernel_ : selected kernel, with all parameters resolved
    omega_ : selected omega, None without `omegas`
    errors_ : (kernels, operators, alphas) mean squared leave-one-out error of the scored outputs; without a kernel,
        robust errors relative to the variances of the outputs
    output_errors_ : (kernels, operators, alphas, d) the same for each output
    best_error_ : smallest of `errors_`
    loss_ : "squared" or "huber", the loss of the fit
    inputs_ : the standardisation of the inputs, or None; `X_fit_` and `kernel_` refer to standardised inputs
    landmarks_ : sums over all rows if landmarks were used, else None
    landmark_loo_ : (2, rows, d) leave-one-out residuals and variances of at most 2,000 rows, with landmarks or above
        5,000 rows, else None
    interval_rows_ : (rows,) their indices among the learned rows, else None
    interval_landmarks_ : sums from which intervals take variances, above 5,000 rows without landmarks, else None
    and those of `OVKRidge`

    See Also
    --------
    OVKRidge, OVKClassifierCV, FunctionalRidgeCV, GradientMetric

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (40, 1))
    >>> Y = np.sin(2 * X) + 0.3 * rng.standard_normal((40, 3))
    >>> OVKRidgeCV().fit(X, Y).choice_.names[:2]
    ['sum of 2', 'Gaussian 1']
    >>> model = OVKRidgeCV(omegas=[0.0, 0.5, 0.9]).fit(X, Y)
    >>> model.omega_, model.errors_.shape
    (0.9, (1, 3, 25))
    """

    _state_classes = {"columns_": FrameColumns}
    _losses = ("auto", "squared", "huber")
    _runs_on_devices = True

    kernel: Any = None
    alphas: Any = None
    _: KW_ONLY
    omegas: Any = None
    operators: Any = None
    leave_out: str = "row"
    scored_outputs: Any = None
    alpha_per_target: bool = False
    fit_intercept: bool = True
    loss: str = "squared"
    standardize: bool = True
    missing_inputs: str = "impute"
    metric: bool | str = "auto"
    time_order: bool = False
    landmarks: Any = "auto"
    tol: float = 1e-8
    dtype: Any = "float64"
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: Any = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.kernel is None and self.missing_inputs == "impute"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None, groups: Any = None) -> Self:
        """Select the settings and fit the model.

        Parameters
        ----------
        X, y, sample_weight, task : as in `OVKRidge.fit`
        groups : (n,) labels, optional
            Without a kernel: leave out whole groups (patients, sites), because new rows belong to new groups.
        """
        with self._fitting(X, y), progress_shown(self.verbose):
            X_given = X
            X, inputs, targets, groups = self._read(X, y, sample_weight, task, groups)
            kernel, alpha, solver = self._choose(X, targets, groups)
            if is_on_device(X_given) and not isinstance(X, DeviceMatrix):
                X = DeviceMatrix(to_device_of(X_given, X))
            for name in ("landmark_loo_", "interval_landmarks_", "interval_rows_"):
                self.__dict__.pop(name, None)
            if self._in_single_precision(kernel, alpha, X, targets):
                self._solve_in_single_precision(kernel, alpha, X, targets)
            else:
                points = self._landmark_points(X, targets, kernel)
                self._solve(kernel, alpha, X, targets, solver, points)
                on_host = not (sparse.issparse(X) or isinstance(X, DeviceMatrix))
                if self.landmarks_ is not None and targets.task is None and on_host:
                    self.interval_rows_ = some = self._rows_of_intervals(X, points)
                    self.landmark_loo_ = self._landmark_residuals(self.landmarks_, X[some], targets.rows(some))
            self.inputs_ = inputs
        return self

    def _in_single_precision(self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets) -> bool:
        """Whether, with landmarks="auto", an exact fit in single precision is possible and affordable."""
        separable, automatic = kernel.as_separable(), isinstance(self.landmarks, str) and self.landmarks == "auto"
        if not automatic or not MAX_EXACT_ROWS < X.shape[0] <= MAX_SINGLE_ROWS or separable is None:
            return False
        if not targets.complete or self._loss != "squared" or isinstance(X, DeviceMatrix) or sparse.issparse(X):
            return False
        return bool(np.all(np.asarray(alpha) >= MIN_SINGLE_ALPHA * np.diagonal(separable.operator.dense())))

    def _solve_in_single_precision(
        self, kernel: OperatorKernel, alpha: float | Array, X: Array, targets: Targets
    ) -> None:
        """Fit all rows; intervals have exact residuals of some rows, and variances from landmarks."""
        points = choose_landmarks(INTERVAL_LANDMARKS, X, self.random_state, lambda rows: kernel)
        some = self._rows_of_intervals(X, points)
        options: dict[str, Any] = {"intercept": self.fit_intercept, "single": True, "left_out": some}
        found = solve_ridge(kernel, alpha, X, targets, **options)
        assert found.left_out is not None
        self._store(kernel, alpha, found)
        sums = landmark_ridge(kernel, points, targets.d)
        for part, outputs in self._slices(X, targets):
            sums.add(part, outputs)
        _, variances = self._landmark_residuals(sums, X[some], targets.rows(some))
        self.landmark_loo_, self.interval_landmarks_ = np.stack([found.left_out, variances]), sums
        self.interval_rows_ = some

    def _rows_of_intervals(self, X: Array, points: Array) -> Indices:
        """At most `MAX_INTERVAL_ROWS` random rows without the landmarks."""
        # The span of the landmarks explains landmarks fully, unlike new rows.
        landmarks = {point.tobytes() for point in points}
        others = np.flatnonzero([row.tobytes() not in landmarks for row in np.ascontiguousarray(X)])
        others = others if len(others) >= MIN_INTERVAL_ROWS else np.arange(len(X))
        return np.sort(new_generator(self.random_state).permutation(others)[:MAX_INTERVAL_ROWS])

    def _landmark_residuals(self, sums: LandmarkRidge, X: Array, targets: Targets) -> Array:
        """Leave-one-out residuals of some training rows, and their variances, for intervals."""
        parts = []
        for rows in row_slices(len(X), sums.m * targets.d**2):
            part, known = targets.rows(rows), self.intercept_ is not None
            R = part.Y - self.expansion_(X[rows])
            parts.append(LandmarkLeaveOneOut.of_rows(sums, X[rows], R, part.weight, self.alpha_, intercept=known))
        return np.concatenate(parts, axis=1)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, task: Any, groups: Any
    ) -> tuple[Any, InputScaling | None, Targets, Any]:
        """Scaled inputs of the informative rows, their scaling, outputs and groups."""
        check_choice(self.leave_out, "leave_out", ("row", "entry"))
        X, targets = self._check_rows(X, y, sample_weight, task)
        if self.kernel is not None and (groups is not None or self.time_order):
            raise ValueError("groups and time_order require kernel=None, because they select the kernel")
        if groups is not None:
            groups = check_groups(groups, X.shape[0])[targets.informative_rows()]
            groups = check_groups(groups, len(groups))
        X, targets = self._informative(X, targets)
        inputs = self._scaling(X, targets, groups) if self.kernel is None else None
        return X if inputs is None else inputs(X), inputs, targets, groups

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        """Without a kernel, inputs are read as tables; a given kernel receives raw inputs."""
        if self.kernel is not None:
            if reset:
                self.columns_: FrameColumns | None = None
            return super()._check_inputs(X, reset=reset, stream=stream)
        check_choice(self.missing_inputs, "missing_inputs", ("impute", "error"))
        check_frame(X, "X")
        frame, impute = is_frame(X), self.missing_inputs == "impute"
        if reset:
            self.columns_ = FrameColumns.learn(X) if frame else None
        if frame and self.columns_ is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            X = check_array(self.columns_(X), ensure_all_finite="allow-nan", input_name="X")
            return X if impute else reject_missing(X)
        finite = "allow-nan" if impute and not sparse.issparse(X) else True
        X = check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite)
        # The choice compares few rows, on the host.
        return X.host() if isinstance(X, DeviceMatrix) else X

    def _scaling(self, X: Any, targets: Targets, groups: Indices | None) -> InputScaling | None:
        """Standardisation, or normal scores of skewed columns, and imputation of the inputs; None if not needed."""
        if sparse.issparse(X) or not (self.standardize or np.isnan(X).any()):
            return None
        indicators = 0 if self.columns_ is None else self.columns_.indicators
        inputs = InputScaling.learn(X, targets.weight, scale=bool(self.standardize), indicators=indicators)
        other = inputs.with_normal_scores(X, indicators) if self.standardize else None
        if other is None or X.shape[0] < MIN_FORM_ROWS:
            return inputs
        if groups is None and not self.time_order:
            groups = same_inputs(X)
        _, standard = self._standard_units(targets)
        with one_blas_thread():
            rng, options = new_generator(self.random_state), self._comparison_options(standard) | {"groups": groups}
            return other if best_form([inputs(X), other(X)], standard.Y, rng, **options) else inputs

    def _number_names(self) -> list[str]:
        if self.columns_ is None:
            return super()._number_names()
        return self.columns_.numbers(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _output_dim(self) -> int | None:
        if self.kernel is None and self.operators is None:
            return None
        return output_dim_of(self.operators, candidate_kernels(self.kernel, self._default_kernel))

    def _choose(self, X: Any, targets: Targets, groups: Indices | None) -> tuple[OperatorKernel, float | Array, Any]:
        """Kernel, alpha and solver, which reuses eigenvectors of the gram if leave-one-out computed them."""
        alphas = np.logspace(-6, 2, 25) if self.alphas is None else check_alphas(self.alphas)
        scored = self._scored(targets.d)
        self.choice_: AutomaticChoice | None = None
        self.loss_ = "squared" if self.loss == "auto" else self.loss
        self.omega_: float | None = None
        if self.kernel is not None:
            return self._compare(candidate_kernels(self.kernel, self._default_kernel), alphas, X, targets, scored)
        self.choice_, kernel, alpha = self._find(X, targets, groups)
        given = [self.alphas, self.omegas, self.operators, self.scored_outputs]
        if self.leave_out != "row" or any(one is not None for one in given):
            return self._compare([as_operator_kernel(self.choice_.kernel)], alphas, X, targets, scored)
        self.__dict__.update(Comparison(ALPHAS, self.choice_.errors[:, None], scored).attributes())
        _warn_of_edges(X, self.choice_.edges(), "pass alphas, or a kernel with other length scales")
        return kernel, alpha, "auto"

    def _find(
        self, X: Any, targets: Targets, groups: Indices | None
    ) -> tuple[AutomaticChoice, Separable, float | Array]:
        """The automatic choice, with its kernel and alphas in the units of the outputs."""
        same = rows_held_out_together(self.kernel, X, targets, intercept=self.fit_intercept)
        check_choice(self.metric, "metric", (True, False, "auto"))
        if self.metric is True and sparse.issparse(X):
            raise ValueError("metric=True does not support sparse inputs: set metric='auto' or False")
        choice, kernel, alpha = self._in_standard_units(X, targets, same, groups)
        self._single_precision()
        if self.loss == "auto" and self._has_heavy_tails(kernel, alpha, X, targets, same if groups is None else groups):
            self.loss_ = "huber"
        if self._loss == "squared":
            return choice, kernel, alpha
        # Outlying rows distort the choice: repeat it with the robust weights.
        weighted = robust_targets(kernel, alpha, X, targets, intercept=self.fit_intercept)
        return self._in_standard_units(X, weighted, same, groups)

    @property
    def _loss(self) -> str:
        return self.loss_

    def _has_heavy_tails(
        self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, together: Indices
    ) -> bool:
        """Whether Huber's loss is better, by leave-one-out residuals of at most 400 rows.

        Their outliers must be frequent and symmetric: with skewed noise the two losses estimate different functions.
        """
        n, plain = X.shape[0], str(np.dtype(self.dtype)) == "float64" and isinstance(self.landmarks, str | None)
        if not MIN_FORM_ROWS <= n <= MAX_EXACT_ROWS or not targets.complete or not plain or self.time_order:
            return False
        some = np.sort(new_generator(self.random_state).permutation(n)[:MAX_WIDTH_ROWS])
        X, targets = X[some], targets.wide().rows(some)

        def residuals(targets: Targets) -> Array:
            rows = TrainingData(kernel, X, alpha, self.fit_intercept, targets).left_out(together[some])
            return rows.left_out.residuals

        R = residuals(targets)
        scale = 1.4826 * np.median(np.abs(R), axis=0)
        if not (scale > 0).all():
            return False
        high, low = ((sign * R > OUTLIER_SCALES * scale).sum() for sign in (1.0, -1.0))
        if high + low < MIN_OUTLIERS * R.size or min(high, low) < MIN_SIDE * (high + low):
            return False
        weighted = robust_targets(kernel, alpha, X, targets, intercept=self.fit_intercept)
        before, after = (
            mean_loss(A / scale, np.full(targets.d, HUBER_THRESHOLD)).mean() for A in (R, residuals(weighted))
        )
        return bool(after < MAX_HUBER_ERROR * before)

    def _in_standard_units(
        self, X: Any, targets: Targets, same: Indices, groups: Indices | None
    ) -> tuple[AutomaticChoice, Separable, float | Array]:
        """Choose for standardised outputs; repeated inputs count as one row with the total weight.

        With deviations s of the outputs, S = diag(s), the problem in standard units with operator T and alphas a is the
        original problem with operator S T S and alphas s^2 a. So posterior variances have the units of the outputs.
        """
        deviation, standard = self._standard_units(targets)
        if groups is None and not self.time_order:
            if standard.complete:
                X, standard, _ = merge_same_inputs(X, standard, same)
            elif len(np.unique(same)) < len(same):
                # Rows with gaps cannot be averaged, but they can be left out together.
                groups = same
        # At most 1,000 rows take part in the choice: several BLAS threads would not help.
        with one_blas_thread():
            options = self._comparison_options(standard) | {"groups": groups, "metric": self.metric}
            choice = automatic_choice(X, standard.Y, new_generator(self.random_state), **options)
        kernel = Separable(choice.kernel, Dense(choice.operator * np.outer(deviation, deviation)))
        return choice, kernel, check_alpha(choice.alphas * deviation**2, targets.d)

    def _standard_units(self, targets: Targets) -> tuple[Array, Targets]:
        """(d,) standard deviations of the outputs, and the standardised outputs in wide form."""
        targets = targets.wide()
        mean, deviation = mean_and_deviation(targets.Y, targets.weight)
        if not self.fit_intercept:
            mean, deviation = np.zeros(targets.d), np.sqrt(mean**2 + deviation**2)
        deviation = np.where(deviation > 0, deviation, 1.0)
        return deviation, Targets((targets.Y - mean) / deviation, targets.d, False, None, targets.weight)

    def _comparison_options(self, standard: Targets) -> dict[str, Any]:
        """Fields of `ComparisonData`."""
        options = {"weight": standard.weight, "time_order": self.time_order, "intercept": self.fit_intercept}
        return options | {"n_jobs": self.n_jobs}

    def _compare(
        self, kernels: list[OperatorKernel], alphas: Array, X: Any, targets: Targets, scored: list[int]
    ) -> tuple[OperatorKernel, float | Array, Any]:
        """The best kernel with its operator, alpha and solver."""
        given = candidate_operators(self.operators, self.omegas, kernels)
        kernels = [self._resolved(X, targets.d, kernel) for kernel in kernels]
        X = X.double() if isinstance(X, DeviceMatrix) else X
        operators: list[OutputOperator | None] = [
            None if one is None else self._own_copy(one, targets.d).resolve(targets.d) for one in given
        ]
        if self.landmarks is not None and X.shape[0] > MAX_EXACT_ROWS:
            some = np.sort(new_generator(self.random_state).permutation(X.shape[0])[:MAX_COMPARED_ROWS])
            X, targets = X[some], targets.rows(some)
        same = rows_held_out_together(self.kernel, X, targets, intercept=self.fit_intercept)
        tol, entry = positive(self.tol, "tol", zero=True), self.leave_out == "entry"
        errors = CandidateErrors(X, targets, same, alphas, self.fit_intercept, entry, tol)
        found = errors.compare(kernels, operators, scored, self.n_jobs)
        k, o, a = found.best()
        variance = max(float(np.nanvar(targets.Y)), 1e-300)
        edge = edge_of_grid("alpha", alphas, found.mean[k, o] / variance, alphas[a])
        if edge is not None and self.alphas is None and a == 0:
            # The low-rank shortcut saves less at small alphas, so these are tried only if needed.
            alphas, edge = np.concatenate([SMALL_ALPHAS, alphas]), None
            errors = replace(errors, alphas=alphas)
            found = errors.compare(kernels, operators, scored, self.n_jobs)
            k, o, a = found.best()
        if edge is not None and len(alphas) >= MIN_GRID:
            _warn_of_edges(X, [edge], "extend alphas")
        self.__dict__.update(found.attributes())
        self.omega_ = None if self.omegas is None else float(self.omegas[o])
        best = with_operator(kernels[k], operators[o])
        alpha: float | Array = float(alphas[a])
        if self.alpha_per_target:
            alpha = self._alpha_per_target(best, found.errors[k, o], errors)
        return best, alpha, found.solver()

    def _scored(self, d: int) -> list[int]:
        chosen = list(range(d) if self.scored_outputs is None else self.scored_outputs)
        if not chosen or not all(isinstance(q, (int, np.integer)) and 0 <= q < d for q in chosen):
            raise ValueError(f"scored_outputs must be integers from 0 to {d - 1}, got {self.scored_outputs!r}")
        return chosen

    def _alpha_per_target(self, kernel: OperatorKernel, found: Array, errors: CandidateErrors) -> Array:
        """(d,) the best alpha of each output; if coupled, the ratios of these alphas times a common factor."""
        alphas, targets, separable = errors.alphas, errors.targets, kernel.as_separable()
        if separable is None:
            raise ValueError("alpha_per_target requires a kernel k * T, got a sum of kernels")
        if separable.operator.is_diagonal():
            return np.asarray(alphas[found.argmin(axis=0)])
        operator = separable.operator.dense()
        uncoupled, _ = errors.surface(kernel, [Dense(np.diag(np.diagonal(operator)))])
        own = np.log(alphas[uncoupled[0].argmin(axis=0)])
        ratios = np.exp(own - own.mean())
        # With D = diag(ratios) this is the problem with operator D^-1/2 T D^-1/2 and outputs Y D^-1/2.
        roots = np.sqrt(ratios)
        scaled = replace(targets, Y=targets.Y / (roots if targets.task is None else roots[targets.task][:, None]))
        coupled, _ = replace(errors, targets=scaled).surface(kernel, [Dense(operator / np.outer(roots, roots))])
        best = int((coupled[0] * ratios)[:, self._scored(targets.d)].mean(axis=-1).argmin())
        return np.asarray(alphas[best] * ratios)

    def _noise_scale(self, groups: Any) -> NoiseScale | None:
        if self.landmark_loo_ is not None or self.landmarks_ is not None:
            return None
        rows = self._leave_out(groups, None)
        key = ("noise", None if groups is None else np.asarray(groups).tobytes())
        with threads_for(self.X_fit_.shape[0]):
            return self._cached(key, lambda: self._training_data().noise_scale(rows.left_out, self._blocks(groups)))

    def _landmark_points(self, X: Any, targets: Targets, kernel: OperatorKernel) -> Any:
        n, automatic = X.shape[0], isinstance(self.landmarks, str) and self.landmarks == "auto"
        if self.landmarks is None or (automatic and n <= MAX_EXACT_ROWS):
            return None
        sums = 1 if targets.complete else targets.d
        limit = min(MAX_LANDMARK_PRODUCTS / n, MAX_LANDMARK_ENTRIES) / sums
        m = min(DEFAULT_LANDMARKS, int(np.sqrt(limit)))
        if automatic:
            warnings.warn(
                f"{n:,} rows are fitted with {m:,} landmarks: set landmarks=None for an exact fit, or "
                "another number of landmarks",
                stacklevel=3,
            )
        return choose_landmarks(m if automatic else self.landmarks, X, self.random_state, lambda rows: kernel)


def _warn_of_edges(X: Any, edges: list[str], remedy: str) -> None:
    if edges and X.shape[0] >= MIN_EDGE_ROWS:
        warnings.warn(
            f"the choice lies at the edge of its grid, where the error still falls ({'; '.join(edges)}): {remedy}",
            stacklevel=4,
        )
