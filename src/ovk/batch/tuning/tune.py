"""Gradient-based tuning of length scales, operators, weights of terms and noise levels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, Indices, ProgressBar, Registered, Targets, check_choice, check_int
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import new_generator, order_of_rows, same_inputs
from ovk.kernels import ScalarKernel
from ovk.operators import Dense, Identity, LowRank
from ovk.ovkernels import OperatorKernel, Term
from ovk.solvers import (
    Criterion,
    SingularSystemError,
    dense_evidence,
    pairwise_leave_one_out,
    separable_evidence,
    separable_leave_one_out,
    split_among_terms,
)

Model = TypeVar("Model", bound=OVKRegressor)

#: Bounds of the noise variance of an output, relative to the variance of the output.
NOISE_RANGE = 1e-7, 10.0
#: Lower bound relative to the mean squared leave-one-out residual at the start; repeated zeros would give 0.
MIN_NOISE_SHARE = 1e-4
#: Value of the criterion if the matrix cannot be factored: finite, so that the line search recovers.
FAILED_VALUE = 1e30
#: Relative increase of the leave-one-out error by the evidence that is mostly chance.
LEFT_OUT_TOLERANCE = 0.02


@dataclass(frozen=True)
class TuningInfo(Registered):
    _stored = {"value start restarts left_out": "* inf"}

    criterion: str  # "evidence" or "loo"
    value: float  # the final criterion: negative log evidence, or mean squared leave-one-out residual
    start: float  # the criterion at the first start
    restarts: list[float]  # the final criterion of each start
    iterations: int  # of the best start
    names: list[str]  # tuned parameters
    converged: bool = True  # the best start converged within the maximum number of steps
    #: With "evidence", mean squared leave-one-out residuals before and after tuning, relative to the variances of the
    #: outputs; empty if not compared.
    left_out: list[float] = field(default_factory=list)
    kept: str = "tuned"  # or "start", if that has the smaller leave-one-out residuals


def tune(
    model: Model,
    X: Any,
    Y: Any,
    criterion: str = "evidence",
    *,
    task: Any = None,
    rank: int | None = None,
    noise: str = "output",
    leave_out: str = "row",
    restarts: int = 3,
    max_iter: int = 200,
    random_state: Any = None,
) -> Model:
    """Tune length scales, operators, weights of terms and noise levels by gradient, and fit the model.

    The model is interpreted as the Gaussian process y = f(x) + noise, where f has the covariance of the model's kernel
    and the noise has the variances `alpha`. With several terms k * LowRank(W, diag) this is the linear model of
    coregionalisation. All derivatives are analytic. For complete outputs and one term k * T, a step costs one
    eigendecomposition of the scalar gram ("loo" also a product for each output), otherwise a factorisation of the
    matrix of the observed values.

    Parameters
    ----------
    model : OVKRidge or FunctionalRidge
        Its kernel and alpha are the starting point of the search. It is not changed.
    X, Y : (n, p) and (n, d) arrays
        Inputs and outputs as in `OVKRidge.fit`, nan where an output is missing.
    criterion : "evidence" or "loo"
        Maximise the probability of the outputs, or minimise the mean squared leave-one-out residual.
    task : (n,) integers, optional
        Long form, as in `OVKRidge.fit`.
    rank : int, optional
        Replace operators ``Identity()`` and ``Dense(B)``, which have no parameters to tune, by low rank plus diagonal,
        ``LowRank(W, diag)`` with W of this many columns.
    noise : "output" or "shared"
        One noise level for each output, or one for all.
    leave_out : "row" or "entry"
        Unit that "loo" leaves out; rows with the same inputs are left out together.
    restarts : int
        Number of starts: the first at the model's parameters, the others drawn around them.
    max_iter : int
        Maximum number of steps of L-BFGS for each start.
    random_state : int, Generator or None
        Seed of the restarts.

    Returns
    -------
    OVKRidge or FunctionalRidge
        A fitted model with the tuned kernel and alpha, and an attribute `tuning_` with the criterion before and after,
        and the names of the tuned parameters. If maximising the evidence increases the leave-one-out error, the
        initial settings are kept, with a warning.

    See Also
    --------
    OVKRidge, FunctionalRidge, OVKRidgeCV

    Examples
    --------
    >>> import numpy as np
    >>> import ovk
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (60, 1))
    >>> f = np.sin(2 * X)
    >>> Y = np.hstack([f, -f]) + rng.standard_normal((60, 2)) * [0.1, 0.3]
    >>> model = ovk.tune(ovk.OVKRidge(Gaussian()), X, Y, rank=1, random_state=0)
    >>> np.sqrt(model.alpha_).round(1)  # the noise
    array([0.1, 0.3])
    >>> bool(model.kernel_.operator.dense()[0, 1] < 0)
    True
    """
    given = model.get_params(deep=False) if isinstance(model, OVKRegressor) else {}
    if not {"kernel", "alpha"} <= given.keys():
        raise ValueError(f"model must be an OVKRidge or a FunctionalRidge, got {type(model).__name__}")
    if given.get("landmarks") is not None:
        raise ValueError("tune does not support landmarks: tune on a subset of the rows, then fit with landmarks")
    check_choice(criterion, "criterion", ("evidence", "loo"))
    check_choice(noise, "noise", ("output", "shared"))
    check_choice(leave_out, "leave_out", ("row", "entry"))
    fitted: Any = clone(model)
    with fitted._fitting(X, Y):
        inputs, targets = fitted._check(X, Y, None, task)
        suits = TuningCriterion(inputs, targets, criterion, leave_out, centred=fitted.fit_intercept)
        kernel = fitted._resolved(inputs, targets.d)
        if rank is not None:
            kernel = with_low_rank(kernel, suits.covariance(), check_int(rank, "rank"))
        for left in dict.fromkeys(without_gradient(kernel, inputs)):
            warnings.warn(
                f"the parameters of {left} are not tuned, because it has no gradient(): add that method, or choose "
                "them with GridSearchCV",
                stacklevel=2,
            )
        search = Search(suits, kernel, fitted.alpha, shared=noise == "shared")
        compared = criterion == "evidence" and suits.can_leave_out(kernel)
        before = np.zeros(targets.d)
        if compared:
            before = loo_errors(fitted.set_params(**search.parameters_at(search.start)).fit(X, Y, task=task))
            search.raise_noise_floor(MIN_NOISE_SHARE * before)
        starts = search.random_starts(check_int(restarts, "restarts"), new_generator(random_state))
        best, info = search.run(starts, check_int(max_iter, "max_iter"))
        if not info.converged:
            warnings.warn(
                f"tune did not converge within max_iter={max_iter} steps: increase max_iter",
                ConvergenceWarning,
                stacklevel=2,
            )
        fitted.set_params(**search.parameters_at(best)).fit(X, Y, task=task)
        if compared:
            info = replace(info, left_out=[float((e / suits.variance).mean()) for e in (before, loo_errors(fitted))])
            if info.left_out[1] > (1.0 + LEFT_OUT_TOLERANCE) * info.left_out[0]:
                info = replace(info, kept="start")
                fitted.set_params(**search.parameters_at(search.start)).fit(X, Y, task=task)
                warnings.warn(
                    f"tuning increased the leave-one-out error from {info.left_out[0]:.5g} to {info.left_out[1]:.5g} "
                    "of the variance; the initial settings were kept. Try criterion='loo'",
                    stacklevel=2,
                )
        fitted.tuning_ = info
    tuned: Model = fitted
    return tuned


def loo_errors(model: OVKRegressor) -> Array:
    """(d,) mean squared leave-one-out residuals of a fitted model; 0 for an output without observations."""
    squares = model.loo_residuals().reshape(-1, model.n_outputs_) ** 2
    seen = ~np.isnan(squares)
    return np.asarray(np.where(seen, squares, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


class Search:
    """Minimises a criterion over the kernel's parameters and the logarithms of the noise variances.

    It starts at a resolved kernel and the noise variance `alpha`, a number or one for each output. A `shared` variance
    is the same for all outputs; a `fixed` one is not tuned.
    """

    def __init__(
        self, criterion: TuningCriterion, kernel: OperatorKernel, alpha: Any, *, shared: bool, fixed: bool = False
    ) -> None:
        self.criterion, self.kernel = criterion, kernel
        self._last: tuple[Array, tuple[float, Array]] | None = None
        self.tuned: list[Parameter] = parameters(kernel, criterion.X)
        self._kernel_size = sum(one.size for one in self.tuned)
        given = np.asarray(alpha, dtype=np.float64)
        self._fixed = np.atleast_1d(given) if fixed else None
        variance = np.empty(0) if fixed else criterion.variance.mean(keepdims=True) if shared else criterion.variance
        # Start at alpha if it is a plausible noise level; the default of 1 often is not.
        start = np.clip(np.broadcast_to(given, variance.shape), 0.01 * variance, 0.3 * variance)
        self.start = np.concatenate([read(kernel, self.tuned), np.log(start)])
        self.bounds = bounds(kernel, self.tuned, self.start[: self._kernel_size]) + [
            (float(np.log(NOISE_RANGE[0] * v)), float(np.log(NOISE_RANGE[1] * v))) for v in variance
        ]

    def raise_noise_floor(self, least: Array) -> None:
        """Raise the lower bounds of the noise variances to `least`, (d,), but not above their start."""
        start = self.start[self._kernel_size :]
        least = least.mean(keepdims=True) if len(start) == 1 else least
        floors = np.minimum(np.log(np.maximum(least, 1e-300)), start).tolist()
        pairs = zip(self.bounds[self._kernel_size :], floors, strict=True)
        self.bounds[self._kernel_size :] = [(max(low, floor), high) for (low, high), floor in pairs]

    def parameters_at(self, vector: Array) -> dict[str, Any]:
        kernel, noise = self.at(vector)
        return {"kernel": kernel, "alpha": float(noise[0]) if len(noise) == 1 else noise}

    def at(self, vector: Array) -> tuple[OperatorKernel, Array]:
        """The kernel and the noise variances at a vector of the search."""
        kernel = write(self.kernel, self.tuned, vector[: self._kernel_size])
        return kernel, np.exp(vector[self._kernel_size :]) if self._fixed is None else self._fixed

    def objective(self, vector: Array) -> tuple[float, Array]:
        """The criterion and its gradient; FAILED_VALUE if the matrix cannot be factored."""
        # The start is evaluated twice.
        if self._last is None or not np.array_equal(self._last[0], vector):
            self._last = vector.copy(), self._evaluated(vector)
        return self._last[1]

    def _evaluated(self, vector: Array) -> tuple[float, Array]:
        kernel, noise = self.at(vector)
        try:
            value, slopes, by_noise = self.criterion.evaluate(kernel, np.broadcast_to(noise, (self.criterion.d,)))
        except (SingularSystemError, np.linalg.LinAlgError):
            return FAILED_VALUE, np.zeros_like(vector)
        by_kernel = chain(self.tuned, vector[: self._kernel_size], slopes)
        if self._fixed is not None:
            return value, by_kernel
        by_noise = by_noise.sum(keepdims=True) if len(noise) == 1 else by_noise
        return value, np.concatenate([by_kernel, by_noise * noise])

    def run(
        self, starts: list[Array], max_iter: int, scale: float | None = None, tol: float = 1e-7
    ) -> tuple[Array, TuningInfo]:
        """The best vector that L-BFGS finds from several starts, with the criterion in units of `scale`.

        By default `scale` is the criterion at the first start. A start ends if a step gains less than `tol` units.
        """
        first = self.objective(starts[0])[0]
        if scale is None:
            scale = abs(first) if first not in (0.0, FAILED_VALUE) else 1.0
        found = []
        with ProgressBar("tuning", total=len(starts) * max_iter) as bar:
            for start in starts:
                result = minimize(
                    lambda v: tuple(part / scale for part in self.objective(v)),
                    start,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=self.bounds,
                    callback=lambda *_: bar.update(),
                    options={"maxiter": max_iter, "ftol": tol, "gtol": 1e-6},
                )
                found.append(result)
        best = min(found, key=lambda result: float(result.fun))
        if best.fun * scale >= FAILED_VALUE:
            raise SingularSystemError("no start could be factored: increase alpha, or remove duplicated inputs")
        names, values = [one.name for one in self.tuned], [float(result.fun) * scale for result in found]
        value, steps = float(best.fun) * scale, int(best.nit)
        return best.x, TuningInfo(self.criterion.name, value, first, values, steps, names, best.status != 1)

    def random_starts(self, count: int, rng: np.random.Generator) -> list[Array]:
        """The start, and others drawn around it."""
        return [self.start, *[self.inside(self._drawn(rng)) for _ in range(count - 1)]]

    def starts_of_widths(self, factors: Sequence[float]) -> list[Array]:
        """The start with all length scales multiplied by each of the factors."""
        width = [np.full(one.size, one.name.endswith("length_scale")) for one in self.tuned]
        widths = np.concatenate([*width, np.zeros(len(self.start) - self._kernel_size, dtype=bool)])
        return [self.start + np.log(factor) * widths for factor in factors]

    def inside(self, vector: Array) -> Array:
        """The nearest vector within the bounds."""
        low, high = np.reshape(self.bounds, (-1, 2)).T
        return np.asarray(np.clip(vector, low, high))

    def _drawn(self, rng: np.random.Generator) -> Array:
        drawn = self.start + rng.standard_normal(len(self.start))
        for one in self.tuned:
            if not one.logarithm and one.shape:
                # A factor of any sign: a new direction of the same length.
                size = float(np.sqrt(np.mean(self.start[one.part] ** 2)))
                drawn[one.part] = (size if size > 0 else 1.0) * rng.standard_normal(one.size)
            elif not one.logarithm:
                drawn[one.part] = rng.uniform(size=one.size)
        return drawn


def with_low_rank(kernel: OperatorKernel, covariance: Array, rank: int) -> OperatorKernel:
    """Replace operators without tunable parameters by low rank plus diagonal, starting at a covariance."""
    terms = kernel.terms()
    if terms is None:
        raise ValueError(f"rank requires a kernel k * T or a sum of them, got {type(kernel).__name__}")
    if rank > len(covariance):
        raise ValueError(f"rank must be at most the number of outputs {len(covariance)}, got {rank}")
    values, vectors = np.linalg.eigh(0.8 / len(terms) * covariance)
    W = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 1e-3 * values[-1]))
    diag = np.maximum(np.diagonal(covariance) * 0.8 / len(terms) - (W**2).sum(axis=1), 0.1 * np.diagonal(covariance))
    low_rank = LowRank(W, diag)
    names = [term.operator_name for term in terms if isinstance(term.operator, (Identity, Dense))]
    return kernel.replace(**{name: low_rank for name in names if name is not None})


# The continuous parameters of an operator-valued kernel as one vector.
#
# Positive parameters are tuned on a logarithmic scale; parameters in an interval, and the factor W of a low-rank
# operator, on their own scale. A positive parameter that starts at zero stays zero. A given matrix B is not tuned.

#: Parameters in [0, 1]; the upper end, where operators become singular, is excluded.
INTERVALS = {"omega", "within", "between"}
#: Parameters of any sign, and parameters that are not tuned.
ANY_SIGN, NOT_TUNED = {"W"}, {"B"}
#: Lower and upper bounds of positive parameters, as factors of their start: weights of terms, widths, and others.
BOUND_FACTORS = {"weights": (1e-6, 1e4), "length_scale": (1e-2, 1e2), "": (1e-4, 1e4)}


@dataclass(frozen=True)
class Parameter:
    name: str  # nested
    shape: tuple[int, ...]
    logarithm: bool  # tuned on a logarithmic scale
    part: slice  # of the vector

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


def named_terms(kernel: OperatorKernel) -> list[Term] | None:
    """The separable terms of a kernel if each parameter belongs to one term, else None."""
    terms = kernel.terms()
    return None if terms is None or any(term.kernel_name is None for term in terms) else terms


def parameters(kernel: OperatorKernel, X: Any) -> list[Parameter]:
    found: list[Parameter] = []
    values, place = kernel.get_params(), 0
    for name in gradient_names(kernel, X):
        value = np.asarray(values[name], dtype=np.float64)
        last = name.split("__")[-1]
        if last in NOT_TUNED or (last not in ANY_SIGN | INTERVALS and not (value > 0).all()):
            continue
        found.append(Parameter(name, value.shape, last not in ANY_SIGN | INTERVALS, slice(place, place + value.size)))
        place += value.size
    return found


def without_gradient(kernel: OperatorKernel, X: Any) -> list[str]:
    """Classes of scalar kernels with real parameters and without derivatives in them."""
    found = []
    for term in named_terms(kernel) or []:
        values = term.kernel.get_params()
        inner = [term.kernel, *(value for value in values.values() if isinstance(value, ScalarKernel))]
        for one in inner:
            real = any(isinstance(value, float) for value in one.get_params(deep=False).values())
            if real and not one.gradient(X[:2]):
                found.append(type(one).__name__)
    return found


def gradient_names(kernel: OperatorKernel, X: Any) -> list[str]:
    """Nested names of the differentiable parameters of the kernel, one for each array."""
    few = X[:2]
    terms = named_terms(kernel)
    if terms is None:
        return list(dict.fromkeys(re.sub(r"\[[\d,]+\]$", "", name) for name in kernel.gradient(few)))
    names = []
    for term in terms:
        names += [f"{term.kernel_name}__{name}" for name in term.kernel.gradient(few)]
        names += [f"{term.operator_name}__{name}" for name in (term.operator.gradient() if term.operator_name else ())]
    return names


def read(kernel: OperatorKernel, tuned: list[Parameter]) -> Array:
    params = kernel.get_params()
    values = [np.asarray(params[one.name], dtype=np.float64).ravel() for one in tuned]
    parts = [np.log(value) if one.logarithm else value for one, value in zip(tuned, values, strict=True)]
    return np.concatenate([*parts, np.empty(0)])


def write(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> OperatorKernel:
    changed: dict[str, Any] = {}
    for one in tuned:
        value = (np.exp(vector[one.part]) if one.logarithm else vector[one.part]).reshape(one.shape)
        changed[one.name] = value if one.shape else float(value)
    return kernel.replace(**changed)


def chain(tuned: list[Parameter], vector: Array, slopes: dict[str, Array]) -> Array:
    """Derivative with respect to the vector, from derivatives with respect to the parameters."""
    result = np.empty_like(vector)
    for one in tuned:
        slope = np.asarray(slopes[one.name]).ravel()
        result[one.part] = slope * np.exp(vector[one.part]) if one.logarithm else slope
    return result


def bounds(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> list[tuple[float, float]]:
    limits: list[tuple[float, float]] = []
    params = kernel.get_params()
    for one in tuned:
        owner, _, last = one.name.rpartition("__")
        for value in vector[one.part]:
            if one.logarithm:
                down, up = np.log(BOUND_FACTORS.get(last, BOUND_FACTORS[""]))
                limits.append((float(value) + down, float(value) + up))
            elif last in ("within", "between"):
                # On either side of their mean, so that `between` stays below `within`.
                middle = 0.5 * sum(float(params[f"{owner}__{side}"]) for side in ("within", "between"))
                limits.append((middle, 1.0 - 1e-6) if last == "within" else (0.0, middle))
            else:
                limits.append((0.0, 1.0 - 1e-6) if last in INTERVALS else (-np.inf, np.inf))
    return limits


#: Maximum number of observed values for a criterion that needs their matrix (288 MB).
MAX_DENSE_VALUES = 6000
#: The same for the comparison of leave-one-out errors before and after tuning.
MAX_COMPARED_VALUES = 4000


class TuningCriterion:
    """Evidence or leave-one-out error of a kernel and noise levels, with derivatives.

    Weights of rows are scaled in, A = R K R + noise; a weight is the number of copies of a row. If complete rows with
    the same inputs were merged, `repeats` is the number of observations of each output beyond one for each row, and
    `within` (d,) their sum of squares about the means, which enter the evidence of the noise.
    """

    def __init__(
        self,
        X: Any,
        targets: Targets,
        criterion: str,  # "evidence" or "loo"
        leave_out: str = "row",  # or "entry", for "loo"
        *,
        groups: Indices | None = None,  # rows left out together; by default rows with the same inputs
        centred: bool = False,  # subtract the means of the outputs, instead of an intercept
        constants: bool = False,  # estimate a constant for each output; not with `centred`
        repeats: float = 0.0,
        within: Array | float = 0.0,
    ) -> None:
        groups = same_inputs(X) if groups is None else groups
        # A search amplifies rounding: a canonical order makes the result independent of the order of the rows.
        order = order_of_rows(X, targets.Y)
        X, targets, groups = X[order], targets.rows(order), groups[order]
        self.X, self.pairs = X, targets.pairs(groups)
        self.n, self.d = self.pairs.shape
        self.name, self._evidence = criterion, criterion == "evidence"
        self._repeats, self._within = repeats, np.broadcast_to(within, (self.d,))
        count = self.pairs.sum_by_output()
        values, roots = self.pairs.values, self.pairs.roots
        self._centred = values - (self.pairs.sum_by_output(values) / np.maximum(count, 1.0))[self.pairs.outputs]
        self.y = roots * (self._centred if centred else values)
        self._E = (np.eye(self.d)[self.pairs.outputs] * roots[:, None])[:, count > 0] if constants else None
        #: Numbers that the evidence is about, without those that estimate the constants.
        self.degrees_of_freedom = len(values) + repeats * self.d - (0 if self._E is None else self._E.shape[1])
        variance = self.pairs.sum_by_output(self._centred**2) / np.maximum(count, 1.0)
        # An output without variation, up to rounding, gets the mean variance of the others.
        varies = variance > 1e-28 * self.pairs.sum_by_output(values**2) / np.maximum(count, 1.0)
        self.variance = np.where(varies, variance, float(variance[varies].mean()) if varies.any() else 1.0)
        self._scale = None if targets.weight is None else np.outer(roots, roots)
        # The closed form for a single product does not cover weights or rows left out together.
        alone = self._evidence or (leave_out == "row" and len(np.unique(groups)) == self.n)
        structured = targets.complete and alone and targets.weight is None and not constants
        self._Y = self.y.reshape(self.n, self.d) if structured else None
        self._together = self.pairs.held_out_together(entry=leave_out == "entry")

    def can_leave_out(self, kernel: OperatorKernel) -> bool:
        """Whether closed-form leave-one-out is affordable."""
        complete = len(self.pairs) == self.n * self.d and kernel.as_separable() is not None
        return complete or len(self.pairs) <= MAX_COMPARED_VALUES

    def covariance(self) -> Array:
        """(d, d) covariance of the outputs, from the rows with both observed; zero if there are none."""
        observed, values = self.pairs.spread(np.ones(len(self.pairs))), self.pairs.spread(self._centred)
        common = observed.T @ observed
        result: Array = np.where(common >= 3, (values.T @ values) / np.maximum(common, 1.0), 0.0)
        result[np.diag_indices(self.d)] = self.variance
        return result

    def evaluate(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        """The criterion, its derivatives by parameter name, and those with respect to the noise, (d,)."""
        terms = named_terms(kernel)
        if terms is None:
            value, slopes, by_noise = self._unstructured(kernel, noise)
        else:
            found = self._separable([(term.kernel(self.X), term.operator.dense()) for term in terms], noise)
            value, slopes, by_noise = found.value, {}, found.noise
            for term, by_gram, by_operator in zip(terms, found.grams, found.operators, strict=True):
                for name, slope in term.kernel.gradient_product(by_gram, self.X).items():
                    slopes[f"{term.kernel_name}__{name}"] = slope
                for name, change in (term.operator.gradient() if term.operator_name else {}).items():
                    slopes[f"{term.operator_name}__{name}"] = np.tensordot(change, by_operator, axes=2)
        if self._evidence and self._repeats:
            value += 0.5 * float((self._repeats * np.log(2.0 * np.pi * noise) + self._within / noise).sum())
            by_noise = by_noise + 0.5 * (self._repeats - self._within / noise) / noise
        return value, slopes, by_noise

    def _separable(self, matrices: list[tuple[Array, Array]], noise: Array) -> Criterion:
        if self._Y is not None and len(matrices) == 1:
            criterion = separable_evidence if self._evidence else separable_leave_one_out
            return criterion(*matrices[0], self._Y, noise)
        points, outputs = self.pairs.points, self.pairs.outputs
        self._check_size()
        A = np.zeros((len(self.y), len(self.y)))
        for G, T in matrices:
            A += G[np.ix_(points, points)] * T[np.ix_(outputs, outputs)]
        value, omega, by_noise = self._dense(A, noise)
        grams, operators = split_among_terms(omega, matrices, points, outputs, self.n, self.d)
        return Criterion(value, grams, operators, by_noise)

    def _unstructured(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        self._check_size()
        at = self.pairs.points, self.pairs.outputs, self.pairs.points, self.pairs.outputs
        gram, whole = kernel.gram(self.X), len(self.y) == self.n * self.d
        value, omega, by_noise = self._dense(gram.dense() if whole else gram.entries(*at), noise)
        if not whole:
            # Unobserved entries have weight zero.
            observed = self.pairs.points * self.d + self.pairs.outputs
            omega, some = np.zeros((self.n * self.d, self.n * self.d)), omega
            omega[np.ix_(observed, observed)] = some
        entries: dict[str, dict[tuple[int, ...], float]] = {}
        for name, slope in kernel.gradient_product(omega, self.X)[1].items():
            # A name may contain an index; only an index at its end belongs to the parameter.
            base, _, index = name.rpartition("[") if name.endswith("]") else (name, "", "")
            place = tuple(map(int, index.rstrip("]").split(","))) if index else ()
            entries.setdefault(base, {})[place] = slope
        slopes = {base: np.array([each[place] for place in sorted(each)]) for base, each in entries.items()}
        return value, slopes, by_noise

    def _dense(self, K: Array, noise: Array) -> tuple[float, Array, Array]:
        """The criterion for the gram K of the pairs; its derivatives with respect to K, (N, N), and noise, (d,)."""
        A = np.array(K) if self._scale is None else K * self._scale
        A[np.diag_indices_from(A)] += noise[self.pairs.outputs]
        if self._evidence:
            value, omega = dense_evidence(A, self.y, self._E)
        else:
            value, omega = pairwise_leave_one_out(A, self.y, self._together, self._E)
        by_noise = self.pairs.sum_by_output(np.diagonal(omega))
        return value, omega if self._scale is None else omega * self._scale, by_noise

    def _check_size(self) -> None:
        if len(self.y) > MAX_DENSE_VALUES:
            raise ValueError(
                f"tune supports at most {MAX_DENSE_VALUES} observed values, got {len(self.y)}: tune on a subset of the "
                "rows (complete outputs with one term k * T have no such limit)"
            )
