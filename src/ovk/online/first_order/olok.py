"""OLOK: online learning with operator-valued kernels, one gradient step for each example."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._diverged import refuse_overflow
from ovk._params import check_int, in_interval, positive
from ovk._threads import one_blas_thread
from ovk._transactions import reads
from ovk._types import Array, Mask, Times
from ovk.expansion import Expansion
from ovk.kernels import Gaussian
from ovk.losses import Loss, SimplexHinge, as_loss
from ovk.losses.margin import MarginLoss
from ovk.losses.thresholds import ThresholdLoss
from ovk.online.first_order.blocks import Block, BlockInputs
from ovk.online.first_order.certificate import Errors, droppable, leaving, propagate
from ovk.online.first_order.start import FirstOrderStart
from ovk.online.first_order.steps import Progress, Steps, refuse_runaway, take_steps
from ovk.online.first_order.truncation import ByAge, Tolerance, TruncationWarning
from ovk.online.shared.row_buffer import SupportPoints
from ovk.online.shared.rows import Rows, checked_rows
from ovk.schedules import DistanceOverGradients, as_schedule
from ovk.targets import check_inputs


class OLOK(FirstOrderStart):
    """Online learning with operator-valued kernels: f <- (1 - eta_t alpha) f - eta_t K(x_t, .) grad l(y_t, f(x_t)).

    Rows are learned in exact blocks: one at a time, in chunks of any sizes or all at once, the result is the same to
    rounding. With one output this is NORMA.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        A length scale of "median" is learned in the warm-up.
    alpha : float >= 0
        Weight of the penalty alpha/2 |f|^2.
    schedule : number, name or schedule of `ovk.schedules`, optional
        Step sizes eta_t, with eta_t alpha < 1. A number eta means eta / sqrt(t) whatever the kernel's values are, and
        raises `Diverged` where that is too much for them. By default 1 / sqrt(t), divided by |K(x_t, x_t)| where that
        is above 1; "auto" adapts to inputs and outputs.
    loss : name or loss of `ovk.losses`
    truncation : "auto", None, int, or truncation of `ovk.online`
        Which old support points are dropped: None keeps all, a number keeps that many and holds the step size once the
        window is full (`Window`), `Tolerance` drops what does not matter. "auto" keeps the last 4096 if the width of
        the kernel is to be learned (and there is no `init`), so that ``OLOK()`` learns for ever in bounded memory, else
        all, the algorithm of the paper.
    average : bool
        Predict with the mean of all iterates instead of the last one.
    discount : float in (0, 1]
        Further decay of f at every step, to forget faster than the penalty does.
    init : Expansion, or fitted estimator with `expansion_`
        Function to start from, instead of zero.
    warm_up : int, optional
        The first so many rows choose the units in which the learner works: centre and scale of inputs and outputs, and
        the width of the kernel. They are predicted from the rows before them, at first by their mean. By default 200 if
        the width of the kernel is to be learned (and there is no `init`), else 0, the algorithm of the paper.
        Labels of -1 and 1 are left as they are.
    max_support : int
        Most support points to keep, to protect memory: without truncation, more is an error.
    on_invalid : "raise" or "skip"
        What to do with rows that hold nan or inf in X or inf in Y: refuse them all with the row's number, or skip and
        count them.
    fit_intercept : bool
        Learn a constant for each output, by the same steps, that is not penalised and does not decay.

    Attributes
    ----------
    t_ : steps taken
    threshold_ : what a loss with a threshold has learned along with f: the margin of `NuHinge`, the half width of the
        tube of `NuInsensitive`, the value below which `Novelty` takes an input for new
    intercept_ : (d,) the constants, None without `fit_intercept`
    block_size_ : rows computed together; certified truncation happens where a multiple of it is reached, however the
        rows arrive
    input_units_, output_units_ : centre and scale that the warm-up has chosen, None without one; all else is stated in
        the units in which the learner works
    support_ : the points kept, with their coefficients
    cumulative_loss_ : sum of the losses of all predictions, each made before its own label was seen
    cumulative_risk_ : the same plus alpha/2 |f|^2 each time
    kappa2_ : bound on the largest eigenvalue of K(x, x)
    norm_ : |f| in the kernel's norm
    initial_norm_ : |f| in the kernel's norm before the first step, 0 without `init`
    truncation_error_ : bound on the distance of f, in the kernel's norm, to the learner that drops nothing and takes
        the same step sizes ("auto" chooses them by what it sees); with `average` this is about the last iterate, not
        the mean; with `fit_intercept` no bound is known, and it is infinite once points were dropped
    n_skipped_ : rows skipped by ``on_invalid="skip"``

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
    >>> bool(np.abs(progressive[-100:] - Y[-100:]).mean() < 0.1)
    True
    """

    _behind_none = {"kernel": Gaussian}

    _saved_state = ("_rows",)
    _state_classes = {"support_": SupportPoints, "progress_": Progress}
    _defaults_for_old_files = {"fit_intercept": False, "warm_up": 0}

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1e-3,
        schedule: Any = None,
        loss: Any = "squared",
        truncation: Any = "auto",
        *,
        average: bool = False,
        discount: float = 1.0,
        init: Any = None,
        warm_up: int | None = None,
        max_support: int = 100_000,
        on_invalid: str = "raise",
        fit_intercept: bool = False,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.schedule = schedule
        self.loss = loss
        self.truncation = truncation
        self.average = average
        self.discount = discount
        self.init = init
        self.warm_up = warm_up
        self.max_support = max_support
        self.on_invalid = on_invalid
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # One pass over a few rows is not what batch learners are measured by.
        tags.regressor_tags.poor_score = True
        return tags

    # Public methods ---------------------------------------------------------------------------------------------------

    @reads
    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        if self._gate is not None and self._gate.admits(self, X):
            z = self._outputs_of_user(self._row_prediction(self._inputs(X)))
            return z if self.single_output_ else z[None]
        expansion = self.expansion_
        inputs = self._inputs(check_inputs(self, X, reset=False, dtype=np.float64))
        values = self._outputs_of_user(expansion(inputs))
        return values[:, 0] if self.single_output_ else self._named(values, X)

    @property
    def n_outputs_(self) -> int:  # type: ignore[override]
        """Number of outputs."""
        check_is_fitted(self, "support_")
        return int(self.support_.A.shape[2])

    @property
    @reads
    def expansion_(self) -> Expansion:
        """The current function f(x) = sum_i K(x, x_i) a_i (the mean of all iterates with `average`)."""
        check_is_fitted(self, "support_")
        A = self.support_.A
        C = A[:, 1] / self.t_ if self.average and self.t_ > 0 else A[:, 0]
        return Expansion(self.kernel_, self.support_.X, C, self.intercept_)

    @property
    def intercept_(self) -> Array | None:
        """Constants of the outputs, (d,), None without `fit_intercept`."""
        check_is_fitted(self, "support_")
        return self.progress_.bias

    @property
    def threshold_(self) -> float:
        """What the loss has learned along with f."""
        check_is_fitted(self, "support_")
        loss = as_loss(self.loss)
        if not isinstance(loss, ThresholdLoss):
            raise AttributeError(f"{type(loss).__name__} has no threshold that is learned: Novelty or a nu-loss has")
        return self.progress_.threshold

    @property
    @reads
    def norm_(self) -> float:
        """|f| of the last iterate in the kernel's norm; after truncation, this costs as much as predicting the rest."""
        check_is_fitted(self, "support_")
        if self.truncation_error_ == 0:
            return float(np.sqrt(self.progress_.norm2))
        return Expansion(self.kernel_, self.support_.X, self.support_.A[:, 0]).norm()

    @reads
    def memory_needed(self, n_rows: int) -> int:
        """Bytes that the support points will take after `n_rows` rows if none is dropped."""
        check_is_fitted(self, "support_")
        numbers: int = self.support_.X.shape[1] + self.support_.A.shape[1] * self.support_.A.shape[2] + 1
        return 8 * n_rows * numbers

    # Checks -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        alpha = positive(self.alpha, "alpha", zero=True)
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must lie in (0, 1], got {self.discount!r}")
        check_int(self.max_support, "max_support")
        if self.fit_intercept and self.average:
            raise ValueError(
                "fit_intercept=True goes with the last iterate, not with average=True: center the outputs, or add a "
                "constant kernel"
            )
        if self.on_invalid not in ("raise", "skip"):
            raise ValueError(f"on_invalid must be 'raise' or 'skip', got {self.on_invalid!r}")
        schedule = as_schedule(self.schedule)
        if isinstance(schedule, DistanceOverGradients):
            schedule.step(0.0, 1.0, 1.0)
        if self._warm_up_rows() and self.init is not None:
            raise ValueError("warm_up must be 0 with init, which is a function in the units of the user")
        truncation = self._truncation()
        if isinstance(truncation, ByAge):
            truncation.size(np.array([1]), self._first_rate(), alpha)
        elif isinstance(truncation, Tolerance):
            truncation.allowed()
            if self.fit_intercept:
                raise ValueError(
                    "truncation=Tolerance() cannot go with fit_intercept=True: no bound is known for a constant that "
                    "does not decay; use a window, or center the outputs"
                )
            if self.average:
                raise ValueError(
                    "truncation=Tolerance() cannot go with average=True: in a mean of all iterates no point loses its "
                    "weight; use a window, or the last iterate (average=False)"
                )

    def _refuse_weights(self) -> None:
        loss = as_loss(self.loss)
        if loss.unsupervised or isinstance(loss, ThresholdLoss):
            raise ValueError(
                f"sample_weight cannot go with loss={loss!r}, whose threshold counts rows: use another loss"
            )

    def _default_warm_up(self) -> int:
        return super()._default_warm_up() if self._of_the_data() else 0

    def _scales_outputs(self) -> bool:
        loss = as_loss(self.loss)
        return not loss.unsupervised and not isinstance(loss, (MarginLoss, SimplexHinge))

    def _check_rates(self, n: int) -> None:
        """Refuse steps that would turn f around."""
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

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        loss = as_loss(self.loss)
        rows = checked_rows(
            self,
            X,
            y,
            outputs=None if first else self.support_.A.shape[2],
            on_invalid=self.on_invalid,
            whole=whole,
            unsupervised=loss.unsupervised,
        )
        loss.check(rows.Y)
        return rows

    # Learning ---------------------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows) -> Array:
        Z = np.full(rows.Y.shape, np.nan)
        valid = np.flatnonzero(rows.valid)
        self._check_memory(len(valid))
        self._check_rates(len(valid))
        self.n_skipped_ += len(rows.X) - len(valid)
        start = 0
        with one_blas_thread():
            while start < len(valid):
                # Blocks end at multiples of their size in the whole stream: where chunks end makes no difference.
                stop = start + self.block_size_ - self._rows % self.block_size_
                assert stop > start
                some = valid[start:stop]
                weights = None if rows.weights is None else rows.weights[some]
                Z[some] = self._learn_block(rows.X[some], rows.Y[some], weights)
                start = stop
        return Z

    def _check_memory(self, n: int) -> None:
        most = check_int(self.max_support, "max_support")
        if self._truncation() is None and len(self.support_) + n > most:
            need = self.memory_needed(len(self.support_) + n)
            raise ValueError(
                f"without truncation these {n} rows make {len(self.support_) + n} support points "
                f"({need / 1e6:.0f} MB, and as many kernel values for each further row), more than "
                f"max_support={most}: give truncation=Tolerance() or a window, or raise max_support"
            )

    def _learn_block(self, X: Array, Y: Array, weights: Array | None) -> Array:
        loss = as_loss(self.loss)
        learned: Mask = np.full(len(Y), True) if loss.unsupervised else ~np.asarray(np.isnan(Y).all(axis=1))
        times = self.t_ + np.cumsum(learned)
        edge, mask = self._window(times)
        refuse_overflow(self, self.kernel_, X)
        gram = self.kernel_.gram(X)
        own = kappa2 = np.full(len(X), self.kappa2_)
        if self.kernel_.norm_bound() is None:
            own = gram.block_norms()
            kappa2 = np.maximum.accumulate(np.maximum(own, kappa2))
            self.kappa2_ = float(kappa2[-1])
        # Outputs of 1e300 square to infinity in the sums that are kept; predictions and coefficients do not.
        with np.errstate(over="ignore", invalid="ignore"):
            base = self._base(X, edge)
            task = BlockInputs(gram, base[0], base[1] if self.average else None, mask, learned, self.progress_.bias)
            steps = take_steps(
                loss,
                as_schedule(self.schedule),
                float(self.alpha),
                float(self.discount),
                task,
                Y,
                times,
                self._clock(times),
                np.maximum(own, 1.0),
                weights,
                self.progress_,
            )
            refuse_runaway(self, steps, Y, times, own, self.progress_)
            losses = steps.loss.value(steps.targets, steps.block.z)
            losses = (losses if weights is None else weights * losses)[learned]
            self.cumulative_loss_ += float(losses.sum())
            penalty = 0.5 * self.alpha * steps.norm2[learned].sum() if self.alpha > 0 else 0.0
            self.cumulative_risk_ += float(losses.sum() + penalty)
            self._certify(loss, steps, times, edge, np.sqrt(kappa2))
            self._absorb(X, steps.block, times, learned, edge)
        if steps.block.sums is None:
            return steps.block.z
        before = (times - learned)[:, None]
        return np.where(before > 0, steps.block.sums[0] / np.maximum(before, 1), steps.block.z)

    def _certify(self, loss: Loss, steps: Steps, times: Times, edge: Times | None, kappa: Array) -> None:
        """Bring the bound on the cost of truncation up to date."""
        dropped = np.zeros(len(times) + 1)
        if edge is not None:
            logs = np.concatenate([[0.0], np.cumsum(np.log(steps.rho))])
            time = self.support_.time[: np.searchsorted(self.support_.time, edge[-1], side="right")]
            old = self.support_.A[: len(time), 0]
            dropped = leaving(
                edge,
                np.concatenate([time, times]),
                np.concatenate([np.linalg.norm(old, axis=1), np.linalg.norm(steps.block.a, axis=1)]),
                np.concatenate([np.zeros(len(old)), logs[1:]]),
                logs,
                kappa,
            )
        self.progress_.contraction *= float(np.prod(steps.rho))
        before = Errors(self.truncation_error_, self.progress_.threshold_error)
        if any(before) or dropped.any():
            self._bound(int(times[-1]), before, propagate(before, loss, steps, kappa, dropped))

    def _bound(self, t: int, before: Errors, after: Errors) -> None:
        if self.fit_intercept:
            # The intercept does not decay, and nothing is known that keeps its distance small.
            self.truncation_error_ = np.inf
            return
        self.truncation_error_, self.progress_.threshold_error = after
        truncation = self._truncation()
        if isinstance(truncation, Tolerance) and before.f <= truncation.tol < self.truncation_error_:
            warnings.warn(
                f"after {t} steps the bound on the cost of dropping support points is "
                f"{self.truncation_error_:.2g}, above truncation=Tolerance({truncation.tol:g}): predictions came too "
                "near a kink of the loss, or steps are too large for the kernel. Dropping goes on and "
                "`truncation_error_` stays valid; a smooth loss (huber, squared), a smaller tol or a larger alpha "
                "keep it lower",
                TruncationWarning,
                stacklevel=2,
            )

    def _absorb(self, X: Array, block: Block, times: Times, learned: Mask, edge: Times | None) -> None:
        """Take the block's new points into the support, and drop what is too old or too light."""
        new, old = [block.end], self.support_.A
        if block.sums is not None:
            decayed, summed = block.decay * old[:, 0], old[:, 1] + block.sums[2] * old[:, 0]
            self.support_.replace_coefficients(np.stack([decayed, summed], axis=1))
            new.append(block.sums[1])
        elif block.decay != 1.0:
            self.support_.replace_coefficients(block.decay * old)
        # A step without a gradient (a margin that was large enough) leaves nothing to keep.
        kept = learned & (block.a != 0).any(axis=1)
        self.support_.append(X[kept], np.stack(new, axis=1)[kept], times[kept])
        self.t_ = int(times[-1])
        self._rows += len(X)
        if edge is not None:
            # What this cost was counted at the row where it happened.
            self.support_.drop(int(np.searchsorted(self.support_.time, edge[-1], side="right")))
        self._truncate()

    def _truncate(self) -> None:
        truncation = self._truncation()
        support, kappa = self.support_, self.kappa2_**0.5
        if truncation is None or self._rows % self.block_size_:
            return
        if isinstance(truncation, Tolerance):
            smooth = as_loss(self.loss).smoothness is not None
            allowed = truncation.allowed(self.truncation_error_, self.progress_.contraction, smooth=smooth)
            self._drop(droppable(support.A[:, 0], kappa, allowed))
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
        """At which steps the schedule is read: a window can hold the step size."""
        truncation = self._truncation()
        return times if truncation is None else truncation.clock(times)

    def _window(self, times: Times) -> tuple[Times | None, Array | None]:
        """The newest step that is dropped before the first row and after each row, (b + 1,), or None; and which rows
        of the block each row sees, None for all before it."""
        truncation = self._truncation()
        if not isinstance(truncation, ByAge):
            return None, None
        last = np.concatenate([[self.t_], times])
        sizes = truncation.size(np.maximum(last, 1), self._first_rate(), float(self.alpha))
        edge = np.maximum.accumulate(last - sizes)
        if edge[-1] < times[0]:
            return edge, None
        return edge, np.tri(len(times), k=-1) * (times[None, :] > edge[:-1, None])

    def _base(self, X: Array, edge: Times | None) -> list[Array]:
        """Predictions of the old support, a (b, d) array for each set of coefficients."""
        support = self.support_
        sets = range(support.A.shape[1])
        if len(support) == 0:
            return [np.zeros((len(X), support.A.shape[2])) for _ in sets]
        # Points that leave the window during the block are seen by some of the rows only.
        since = None if edge is None else np.searchsorted(support.time, edge[:-1], side="right")
        if not self.average:
            return [self.kernel_.product(X, support.X, support.A[:, 0], since)]
        gram = self.kernel_.gram(X, support.X)
        return [gram.matmat(C) if since is None else gram.matmat_since(C, since) for C in np.moveaxis(support.A, 1, 0)]
