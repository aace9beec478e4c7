"""Learning from a stream with many operator-valued kernels at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._validation import Array, positive
from ovk.batch.curve_outputs import bind_grid
from ovk.batch.kernel_grid import kernel_grid
from ovk.batch.targets import check_targets
from ovk.curves import Grid
from ovk.curves.grid import as_grid
from ovk.online.olok import OLOK
from ovk.operators import CurveOperator, Identity
from ovk.ovkernels import Combination, OperatorKernel, Separable, as_operator_kernel


class OnlineMovKL(MultiOutputMixin, RegressorMixin, Parameters):
    """A learner for each kernel, and one for their even sum; a forecaster weighs them by what they got right so far.

    Every learner predicts each row before it learns it. The prediction is the mean under the weights

        p_k proportional to exp(-eta L_k),   L_k = sum of |z_k - y|^2 over the rows before,   eta = 1 / (8 B^2),

    of the learners' predictions z_k, shortened to length B (the exponentially weighted average forecaster). Rows can
    arrive one at a time or in chunks of any sizes: the result is the same.

    **Guarantee.** If `bound` B is given and |y| <= B in all rows, then after any number of rows of any stream the sum
    of squared errors is at most that of the best of the m learners plus 8 B^2 ln m, because exp(-eta |z - y|^2) is
    concave in z. So the regret against any function is that of the best learner for its kernel, plus a constant.
    Without `bound` the largest |y| so far takes its place, and there is no guarantee. The competitors are the single
    kernels and their even sum, not every combination of kernels as in the batch `MovKL`.

    Parameters
    ----------
    kernels : sequence of operator-valued kernels, optional
        By default `kernel_grid` of the first rows that arrive, as in `MovKL`.
    learner : online learner with a parameter `kernel`, default ``OLOK(alpha=1e-3, schedule="auto")``
        The pattern of all learners; give it a `truncation` for constant memory.
    even : bool
        Have a learner for the even sum of all kernels too.
    bound : float > 0, optional
        B, a bound of |y| (for curves, of the square root of the integral of y^2).
    grid : `Grid` or its points, optional
        Outputs are curves on this grid.

    Attributes
    ----------
    weights_ : (m,) p, the last entry that of the even sum
    losses_ : (m,) sums of squared errors
    learners_ : the learners
    t_ : rows seen

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
    >>> model.weights_.argmax()
    np.int64(1)
    """

    def __init__(
        self,
        kernels: Any = None,
        learner: Any = None,
        *,
        even: bool = True,
        bound: float | None = None,
        grid: Any = None,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.even = even
        self.bound = bound
        self.grid = grid

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn from the rows in their order, once."""
        with self._all_or_nothing():
            for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
                delattr(self, name)
            self._learn(X, y, whole=True)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning."""
        self.predict_then_learn(X, y)
        return self

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Predict each row before learning from it: (n, d), or (n,) if y was one-dimensional."""
        return self._learn(X, y, whole=False)

    def _learn(self, X: Any, y: Any, *, whole: bool) -> Array:
        """`whole`: these are all the data there will be, so every output must be seen in them."""
        first = not hasattr(self, "learners_")
        with self._all_or_nothing():
            X = validate_data(self, X, reset=first, dtype=np.float64)
            targets = check_targets(y, len(X), None, None, X, part=not whole)
            Y, single = targets.Y, targets.single
            if first:
                self._begin(X, Y, single)
            elif Y.shape[1] != self.n_outputs_:
                raise ValueError(f"y has {Y.shape[1]} outputs but the model has learned {self.n_outputs_}")
            Y = Y if self.grid_ is None else Y * self.grid_.roots()
            each = np.stack([learner.predict_then_learn(X, Y) for learner in self.learners_])
            result = self._forecast(each.reshape(len(each), *Y.shape), Y)
        result = result if self.grid_ is None else result / self.grid_.roots()
        return result[:, 0] if self.single_output_ else result

    def _begin(self, X: Array, Y: Array, single: bool) -> None:
        if self.bound is not None:
            positive(self.bound, "bound")
        d = Y.shape[1]
        kernels = self._given()
        curves = self.grid is not None or any(
            isinstance(kernel, Separable) and isinstance(kernel.operator, CurveOperator) for kernel in kernels
        )
        self.grid_ = None if not curves else Grid.regular(d) if self.grid is None else as_grid(self.grid)
        if self.grid_ is not None and len(self.grid_) != d:
            raise ValueError(f"grid has {len(self.grid_)} points but y has {d} columns")
        if not kernels:
            kernels = list(kernel_grid(X, operators=None if curves else [Identity()]))
        resolved = [self._placed(kernel).resolve(X, d) for kernel in kernels]
        if self.even and len(resolved) > 1:
            resolved.append(Combination(list(resolved), np.full(len(resolved), 1.0 / len(resolved))))
        pattern = OLOK(alpha=1e-3, schedule="auto") if self.learner is None else self.learner
        self.learners_ = [clone(pattern).set_params(kernel=kernel) for kernel in resolved]
        self.losses_ = np.zeros(len(resolved))
        self.largest_ = 0.0
        self.t_ = 0
        self.n_outputs_, self.single_output_ = d, single

    def _given(self) -> list[OperatorKernel]:
        if self.kernels is None:
            return []
        if isinstance(self.kernels, OperatorKernel) or not isinstance(self.kernels, Sequence) or not self.kernels:
            raise ValueError(f"kernels must be a sequence of at least one kernel, got {self.kernels!r}")
        return [as_operator_kernel(kernel) for kernel in self.kernels]

    def _placed(self, kernel: OperatorKernel) -> Any:
        return clone(kernel) if self.grid_ is None else bind_grid(clone(kernel), self.grid_)

    def _forecast(self, each: Array, Y: Array) -> Array:
        """Predictions of the rows (n, d) from those of the learners (m, n, d), each with the weights before it.

        Sums run in the order of the rows, from where the last chunk ended, so that chunks make no difference.
        """
        seen = ~np.isnan(Y)
        lengths = np.sqrt(np.where(seen, Y, 0.0) ** 2 @ np.ones(Y.shape[1]))
        largest = np.maximum.accumulate(np.concatenate([[self.largest_], lengths]))
        radius = largest[:-1] if self.bound is None else np.full(len(Y), float(self.bound))
        each = shortened(each, radius)
        squares = np.where(seen, each - np.where(seen, Y, 0.0), 0.0) ** 2 @ np.ones(Y.shape[1])
        losses = np.cumsum(np.vstack([self.losses_, np.nan_to_num(squares.T)]), axis=0)
        p = forecaster_weights(losses[:-1], radius)
        result: Array = np.einsum("nm,mnd->nd", p, each)
        self.losses_, self.largest_, self.t_ = losses[-1].copy(), float(largest[-1]), self.t_ + len(Y)
        return result

    @property
    def weights_(self) -> Array:
        """The weights of the learners now."""
        check_is_fitted(self, "learners_")
        radius = self.largest_ if self.bound is None else float(self.bound)
        weights: Array = forecaster_weights(self.losses_[None], np.array([radius]))[0]
        return weights

    def predict(self, X: Any) -> Array:
        """Predict without learning: (n, d), or (n,) if y was one-dimensional."""
        check_is_fitted(self, "learners_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        radius = self.largest_ if self.bound is None else float(self.bound)
        each = np.stack([learner.predict(X).reshape(len(X), -1) for learner in self.learners_])
        result = np.einsum("m,mnd->nd", self.weights_, shortened(each, np.full(len(X), radius)))
        result = np.asarray(result if self.grid_ is None else result / self.grid_.roots())
        return result[:, 0] if self.single_output_ else result


def shortened(Z: Array, radius: Array) -> Array:
    """Predictions (m, n, d), those longer than the radius of their row (n,) brought to it."""
    lengths = np.sqrt(Z**2 @ np.ones(Z.shape[2]))
    return np.asarray(Z * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))[:, :, None])


def forecaster_weights(losses: Array, radius: Array) -> Array:
    """exp(-L_k / (8 B^2)), normalised, (n, m), from losses (n, m) and bounds (n,).

    >>> import numpy as np
    >>> forecaster_weights(np.array([[0.0, 8 * np.log(3)]]), np.array([1.0]))
    array([[0.75, 0.25]])
    """
    rates = 1.0 / np.maximum(8.0 * radius**2, 1e-300)
    exponents = -rates[:, None] * (losses - losses.min(axis=1, keepdims=True))
    weights = np.exp(exponents)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
