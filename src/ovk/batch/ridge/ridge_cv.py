"""Ridge regression that chooses its own kernel, alpha and operator by leave-one-out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ovk.base import (
    Array,
    Indices,
    Targets,
    check_alpha,
    check_alphas,
    check_groups,
    in_interval,
    one_blas_thread,
    positive,
    progress_shown,
)
from ovk.batch.ridge.landmarks import choose_landmarks, new_generator
from ovk.batch.ridge.left_out import LeaveOneOutRegressor, error_surface, merge_same_inputs, with_operator
from ovk.batch.ridge.table_inputs import TableInputs, mean_and_deviation
from ovk.batch.tuning.automatic import ALPHAS, AutomaticChoice, automatic_choice
from ovk.batch.tuning.validation import map_threads
from ovk.operators import Dense, MixedEffect, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import Eigenpairs, KnownEigen

# The automatic choice in the units of the data.
#
# With deviations s of the outputs, S = diag(s), the problem in standard units with operator T and alphas a is the one
# on
# the outputs as they are with the operator S T S and the alphas s^2 a. So posterior variances have the outputs' units.


class Chosen(NamedTuple):
    """A choice, and the kernel and the alphas (d,) that it means for the outputs as they are."""

    choice: AutomaticChoice
    kernel: Separable
    alphas: Array


def choose(
    X: Any,
    targets: Targets,
    same: Indices,
    rng: np.random.Generator,
    *,
    groups: Indices | None = None,
    time_order: bool = False,
    intercept: bool = True,
    metric: bool = False,
    n_jobs: int | None = None,
) -> Chosen:
    """Choose kernel, alphas and coupling.

    Parameters
    ----------
    X : (n, p) inputs of comparable scales
    same : (n,) numbers of the rows' inputs: a repeated one counts as one row with the total weight
    groups, time_order, intercept, metric, n_jobs : as in `automatic_choice`
    """
    if targets.task is not None:
        targets = targets.wide()
    mean, deviation = mean_and_deviation(targets.Y, targets.weight)
    if not intercept:
        mean, deviation = np.zeros(targets.d), np.sqrt(mean**2 + deviation**2)
    deviation = np.where(deviation > 0, deviation, 1.0)
    standard = Targets((targets.Y - mean) / deviation, targets.d, False, None, targets.weight)
    if groups is None and not time_order:
        if targets.complete:
            X, standard, _ = merge_same_inputs(X, standard, same)
        elif len(np.unique(same)) < len(same):
            # Rows with gaps cannot be averaged; they can be left out together.
            groups = same
    how: dict[str, Any] = {"groups": groups, "time_order": time_order, "intercept": intercept, "metric": metric}
    # Choices are made by at most 1,000 rows, however many there are.
    with one_blas_thread():
        choice = automatic_choice(X, standard.Y, rng, weight=standard.weight, n_jobs=n_jobs, **how)
    kernel = Separable(choice.kernel, Dense(choice.operator * np.outer(deviation, deviation)))
    return Chosen(choice, kernel, choice.alphas * deviation**2)


#: Rows above which landmarks are taken by default, how many, and rows by which given candidates are then compared.
EXACT_ROWS, LANDMARKS, CHOICE_ROWS = 5000, 1500, 2000


class OVKRidgeCV(TableInputs, LeaveOneOutRegressor):
    """`OVKRidge` with kernel, alpha and output operator chosen by exact leave-one-out.

    Without a kernel everything is chosen. Inputs are standardised; the linear kernel, Gaussians, Materns of smoothness
    3/2 and Laplacians of several widths and sums of the best of them are compared by their left-out errors, judged
    robustly, with an alpha for each output; and where outputs are missing, whether they should learn from each other.

    With a kernel, the error of leaving out each row is known in closed form, so for a separable kernel the whole
    surface over alphas and operators costs one eigendecomposition of the scalar gram and small products. Rows with the
    same inputs are left out together, because a copy left in would give the answer away; so repeating a row is the same
    as doubling its weight.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, or a list of them to choose from; by default it is found
        A kernel that is given sees the inputs as they are.
    alphas : sequence of floats > 0; default 25 values from 1e-6 to 1e2, or 17 from 1e-5 to 1e3 where the kernel is
        chosen too
    omegas : sequence of floats in [0, 1], optional
        Operators ``MixedEffect(omega)`` to choose from, in the place of the kernel's own.
    operators : sequence of output operators, optional
        Operators to choose from, in the place of the kernel's own.
    leave_out : "row" or "entry"
        Leave out all outputs of a row (how well new points are predicted), or one output of a row at a time, the others
        staying known (how well missing entries are filled in).
    scored_outputs : sequence of ints, optional
        Outputs whose error counts; all by default.
    alpha_per_target : bool
        Choose an alpha for each output; without a kernel it is done anyway. Coupled outputs have the ratios of their
        alphas without coupling, and a common factor that is chosen.
    fit_intercept : bool
        Learn a constant for each output that is not penalised.
    loss : "squared" or "huber"
        As in `OVKRidge`, for the final fit; without a kernel the choice is made with the weights of the rows as well.
    standardize : bool
        Without a kernel: scale the inputs to mean 0 and deviation 1 first, unless they are sparse. Words in
        columns of a data frame become columns of zeros and ones in any case.
    missing_inputs : "impute" or "error"
        Without a kernel: replace nan in X by the column's mean, with a column of zeros and ones that says so, or refuse
        it.
    metric : bool
        Without a kernel: also try kernels in metrics of the inputs that `GradientMetric` learns, each judged by rows
        that it was not learned from. It pays where few inputs, or few directions, matter; below 50 rows (or groups)
        there are none. Takes three to five times as long.
    time_order : bool
        Without a kernel: rows are in the order of time, and candidates are compared by how well they predict the later
        rows from the earlier ones.
    landmarks : "auto", None, int or (m, p) array
        Learn from Nystrom features of that many rows, or of these points, as `OVKRidge` does. "auto" takes 1,500 rows
        above 5,000, and says so in a warning; None always learns from all rows. What is chosen with a kernel is then
        chosen by 2,000 rows.
    tol : float >= 0
        Relative error that the leave-one-out solutions may have. A scalar gram of low numerical rank is then factored
        in a fraction of the time; 0 always takes the full eigendecomposition.
    dtype : "float64" or "float32"
        As in `OVKRidge`, for the final fit. Kernels that are given are compared in double precision.
    n_jobs : int, optional
        Threads among which candidates are shared, -1 for one for each processor; BLAS then has one thread in each. The
        result does not depend on their number. By default there is one candidate after the other.
    verbose : bool, optional
        As in `OVKRidge`.
    random_state : int, Generator or None
        Draws the rows, at most 400 and 1,000, by which widths and alphas are chosen without a kernel, and landmarks.

    Attributes
    ----------
    choice_ : `AutomaticChoice`, or None where a kernel was given
    alpha_ : chosen alpha; (d,) without a kernel, and with `alpha_per_target`
    alphas_ : (alphas,) all of them
    kernel_ : chosen kernel, with everything learned from the inputs filled in
    omega_ : chosen omega, None without `omegas`
    errors_ : (kernels, operators, alphas) mean squared left-out error over the scored outputs; where everything was
        chosen, robust errors relative to the outputs' variances at the rows that widths were chosen by
    output_errors_ : (kernels, operators, alphas, d) the same for each output
    best_error_ : smallest of `errors_`
    inputs_ : what standardised the inputs, or None; `X_fit_` and `kernel_` are about standardised ones
    landmarks_ : sums over all rows where landmarks were taken, else None
    and those of `OVKRidge`

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

    def __init__(
        self,
        kernel: Any = None,
        alphas: Any = None,
        *,
        omegas: Any = None,
        operators: Any = None,
        leave_out: str = "row",
        scored_outputs: Any = None,
        alpha_per_target: bool = False,
        fit_intercept: bool = True,
        loss: str = "squared",
        standardize: bool = True,
        missing_inputs: str = "impute",
        metric: bool = False,
        time_order: bool = False,
        landmarks: Any = "auto",
        tol: float = 1e-8,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        verbose: bool | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.alphas = alphas
        self.omegas = omegas
        self.operators = operators
        self.leave_out = leave_out
        self.scored_outputs = scored_outputs
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.loss = loss
        self.standardize = standardize
        self.missing_inputs = missing_inputs
        self.metric = metric
        self.time_order = time_order
        self.landmarks = landmarks
        self.tol = tol
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None, groups: Any = None) -> Self:
        """Choose and learn from inputs and outputs.

        Parameters
        ----------
        X, y, sample_weight, task : as in `OVKRidge.fit`
        groups : (n,) labels, optional
            Without a kernel: rows of a group (a patient, a site) are left out together, because new rows will be of new
            groups.
        """
        with self._fitting(X, y), progress_shown(self.verbose):
            self._check_leave_out()
            self._fit(X, y, sample_weight, task, groups)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, task: Any, groups: Any = None) -> None:
        alphas = np.logspace(-6, 2, 25) if self.alphas is None else check_alphas(self.alphas)
        X, targets = self._check_rows(X, y, sample_weight, task)
        if groups is not None:
            groups = check_groups(groups, X.shape[0])[targets.informative_rows()]
        X, targets = self._informative(X, targets)
        scored = self._scored(targets.d)
        inputs, chosen = None, None
        if self._finds_kernel():
            inputs = self._scaling(X, targets.weight)
            X = X if inputs is None else inputs(X)
            chosen = self._found(X, targets, groups)
        elif groups is not None or self.time_order:
            raise ValueError("groups and time_order are about the choice of a kernel: give kernel=None")
        given = [self.alphas, self.omegas, self.operators, self.scored_outputs]
        if chosen is not None and self.leave_out == "row" and all(one is None for one in given):
            kernel: OperatorKernel = chosen.kernel
            alpha, known = check_alpha(chosen.alphas, targets.d), None
            self._keep_surface(ALPHAS, chosen.choice.errors[:, None], list(range(targets.d)))
        else:
            kernels = self._kernels() if chosen is None else [as_operator_kernel(chosen.choice.kernel)]
            kernel, alpha, known = self._best(kernels, alphas, X, targets, scored)
        points = self._landmark_points(X, kernel)
        if points is None:
            # The eigenvectors of leave-one-out may be at hand; else (holes, repeated rows, low rank) they are not.
            self._solve(kernel, alpha, X, targets, "auto" if known is None else KnownEigen(known))
        else:
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))
        self.inputs_, self.choice_ = inputs, None if chosen is None else chosen.choice

    def _landmark_points(self, X: Any, kernel: OperatorKernel) -> Any:
        """The landmarks, or None where all rows are learned from."""
        n, automatic = X.shape[0], isinstance(self.landmarks, str) and self.landmarks == "auto"
        if self.landmarks is None or (automatic and n <= EXACT_ROWS):
            return None
        if not automatic:
            return choose_landmarks(self.landmarks, X, self.random_state, lambda rows: kernel)
        warnings.warn(
            f"{n:,} rows are learned through {LANDMARKS:,} landmarks: give landmarks=None to learn from all of them "
            "exactly, or another number of landmarks",
            UserWarning,
            stacklevel=4,
        )
        return choose_landmarks(LANDMARKS, X, self.random_state, lambda rows: kernel)

    def _found(self, X: Any, targets: Targets, groups: Any) -> Chosen:
        same = self._same_inputs(X, targets)
        groups = None if groups is None else check_groups(groups, len(same))
        how: dict[str, Any] = {"groups": groups, "time_order": self.time_order, "intercept": self.fit_intercept}
        how |= {"metric": self.metric, "n_jobs": self.n_jobs}
        if self.metric and sparse.issparse(X):
            raise ValueError("metric=True maps all inputs, and sparse ones would not stay sparse: give metric=False")
        chosen = choose(X, targets, same, new_generator(self.random_state), **how)
        if self.loss == "squared":
            return chosen
        # Rows that are far off pull their neighbours: choose again with the weights that they get.
        weighted = self._robust(chosen.kernel, check_alpha(chosen.alphas, targets.d), X, targets)
        return choose(X, weighted, same, new_generator(self.random_state), **how)

    def _best(
        self, kernels: list[OperatorKernel], alphas: Array, X: Any, targets: Targets, scored: list[int]
    ) -> tuple[OperatorKernel, float | Array, Eigenpairs | None]:
        """The best of kernels, operators and alphas, and eigenvectors of its gram on all rows where they are known."""
        kernels = [self._own_copy(kernel, targets.d).resolve(X, targets.d) for kernel in kernels]
        if self.landmarks is not None and X.shape[0] > EXACT_ROWS:
            some = np.sort(new_generator(self.random_state).permutation(X.shape[0])[:CHOICE_ROWS])
            X, targets = X[some], targets.rows(some)
        operators = self._operators(targets.d)
        same = self._same_inputs(X, targets)
        surface = np.empty((len(kernels), len(operators), len(alphas), targets.d))
        least, known = np.inf, None
        how: dict[str, Any] = {"intercept": self._free_intercept, "entry": self.leave_out == "entry"}
        how["tol"] = positive(self.tol, "tol", zero=True)
        found = map_threads(
            lambda kernel: error_surface(kernel, operators, alphas, X, targets, same, **how),
            kernels,
            self.n_jobs,
            "comparing kernels",
        )
        for number, (errors, pairs) in enumerate(found):
            surface[number] = errors
            error = float(surface[number][..., scored].mean(axis=-1).min())
            if error < least:
                least, known = error, pairs
        k, o, a = self._keep_surface(alphas, surface, scored)
        self.omega_ = None if self.omegas is None else float(self.omegas[o])
        best = with_operator(kernels[k], operators[o])
        alpha: float | Array = float(alphas[a])
        if self.alpha_per_target:
            alpha = self._alpha_per_target(best, surface[k, o], alphas, (X, targets, same), **how)
        return best, alpha, known

    def _keep_surface(self, alphas: Array, surface: Array, scored: list[int]) -> tuple[int, int, int]:
        """Keep errors (kernels, operators, alphas, d), and say where the smallest is."""
        errors = surface[..., scored].mean(axis=-1)
        k, o, a = np.unravel_index(int(np.argmin(errors)), errors.shape)
        self.omega_ = None
        self.alphas_, self.errors_, self.output_errors_ = alphas, errors, surface
        self.best_error_ = float(errors[k, o, a])
        return int(k), int(o), int(a)

    def _scored(self, d: int) -> list[int]:
        if self.scored_outputs is None:
            return list(range(d))
        chosen = list(self.scored_outputs)
        if not chosen or not all(isinstance(q, (int, np.integer)) and 0 <= q < d for q in chosen):
            raise ValueError(f"scored_outputs must name outputs from 0 to {d - 1}, got {self.scored_outputs!r}")
        return chosen

    def _kernels(self) -> list[OperatorKernel]:
        if not isinstance(self.kernel, (list, tuple)):
            return [self._default_kernel()]
        if len(self.kernel) == 0:
            raise ValueError("kernel must hold at least one kernel to choose from, got an empty list")
        return [as_operator_kernel(kernel) for kernel in self.kernel]

    def _output_dim(self) -> int | None:
        for operator in [] if self.operators is None else self.operators:
            if not isinstance(operator, OutputOperator):
                raise ValueError(f"operators must hold operators of ovk.operators, got {operator!r}")
            if operator.output_dim is not None:
                return operator.output_dim
        return self._kernels()[0].output_dim

    def _operators(self, d: int) -> list[OutputOperator | None]:
        if self.omegas is None and self.operators is None:
            return [None]
        if self.omegas is not None and self.operators is not None:
            raise ValueError("give omegas or operators, not both")
        if self.omegas is not None:
            candidates: list[Any] = [MixedEffect(in_interval(w, "each of omegas", 0, 1)) for w in self.omegas]
        else:
            candidates = list(self.operators)
        if not candidates:
            raise ValueError("omegas or operators must hold at least one candidate, got none")
        wrong = [kernel for kernel in self._kernels() if kernel.as_separable() is None]
        if wrong:
            raise ValueError(
                "omegas and operators replace the operator of a separable kernel k * T, got "
                f"{type(wrong[0]).__name__}: give a list of kernels instead"
            )
        return [self._own_copy(operator, d).resolve(d) for operator in candidates]

    def _alpha_per_target(self, kernel: OperatorKernel, errors: Array, alphas: Array, data: Any, **how: Any) -> Array:
        """(d,) an alpha for each output: the best for it alone; when coupled, their ratios times a factor."""
        separable = kernel.as_separable()
        if separable is None:
            raise ValueError("alpha_per_target needs a kernel k * T: a sum has no alphas of outputs that are apart")
        if separable.operator.is_diagonal():
            return np.asarray(alphas[errors.argmin(axis=0)])
        operator = separable.operator.dense()
        X, targets, same = data
        apart, _ = error_surface(kernel, [Dense(np.diag(np.diagonal(operator)))], alphas, X, targets, same, **how)
        own = np.log(alphas[apart[0].argmin(axis=0)])
        ratios = np.exp(own - own.mean())
        # With D = diag(ratios) the problem is that of D^-1/2 T D^-1/2 on the outputs Y D^-1/2.
        roots = np.sqrt(ratios)
        scaled = replace(targets, Y=targets.Y / (roots if targets.task is None else roots[targets.task][:, None]))
        coupled = Dense(operator / np.outer(roots, roots))
        found, _ = error_surface(kernel, [coupled], alphas, X, scaled, same, **how)
        best = int((found[0] * ratios)[:, self._scored(targets.d)].mean(axis=-1).argmin())
        return np.asarray(alphas[best] * ratios)
