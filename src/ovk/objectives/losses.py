"""Convex losses l(y, f) of d outputs. Missing outputs (nan in y) add nothing to the loss and the gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ovk.base import Array, Parameters, in_interval, positive


class Loss(Parameters, ABC):
    """Base class of convex losses of outputs Y and predictions F, (n, d), with nan in Y where an output is missing.

    To define a loss, write a subclass whose ``__init__`` only stores its parameters, and implement

    - ``value(Y, F)``: the loss of each row, (n,);
    - ``gradient(Y, F)``: its derivative in F, (n, d), zero where an output is missing;

    and, where they are known,

    - ``smoothness``: Lipschitz constant of the gradient, None if the gradient is not continuous;
    - ``lipschitz(d)``: bound on the norm of the gradient with d outputs, for error bounds and truncation;
    - ``check(Y)``: rejects targets that the loss does not allow;
    - ``of_row(y, f)``: loss and gradient of one complete row, for speed.

    See Also
    --------
    Squared, Huber, Schedule

    Examples
    --------
    >>> from ovk.objectives import Huber, Loss
    >>> isinstance(Huber(1.0), Loss)
    True
    """

    #: Lipschitz constant of the gradient in f, None if the gradient is not continuous.
    smoothness: float | None = None
    #: The learner sets the targets (novelty detection).
    unsupervised = False
    #: Whether the gradient of each output is at most 1.
    _bounded = False

    @abstractmethod
    def value(self, Y: Array, F: Array) -> Array:
        """Loss of each row."""

    @abstractmethod
    def gradient(self, Y: Array, F: Array) -> Array:
        """Derivative in F."""

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        """Loss and gradient (d,) of a single complete row, y and f (d,)."""
        Y, F = y[None], f[None]
        return float(self.value(Y, F)[0]), np.asarray(self.gradient(Y, F)[0])

    def lipschitz(self, d: int) -> float | None:
        """Bound on the norm of the gradient with d outputs, None if it is unbounded."""
        return float(np.sqrt(d)) if self._bounded else None

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        """Bound on the change of the gradient between F and any point within `radius` (n,)."""
        bound = self.lipschitz(F.shape[1])
        steepest = np.full(len(F), np.inf) if self.smoothness is None else self.smoothness * radius
        return np.minimum(steepest, np.inf if bound is None else 2.0 * bound)

    def check(self, Y: Array) -> None:
        """Check the parameters, and the targets."""


def residuals(Y: Array, F: Array) -> Array:
    """f - y, zero where y is missing."""
    return np.where(np.isnan(Y), 0.0, F - Y)


def change_at_kinks(distance: Array, Y: Array, radius: Array) -> Array:
    """Bound on the change within `radius` (n,) of a gradient whose entries jump by 1 at a `distance` (n, d)."""
    crossed = (distance <= radius[:, None]) & ~np.isnan(Y)
    return np.asarray(np.sqrt(crossed.sum(axis=1)))


# Losses of binary labels, one for each output.


class MarginLoss(Loss, saved=False):
    """A loss of the margin y f, with y = -1 or 1."""

    _bounded = True

    def check(self, Y: Array) -> None:
        wrong = ~(np.isnan(Y) | (np.abs(Y) == 1.0))
        if wrong.any():
            row, output = np.argwhere(wrong)[0]
            found = f"{Y[row, output]:g} in row {row}, output {output}"
            raise ValueError(f"labels of {type(self).__name__} must be -1 or 1, got {found}")


class Logistic(MarginLoss):
    """Logistic loss, log(1 + exp(-y f)), for labels -1 and 1.

    See Also
    --------
    Hinge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Logistic
    >>> Logistic().gradient(np.array([[1.0]]), np.array([[0.0]]))
    array([[-0.5]])
    """

    smoothness = 0.25

    def value(self, Y: Array, F: Array) -> Array:
        return np.asarray(np.where(np.isnan(Y), 0.0, np.logaddexp(0.0, -np.nan_to_num(Y) * F)).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        labels = np.nan_to_num(Y)
        # 1 / (1 + exp(yf)) without overflow
        return -labels * 0.5 * (1.0 - np.tanh(0.5 * labels * F))

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        margin = y * f
        return float(np.add.reduce(np.logaddexp(0.0, -margin))), -0.5 * y * (1.0 - np.tanh(0.5 * margin))


class Hinge(MarginLoss):
    """Hinge loss of support vector machines, max(0, 1 - y f), for labels -1 and 1.

    See Also
    --------
    NuHinge, SimplexHinge, Logistic

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Hinge
    >>> Hinge().gradient(np.array([[1.0, -1.0]]), np.array([[0.5, -2.0]]))
    array([[-1.,  0.]])
    """

    #: Margin below which the loss is positive.
    margin: Any = 1.0

    def value(self, Y: Array, F: Array) -> Array:
        return np.asarray(np.where(np.isnan(Y), 0.0, np.maximum(self.margin - np.nan_to_num(Y) * F, 0.0)).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        labels = np.nan_to_num(Y)
        return np.where(labels * F < self.margin, -labels, 0.0)

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        lacking = np.maximum(self.margin - y * f, 0.0)
        return float(np.add.reduce(lacking)), np.where(lacking > 0.0, -y, 0.0)

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(self.margin - Y * F), Y, radius)


class SimplexHinge(Loss):
    """Hinge loss of K classes with simplex coding: the sum over wrong classes l of max(0, 1/(K-1) + <c_l, f>).

    Targets are the corners of a regular simplex in K - 1 dimensions, unit vectors with <c_k, c_l> = -1/(K-1); the
    predicted class is the corner nearest to f. `OLOKClassifier` uses this coding.

    See Also
    --------
    Hinge, ovk.OLOKClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import SimplexHinge
    >>> corner, f = np.array([[1.0, 0.0]]), np.array([[0.8, 0.3]])
    >>> SimplexHinge().value(corner, f).round(3)
    array([0.36])
    """

    _bounded = True  # a sum of m <= d corners has squared norm m (K - m) / (K - 1) <= m

    def _wrong(self, Y: Array, F: Array) -> tuple[Array, Array]:
        """1/(K-1) + <c_l, f> for the wrong classes, minus infinity for the true class; and the corners."""
        code = simplex_code(F.shape[1] + 1)
        scores = F @ code.T + 1.0 / F.shape[1]
        right = np.nan_to_num(Y) @ code.T > 1.0 - 1e-6
        return np.where(right, -np.inf, scores), code

    def check(self, Y: Array) -> None:
        code = simplex_code(Y.shape[1] + 1)
        seen = ~np.isnan(Y).any(axis=1)
        nearest = code[(Y[seen] @ code.T).argmax(axis=1)]
        if not np.allclose(Y[seen], nearest, rtol=0.0, atol=1e-6):
            advice = "use OLOKClassifier, which encodes labels"
            raise ValueError(f"targets of SimplexHinge must be rows of simplex_code(K): {advice}")

    def value(self, Y: Array, F: Array) -> Array:
        scores, _ = self._wrong(Y, F)
        return np.where(np.isnan(Y).any(axis=1), 0.0, np.maximum(scores, 0.0).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        scores, code = self._wrong(Y, F)
        return np.where(np.isnan(Y).any(axis=1, keepdims=True), 0.0, (scores > 0).astype(np.float64) @ code)

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        scores, _ = self._wrong(Y, F)
        m = (np.abs(scores) <= radius[:, None]).sum(axis=1)
        # If m corners are added or removed, |sum of +-c_l|^2 = m - ((sum of +-1)^2 - m) / (K - 1).
        change = np.sqrt(m + (m - m % 2) / F.shape[1])
        return np.where(np.isnan(Y).any(axis=1), 0.0, change)


@lru_cache(maxsize=64)
def simplex_code(classes: int) -> Array:
    """Corners of a regular simplex, (K, K-1): unit vectors with <c_k, c_l> = -1/(K-1)."""
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    code = np.zeros((classes, classes - 1))
    for k in range(classes - 1):
        # Axis k separates corner k from the later ones.
        rest = np.sqrt(max(1.0 - float(np.square(code[k, :k]).sum()), 0.0))
        code[k, k] = rest
        code[k + 1 :, k] = (-1.0 / (classes - 1) - code[k + 1 :, :k] @ code[k, :k]) / rest
    code.setflags(write=False)
    return code


# Losses of regression.


class Squared(Loss):
    """Squared loss, 1/2 |f - y|^2.

    See Also
    --------
    Huber, EpsilonInsensitive

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Squared
    >>> Y, F = np.array([[1.0, np.nan]]), np.array([[3.0, 5.0]])
    >>> Squared().value(Y, F), Squared().gradient(Y, F)
    (array([2.]), array([[2., 0.]]))
    """

    smoothness = 1.0

    def value(self, Y: Array, F: Array) -> Array:
        return np.asarray(0.5 * np.square(residuals(Y, F)).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        return residuals(Y, F)

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        residual = f - y
        return 0.5 * float(residual.dot(residual)), residual


@dataclass(eq=False, repr=False)
class Huber(Loss):
    """Huber loss of each output: squared up to `delta`, linear beyond, which bounds the influence of outliers.

    Parameters
    ----------
    delta : float > 0
        Residual from which the loss is linear.

    See Also
    --------
    Squared, Pinball

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Huber
    >>> Huber(1.0).gradient(np.zeros((1, 2)), np.array([[0.5, 7.0]]))
    array([[0.5, 1. ]])
    """

    smoothness = 1.0

    delta: float = 1.0

    def _delta(self) -> float:
        return positive(self.delta, "delta")

    def value(self, Y: Array, F: Array) -> Array:
        delta, size = self._delta(), np.abs(residuals(Y, F))
        return np.asarray((0.5 * np.minimum(size, delta) ** 2 + delta * np.maximum(size - delta, 0.0)).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        delta = self._delta()
        return np.clip(residuals(Y, F), -delta, delta)

    def lipschitz(self, d: int) -> float:
        return float(self._delta() * np.sqrt(d))

    def check(self, Y: Array) -> None:
        self._delta()


@dataclass(eq=False, repr=False)
class EpsilonInsensitive(Loss):
    """Epsilon-insensitive loss, max(|f - y| - epsilon, 0).

    Parameters
    ----------
    epsilon : float >= 0
        Residuals up to this size have no loss.
    joint : bool
        Apply the loss to the norm of all residuals of a row instead of to each output.

    See Also
    --------
    NuInsensitive, Squared

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import EpsilonInsensitive
    >>> EpsilonInsensitive(1.0).value(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([5.])
    >>> EpsilonInsensitive(1.0, joint=True).value(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([4.])
    """

    epsilon: float = 0.1
    joint: bool = False

    def _epsilon(self) -> float:
        return positive(self.epsilon, "epsilon", zero=True)

    def value(self, Y: Array, F: Array) -> Array:
        residual = residuals(Y, F)
        size = np.hypot.reduce(residual, axis=1, keepdims=True) if self.joint else np.abs(residual)
        # A missing output has residual 0 and thus no loss.
        return np.asarray(np.maximum(size - self._epsilon(), 0.0).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        residual = residuals(Y, F)
        if self.joint:
            size = np.hypot.reduce(residual, axis=1, keepdims=True)
            return np.where(size > self._epsilon(), residual / np.maximum(size, 1e-300), 0.0)
        return np.where(np.abs(residual) > self._epsilon(), np.sign(residual), 0.0)

    def lipschitz(self, d: int) -> float:
        return 1.0 if self.joint else float(np.sqrt(d))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        residual, epsilon = np.abs(residuals(Y, F)), self._epsilon()
        if not self.joint:
            # The gradient changes by 1 at a kink; beyond both kinks its sign changes.
            within = radius[:, None]
            near = (np.abs(residual - epsilon) <= within) & ~np.isnan(Y)
            far = near & (residual > epsilon) & (residual + epsilon <= within)
            return np.asarray(np.sqrt((near + 3.0 * far).sum(axis=1)))
        size = np.hypot.reduce(residual, axis=1)
        # Inside the ball the gradient is zero; outside, a unit vector that changes by at most radius / (size - radius).
        outside = size - radius > epsilon
        turn = np.divide(radius, size - radius, out=np.full_like(size, 2.0), where=outside)
        return np.where(size + radius < epsilon, 0.0, np.where(outside, np.minimum(turn, 2.0), 2.0))

    def check(self, Y: Array) -> None:
        self._epsilon()


@dataclass(eq=False, repr=False)
class Pinball(Loss):
    """Pinball loss of quantile regression: output q estimates its quantile tau_q.

    Parameters
    ----------
    quantiles : float or (d,) array, in (0, 1)
        tau, for all outputs or for each.

    See Also
    --------
    Huber

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Pinball
    >>> Pinball([0.1, 0.9]).value(np.array([[1.0, 1.0]]), np.array([[0.0, 0.0]]))
    array([1.])
    """

    quantiles: Any = 0.5

    def _tau(self, d: int) -> Array:
        tau = np.asarray(self.quantiles, dtype=np.float64)
        if tau.ndim > 1 or (tau.ndim == 1 and len(tau) != d) or not ((tau > 0) & (tau < 1)).all():
            allowed = f"a number in (0, 1) or one for each of the {d} outputs"
            raise ValueError(f"quantiles must be {allowed}, got {self.quantiles!r}")
        return np.broadcast_to(tau, (d,))

    def value(self, Y: Array, F: Array) -> Array:
        tau, residual = self._tau(F.shape[1]), -residuals(Y, F)
        return np.asarray(np.maximum(tau * residual, (tau - 1.0) * residual).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        tau, residual = self._tau(F.shape[1]), -residuals(Y, F)
        return np.where(residual > 0, -tau, np.where(residual < 0, 1.0 - tau, 0.0))

    def lipschitz(self, d: int) -> float:
        tau = self._tau(d)
        return float(np.linalg.norm(np.maximum(tau, 1.0 - tau)))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(residuals(Y, F)), Y, radius)

    def check(self, Y: Array) -> None:
        self._tau(Y.shape[1])


# Losses with a learned threshold: that of novelty detection, the margin of nu-classification, the tube of
# nu-regression (NORMA).


class ThresholdLoss(Loss, saved=False):
    """A convex loss of f and a threshold theta, both learned by gradient steps.

    Theta has the weight nu in the loss; it converges to a value with a share nu of the outputs on its wrong side.
    """

    #: Lower bound of theta.
    lowest = -np.inf

    nu: float

    def _nu(self) -> float:
        return in_interval(self.nu, "nu", 0.0, 1.0)

    def start(self) -> float:
        """Initial theta."""
        return 0.0

    @abstractmethod
    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        """The targets and the loss for rows with thresholds theta, (n,)."""

    @abstractmethod
    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        """Derivative in theta for one row."""

    def check(self, Y: Array) -> None:
        self._nu()
        self.start()
        super().check(Y)


@dataclass(eq=False, repr=False)
class Novelty(ThresholdLoss):
    """Loss of novelty detection, max(0, rho - f) - nu rho: an input with f < rho is novel (NORMA).

    The threshold rho is learned with f and replaces the target.

    Parameters
    ----------
    nu : float in [0, 1]
        Share of the inputs below the threshold.

    See Also
    --------
    NuHinge, ovk.NoveltyDetector

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Novelty
    >>> Novelty(0.1).gradient(np.array([[1.0]]), np.array([[0.5]]))
    array([[-1.]])
    """

    unsupervised = _bounded = True

    nu: float = 0.1

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return theta[:, None], self

    def value(self, Y: Array, F: Array) -> Array:
        return np.asarray((np.maximum(Y - F, 0.0) - self._nu() * Y).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        return np.where(F < Y, -1.0, 0.0)

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        return float((np.asarray(f) < theta).sum() - np.size(f) * self._nu())

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(Y - F), Y, radius)


@dataclass(eq=False, repr=False)
class NuHinge(ThresholdLoss, Hinge):
    """Hinge loss with a learned margin rho, max(0, rho - y f) - nu rho, for labels -1 and 1.

    Parameters
    ----------
    nu : float in [0, 1]
        Share of the rows below the margin.
    margin : float
        Initial rho.

    See Also
    --------
    Hinge, NuInsensitive

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import NuHinge
    >>> loss = NuHinge(0.2, margin=0.5)
    >>> loss.value(np.array([[1.0]]), np.array([[0.2]])).round(3), loss.threshold_slope(0.5, 0.2, 1.0)
    (array([0.2]), 0.8)
    """

    nu: float = 0.1
    margin: Any = 1.0

    def start(self) -> float:
        return float(self.margin)

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return Y, NuHinge(self.nu, theta[:, None])

    def value(self, Y: Array, F: Array) -> Array:
        return np.asarray(super().value(Y, F) - np.where(np.isnan(Y), 0.0, self._nu() * self.margin).sum(axis=1))

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        value, gradient = super().of_row(y, f)
        return value - self._nu() * float(np.sum(np.broadcast_to(self.margin, y.shape))), gradient

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        seen = ~np.isnan(y)
        return float((((np.nan_to_num(y) * f < theta) - self._nu()) * seen).sum())


class NuInsensitive(ThresholdLoss, EpsilonInsensitive):
    """Epsilon-insensitive loss with a learned epsilon, max(|f - y| - epsilon, 0) + nu epsilon.

    Parameters
    ----------
    nu : float in [0, 1]
        Share of the outputs with a residual above epsilon.
    epsilon : float >= 0
        Initial epsilon.

    See Also
    --------
    EpsilonInsensitive, NuHinge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import NuInsensitive
    >>> loss = NuInsensitive(0.2, epsilon=1.0)
    >>> loss.value(np.array([[0.0]]), np.array([[3.0]])), loss.threshold_slope(1.0, 3.0)
    (array([2.2]), -0.8)
    """

    joint = False
    lowest = 0.0

    def __init__(self, nu: float = 0.1, epsilon: Any = 0.1) -> None:
        self.nu = nu
        self.epsilon = epsilon

    def start(self) -> float:
        return positive(self.epsilon, "epsilon", zero=True)

    def _epsilon(self) -> Any:
        return self.epsilon

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return Y, NuInsensitive(self.nu, theta[:, None])

    def value(self, Y: Array, F: Array) -> Array:
        widths = np.where(np.isnan(Y), 0.0, self._nu() * self.epsilon).sum(axis=1)
        return np.asarray(super().value(Y, F) + widths)

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        outside = np.abs(residuals(np.asarray(y), np.asarray(f))) > theta
        return float(((self._nu() - outside) * ~np.isnan(y)).sum())


_NAMES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "epsilon-insensitive": EpsilonInsensitive,
    "pinball": Pinball,
    "logistic": Logistic,
    "hinge": Hinge,
    "novelty": Novelty,
    "nu-hinge": NuHinge,
    "nu-insensitive": NuInsensitive,
}


class FunctionLoss(Loss, saved=False):
    """A plain function (Y, F) -> losses (n,) and their gradients (n, d); models with it cannot be saved.

    For a missing output, the function receives the prediction itself, and the gradient is set to zero.
    """

    def __init__(self, function: Callable[[Array, Array], tuple[Array, Array]]) -> None:
        self.function = function

    def _evaluate(self, Y: Array, F: Array) -> tuple[Array, Array]:
        found = self.function(np.where(np.isnan(Y), F, Y), F)
        shapes = [np.shape(part) for part in found] if isinstance(found, tuple) else type(found).__name__
        if shapes != [(len(F),), F.shape]:
            raise ValueError(
                f"loss must return a pair of losses ({len(F)},) and gradients {F.shape} for outputs {F.shape}, "
                f"got {shapes}"
            )
        return np.asarray(found[0], dtype=np.float64), np.where(np.isnan(Y), 0.0, found[1])

    def value(self, Y: Array, F: Array) -> Array:
        return self._evaluate(Y, F)[0]

    def gradient(self, Y: Array, F: Array) -> Array:
        return self._evaluate(Y, F)[1]


def as_loss(loss: Any) -> Loss:
    """A loss from an object, a name, or a function (Y, F) -> losses (n,) and gradients (n, d)."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _NAMES:
        return _NAMES[loss]()
    if callable(loss) and not isinstance(loss, type):
        return FunctionLoss(loss)
    raise ValueError(
        f"loss must be one of {sorted(_NAMES)}, a loss object (ovk.objectives) or a function (Y, F) -> losses, "
        f"gradients, got {loss!r}"
    )
