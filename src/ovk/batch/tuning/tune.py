"""Hyper-parameters by gradient: kernel widths, operators, weights of terms and noise levels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, ProgressBar, Registered, check_int
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import new_generator
from ovk.batch.tuning.criterion import Parameter, TuningCriterion, bounds, chain, parameters, read, write
from ovk.operators import Dense, Identity, LowRank
from ovk.ovkernels import OperatorKernel
from ovk.solvers import SingularSystem

Model = TypeVar("Model", bound=OVKRegressor)

#: The noise variance of an output lies between these parts of the variance of the output.
NOISE_RANGE = 1e-7, 10.0
#: The same in parts of the mean squared left-out residuals at the start: zeros that repeat would have none.
MIN_NOISE = 1e-4
#: The criterion where there is none: finite, so that a line search comes back from it.
NO_VALUE = 1e30
#: How far restarts spread: standard deviation of the logarithms.
RESTART_SPREAD = 1.0


@dataclass(frozen=True)
class TuningInfo(Registered):
    """How a kernel was tuned.

    Attributes
    ----------
    criterion : "evidence" or "loo"
    value : the criterion at the end, small is good: negative log evidence, or mean squared left-out residual
    start : the criterion at the first start
    restarts : its value at the end of each start
    iterations : of the best start
    names : what was tuned
    converged : the best start came to its end before the steps were used up
    left_out : with "evidence", mean squared left-out residuals of the start and of what was tuned, in units of the
        outputs' variances; empty where they were not compared
    kept : "tuned", or "start" where that has the smaller left-out residuals
    """

    criterion: str
    value: float
    start: float
    restarts: list[float]
    iterations: int
    names: list[str]
    converged: bool = True
    left_out: list[float] = field(default_factory=list)
    kept: str = "tuned"


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
    """Fit kernel widths, operators, weights of terms and noise levels by gradient, then the model itself.

    The model is read as the Gaussian process y = f(x) + noise, f with the covariance of the model's kernel, noise with
    the variances `alpha`. With several terms k * LowRank(W, diag) that is the linear model of coregionalisation. All
    derivatives are analytic; for complete outputs and one term k * T a step costs one eigendecomposition of the scalar
    gram ("loo" also a product for each output), otherwise a factorisation of the matrix of the observed values.

    Parameters
    ----------
    model : OVKRidge or FunctionalRidge
        Its kernel and alpha are where the search begins. It is not changed.
    X, Y, task : as in `OVKRidge.fit`; nan where an output was not observed
    criterion : "evidence" or "loo"
        The probability of the outputs, or the mean squared left-out residual.
    rank : int, optional
        Operators ``Identity()`` and ``Dense(B)``, which have nothing to tune, become low rank plus diagonal,
        ``LowRank(W, diag)`` with W of this many columns.
    noise : "output" or "shared"
        One noise level for each output, or one for all.
    leave_out : "row" or "entry"
        What "loo" leaves out; rows with the same inputs go together.
    restarts : int
        Starts: the first from the model as it is, the others from places drawn around it.
    max_iter : int
        Steps of L-BFGS at most, for each start.
    random_state : int, Generator or None

    Returns
    -------
    a fitted model with the tuned kernel and alpha, and `tuning_`, a `TuningInfo`. Where the evidence leads to
    larger left-out errors than the start has, the start is kept, with a warning.

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
        raise ValueError("tune needs a model without landmarks: tune on some of the rows, then fit with landmarks")
    for value, name, allowed in (
        (criterion, "criterion", ("evidence", "loo")),
        (noise, "noise", ("output", "shared")),
        (leave_out, "leave_out", ("row", "entry")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}")
    fitted: Any = clone(model)
    with fitted._fitting(X, Y):
        inputs, targets = fitted._check(X, Y, None, task)
        suits = TuningCriterion(inputs, targets, criterion, leave_out, centred=fitted.fit_intercept)
        kernel = fitted._resolved(inputs, targets.d)
        if rank is not None:
            kernel = with_low_rank(kernel, suits.covariance(), check_int(rank, "rank"))
        search = Search(suits, kernel, fitted.alpha, shared=noise == "shared")
        compared = criterion == "evidence" and suits.can_leave_out(kernel)
        before = np.zeros(targets.d)
        if compared:
            before = left_out_errors(fitted.set_params(**search.parameters_at(search.start)).fit(X, Y, task=task))
            search.raise_noise_floor(MIN_NOISE * before)
        starts = search.random_starts(check_int(restarts, "restarts"), new_generator(random_state))
        best, info = search.run(starts, check_int(max_iter, "max_iter"))
        if not info.converged:
            warnings.warn(
                f"tune stopped after max_iter={max_iter} steps before it converged: raise max_iter",
                ConvergenceWarning,
                stacklevel=2,
            )
        fitted.set_params(**search.parameters_at(best)).fit(X, Y, task=task)
        if compared:
            info = replace(
                info, left_out=[float((e / suits.variance).mean()) for e in (before, left_out_errors(fitted))]
            )
            if info.left_out[1] > info.left_out[0]:
                info = replace(info, kept="start")
                fitted.set_params(**search.parameters_at(search.start)).fit(X, Y, task=task)
                warnings.warn(
                    f"tuning increased the leave-one-out error from {info.left_out[0]:.3g} to {info.left_out[1]:.3g} "
                    "of the variance; the initial settings were kept. Try criterion='loo'",
                    UserWarning,
                    stacklevel=2,
                )
        fitted.tuning_ = info
    tuned: Model = fitted
    return tuned


def left_out_errors(model: OVKRegressor) -> Array:
    """(d,) mean squared left-out residuals of a fitted model; 0 for an output without observations."""
    squares = model.left_out_residuals().reshape(-1, model.n_outputs_) ** 2
    seen = ~np.isnan(squares)
    return np.asarray(np.where(seen, squares, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


class Search:
    """The vector that is searched over: the kernel's parameters, then the logarithms of the noise variances.

    It begins with a resolved kernel and the noise variance `alpha`, a number or one for each output. One that is
    `shared` is the same for all outputs; one that is `fixed` is not searched for.
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
        variance = np.array([criterion.variance.mean()]) if shared else criterion.variance
        if fixed:
            variance = np.empty(0)
        # alpha counts where it could be a noise level; the default of 1 often is none.
        start = np.clip(np.broadcast_to(given, variance.shape), 0.01 * variance, 0.3 * variance)
        self.start = np.concatenate([read(kernel, self.tuned), np.log(start)])
        self.bounds = bounds(kernel, self.tuned, self.start[: self._kernel_size]) + [
            (float(np.log(NOISE_RANGE[0] * v)), float(np.log(NOISE_RANGE[1] * v))) for v in variance
        ]

    def raise_noise_floor(self, least: Array) -> None:
        """Keep noise variances above `least`, (d,), but not above where they start."""
        count = len(self.start) - self._kernel_size
        least = np.array([least.mean()]) if count == 1 else least
        for number in range(count):
            place = self._kernel_size + number
            low, high = self.bounds[place]
            floor = min(float(np.log(max(least[number], 1e-300))), float(self.start[place]))
            self.bounds[place] = max(low, floor), high

    def parameters_at(self, vector: Array) -> dict[str, Any]:
        """`kernel` and `alpha` of a vector of the search."""
        kernel, noise = self.at(vector)
        return {"kernel": kernel, "alpha": float(noise[0]) if len(noise) == 1 else noise}

    def at(self, vector: Array) -> tuple[OperatorKernel, Array]:
        """The kernel and the noise variances that a vector of the search stands for."""
        kernel = write(self.kernel, self.tuned, vector[: self._kernel_size])
        return kernel, np.exp(vector[self._kernel_size :]) if self._fixed is None else self._fixed

    def objective(self, vector: Array) -> tuple[float, Array]:
        """The criterion and its gradient; a huge number where the matrix cannot be factored."""
        # A search asks twice for where it starts.
        if self._last is None or not np.array_equal(self._last[0], vector):
            self._last = vector.copy(), self._evaluated(vector)
        return self._last[1]

    def _evaluated(self, vector: Array) -> tuple[float, Array]:
        kernel, noise = self.at(vector)
        try:
            value, slopes, by_noise = self.criterion.evaluate(kernel, np.broadcast_to(noise, (self.criterion.d,)))
        except (SingularSystem, np.linalg.LinAlgError):
            return NO_VALUE, np.zeros_like(vector)
        by_kernel = chain(self.tuned, vector[: self._kernel_size], slopes)
        if self._fixed is not None:
            return value, by_kernel
        by_noise = by_noise.sum(keepdims=True) if len(noise) == 1 else by_noise
        return value, np.concatenate([by_kernel, by_noise * noise])

    def run(
        self, starts: list[Array], max_iter: int, scale: float | None = None, tol: float = 1e-7
    ) -> tuple[Array, TuningInfo]:
        """The best vector that L-BFGS finds from several starts; it sees the criterion in units of `scale`.

        By default that is the criterion at the first start. It ends where a step gains less than `tol` of the units.
        """
        first = self.objective(starts[0])[0]
        if scale is None:
            scale = abs(first) if first not in (0.0, NO_VALUE) else 1.0
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
        if best.fun * scale >= NO_VALUE:
            raise SingularSystem("no start could be factored: use a larger alpha, or remove duplicated inputs")
        names, values = [one.name for one in self.tuned], [float(result.fun) * scale for result in found]
        value, steps = float(best.fun) * scale, int(best.nit)
        return best.x, TuningInfo(self.criterion.name, value, first, values, steps, names, best.status != 1)

    def random_starts(self, count: int, rng: np.random.Generator) -> list[Array]:
        """The start itself, and others drawn around it."""
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
        drawn = self.start + RESTART_SPREAD * rng.standard_normal(len(self.start))
        place = 0
        for one in self.tuned:
            part = slice(place, place + one.size)
            if not one.logarithm and one.shape:
                # Factors of any sign: new directions of the same length.
                size = float(np.sqrt(np.mean(self.start[part] ** 2)))
                drawn[part] = (size if size > 0 else 1.0) * rng.standard_normal(one.size)
            elif not one.logarithm:
                drawn[part] = rng.uniform(size=one.size)
            place += one.size
        return drawn


def with_low_rank(kernel: OperatorKernel, covariance: Array, rank: int) -> OperatorKernel:
    """The kernel with operators that have nothing to tune replaced by low rank plus diagonal, from a covariance."""
    terms = kernel.terms()
    if terms is None:
        raise ValueError(f"rank is for kernels k * T and their sums, got {type(kernel).__name__}")
    if rank > len(covariance):
        raise ValueError(f"rank must be at most the number of outputs {len(covariance)}, got {rank}")
    values, vectors = np.linalg.eigh(0.8 / len(terms) * covariance)
    W = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 1e-3 * values[-1]))
    diag = np.maximum(np.diagonal(covariance) * 0.8 / len(terms) - (W**2).sum(axis=1), 0.1 * np.diagonal(covariance))
    low_rank = LowRank(W, diag)
    names = [term.operator_name for term in terms if isinstance(term.operator, (Identity, Dense))]
    return kernel.replace(**{name: low_rank for name in names if name is not None})
