"""Learning a combination of operator-valued kernels together with the function: of curves, vectors and labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    Labels,
    Parameters,
    Targets,
    check_alphas,
    check_inputs,
    check_int,
    check_no_missing_labels,
    in_interval,
    masked_as_nan,
    positive,
    share_of_right_labels,
)
from ovk.batch.curves import CurveOutputs, bind_grid, has_curve_operator
from ovk.batch.movkl.alternation import LearnedWeights, System, alternate, loo_residuals
from ovk.batch.ridge.ridge_system import RidgeSolution, check_two_inputs, same_inputs
from ovk.curves import Grid
from ovk.kernels import Gaussian, Polynomial, ScalarKernel, Scaled, median_distance, spread_rows
from ovk.objectives import Calibration, two_sided
from ovk.operators import Identity, Integral, Multiplication, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable, WeightedSum, as_operator_kernel

#: Largest input whose square is finite, with room for sums.
MAX_INPUT = 1e150
#: Ratio of the mean values k(x, x) of two kernels above which `MovKL` warns.
MAX_SCALE_RATIO = 1e3


def kernel_grid(
    X: Any,
    *,
    bandwidths: int | Sequence[float] = 5,
    degrees: Sequence[int] = (1, 2, 3),
    operators: Sequence[OutputOperator] | None = None,
    equal_trace: Grid | int | None = None,
) -> list[Separable]:
    """Gaussian kernels of several bandwidths and polynomial kernels of several degrees, each with each operator.

    The default is the set of the MovKL paper, 24 kernels: 5 Gaussians, degrees 1 to 3, and as operators the identity,
    multiplication by exp(-t^2) and the integral operator of exp(-|t - s|), with time from 0 to 1 or on the estimator's
    grid. Every scalar kernel is scaled to a mean of 1 on the diagonal, so that weights are comparable.

    Parameters
    ----------
    X : (n, p) array
        Inputs; only their median distance and mean squared norm are used.
    bandwidths : int or sequence of floats
        Number of Gaussians, with length scales from 1/4 to 4 times the median distance, or the length scales.
    degrees : sequence of ints
        Degrees of the polynomial kernels.
    operators : sequence of output operators, optional
        By default the three operators above.
    equal_trace : `Grid` or int, optional
        Grid or number of outputs on which every operator is scaled to the trace of the identity. Unscaled, the integral
        operator is at most 0.74 times the identity, so with r = 1 and the same scalar kernel it never gets weight.

    Returns
    -------
    list of `Separable`
        One kernel for each operator and scalar kernel.

    See Also
    --------
    MovKL, MovKLCV, ovk.online.OnlineMovKL

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import kernel_grid
    >>> kernels = kernel_grid(np.random.default_rng(0).standard_normal((30, 4)))
    >>> len(kernels), [type(kernel.operator).__name__ for kernel in kernels[::8]]
    (24, ['Identity', 'Multiplication', 'Integral'])
    """
    # Distinct rows, so that a repeated row counts like a row of weight two.
    X = spread_rows(X)
    if isinstance(bandwidths, (int, np.integer)):
        count = check_int(bandwidths, "bandwidths", least=0)
        factors = 4.0 ** np.linspace(-1, 1, count) if count > 1 else np.ones(count)
        lengths = median_distance(X) * factors
    else:
        lengths = np.asarray(bandwidths, dtype=np.float64)
    scalars: list[ScalarKernel] = [Gaussian(float(length)) for length in lengths]
    if len(degrees) and np.abs(X).max() > MAX_INPUT:
        raise ValueError(
            f"X must be at most {MAX_INPUT:g} in magnitude for polynomial kernels, got {np.abs(X).max():.3g}: scale "
            "X, or pass degrees=()"
        )
    gamma = 1.0 / max(float((X**2).sum(axis=1).mean()), 1e-300)
    for degree in degrees:
        polynomial = Polynomial(check_int(degree, "degree"), gamma=gamma)
        scalars.append(Scaled(1.0 / float(polynomial.diag(X).mean()), polynomial))
    if operators is None:
        operators = [Identity(), Multiplication(Gaussian.from_mu(1.0)), Integral()]
    if not scalars or not operators:
        raise ValueError("kernel_grid requires at least one bandwidth or degree, and at least one operator")
    if equal_trace is None:
        return [Separable(scalar, operator) for operator in operators for scalar in scalars]
    outputs = check_int(equal_trace, "equal_trace") if isinstance(equal_trace, (int, np.integer)) else len(equal_trace)
    result: list[Separable] = []
    for operator in operators:
        placed = bind_grid(operator, equal_trace) if isinstance(equal_trace, Grid) else operator
        trace = float(placed.resolve(outputs).eigh().values.sum())
        if trace <= 0:
            raise ValueError(f"operators must have a positive trace with equal_trace, got {operator!r}")
        result += [Separable(Scaled(outputs / trace, scalar), placed) for scalar in scalars]
    return result


# Shared by `MovKL` and `MovKLCV`.


def as_kernels(kernels: Any) -> list[OperatorKernel]:
    """The kernels as a list; an empty list for None."""
    if kernels is None:
        return []
    if isinstance(kernels, OperatorKernel) or not isinstance(kernels, Sequence) or not kernels:
        raise ValueError(f"kernels must be a sequence of at least one kernel, got {kernels!r}")
    return [as_operator_kernel(kernel) for kernel in kernels]


def _output_dim(model: MovKL | MovKLCV) -> int | None:
    return next((kernel.output_dim for kernel in as_kernels(model.kernels) if kernel.output_dim is not None), None)


def _grid_for(model: MovKL | MovKLCV, d: int) -> Grid | None:
    curves = model.grid is not None or any(map(has_curve_operator, as_kernels(model.kernels)))
    return CurveOutputs._grid_for(model, d) if curves else None


def _system(model: MovKL | MovKLCV, X: Any, targets: Targets, n_eigen: int | None = None) -> System:
    operators = [Identity()] if model.grid_ is None else None
    kernels: list[OperatorKernel] = as_kernels(model.kernels) or [*kernel_grid(X, operators=operators)]
    kernels = [kernel.as_separable() or kernel for kernel in kernels]
    if n_eigen is not None:
        kernels = [_with_n_eigen(kernel, n_eigen) for kernel in kernels]
    resolved = [model._own_copy(kernel, targets.d).resolve(X, targets.d) for kernel in kernels]
    _warn_of_scales(resolved, X)
    return System(resolved, X, targets, model.solver, intercept=bool(model.fit_intercept))


def _warn_of_scales(kernels: Sequence[OperatorKernel], X: Any) -> None:
    """Warn if the means of k(x, x) differ so much that they determine the weights (unscaled polynomial kernels)."""
    scalars = [part.scalar for part in (kernel.as_separable() for kernel in kernels) if part is not None]
    sizes = np.array([float(np.mean(scalar.diag(X))) for scalar in scalars])
    positive_sizes = np.flatnonzero(sizes > 0)
    if len(positive_sizes) < 2:
        return
    large, small = (positive_sizes[find(sizes[positive_sizes])] for find in (np.argmax, np.argmin))
    if sizes[large] > MAX_SCALE_RATIO * sizes[small]:
        warnings.warn(
            f"the kernels differ in scale: the mean of k(x, x) is {sizes[large]:.3g} for {scalars[large]!r} and "
            f"{sizes[small]:.3g} for {scalars[small]!r}, and the weights favour large values: divide each kernel by "
            "this mean, as ovk.batch.kernel_grid does",
            stacklevel=4,
        )


def _with_n_eigen(kernel: OperatorKernel, count: int) -> OperatorKernel:
    """The kernel with `count` eigenfunctions of its `Integral` operator, if it has one."""
    separable = kernel.as_separable()
    if separable is None or not isinstance(separable.operator, Integral):
        return kernel
    return Separable(separable.scalar, separable.operator.replace(n_eigen=count))


def _learn(model: MovKL | MovKLCV, system: System, alpha: float, start: LearnedWeights | None = None) -> LearnedWeights:
    r, tol = in_interval(model.r, "r", 1.0, np.inf), positive(model.tol, "tol")
    return alternate(system, alpha, r, tol, check_int(model.max_iter, "max_iter"), start)


def _store_result(model: MovKL | MovKLCV, system: System, alpha: float, learned: LearnedWeights) -> None:
    kernel = WeightedSum(system.kernels, learned.weights)
    C, b = system.expansion(kernel, learned.C, learned.b)
    model._store(kernel, alpha, RidgeSolution(system.X, system.targets, C, b, learned.info))
    model.weights_, model.kernel_norms_ = learned.weights, learned.norms
    model.history_, model.objective_ = learned.log, float(learned.log[-1, 0])
    model.n_iter_ = len(learned.log)


def _shares(model: MovKL | MovKLCV, X: Any) -> Array:
    """Contributions of the kernels to the prediction, (M, n, d); with the intercept they add up to it."""
    C = model.expansion_.C
    X = model._check_inputs(X, reset=False)
    terms = zip(model.kernel_.kernels, model.weights_, strict=True)
    shares = np.stack([weight * kernel.gram(X, model.X_fit_).matmat(C) for kernel, weight in terms])
    shares = shares if model.grid_ is None else shares / model.grid_.roots()
    return shares[:, :, 0] if model.single_output_ else shares


@dataclass(eq=False, repr=False)
class MovKL(CurveOutputs):
    """Multiple operator-valued kernel learning: learns a function and the weights d of K = sum_k d_k K_k.

    Minimises over f = sum_k f_k and d

        sum_i |y_i - sum_k f_k(x_i)|^2 + alpha sum_k |f_k|^2 / d_k,    d_k >= 0,  sum_k d_k^r <= 1,

    in turn: given d, ridge regression with the combined kernel, (sum_k d_k K_k + alpha I) c = y and
    f_k = d_k sum_i K_k(., x_i) c_i; given f, the weights in closed form,

        d_k = |f_k|^(2 / (r + 1)) / (sum_j |f_j|^(2 r / (r + 1)))^(1 / r).

    The objective never increases. For r = 1 most weights tend to zero; larger r gives more even weights; for r = inf
    all weights are 1 and only f is learned. (The paper's alpha is twice our c.)

    Parameters
    ----------
    kernels : sequence of operator-valued kernels, optional
        Kernels k * T keep their structure; any other kernel (`CurlFree`, `Diagonal`, `Hadamard`) requires the dense
        matrix of all observed values. By default `kernel_grid` of the training inputs: five Gaussians and three
        polynomials, with the identity and, for curves, two operators on curves.
    alpha : float > 0
        Weight of the penalty.
    r : float in [1, inf]
        Exponent of the norm of the weights that is bounded by 1.
    grid : `Grid` or its points, optional
        Grid of the output curves. Without it, outputs are curves on [0, 1] if a kernel has an operator on curves, and
        plain vectors otherwise.
    solver : "auto", or as in `OVKRidge`
        "auto" groups the kernels by operator and uses a common rotation of the outputs if there is one, otherwise
        conjugate gradients started at the last solution.
    fit_intercept : bool, optional
        Learn an unpenalised constant for each output. By default only in `MovKLClassifier`.
    tol : float > 0
        Stop when the relative change of the coefficients is below `tol`.
    max_iter : int
        Maximum number of updates of the weights.

    Attributes
    ----------
    weights_ : (M,) d
    kernel_norms_ : (M,) |f_k|
    objective_ : value of the objective
    history_ : (iterations, 3) objective, relative change of the coefficients, solver iterations
    n_iter_ : number of updates
    kernel_ : the learned `WeightedSum`
    and those of `FunctionalRidge`

    See Also
    --------
    MovKLCV, MovKLClassifier, kernel_grid, ovk.online.OnlineMovKL

    Examples
    --------
    The second of three kernels fits the data.

    >>> import numpy as np
    >>> from ovk import MovKL
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 1))
    >>> Y = np.sin(2 * X) + 0.1 * rng.standard_normal((60, 3))
    >>> model = MovKL([k * Identity() for k in (Gaussian(0.05), Gaussian(1.0), Linear())], alpha=0.1, r=1.0).fit(X, Y)
    >>> model.weights_.argmax(), model.shares(X).shape
    (np.int64(1), (3, 60, 3))
    """

    _stored = {"weights_": "m", "kernel_norms_": "m", "history_": "* inf", "objective_": "* inf"}

    kernel = None

    kernels: Any = None
    alpha: float = 1.0
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: Any = None
    tol: float = 1e-4
    max_iter: int = 200

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and outputs; the arguments are those of `OVKRidge.fit`, with curves as rows of y."""
        with self._fitting(X, y):
            alpha = positive(self.alpha, "alpha")
            X, targets = self._check(X, y, sample_weight, task)
            system = _system(self, X, targets)
            _store_result(self, system, alpha, _learn(self, system, alpha))
        return self

    shares, _output_dim, _grid_for = _shares, _output_dim, _grid_for


@dataclass(eq=False, repr=False)
class MovKLCV(CurveOutputs):
    """`MovKL` with alpha chosen by leave-one-out, for fixed kernel weights.

    For each alpha the weights are learned from all curves; then every curve is predicted from the others with these
    weights, in closed form if the operators have common eigenvectors, otherwise with one solve per curve or fold.
    Curves with the same inputs are left out together.

    Parameters
    ----------
    kernels : sequence of operator-valued kernels, optional
        As in `MovKL`.
    alphas : sequence of floats > 0, optional
        Candidates; by default 9 values from 1e-4 to 1e1.
    r, grid, solver, fit_intercept, tol, max_iter
        As in `MovKL`.
    folds : int, optional
        Leave out this many sets of curves, row i in set i modulo `folds`, instead of single curves.
    n_eigen : sequence of ints, optional
        Candidate numbers of eigenfunctions for kernels with an `Integral` operator; by default they are not changed.

    Attributes
    ----------
    alpha_ : chosen alpha
    alphas_, errors_ : (alphas,) candidates, and sums of squared leave-one-out errors (integrals, for curves); with
        `n_eigen` the errors are (numbers, alphas)
    n_eigen_ : chosen number of eigenfunctions, or None
    and those of `MovKL`

    See Also
    --------
    MovKL, OVKRidgeCV, FunctionalRidgeCV

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKLCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (40, 1))
    >>> Y = np.sin(2 * X) + 0.3 * rng.standard_normal((40, 3))
    >>> MovKLCV(alphas=[1e-3, 1e-1, 10.0]).fit(X, Y).alpha_
    0.1
    """

    kernel = None

    kernels: Any = None
    alphas: Any = None
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: bool = False
    tol: float = 1e-4
    max_iter: int = 200
    folds: int | None = None
    n_eigen: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Choose alpha and learn; the arguments are those of `MovKL.fit`."""
        with self._fitting(X, y):
            alphas = np.logspace(-4, 1, 9) if self.alphas is None else check_alphas(self.alphas)
            X, targets = self._check(X, y, sample_weight, task)
            n = X.shape[0]
            if n < 2:
                raise ValueError(f"leave-one-out requires at least 2 samples, got 1 sample (shape {X.shape})")
            sets = None if self.folds is None else np.arange(n) % min(check_int(self.folds, "folds", least=2), n)
            same = same_inputs(X)
            if sets is None and len(np.unique(same)) < n:
                # A copy in the training set would reveal the output.
                sets = same
            if self.fit_intercept:
                check_two_inputs(targets.pairs(same if sets is None else sets))
            numbers = [None] if self.n_eigen is None else [check_int(q, "n_eigen") for q in self.n_eigen]
            errors = np.empty((len(numbers), len(alphas)))
            found: dict[tuple[int, int], tuple[System, LearnedWeights]] = {}
            for e, number in enumerate(numbers):
                system = _system(self, X, targets, number)
                start = None
                # In descending order: each alpha starts at the previous solution.
                for a in np.argsort(-alphas):
                    start = _learn(self, system, float(alphas[a]), start)
                    errors[e, a] = np.nansum(loo_residuals(system, start, float(alphas[a]), sets) ** 2)
                    found[e, int(a)] = system, start
            if not found:
                raise ValueError("n_eigen must contain at least one number, got an empty sequence")
            e, a = min(found, key=lambda place: errors[place])
            self.n_eigen_ = numbers[e]
            _store_result(self, found[e, a][0], float(alphas[a]), found[e, a][1])
            self.alphas_, self.errors_ = alphas, errors[0] if self.n_eigen is None else errors
        return self

    shares, _output_dim, _grid_for = _shares, _output_dim, _grid_for


@dataclass(eq=False, repr=False)
class MovKLClassifier(ClassifierMixin, Parameters):
    """Classification with a learned combination of kernels, for classes, sets of labels, or curves of two labels.

    Labels are coded as -1 and 1 and their scores are learned by `MovKL`; a positive score means the second label. With
    several classes, or sets of labels, each label has a score; the class with the largest score is predicted. The
    operators of the kernels couple the labels.

    Parameters
    ----------
    kernels, alpha, r, grid, solver, fit_intercept, tol, max_iter
        As in `MovKL`.

    Attributes
    ----------
    classes_ : the labels
    label_sets_ : whether sets of labels were learned
    model_ : the fitted `MovKL`
    n_iter_ : number of updates of the weights

    See Also
    --------
    MovKL, OVKClassifier, MultiTaskSVC

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 1, 30)
    >>> X = rng.uniform(0, 1, (50, 1))
    >>> labels = np.where(t > X, "moving", "still")
    >>> model = MovKLClassifier(alpha=0.01, grid=t).fit(X, labels)
    >>> model.predict([[0.3]], grid=[0.1, 0.9])
    array([['still', 'moving']], dtype='<U6')
    >>> print(f"{model.score(X, labels):.2f}")
    1.00

    Sets of labels:

    >>> sets = [{"warm"} if x < 0.5 else {"cold", "wet"} for x in X[:, 0]]
    >>> sorted(MovKLClassifier(alpha=0.01).fit(X, sets).predict([[0.9]])[0])
    ['cold', 'wet']
    """

    _stored = {"model_": MovKL}

    kernels: Any = None
    alpha: float = 1.0
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: Any = None
    tol: float = 1e-4
    max_iter: int = 200

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from inputs (n, p) and labels (n, d) or (n,), nan where missing, or n sets of labels."""
        with self._fitting(X, y):
            X = check_inputs(self, X, accept_sparse="csr", dtype=np.float64)
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None: pass a label for each row")
            listed = isinstance(y, (list, tuple)) and len(y) > 0
            self.label_sets_ = listed and all(isinstance(one, (set, frozenset)) for one in y)
            self.classes_, coded = _coded_sets(y) if self.label_sets_ else _coded(y)
            params = {name: getattr(self, name) for name in MovKL._get_param_names()}
            params["fit_intercept"] = self.fit_intercept is None or self.fit_intercept
            self.model_ = MovKL(**params).fit(X, coded, sample_weight)
            self.n_iter_ = self.model_.n_iter_
        return self

    def decision_function(self, X: Any, *, grid: Any = None) -> Array:
        """Scores (n, d) or (n,), positive for the second label; (n, K) for several classes or sets of labels."""
        check_is_fitted(self)
        X = check_inputs(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(self.model_.predict(X, grid=grid))

    def predict_proba(self, X: Any, *, grid: Any = None) -> Array:
        """Probabilities of the two labels, (n, d, 2) or (n, 2), on the fitted grid or on another.

        (n, K) for several classes; for sets of labels, (n, K) probabilities that each label is in the set. Calibrated
        on leave-one-out scores, in closed form: see `ovk.objectives.calibration`.
        """
        scores = self.decision_function(X, grid=grid)
        calibration = self.model_._cached("calibration", self._calibration)
        if len(self.classes_) > 2 and not self.label_sets_:
            return calibration.probabilities(scores)
        found = calibration.probabilities(two_sided(scores.reshape(-1))).reshape(*scores.shape, 2)
        return found[..., 1] if self.label_sets_ else found

    def _calibration(self) -> Calibration:
        residuals = self.model_.loo_residuals()
        coded = np.sign(self.model_._training_data().targets.Y)
        seen = np.isfinite(residuals)
        weight = np.ones(len(coded)) if self.model_.sample_weight_ is None else self.model_.sample_weight_
        weights = np.broadcast_to(weight[:, None], coded.shape)[seen]
        several = len(self.classes_) > 2 and not self.label_sets_
        return Calibration.from_signs((coded - residuals)[seen], coded[seen], weights, per_class=several)

    def predict(self, X: Any, *, grid: Any = None) -> Any:
        """Labels, (n, d) or (n,), or n sets of them."""
        scores = self.decision_function(X, grid=grid)
        if self.label_sets_:
            return [set(self.classes_[row > 0].tolist()) for row in scores]
        return self.classes_[scores.argmax(axis=1) if len(self.classes_) > 2 else (scores > 0).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over all observed labels; for sets, over all labels of each set."""
        if self.label_sets_:
            # An unknown label is never predicted, so it always counts as an error.
            found = self.predict(X)
            known = np.array([len(self.classes_) + len(set(truth) - set(self.classes_.tolist())) for truth in y])
            right = np.array([len(one ^ set(truth)) for one, truth in zip(found, y, strict=True)])
            return float(np.average(1.0 - right / known, weights=sample_weight))
        return share_of_right_labels(self.predict(X), y, sample_weight)


def _coded_sets(y: Any) -> tuple[Labels, Array]:
    """The labels of all sets, and codes (n, K): 1 if the label is in the set, else -1."""
    classes: Labels = np.array(sorted(set().union(*y)))
    if len(classes) == 0:
        raise ValueError("y must contain at least one label, got only empty sets")
    return classes, np.array([[1.0 if label in one else -1.0 for label in classes.tolist()] for one in y])


def _coded(y: Any) -> tuple[Labels, Array]:
    """The labels, and their codes -1 and 1: in the shape of y for two labels, (n, K) for several; nan where missing."""
    labels = np.asarray(masked_as_nan(y, "y"))
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity: pass a label for each row")
    if labels.ndim == 1 or labels.dtype.kind != "f":
        check_no_missing_labels(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(y, warn=True)
    seen = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(labels.shape, dtype=bool)
    if labels.ndim == 1:
        check_classification_targets(labels)
    classes = unique_labels(labels[seen])
    if len(classes) < 2:
        raise ValueError(f"y must contain at least two classes, got {len(classes)} class")
    if len(classes) == 2:
        return classes, np.where(seen, np.where(labels == classes[1], 1.0, -1.0), np.nan)
    if labels.ndim > 1:
        raise ValueError(f"curves of labels must contain two classes, got {len(classes)}: fit one model for each class")
    return classes, np.where(labels[:, None] == classes, 1.0, -1.0)
