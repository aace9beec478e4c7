"""Hyper-parameters by gradient: kernel widths, operators, weights of terms and noise levels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ovk._params import Registered
from ovk._progress import ProgressBar
from ovk._validation import Array, whole
from ovk.batch.evidence import Problem
from ovk.batch.hyperparameters import Parameter, bounds, chain, parameters, read, separable_terms, write
from ovk.batch.ridge import OVKRidge
from ovk.operators import Dense, Identity, LowRank
from ovk.ovkernels import OperatorKernel, Separable, Sum
from ovk.solvers import SingularSystem

#: The noise variance of an output lies between these parts of the variance of the output.
NOISE = 1e-6, 10.0
#: The criterion where there is none: finite, so that a line search comes back from it.
HUGE = 1e30
#: How far restarts spread: standard deviation of the logarithms.
SPREAD = 1.0


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
    """

    criterion: str
    value: float
    start: float
    restarts: list[float]
    iterations: int
    names: list[str]


def tune(
    model: OVKRidge,
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
) -> OVKRidge:
    """Fit kernel widths, operators, weights of terms and noise levels by gradient, then the model itself.

    The model is read as the Gaussian process y = f(x) + noise, f with the covariance of the model's kernel, noise with
    the variances `alpha`. With several terms k * LowRank(W, diag) that is the linear model of coregionalisation. All
    derivatives are analytic; for complete outputs and one term k * T a step costs one eigendecomposition of the scalar
    gram ("loo" also a product for each output), otherwise a factorisation of the matrix of the observed values.

    Parameters
    ----------
    model : OVKRidge
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
    a fitted `OVKRidge` with the tuned kernel and alpha, and `tuning_`, a `TuningInfo`

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
    if not isinstance(model, OVKRidge):
        raise ValueError(f"model must be an OVKRidge, got {type(model).__name__}")
    if model.landmarks is not None:
        raise ValueError("tune needs a model without landmarks: tune on some of the rows, then fit with landmarks")
    for value, name, allowed in (
        (criterion, "criterion", ("evidence", "loo")),
        (noise, "noise", ("output", "shared")),
        (leave_out, "leave_out", ("row", "entry")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}")
    fitted: OVKRidge = clone(model)
    with fitted._all_or_nothing():
        inputs, targets = fitted._check(X, Y, None, task)
        problem = Problem(inputs, targets, criterion, leave_out, centred=fitted.fit_intercept)
        kernel = fitted._resolved(inputs, targets.d)
        if rank is not None:
            kernel = with_low_rank(kernel, problem.covariance(), whole(rank, "rank"))
        search = Search(problem, kernel, fitted.alpha, shared=noise == "shared")
        best, info = search.run(
            whole(restarts, "restarts"), whole(max_iter, "max_iter"), _generator(random_state), criterion
        )
        kernel, alpha = search.at(best)
        fitted.set_params(kernel=kernel, alpha=float(alpha[0]) if noise == "shared" else alpha)
        fitted.fit(X, Y, task=task)
        fitted.tuning_ = info
    return fitted


class Search:
    """The vector that is searched over: the kernel's parameters, then the logarithms of the noise variances."""

    def __init__(self, problem: Problem, kernel: OperatorKernel, alpha: Any, *, shared: bool) -> None:
        self.problem, self.kernel = problem, kernel
        self.tuned: list[Parameter] = parameters(kernel, problem.X)
        self._kernel_size = sum(one.size for one in self.tuned)
        variance = np.array([problem.variance.mean()]) if shared else problem.variance
        given = np.asarray(alpha, dtype=np.float64)
        # alpha counts where it could be a noise level; the default of 1 often is none.
        start = np.clip(np.broadcast_to(given, variance.shape), 0.01 * variance, 0.3 * variance)
        self.start = np.concatenate([read(kernel, self.tuned), np.log(start)])
        self.bounds = bounds(kernel, self.tuned, self.start[: self._kernel_size]) + [
            (float(np.log(NOISE[0] * v)), float(np.log(NOISE[1] * v))) for v in variance
        ]

    def at(self, vector: Array) -> tuple[OperatorKernel, Array]:
        """Kernel and noise variances of a vector."""
        kernel = write(self.kernel, self.tuned, vector[: self._kernel_size])
        return kernel, np.exp(vector[self._kernel_size :])

    def objective(self, vector: Array) -> tuple[float, Array]:
        """The criterion and its gradient; a huge number where the matrix cannot be factored."""
        kernel, noise = self.at(vector)
        try:
            value, slopes, by_noise = self.problem.evaluate(kernel, np.broadcast_to(noise, (self.problem.d,)))
        except (SingularSystem, np.linalg.LinAlgError):
            return HUGE, np.zeros_like(vector)
        by_noise = by_noise.sum(keepdims=True) if len(noise) == 1 else by_noise
        return value, np.concatenate([chain(self.tuned, vector[: self._kernel_size], slopes), by_noise * noise])

    def run(self, restarts: int, max_iter: int, rng: np.random.Generator, criterion: str) -> tuple[Array, TuningInfo]:
        """The best of several starts."""
        first = self.objective(self.start)[0]
        low, high = (np.array([np.inf * sign if b is None else b for b in side]) for sign, side in
                     zip((-1, 1), zip(*self.bounds, strict=True), strict=True))  # fmt: skip
        scale = abs(first) if first not in (0.0, HUGE) else 1.0
        found = []
        with ProgressBar("tuning", total=restarts * max_iter) as bar:
            for number in range(restarts):
                start = self.start if number == 0 else np.clip(self._drawn(rng), low, high)
                result = minimize(
                    lambda v: tuple(part / scale for part in self.objective(v)),
                    start,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=self.bounds,
                    callback=lambda *_: bar.update(),
                    options={"maxiter": max_iter, "ftol": 1e-7, "gtol": 1e-6},
                )
                found.append(result)
        best = min(found, key=lambda result: float(result.fun))
        if best.fun * scale >= HUGE:
            raise SingularSystem("no start could be factored: use a larger alpha, or remove duplicated inputs")
        if best.status == 1:
            warnings.warn(
                f"tune stopped after max_iter={max_iter} steps before it converged: raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        names = [one.name for one in self.tuned]
        values = [float(result.fun) * scale for result in found]
        return best.x, TuningInfo(criterion, float(best.fun) * scale, first, values, int(best.nit), names)

    def _drawn(self, rng: np.random.Generator) -> Array:
        drawn = self.start + SPREAD * rng.standard_normal(len(self.start))
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
    terms = separable_terms(kernel)
    if terms is None:
        raise ValueError(f"rank is for kernels k * T and their sums, got {type(kernel).__name__}")
    if rank > len(covariance):
        raise ValueError(f"rank must be at most the number of outputs {len(covariance)}, got {rank}")
    values, vectors = np.linalg.eigh(0.8 / len(terms) * covariance)
    W = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 1e-3 * values[-1]))
    diag = np.maximum(np.diagonal(covariance) * 0.8 / len(terms) - (W**2).sum(axis=1), 0.1 * np.diagonal(covariance))
    return _replaced(kernel, LowRank(W, diag))


def _replaced(kernel: OperatorKernel, operator: LowRank) -> OperatorKernel:
    if isinstance(kernel, Sum):
        return Sum(_replaced(kernel.left, operator), _replaced(kernel.right, operator))
    assert isinstance(kernel, Separable)
    return Separable(kernel.kernel, operator) if isinstance(kernel.operator, (Identity, Dense)) else kernel


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
