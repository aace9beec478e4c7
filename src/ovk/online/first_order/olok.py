"""OLOK: online learning with operator-valued kernels, one gradient step for each example."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from math import isqrt, sqrt
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    SIZE,
    Array,
    Mask,
    Times,
    check_inputs,
    check_int,
    check_no_overflow,
    in_interval,
    one_blas_thread,
    positive,
    reads_snapshot,
    thread_for_row,
    threads_for,
)
from ovk.kernels import Gaussian, Stationary
from ovk.objectives import DistanceOverGradients, MarginLoss, SimplexHinge, ThresholdLoss, as_loss, as_schedule
from ovk.online.first_order.blocks import MAX_NORM_FACTOR, BlockInputs, Progress, Steps, check_divergence, take_steps
from ovk.online.first_order.truncation import (
    AUTO_WINDOW,
    ByAge,
    Errors,
    Tolerance,
    Truncation,
    TruncationWarning,
    Window,
    as_truncation,
    count_droppable,
    propagate,
    propagate_row,
    window_errors,
)
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.learner import StreamRegressor, learns_length_scale
from ovk.online.shared.rows import Rows, SupportPoints
from ovk.operators import OutputOperator
from ovk.ovkernels import Expansion, OperatorKernel, Separable, as_operator_kernel

#: Rows of a block, fewer if the kernel values of a block need too much memory or the window is short.
MAX_BLOCK_ROWS, MAX_BLOCK_NUMBERS, MIN_BLOCK_ROWS = 384, 1 << 22, 64
#: Number of step sizes computed from the schedule at once.
RATES_AHEAD = 64


class RowPlan:
    """Quantities derived from the parameters for single rows; `operator` is T of a kernel k T with k(x, x) = 1."""

    def __init__(self, model: OLOK) -> None:
        self.loss, self.schedule = as_loss(model.loss), as_schedule(model.schedule)
        self.truncation = model._truncation()
        self.bounded = self.loss.lipschitz(model.n_outputs_) is not None
        self._kernel = kernel = model.kernel_
        unit = isinstance(kernel, Separable) and isinstance(kernel.scalar, Stationary)
        self.operator: OutputOperator | None = kernel.operator if unit else None
        self._rates: tuple[int, list[float], dict[str, Any]] = (0, [], {})

    def rate(self, t: int) -> float:
        first, rates, known = self._rates
        # `set_params` may change a schedule in place.
        if not first <= t < first + len(rates) or known != self.schedule.__dict__:
            first, rates = t, self.schedule.rate(np.arange(t, t + RATES_AHEAD)).tolist()
            self._rates = first, rates, self.schedule.__dict__.copy()
        return rates[t - first]

    def quadratic_form(self, X: Array, a: Array) -> float:
        """<a, K(x, x) a> for a row X, (1, p)."""
        Ka = self._kernel.product(X, X, a[None]) if self.operator is None else self.operator.apply(a[None])
        return float(Ka[0].dot(a))


@dataclass(eq=False, repr=False)
class OLOK(StreamRegressor):
    """Online regression with operator-valued kernels by stochastic gradient descent.

    Each row is a step  f <- (1 - eta_t alpha) f - eta_t K(x_t, .) grad l(y_t, f(x_t)).  Rows are learned in exact
    blocks: the result does not depend, to rounding, on the chunks in which rows arrive. With one output this is NORMA.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, default ``Gaussian() * Identity()``
        A scalar kernel treats outputs independently. A length scale of "median" is computed from the warm-up rows.
    alpha : float >= 0
        Weight of the penalty alpha/2 |f|^2.
    schedule : number, name, schedule of `ovk.objectives` or function of t, optional
        Step sizes eta_t, with eta_t alpha < 1. A number eta means eta / sqrt(t) for any kernel, and raises
        `DivergenceError` if that is too large. By default 1 / sqrt(t), divided by |K(x_t, x_t)| if that is above 1;
        "auto" adapts to inputs and outputs.
    loss : name, loss of `ovk.objectives`, or function
        The loss l. A function maps outputs and predictions, (n, d), to losses (n,) and gradients (n, d).
    truncation : "auto", None, int, truncation of `ovk.online`, or function of t
        Which old support points are dropped: none with None; all but the last n with an int n, which also holds the
        step size once the window is full (`Window`); those with a negligible effect with `Tolerance`. "auto" keeps the
        last 4096 if the warm-up learns the length scale and there is no `init`, so that ``OLOK()`` has bounded
        memory; else all, as in the paper. A function gives the number of points after step t. Models with functions
        cannot be saved.
    average : bool
        Predict with the mean of all iterates instead of the last one.
    discount : float in (0, 1]
        Additional decay of f at every step, to forget faster than by the penalty.
    init : Expansion, or fitted estimator with `expansion_`
        Initial function, by default zero.
    warm_up : int, optional
        Number of rows that determine the units in which the learner works: centre and scale of inputs and outputs
        (except labels of -1 and 1), and the length scale. They are predicted from the rows before them, at first
        by their mean. By default 200 if the length scale is learned and there is no `init`; else 0, as in the
        paper.
    max_support : int
        Maximum number of support points; without truncation, exceeding it is an error.
    on_invalid : "raise" or "skip"
        Whether rows with nan or inf in X or inf in y raise an error or are skipped and counted.
    fit_intercept : bool
        Learn a constant for each output by the same steps, without penalty or decay.

    Attributes
    ----------
    t_ : number of steps
    threshold_ : the learned threshold of the loss: the margin of `NuHinge`, the half width of the tube of
        `NuInsensitive`, or the value below which an input is new for `Novelty`
    intercept_ : (d,) constants, None without `fit_intercept`
    block_size_ : rows of a block; `Tolerance` drops points at multiples of it
    input_units_, output_units_ : centre and scale chosen by the warm-up, None without one; other attributes are in
        these units
    support_ : the support points: ``support_.X`` (points, p), and the time and coefficients of each
    dual_coef_ : (points, d) their coefficients in f
    cumulative_loss_ : sum of the losses of all predictions, each made before its label was learned
    cumulative_risk_ : the same with the penalty alpha/2 |f|^2 at each step
    kappa2_ : bound on the largest eigenvalue of K(x, x)
    norm_ : |f| in the kernel's norm
    initial_norm_ : |f| before the first step, 0 without `init`
    truncation_error_ : bound on the distance of f, in the kernel's norm, to the learner that drops nothing and takes
        the same step sizes; with `average`, that of the last iterate; with `fit_intercept` no bound is known, and it is
        infinite once points were dropped
    n_skipped_ : rows skipped by ``on_invalid="skip"``

    See Also
    --------
    OLOKClassifier, PKAWV, AutoStream, Window

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> Y = np.sin(X) + [[0.0, 0.2]]
    >>> model = OLOK(Gaussian(1.0) * MixedEffect(0.5), alpha=1e-3, schedule=0.5)
    >>> progressive = model.predict_then_learn(X, Y)
    >>> print(f"{np.abs(progressive[:100] - Y[:100]).mean():.2f} {np.abs(progressive[-100:] - Y[-100:]).mean():.2f}")
    0.12 0.03
    """

    _default_factories = {"kernel": Gaussian}

    _poor_score = True
    _saved_state = ("_rows",)
    _state_classes = {"support_": SupportPoints, "progress_": Progress}
    _stored = {
        "support_": SupportPoints,
        "progress_": Progress,
        "_rows": int,
        "kappa2_": float,
        "block_size_": SIZE,
        "truncation_error_ cumulative_risk_": "* inf",
    }

    kernel: Any = None
    alpha: float = 1e-3
    schedule: Any = None
    loss: Any = "squared"
    truncation: Any = "auto"
    _: KW_ONLY
    average: bool = False
    discount: float = 1.0
    init: Any = None
    warm_up: int | None = None
    max_support: int = 100_000
    on_invalid: str = "raise"
    fit_intercept: bool = False

    def _start(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X, rows.Y.shape[1]
        self.kernel_ = kernel.resolve(X, d)
        check_no_overflow(self, self.kernel_, X)
        self.t_ = 0
        self.cumulative_loss_ = self.cumulative_risk_ = 0.0
        self.truncation_error_ = 0.0
        self._rows = 0
        bound = self.kernel_.norm_bound()
        self.kappa2_ = 0.0 if bound is None else bound
        self.block_size_, truncation = MAX_BLOCK_ROWS, self._truncation()
        if isinstance(truncation, Window):
            self.block_size_ = max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, int(truncation.s)))
        if self.kernel_.gram(X[:1]).terms() is None:
            self.block_size_ = min(self.block_size_, max(16, int(MAX_BLOCK_NUMBERS**0.5) // d))
        loss = as_loss(self.loss)
        self.progress_ = Progress(threshold=loss.start() if isinstance(loss, ThresholdLoss) else 0.0)
        self.progress_.bias = np.zeros(d) if self.fit_intercept else None
        self.support_ = SupportPoints.empty(X.shape[1], d, 2 if self.average else 1)
        if self.init is not None:
            self._start_from(self.init, d)
        self.initial_norm_ = float(np.sqrt(self.progress_.norm2))
        self.progress_.reach = self.progress_.norm2
        if self.progress_.bias is not None:
            self.progress_.reach += float(self.progress_.bias @ self.progress_.bias)

    def _start_from(self, init: Any, d: int) -> None:
        f = init if isinstance(init, Expansion) else getattr(init, "expansion_", None)
        if not isinstance(f, Expansion):
            raise TypeError(f"init must be an Expansion or a fitted estimator with expansion_, got {init!r}")
        if f.offset is not None:
            if not self.fit_intercept:
                advice = "fit it with fit_intercept=False, or set fit_intercept=True here"
                raise ValueError(f"init has an intercept: {advice}")
            self.progress_.bias = np.array(f.offset, dtype=np.float64)
        C = f.C if isinstance(f.C, np.ndarray) else f.C.toarray()
        if C.shape[1] != d or f.support.shape[1] != self.support_.X.shape[1]:
            raise ValueError(
                f"init maps {f.support.shape[1]} features to {C.shape[1]} outputs, the data have "
                f"{self.support_.X.shape[1]} and {d}"
            )
        A = np.zeros((len(C), self.support_.A.shape[1], d))
        A[:, 0] = C
        self.support_.append(np.asarray(f.support), A, np.arange(1 - len(C), 1))
        X = self.support_.X
        self.progress_.norm2 = float(np.square(Expansion(self.kernel_, X, C).norm()))
        for start in range(0, len(X) if self.kernel_.norm_bound() is None else 0, self.block_size_):
            norms = self.kernel_.gram(X[start : start + self.block_size_]).block_norms()
            self.kappa2_ = max(self.kappa2_, float(norms.max()))

    @reads_snapshot
    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        if self._fast_path is not None and self._fast_path.accepts(self, X):
            with thread_for_row():
                z = self._outputs_of_user(self._row_prediction(self._inputs(X)))
            return z if self.single_output_ else z[None]
        expansion = self.expansion_
        inputs = self._inputs(check_inputs(self, X, reset=False, dtype=np.float64))
        # The kernel matrix is as large as a square matrix with this many rows.
        with threads_for(isqrt(inputs.shape[0] * len(expansion.support))):
            values = self._outputs_of_user(expansion(inputs))
        return values[:, 0] if self.single_output_ else self._named(values, X)

    @property
    @reads_snapshot
    def expansion_(self) -> Expansion:
        """The function f(x) = sum_i K(x, x_i) a_i; with `average` the mean of all iterates."""
        check_is_fitted(self, "support_")
        A = self.support_.A
        C = A[:, 1] / self.t_ if self.average and self.t_ > 0 else A[:, 0]
        return Expansion(self.kernel_, self.support_.X, C, self.intercept_)

    @property
    def dual_coef_(self) -> Array:
        """Coefficients a_i of `expansion_`, (points, d)."""
        return np.asarray(self.expansion_.C)

    @property
    def intercept_(self) -> Array | None:
        """Intercepts of the outputs, (d,), None without `fit_intercept`."""
        check_is_fitted(self, "support_")
        return self.progress_.bias

    @property
    def threshold_(self) -> float:
        """The learned threshold of the loss."""
        check_is_fitted(self, "support_")
        loss = as_loss(self.loss)
        if not isinstance(loss, ThresholdLoss):
            others = "Novelty, NuHinge and NuInsensitive do"
            raise AttributeError(f"{type(loss).__name__} has no learned threshold; {others}")
        return self.progress_.threshold

    @property
    @reads_snapshot
    def norm_(self) -> float:
        """|f| of the last iterate in the kernel's norm; after truncation, as slow as predicting the support points."""
        check_is_fitted(self, "support_")
        if self.truncation_error_ == 0:
            return float(np.sqrt(self.progress_.norm2))
        return Expansion(self.kernel_, self.support_.X, self.support_.A[:, 0]).norm()

    def _learn(self, rows: Rows) -> Array:
        Z, start = np.empty(rows.Y.shape), 0
        self._check_memory(len(Z))
        self._check_rates(len(Z))
        with one_blas_thread():
            while start < len(Z):
                # Blocks end at multiples of their size in the stream, so that chunk sizes make no difference.
                stop = start + self.block_size_ - self._rows % self.block_size_
                assert stop > start
                some = slice(start, stop)
                weights = None if rows.weights is None else rows.weights[some]
                Z[some] = self._learn_block(rows.X[some], rows.Y[some], weights)
                start = stop
        return Z

    def _learn_block(self, X: Array, Y: Array, weights: Array | None) -> Array:
        loss = as_loss(self.loss)
        learned: Mask = np.full(len(Y), True) if loss.unsupervised else ~np.asarray(np.isnan(Y).all(axis=1))
        times = self.t_ + np.cumsum(learned)
        edge, mask = self._window(times)
        check_no_overflow(self, self.kernel_, X)
        gram = self.kernel_.gram(X)
        own = kappa2 = np.full(len(X), self.kappa2_)
        if self.kernel_.norm_bound() is None:
            own = gram.block_norms()
            kappa2 = np.maximum.accumulate(np.maximum(own, kappa2))
            self.kappa2_ = float(kappa2[-1])
        # The squares of outputs of 1e300 overflow in some sums; predictions and coefficients do not.
        with np.errstate(over="ignore", invalid="ignore"):
            base = self._support_predictions(X, edge)
            task = BlockInputs(gram, base[0], base[1] if self.average else None, mask, learned, self.progress_.bias)
            rule = loss, as_schedule(self.schedule), float(self.alpha), float(self.discount)
            clock, scale = self._clock(times), np.maximum(own, 1.0)
            steps = take_steps(*rule, task, Y, times, clock, scale, weights, self.progress_)
            check_divergence(self, steps, Y, times, own, self.progress_)
            losses = steps.loss.value(steps.targets, steps.block.z)
            losses = (losses if weights is None else weights * losses)[learned]
            self.cumulative_loss_ += float(losses.sum())
            penalty = 0.5 * self.alpha * steps.norm2[learned].sum() if self.alpha > 0 else 0.0
            self.cumulative_risk_ += float(losses.sum() + penalty)
            self._bound_truncation(steps, times, edge, np.sqrt(kappa2))
            self._append_block(X, steps, times, learned, edge)
        if steps.block.sums is None:
            return steps.block.z
        before = (times - learned)[:, None]
        return np.where(before > 0, steps.block.sums[0] / np.maximum(before, 1), steps.block.z)

    def _append_block(self, X: Array, steps: Steps, times: Times, learned: Mask, edge: Times | None) -> None:
        """Add the points of a block to the support, and truncate it."""
        block, old = steps.block, self.support_.A
        new = [block.end]
        if block.sums is not None:
            decayed, summed = block.decay * old[:, 0], old[:, 1] + block.sums[2] * old[:, 0]
            self.support_.replace(1, np.stack([decayed, summed], axis=1))
            new.append(block.sums[1])
        elif block.decay != 1.0:
            self.support_.replace(1, block.decay * old)
        # A step without a gradient, as for a large margin, adds no point.
        kept = learned & (block.a != 0).any(axis=1)
        self.support_.append(X[kept], np.stack(new, axis=1)[kept], times[kept])
        self.t_ = int(times[-1])
        self._rows += len(X)
        if edge is not None:
            # `_bound_truncation` has counted their error.
            self.support_.drop(int(np.searchsorted(self.support_.time, edge[-1], side="right")))
        self._truncate()

    def _support_predictions(self, X: Array, edge: Times | None) -> list[Array]:
        """Predictions of the old support, a (b, d) array for each set of coefficients."""
        support = self.support_
        sets = range(support.A.shape[1])
        if len(support) == 0:
            return [np.zeros((len(X), support.A.shape[2])) for _ in sets]
        # Points that leave the window during the block contribute to the rows before.
        since = None if edge is None else np.searchsorted(support.time, edge[:-1], side="right")
        if not self.average:
            return [self.kernel_.product(X, support.X, support.A[:, 0], since)]
        gram = self.kernel_.gram(X, support.X)
        return [gram.matmat(C) if since is None else gram.matmul_window(C, since) for C in np.moveaxis(support.A, 1, 0)]

    def _check_parameters(self) -> None:
        alpha = positive(self.alpha, "alpha", zero=True)
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must be in (0, 1], got {self.discount!r}")
        check_int(self.max_support, "max_support")
        if self.fit_intercept and self.average:
            advice = "centre the outputs, or add a constant kernel"
            raise ValueError(f"fit_intercept=True and average=True cannot be combined: {advice}")
        super()._check_parameters()
        schedule = as_schedule(self.schedule)
        if isinstance(schedule, DistanceOverGradients):
            schedule.step(0.0, 1.0, 1.0)
        if self._warm_up_rows() and self.init is not None:
            raise ValueError(f"warm_up must be 0 with init, which uses the units of the data, got {self.warm_up}")
        truncation = self._truncation()
        if isinstance(truncation, ByAge):
            truncation.size(np.array([1]), self._first_rate(), alpha)
        elif isinstance(truncation, Tolerance):
            truncation.allowed()
            if self.fit_intercept:
                raise ValueError(
                    "truncation=Tolerance() and fit_intercept=True cannot be combined, as no bound is known for a "
                    "constant that does not decay: use a window, or centre the outputs"
                )
            if self.average:
                raise ValueError(
                    "truncation=Tolerance() and average=True cannot be combined, as no point loses its weight in a "
                    "mean of all iterates: use a window, or average=False"
                )

    def _check_weights_supported(self) -> None:
        loss = as_loss(self.loss)
        if loss.unsupervised or isinstance(loss, ThresholdLoss):
            reason = "as its threshold counts rows: use another loss"
            raise ValueError(f"sample_weight and loss={loss!r} cannot be combined, {reason}")

    def _default_warm_up(self) -> int:
        return super()._default_warm_up() if self._learns_length_scale() else 0

    def _scales_outputs(self) -> bool:
        loss = as_loss(self.loss)
        return not loss.unsupervised and not isinstance(loss, (MarginLoss, SimplexHinge))

    def _check_rates(self, n: int) -> None:
        schedule, alpha = as_schedule(self.schedule), float(self.alpha)
        if isinstance(schedule, DistanceOverGradients) or n == 0:
            return
        rates = schedule.rate(self._clock(np.arange(self.t_ + 1, self.t_ + n + 1)))
        if rates.max() * alpha >= 1:
            first = int(np.argmax(rates * alpha >= 1))
            rate = float(rates[first])
            raise ValueError(
                f"eta_t * alpha must stay below 1, but at t = {self.t_ + 1 + first} it is {rate:g} * {alpha:g} = "
                f"{rate * alpha:g}: lower alpha or the schedule's eta, or start the schedule later (start=)"
            )

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False, unsupervised: bool = False) -> Rows:
        loss = as_loss(self.loss)
        rows = super()._checked(X, y, first=first, whole=whole, unsupervised=loss.unsupervised)
        loss.check(rows.Y)
        return rows

    def _add_inputs(self, count: int) -> None:
        self._widen(count)
        self.support_.add_columns(count)

    @reads_snapshot
    def memory_needed(self, n_rows: int) -> int:
        """Memory of the support points after `n_rows` rows without truncation, in bytes."""
        check_is_fitted(self, "support_")
        numbers: int = self.support_.X.shape[1] + self.support_.A.shape[1] * self.support_.A.shape[2] + 1
        return 8 * n_rows * numbers

    def _check_memory(self, n: int) -> None:
        most = check_int(self.max_support, "max_support")
        if self._truncation() is None and len(self.support_) + n > most:
            need = self.memory_needed(len(self.support_) + n)
            raise ValueError(
                f"max_support is {most}, but without truncation there would be {len(self.support_) + n} support points "
                f"({need / 1e6:.0f} MB): pass truncation=Tolerance() or a window, or increase max_support"
            )

    def _learns_length_scale(self) -> bool:
        return self.init is None and learns_length_scale(self.kernel)

    def _truncation(self) -> Truncation | None:
        if isinstance(self.truncation, str) and self.truncation == "auto":
            return Window(AUTO_WINDOW) if self._learns_length_scale() else None
        return as_truncation(self.truncation)

    def _bound_truncation(self, steps: Steps, times: Times, edge: Times | None, kappa: Array) -> None:
        dropped = np.zeros(len(times) + 1)
        if edge is not None:
            logs = np.concatenate([[0.0], np.cumsum(np.log(steps.rho))])
            time = self.support_.time[: np.searchsorted(self.support_.time, edge[-1], side="right")]
            old = self.support_.A[: len(time), 0]
            norms = np.linalg.norm(np.concatenate([old, steps.block.a]), axis=1)
            born = np.concatenate([np.zeros(len(old)), logs[1:]])
            dropped = window_errors(edge, np.concatenate([time, times]), norms, born, logs, kappa)
        self.progress_.contraction *= float(np.prod(steps.rho))
        before = Errors(self.truncation_error_, self.progress_.threshold_error)
        if any(before) or dropped.any():
            after = propagate(before, as_loss(self.loss), steps, kappa, dropped)
            self._set_truncation_bound(int(times[-1]), before, after)

    def _set_truncation_bound(self, t: int, before: Errors, after: Errors) -> None:
        if self.fit_intercept:
            # The intercept does not decay, and no bound on its error is known.
            self.truncation_error_ = np.inf
            return
        self.truncation_error_, self.progress_.threshold_error = after
        truncation = self.truncation
        if isinstance(truncation, Tolerance) and before.f <= truncation.tol < self.truncation_error_:
            warnings.warn(
                f"after {t} steps the bound on the truncation error is {self.truncation_error_:.2g}, above "
                f"truncation=Tolerance({truncation.tol:g}): predictions came too close to a kink of the loss, or steps "
                "are too large for the kernel. truncation_error_ stays valid. To lower it, use a smooth loss (huber, "
                "squared), a smaller tol or a larger alpha",
                TruncationWarning,
                stacklevel=2,
            )

    def _truncate(self) -> None:
        truncation = self._truncation()
        support, kappa = self.support_, self.kappa2_**0.5
        if truncation is None or self._rows % self.block_size_:
            return
        if isinstance(truncation, Tolerance):
            smooth = as_loss(self.loss).smoothness is not None
            allowed = truncation.allowed(self.truncation_error_, self.progress_.contraction, smooth=smooth)
            self._drop(count_droppable(support.A[:, 0], kappa, allowed))
            self.progress_.contraction = 1.0
        if len(support) > self.max_support:
            self._drop(len(support) - int(self.max_support))

    def _drop(self, count: int) -> None:
        if count > 0:
            norms = np.linalg.norm(self.support_.A[:count, 0], axis=1)
            self.truncation_error_ += self.kappa2_**0.5 * float(norms.sum())
            self.support_.drop(count)

    def _first_rate(self) -> float:
        schedule = as_schedule(self.schedule)
        if isinstance(schedule, DistanceOverGradients):
            return 1.0
        bound = self.kernel_.norm_bound() if schedule.scaled and hasattr(self, "kernel_") else None
        return float(schedule.rate(np.array([1]))[0]) / max(bound or 1.0, 1.0)

    def _clock(self, times: Times) -> Times:
        truncation = self._truncation()
        return times if truncation is None else truncation.clock(times)

    def _window(self, times: Times) -> tuple[Times | None, Array | None]:
        """The newest step dropped before the first row and after each row, (b + 1,), None without a window; and the
        mask (b, b) of `BlockInputs`.
        """
        truncation = self._truncation()
        if not isinstance(truncation, ByAge):
            return None, None
        last = np.concatenate([[self.t_], times])
        sizes = truncation.size(np.maximum(last, 1), self._first_rate(), float(self.alpha))
        edge = np.maximum.accumulate(last - sizes)
        if edge[-1] < times[0]:
            return edge, None
        return edge, np.tri(len(times), k=-1) * (times[None, :] > edge[:-1, None])

    def _row_plan(self) -> RowPlan | None:
        plan = RowPlan(self)
        adaptive = isinstance(plan.schedule, DistanceOverGradients)
        aged = isinstance(plan.truncation, ByAge) and not isinstance(plan.truncation, Window)
        learned_too = self.average or plan.loss.unsupervised or isinstance(plan.loss, ThresholdLoss)
        return None if adaptive or aged or learned_too or self.kernel_.norm_bound() is None else plan

    def _row_prediction(self, X: Array) -> Array:
        support, bias = self.support_, self.progress_.bias
        f = self.kernel_.product(X, support.X, support.A[:, 0])[0] if len(support) else np.zeros(support.A.shape[2])
        return f if bias is None else f + bias

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        """A block of one row, in numbers:

        z = f(x) + b,   a = -eta grad l(y, z),   f <- rho f + K(x, .) a,   b <- b + a,   rho = discount (1 - eta alpha),
        |f|^2 <- rho^2 |f|^2 + 2 rho <a, f(x)> + <a, K(x, x) a>,

        and each point that leaves the window adds kappa rho |a_i| to `truncation_error_`.
        """
        assert self._fast_path is not None
        plan: RowPlan = self._fast_path.plan
        loss, truncation = plan.loss, plan.truncation
        loss.check(y[None])
        X, y = self._row_in_units(X, y)
        progress, t = self.progress_, self.t_ + 1
        window = truncation if isinstance(truncation, Window) else None
        if truncation is None and len(self.support_) >= self.max_support:
            self._check_memory(1)
        clock = min(t, int(window.s)) if window is not None and window.hold_steps else t
        alpha, eta = float(self.alpha), plan.rate(clock)
        if plan.schedule.scaled:
            eta /= max(self.kappa2_, 1.0)
        if eta * alpha >= 1.0:
            self._check_rates(1)
        rho = float(self.discount) * (1.0 - eta * alpha)

        z = self._row_prediction(X)
        f = z if progress.bias is None else z - progress.bias
        value, gradient = loss.of_row(y, z)
        a = -eta * gradient
        norm2 = rho * rho * progress.norm2 + 2.0 * rho * float(a.dot(f)) + plan.quadratic_form(X, a)
        reach, most = progress.reach, np.inf
        if not plan.bounded:
            reach += 2.0 * eta * loss.of_row(y, np.zeros(len(y)))[0]
            most = MAX_NORM_FACTOR**2 * reach
        if not norm2 <= most:
            # Learning the row as a block raises the error.
            with self._transaction() as work:
                Z = work._learn(Rows(X, y[None], np.array([True]), self.single_output_))
            return work, self._outputs_of_user(Z[0])

        kappa, dropped, leaving = self.kappa2_**0.5, 0.0, 0
        if window is not None:
            _, A, times = self.support_.arrays
            while leaving < len(times) and times[leaving] <= t - window.s:
                old = A[leaving, 0]
                dropped += kappa * rho * sqrt(float(old.dot(old)))
                leaving += 1

        before = Errors(self.truncation_error_, progress.threshold_error)
        learned = self._replace(
            support_=self.support_.after_step(rho, leaving, X, a, t),
            progress_=progress._replace(
                norm2=max(norm2, 0.0),
                reach=reach,
                contraction=progress.contraction * rho,
                bias=None if progress.bias is None else progress.bias + a,
            ),
            t_=t,
            _rows=self._rows + 1,
            cumulative_loss_=self.cumulative_loss_ + value,
            cumulative_risk_=self.cumulative_risk_ + value + (0.5 * alpha * progress.norm2 if alpha > 0 else 0.0),
        )
        if dropped or before.f:
            after = propagate_row(before, loss, y[None], z[None], eta, rho, kappa, dropped)
            learned._set_truncation_bound(t, before, after)
        if learned._rows % self.block_size_ == 0:
            learned._truncate()
        return learned, self._outputs_of_user(z)


@dataclass(eq=False, repr=False)
class OLOKClassifier(CodedClassifier):
    """Online classification with operator-valued kernels by stochastic gradient descent.

    Two classes are one output with labels -1 and 1. With more classes, losses of such labels (hinge, logistic) have one
    output per class, one-vs-rest; other losses, such as `SimplexHinge`, have the corners of a regular simplex as
    targets, K - 1 outputs for K classes.

    Parameters
    ----------
    kernel, alpha, schedule : see `OLOK`
        Kernel, penalty and step sizes.
    loss : name or loss of `ovk.objectives`, optional
        By default the hinge loss.
    truncation, average, discount, warm_up, max_support, on_invalid, fit_intercept : see `OLOK`
        Other parameters of the learner.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `OLOK` that learns the codes of the labels

    See Also
    --------
    OLOK, PKAWVClassifier, AutoStreamClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOKClassifier
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OLOKClassifier(Gaussian(1.0), alpha=1e-3, schedule=1.0).fit(X, y)
    >>> print(f"{model.score(X, y):.2f}")
    0.93
    """

    kernel: Any = None
    alpha: float = 1e-3
    schedule: Any = None
    loss: Any = None
    truncation: Any = "auto"
    _: KW_ONLY
    average: bool = False
    discount: float = 1.0
    warm_up: int | None = None
    max_support: int = 100_000
    on_invalid: str = "raise"
    fit_intercept: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _simplex(self) -> bool:
        # The parameter may have changed since the learner started.
        return not isinstance(as_loss(self.learner_.loss), MarginLoss)

    def _learner(self) -> OLOK:
        return OLOK(**{**self.get_params(deep=False), "loss": "hinge" if self.loss is None else self.loss})
