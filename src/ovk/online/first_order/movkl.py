"""Online learning with several operator-valued kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    DivergenceError,
    check_choice,
    check_finite_predictions,
    check_inputs,
    positive,
    reads_snapshot,
)
from ovk.batch import as_kernels, bind_grid, has_curve_operator, kernel_grid
from ovk.curves import Grid, as_grid
from ovk.online.first_order.kernel_sum import KernelSum
from ovk.online.first_order.olok import OLOK
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows
from ovk.operators import Identity
from ovk.ovkernels import Expansion, WeightedSum

#: Squared errors of outputs with larger norms could overflow.
MAX_OUTPUT_NORM = 1e145


@dataclass(eq=False, repr=False)
class OnlineMovKL(StreamRegressor):
    """Mixes online learners, one for each kernel and one for their mean, or learns one function with all kernels.

    Each learner predicts a row before learning it. The prediction is the weighted mean with the weights

        p_k proportional to exp(-eta L_k),   L_k = sum of |z_k - y|^2 over the rows before,   eta = 1 / (8 B^2),

    of the learners' predictions z_k, scaled down to norm at most B (the exponentially weighted average forecaster). The
    result does not depend on the chunks in which rows arrive.

    **Guarantee.** If `bound` B is given and |y| <= B in all rows, then after any number of rows of any stream the sum
    of squared errors is at most that of the best of the m learners plus 8 B^2 ln m, because exp(-eta |z - y|^2) is
    concave in z. Without `bound` the largest |y| so far replaces B, and there is no guarantee. The competitors are the
    single kernels and their mean, not every combination of kernels as in the batch `MovKL`.

    With ``against="combinations"`` the competitors are all fixed combinations sum_k q_k z_k of the learners'
    predictions, q_k >= 0 and sum q_k = 1: the gradients 2 <z - y, z_k> replace the losses, with
    eta_t = sqrt(4 ln m / t) / (8 B^2) (exponentiated gradient), and the sum of squared errors is at most that of the
    best combination plus 8 B^2 sqrt(T ln m). This bound is weaker but against stronger competitors, which helps where
    the errors of the learners differ.

    With ``against="sums"`` there is a single function f = sum_k f_k, whose parts f_k in the spaces of the kernels all
    learn from the error of the sum, without a step size. The competitors are all such sums u = sum_k u_k, including
    those that the batch `MovKL` finds with r = 1. If |y| <= B and |u(x)| <= B in all rows, the sum of squared errors
    exceeds that of u by at most a constant of order B^2, plus 2 sum_k |u_k| sqrt(Q_k ln(1 + q_k |u_k|^2)) with
    Q_k = L_k (L_k + S_k), where L_k is the largest and S_k the sum of the norms of the gradients in the space of k.
    All rows are kept, so time and memory grow as without truncation.

    Parameters
    ----------
    kernels : sequence of operator-valued kernels, optional
        By default `kernel_grid` of the first rows, as in `MovKL`.
    learner : online learner with a parameter `kernel`, default ``OLOK(alpha=1e-3, schedule="auto", warm_up=0)``
        Template of all learners; give it a `truncation` for constant memory. Unused with ``against="sums"``.
    even : bool
        Add a learner for the mean of all kernels. With ``against="sums"`` the sums include it.
    bound : float > 0, optional
        Bound B on |y| (for curves, on the square root of the integral of y^2).
    grid : `Grid` or its points, optional
        Outputs are curves on this grid.
    against : "learners", "combinations" or "sums"
        Competitors: the best learner, the best fixed combination of them, or the best sum of functions of all kernels.
    on_invalid : "raise" or "skip"
        How to treat rows with nan or inf in X or inf in y.

    Attributes
    ----------
    weights_ : (m,) p, the last entry for the mean of the kernels; with ``against="sums"``, |f_k| / sum_j |f_j|
    losses_ : (m,) sums of squared errors
    slopes_ : (m,) sums of the gradients used by ``against="combinations"``
    learners_ : the learners, none with ``against="sums"``
    expansion_ : f, with ``against="sums"``, for curves in the coordinates of the grid
    t_ : number of rows
    n_skipped_ : rows skipped by ``on_invalid="skip"``

    See Also
    --------
    MovKL, OLOK, kernel_grid

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OnlineMovKL
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import Identity
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (400, 1))
    >>> Y = np.sin(2 * X) + 0.1 * rng.standard_normal((400, 2))
    >>> model = OnlineMovKL([Gaussian(s) * Identity() for s in (0.01, 0.7, 50.0)], bound=2.5).fit(X, Y)
    >>> print(model.weights_.round(2))
    [0.   0.69 0.   0.3 ]
    """

    _state_classes = {"sum_": KernelSum}
    _poor_score = True
    _stored = {"losses_ slopes_": "k", "learners_": list, "largest_": float, "sum_": KernelSum | None}

    kernels: Any = None
    learner: Any = None
    _: KW_ONLY
    even: bool = True
    bound: float | None = None
    grid: Any = None
    against: str = "learners"
    on_invalid: str = "raise"

    def _check_weights_supported(self) -> None:
        raise ValueError("OnlineMovKL does not support sample_weight; AutoStream, OLOK, KAWV and PKAWV do")

    def _check_parameters(self) -> None:
        if self.bound is not None:
            positive(self.bound, "bound")
        check_choice(self.against, "against", ("learners", "combinations", "sums"))
        if self.against == "sums" and self.learner is not None:
            raise ValueError(f"learner must be None with against='sums', which has no learners, got {self.learner!r}")
        super()._check_parameters()

    def _learn(self, rows: Rows) -> Array:
        Y = rows.Y if self.grid_ is None else rows.Y * self.grid_.roots()
        radius = self._radii(Y)
        if (self.sum_ is not None) != (self.against == "sums"):
            raise ValueError(f"against cannot change to {self.against!r} after the first rows: call fit")
        if self.sum_ is not None:
            result = self.sum_.learn(rows.X, Y, radius)
        else:
            each = np.stack([learner.predict_then_learn(rows.X, Y) for learner in self.learners_])
            result = self._forecast(each.reshape(len(each), *Y.shape), Y, radius)
        self.t_ += len(Y)
        return result if self.grid_ is None else result / self.grid_.roots()

    def _start(self, rows: Rows) -> None:
        X, d = rows.X, rows.Y.shape[1]
        kernels = as_kernels(self.kernels)
        curves = self.grid is not None or any(has_curve_operator(kernel) for kernel in kernels)
        self.grid_ = None if not curves else Grid.regular(d) if self.grid is None else as_grid(self.grid)
        if self.grid_ is not None and len(self.grid_) != d:
            raise ValueError(f"grid must have one point for each of the {d} columns of y, got {len(self.grid_)}")
        if not kernels:
            kernels = list(kernel_grid(X, operators=None if curves else [Identity()]))
        kernels = [clone(kernel) if self.grid_ is None else bind_grid(clone(kernel), self.grid_) for kernel in kernels]
        resolved = [kernel.resolve(X, d) for kernel in kernels]
        self.sum_ = KernelSum.start(resolved, X.shape[1], d) if self.against == "sums" else None
        if self.sum_ is not None:
            resolved = []
        elif self.even and len(resolved) > 1:
            resolved.append(WeightedSum(list(resolved), np.full(len(resolved), 1.0 / len(resolved))))
        template = OLOK(alpha=1e-3, schedule="auto", warm_up=0) if self.learner is None else self.learner
        self.learners_ = [clone(template).set_params(kernel=kernel) for kernel in resolved]
        self.losses_, self.slopes_ = np.zeros(len(resolved)), np.zeros(len(resolved))
        self.largest_, self.t_ = 0.0, 0

    def _radii(self, Y: Array) -> Array:
        """B in each row (n,): `bound`, or the largest |y| before it."""
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.where(np.isnan(Y), 0.0, Y) ** 2 @ np.ones(Y.shape[1]))
        if len(Y) and lengths.max() > MAX_OUTPUT_NORM:
            raise DivergenceError(
                f"the squares of outputs as large as {lengths.max():.3g} overflow: divide y by a constant. The model "
                "is unchanged"
            )
        largest = np.maximum.accumulate(np.concatenate([[self.largest_], lengths]))
        self.largest_ = float(largest[-1])
        return largest[:-1] if self.bound is None else np.full(len(Y), float(self.bound))

    def _forecast(self, each: Array, Y: Array, radius: Array) -> Array:
        """Predictions (n, d) from those of the learners (m, n, d), with the weights before each row.

        Cumulative sums continue those of the last chunk, so that chunk sizes make no difference.
        """
        seen = ~np.isnan(Y)
        each = clip_norms(each, radius)
        squares = np.where(seen, each - np.where(seen, Y, 0.0), 0.0) ** 2 @ np.ones(Y.shape[1])
        losses = np.cumsum(np.vstack([self.losses_, np.nan_to_num(squares.T)]), axis=0)
        if self.against == "combinations":
            result = self._follow_slopes(each, Y, radius)
        else:
            result = np.einsum("nm,mnd->nd", forecaster_weights(losses[:-1], radius), each)
        self.losses_ = losses[-1].copy()
        return result

    def _follow_slopes(self, each: Array, Y: Array, radius: Array) -> Array:
        result, slopes = np.empty(Y.shape), self.slopes_.copy()
        for j, (y, B) in enumerate(zip(Y, radius, strict=True)):
            result[j] = slope_weights(slopes, self.t_ + j + 1, float(B)) @ each[:, j]
            slopes += 2.0 * each[:, j] @ np.where(np.isnan(y), 0.0, result[j] - y)
        self.slopes_ = slopes
        return result

    @property
    @reads_snapshot
    def weights_(self) -> Array:
        """(m,) weights of the learners for the next row."""
        check_is_fitted(self, "learners_")
        if self.sum_ is not None:
            norms, m = self.sum_.norms(), len(self.sum_.kernels)
            return norms / norms.sum() if norms.any() else np.full(m, 1.0 / m)
        radius = self.largest_ if self.bound is None else float(self.bound)
        if self.against == "combinations":
            return slope_weights(self.slopes_, self.t_ + 1, radius)
        return np.asarray(forecaster_weights(self.losses_[None], np.array([radius]))[0])

    @property
    @reads_snapshot
    def expansion_(self) -> Expansion:
        """The function f = sum_k f_k of ``against="sums"``."""
        check_is_fitted(self, "learners_")
        if self.sum_ is None:
            raise AttributeError(f"with against={self.against!r} there is no single function: use against='sums'")
        return self.sum_.expansion()

    @reads_snapshot
    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        check_is_fitted(self, "learners_")
        X_given, X = X, check_inputs(self, X, reset=False, dtype=np.float64)
        radius = self.largest_ if self.bound is None else float(self.bound)
        if self.sum_ is not None:
            each, weights = self.expansion_(X)[None], np.ones(1)
        else:
            each = np.stack([learner.predict(X).reshape(len(X), -1) for learner in self.learners_])
            weights = self.weights_
        result = np.einsum("m,mnd->nd", weights, clip_norms(each, np.full(len(X), radius)))
        result = np.asarray(result if self.grid_ is None else result / self.grid_.roots())
        check_finite_predictions(self, result)
        return result[:, 0] if self.single_output_ else self._named(result, X_given)


def clip_norms(Z: Array, radius: Array) -> Array:
    """Predictions (m, n, d), scaled down to norms of at most the radius of their row (n,)."""
    lengths = np.sqrt(Z**2 @ np.ones(Z.shape[2]))
    return np.asarray(Z * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))[:, :, None])


def slope_weights(slopes: Array, t: int, radius: float) -> Array:
    """exp(-eta_t g_k), normalised, (m,), from sums of gradients g, with eta_t = sqrt(4 ln m / t) / (8 B^2)."""
    eta = np.sqrt(4.0 * np.log(len(slopes)) / t) / max(8.0 * radius**2, 1e-300)
    weights = np.exp(-eta * (slopes - slopes.min()))
    return np.asarray(weights / weights.sum())


def forecaster_weights(losses: Array, radius: Array) -> Array:
    """exp(-L_k / (8 B^2)), normalised, (n, m), from losses (n, m) and bounds (n,)."""
    rates = 1.0 / np.maximum(8.0 * radius**2, 1e-300)
    exponents = -rates[:, None] * (losses - losses.min(axis=1, keepdims=True))
    weights = np.exp(exponents)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
