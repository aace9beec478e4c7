"""OLOK: online learning with operator-valued kernels, one gradient step for each example."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._validation import Array, in_interval, positive, whole
from ovk.batch.targets import check_targets
from ovk.expansion import Expansion
from ovk.kernels import Gaussian
from ovk.losses import as_loss
from ovk.online.blocks import Block, Task, block_norms, windowed_matmat
from ovk.online.certificate import droppable, propagate
from ovk.online.steps import Progress, take_steps
from ovk.online.support import Support
from ovk.online.truncation import ByAge, Tolerance, as_truncation
from ovk.ovkernels import OperatorKernel, as_operator_kernel
from ovk.schedules import DistanceOverGradients, as_schedule

Times = npt.NDArray[np.int64]

#: Rows computed together. Certified truncation happens where a multiple of it is reached, however the rows arrive.
BLOCK = 128


class Rows(NamedTuple):
    """Checked rows: inputs (n, p), outputs (n, d), which rows are valid, and whether y was one-dimensional."""

    X: Array
    Y: Array
    valid: Array
    single: bool


class OLOK(MultiOutputMixin, RegressorMixin, Parameters):
    """Online learning with operator-valued kernels: f <- (1 - eta_t alpha) f - eta_t K(x_t, .) grad l(y_t, f(x_t)).

    Rows are learned in exact blocks: one at a time, in chunks of any sizes or all at once, the result is the same to rounding.
    With one output this is NORMA.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        A length scale of "median" is learned from the first rows that arrive.
    alpha : float >= 0
        Weight of the penalty alpha/2 |f|^2.
    schedule : number, name or schedule of `ovk.schedules`
        Step sizes eta_t, with eta_t alpha < 1. A number eta means eta / sqrt(t); "auto" needs no tuning.
    loss : name or loss of `ovk.losses`
    truncation : None, int, or truncation of `ovk.online`
        Which old support points are dropped: None keeps all, a number keeps that many, `Tolerance` drops what does not matter.
    average : bool
        Predict with the mean of all iterates instead of the last one.
    discount : float in (0, 1]
        Further decay of f at every step, to forget faster than the penalty does.
    init : Expansion, or fitted estimator with `expansion_`
        Function to start from, instead of zero.
    max_support : int
        Most support points to keep, to protect memory: without truncation, more is an error.
    on_invalid : "raise" or "skip"
        What to do with rows that hold nan or inf in X or inf in Y: refuse them all with the row's number, or skip and count them.

    Attributes
    ----------
    t_ : steps taken
    support_ : the points kept, with their coefficients
    cumulative_loss_ : sum of the losses of all predictions, each made before its own label was seen
    cumulative_risk_ : the same plus alpha/2 |f|^2 each time
    kappa2_ : bound on the largest eigenvalue of K(x, x)
    norm_ : |f| in the kernel's norm, as if nothing had been dropped; off by `truncation_error_` at most
    truncation_error_ : bound on the distance, in the kernel's norm, to the learner that drops nothing
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

    _saved_state = ("_rows",)

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1e-3,
        schedule: Any = 1.0,
        loss: Any = "squared",
        truncation: Any = None,
        *,
        average: bool = False,
        discount: float = 1.0,
        init: Any = None,
        max_support: int = 100_000,
        on_invalid: str = "raise",
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.schedule = schedule
        self.loss = loss
        self.truncation = truncation
        self.average = average
        self.discount = discount
        self.init = init
        self.max_support = max_support
        self.on_invalid = on_invalid

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        # One pass over a few rows is not what batch learners are measured by.
        tags.regressor_tags.poor_score = True
        return tags

    # Faces ------------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn from the rows in their order, once."""
        self._check_parameters()
        rows = self._checked(X, y, first=True, whole=True)
        self._begin(rows)
        self._learn(rows)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning from further rows; y is nan where an output was not observed."""
        self.predict_then_learn(X, y)
        return self

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Predict each row before learning from it.

        Returns
        -------
        (n, d) predictions, (n,) if y was one-dimensional at first; nan in rows that were skipped
        """
        self._check_parameters()
        first = not hasattr(self, "support_")
        rows = self._checked(X, y, first=first)
        if first:
            self._begin(rows)
        Z = self._learn(rows)
        return Z[:, 0] if self.single_output_ else Z

    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        expansion = self.expansion_
        values = expansion(validate_data(self, X, reset=False, dtype=np.float64))
        return values[:, 0] if self.single_output_ else values

    @property
    def expansion_(self) -> Expansion:
        """The current function f(x) = sum_i K(x, x_i) a_i (the mean of all iterates with `average`)."""
        check_is_fitted(self)
        A = self.support_.A
        C = A[:, 1] / max(self.t_, 1) if self.average else A[:, 0]
        return Expansion(self.kernel_, self.support_.X, C)

    @property
    def norm_(self) -> float:
        """|f| in the kernel's norm."""
        check_is_fitted(self)
        return float(np.sqrt(self.progress_.norm2))

    def memory_needed(self, n_rows: int) -> int:
        """Bytes that the support points will take after `n_rows` rows if none is dropped."""
        check_is_fitted(self)
        row = self.support_.X.shape[1] + self.support_.A.shape[1] * self.support_.A.shape[2] + 1
        return 8 * n_rows * row

    # Checks -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        alpha = positive(self.alpha, "alpha", zero=True)
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must lie in (0, 1], got {self.discount!r}")
        whole(self.max_support, "max_support")
        if self.on_invalid not in ("raise", "skip"):
            raise ValueError(f"on_invalid must be 'raise' or 'skip', got {self.on_invalid!r}")
        schedule = as_schedule(self.schedule)
        if not isinstance(schedule, DistanceOverGradients):
            # Every schedule of ours is largest at its first step.
            rate = float(schedule.rate(np.array([1]))[0])
            if rate * alpha >= 1:
                raise ValueError(
                    f"eta_t * alpha must stay below 1, but at t = 1 it is {rate:g} * {alpha:g} = {rate * alpha:g}: "
                    f"lower alpha or the schedule's eta, or start the schedule later (start=)"
                )
        as_truncation(self.truncation)

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        """Checked rows. `whole`: these are all the data there will be, so every output must be seen in them."""
        skip = self.on_invalid == "skip"
        X = validate_data(
            self, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first)
        )
        valid = np.isfinite(X).all(axis=1)
        loss = as_loss(self.loss)
        if loss.unsupervised:
            y = np.zeros(len(X))
        if skip and y is not None:
            y = np.array(y, dtype=np.float64)
            valid &= ~np.isinf(y.reshape(len(y), -1)).any(axis=1)
            y[~valid] = np.nan
        elif not valid.all():
            row = int(valid.argmin())
            raise ValueError(
                f"X must hold finite numbers, but row {row} holds NaN or infinity: remove it, or use on_invalid='skip'"
            )
        targets = check_targets(y, X.shape[0], None, None, X, part=not whole)
        if not first and targets.d != self.support_.A.shape[2]:
            raise ValueError(f"y has {targets.d} outputs but the model has learned {self.support_.A.shape[2]}")
        loss.check(targets.Y)
        return Rows(X, targets.Y, valid, targets.single)

    def _begin(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X[rows.valid], rows.Y.shape[1]
        if len(X) == 0:
            raise ValueError("the first rows hold no row without NaN or infinity: there is nothing to begin with")
        self.kernel_ = kernel.resolve(X, d)
        self.single_output_ = rows.single
        self.t_ = 0
        self.n_skipped_ = 0
        self.cumulative_loss_ = self.cumulative_risk_ = 0.0
        self.truncation_error_ = 0.0
        self._rows = 0
        bound = self.kernel_.norm_bound()
        self.kappa2_ = 0.0 if bound is None else bound
        self.progress_ = Progress()
        self.support_ = Support.empty(X.shape[1], d, 2 if self.average else 1)
        if self.init is not None:
            self._start_from(self.init, d)

    def _start_from(self, init: Any, d: int) -> None:
        f = init if isinstance(init, Expansion) else init.expansion_
        if f.offset is not None:
            raise ValueError("init must be an expansion without an intercept: fit it with fit_intercept=False")
        C = f.C if isinstance(f.C, np.ndarray) else f.C.toarray()
        if C.shape[1] != d or f.support.shape[1] != self.support_.X.shape[1]:
            raise ValueError(
                f"init maps {f.support.shape[1]} features to {C.shape[1]} outputs, the data have "
                f"{self.support_.X.shape[1]} and {d}"
            )
        A = np.zeros((len(C), self.support_.A.shape[1], d))
        A[:, 0] = C
        self.support_.append(np.asarray(f.support), A, np.arange(1 - len(C), 1))
        start = Expansion(self.kernel_, self.support_.X, C)
        self.progress_.norm2 = start.norm() ** 2

    # Learning ---------------------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows) -> Array:
        """Predictions of all rows, each made before learning from it."""
        Z = np.full(rows.Y.shape, np.nan)
        valid = np.flatnonzero(rows.valid)
        self._check_memory(len(valid))
        self.n_skipped_ += len(rows.X) - len(valid)
        start = 0
        while start < len(valid):
            # Blocks end at multiples of BLOCK rows of the whole stream, so that where chunks end makes no difference.
            stop = start + BLOCK - self._rows % BLOCK
            some = valid[start:stop]
            Z[some] = self._learn_block(rows.X[some], rows.Y[some])
            start = stop
        return Z

    def _check_memory(self, n: int) -> None:
        most = whole(self.max_support, "max_support")
        if as_truncation(self.truncation) is None and len(self.support_) + n > most:
            need = self.memory_needed(len(self.support_) + n)
            raise ValueError(
                f"without truncation these {n} rows make {len(self.support_) + n} support points ({need / 1e6:.0f} MB, and "
                f"as many kernel values for each further row), more than max_support={most}: give truncation=Tolerance() or a "
                "window, or raise max_support"
            )

    def _learn_block(self, X: Array, Y: Array) -> Array:
        loss = as_loss(self.loss)
        learned = np.ones(len(Y), dtype=bool) if loss.unsupervised else ~np.isnan(Y).all(axis=1)
        times = self.t_ + np.cumsum(learned)
        edge, mask = self._window(times, learned)
        gram = self.kernel_.gram(X)
        base = self._base(X, edge)
        task = Task(gram, base[0], base[1] if self.average else None, mask, learned)
        self.kappa2_ = max(self.kappa2_, float(block_norms(gram).max(initial=0.0)))
        # Outputs of 1e300 square to infinity in the sums that are kept; predictions and coefficients do not.
        with np.errstate(over="ignore", invalid="ignore"):
            steps = take_steps(
                loss,
                as_schedule(self.schedule),
                float(self.alpha),
                float(self.discount),
                task,
                Y,
                times,
                self.progress_,
            )
            losses = loss.value(steps.targets, steps.block.z)[learned]
            self.cumulative_loss_ += float(losses.sum())
            self.cumulative_risk_ += float((losses + 0.5 * self.alpha * steps.norm2[learned]).sum())
        self.truncation_error_ = propagate(self.truncation_error_, loss, steps, learned, self.kappa2_**0.5)
        self._absorb(X, steps.block, times, learned)
        if steps.block.sums is not None:
            return steps.block.sums[0] / np.maximum(times - learned, 1)[:, None]
        return steps.block.z

    def _absorb(self, X: Array, block: Block, times: Times, learned: Array) -> None:
        """Take the block's new points into the support, and drop what is too old or too light."""
        new = [block.end]
        if block.sums is not None:
            self.support_.A[:, 1] += block.sums[2] * self.support_.A[:, 0]
            new.append(block.sums[1])
        self.support_.A[:, 0] *= block.decay
        # A step without a gradient (a margin that was large enough) leaves nothing to keep.
        kept = learned & (block.a != 0).any(axis=1)
        self.support_.append(X[kept], np.stack(new, axis=1)[kept], times[kept])
        self.t_ = int(times[-1])
        self._rows += len(X)
        self._truncate()

    def _truncate(self) -> None:
        truncation = as_truncation(self.truncation)
        support, kappa = self.support_, self.kappa2_**0.5
        if isinstance(truncation, ByAge):
            edge = self.t_ - int(truncation.size(np.array([max(self.t_, 1)]), self._first_rate(), float(self.alpha))[0])
            self._drop(int(np.searchsorted(support.time, edge, side="right")))
        elif isinstance(truncation, Tolerance) and self._rows % BLOCK == 0:
            count, _ = droppable(support.A[:, 0], kappa, truncation.allowed() - self.truncation_error_)
            self._drop(count)
        if truncation is not None and self._rows % BLOCK == 0 and len(support) > self.max_support:
            self._drop(len(support) - int(self.max_support))

    def _drop(self, count: int) -> None:
        if count > 0:
            norms = np.linalg.norm(self.support_.A[:count, 0], axis=1)
            self.truncation_error_ += self.kappa2_**0.5 * float(norms.sum())
            self.support_.drop(count)

    def _first_rate(self) -> float:
        schedule = as_schedule(self.schedule)
        return 1.0 if isinstance(schedule, DistanceOverGradients) else float(schedule.rate(np.array([1]))[0])

    def _window(self, times: Times, learned: Array) -> tuple[Times | None, Array]:
        """The newest step that each row of the block no longer sees, or None; and which rows of the block it sees."""
        b = len(times)
        mask = np.tri(b, b, -1)
        truncation = as_truncation(self.truncation)
        if not isinstance(truncation, ByAge):
            return None, mask
        # Before row j the last step was times_j - learned_j; the window reaches back from there.
        last = np.maximum(times - learned, 0)
        sizes = truncation.size(np.maximum(last, 1), self._first_rate(), float(self.alpha))
        edge = np.maximum.accumulate(last - sizes)
        if edge[-1] >= times[0]:
            mask *= times[None, :] > edge[:, None]
        return edge, mask

    def _base(self, X: Array, edge: Times | None) -> list[Array]:
        """Predictions of the old support, a (b, d) array for each set of coefficients."""
        support = self.support_
        sets = range(support.A.shape[1])
        if len(support) == 0:
            return [np.zeros((len(X), support.A.shape[2])) for _ in sets]
        gram = self.kernel_.gram(X, support.X)
        # Points that leave the window during the block stand in front, and only some of the rows see them.
        leaving = 0 if edge is None else int(np.searchsorted(support.time, edge[-1], side="right"))
        seen = None if edge is None else support.time[None, :leaving] > edge[:, None]
        return [windowed_matmat(gram, seen, support.A[:, k]) for k in sets]
