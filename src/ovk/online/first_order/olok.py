"""OLOK: online learning with operator-valued kernels, one gradient step for each example."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    Mask,
    Times,
    check_inputs,
    one_blas_thread,
    reads_snapshot,
    refuse_overflow,
    thread_for_row,
    threads_for,
)
from ovk.kernels import Gaussian
from ovk.objectives import MarginLoss, ThresholdLoss, as_loss, as_schedule, simplex_code
from ovk.online.first_order.base import FirstOrder
from ovk.online.first_order.blocks import Block, BlockInputs
from ovk.online.first_order.steps import Progress, refuse_runaway, take_steps
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.rows import Rows, SupportPoints
from ovk.ovkernels import Expansion


class OLOK(FirstOrder):
    """Online learning with operator-valued kernels: f <- (1 - eta_t alpha) f - eta_t K(x_t, .) grad l(y_t, f(x_t)).

    Rows are learned in exact blocks: one at a time, in chunks of any sizes or all at once, the result is the same to
    rounding. With one output this is NORMA.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        A length scale of "median" is learned in the warm-up.
    alpha : float >= 0
        Weight of the penalty alpha/2 |f|^2.
    schedule : number, name or schedule of `ovk.objectives`, optional
        Step sizes eta_t, with eta_t alpha < 1. A number eta means eta / sqrt(t) whatever the kernel's values are, and
        raises `Diverged` where that is too much for them. By default 1 / sqrt(t), divided by |K(x_t, x_t)| where that
        is above 1; "auto" adapts to inputs and outputs.
    loss : name or loss of `ovk.objectives`
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

    _default_factories = {"kernel": Gaussian}

    _saved_state = ("_rows",)
    _state_classes = {"support_": SupportPoints, "progress_": Progress}

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

    @reads_snapshot
    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        if self._gate is not None and self._gate.accepts(self, X):
            with thread_for_row():
                z = self._outputs_of_user(self._row_prediction(self._inputs(X)))
            return z if self.single_output_ else z[None]
        expansion = self.expansion_
        inputs = self._inputs(check_inputs(self, X, reset=False, dtype=np.float64))
        # The matrix of the kernel has as many numbers as a square one of so many rows.
        with threads_for(isqrt(inputs.shape[0] * len(expansion.support))):
            values = self._outputs_of_user(expansion(inputs))
        return values[:, 0] if self.single_output_ else self._named(values, X)

    @property
    def n_outputs_(self) -> int:  # type: ignore[override]
        """Number of outputs."""
        check_is_fitted(self, "support_")
        return int(self.support_.A.shape[2])

    @property
    @reads_snapshot
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
    @reads_snapshot
    def norm_(self) -> float:
        """|f| of the last iterate in the kernel's norm; after truncation, this costs as much as predicting the rest."""
        check_is_fitted(self, "support_")
        if self.truncation_error_ == 0:
            return float(np.sqrt(self.progress_.norm2))
        return Expansion(self.kernel_, self.support_.X, self.support_.A[:, 0]).norm()

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
        return [gram.matmat(C) if since is None else gram.matmul_window(C, since) for C in np.moveaxis(support.A, 1, 0)]


# OLOK for class labels.


class OLOKClassifier(CodedClassifier):
    """Online classification with operator-valued kernels.

    Two classes are one output with labels -1 and 1. Of more classes losses of such labels (hinge, logistic) take one
    output for each, one against the rest; other losses, such as `SimplexHinge`, take the corners of a regular simplex,
    K - 1 outputs for K classes.

    Parameters
    ----------
    kernel, alpha, schedule, truncation, average, discount, warm_up, max_support, on_invalid, fit_intercept : as in
        `OLOK`
    loss : name or loss of `ovk.objectives`, optional
        By default the hinge loss.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `OLOK` that learns the codes of the labels

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOKClassifier
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OLOKClassifier(Gaussian(1.0), alpha=1e-3, schedule=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1e-3,
        schedule: Any = None,
        loss: Any = None,
        truncation: Any = "auto",
        *,
        average: bool = False,
        discount: float = 1.0,
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
        self.warm_up = warm_up
        self.max_support = max_support
        self.on_invalid = on_invalid
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _code(self, classes: int) -> Array:
        """A row of targets for each class."""
        if classes == 2:
            return np.array([[-1.0], [1.0]])
        # The loss of the learner, which knows what the default was when it began.
        margin = isinstance(as_loss(self.learner_.loss), MarginLoss)
        return 2.0 * np.eye(classes) - 1.0 if margin else simplex_code(classes)

    def _learner(self, classes: int) -> OLOK:
        return OLOK(**{**self.get_params(deep=False), "loss": "hinge" if self.loss is None else self.loss})
