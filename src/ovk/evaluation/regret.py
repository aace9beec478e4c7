"""Regret of progressive predictions against the best fixed function in hindsight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from ovk.base import Array
from ovk.batch import OVKRegressor
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.task import checkpoints


@dataclass(frozen=True)
class Regret:
    """Cumulative squared loss of predictions minus that of the best fixed function in hindsight.

    Parameters
    ----------
    rows : (checkpoints,) array
        Number of rows; the last is the number of all rows.
    loss : (checkpoints,) array
        Sum of squared errors of the predictions.
    comparator_loss : (checkpoints,) array
        Sum of squared errors of the comparator f, fitted on all rows.
    penalty : float
        alpha |f|^2.
    comparator : OVKRidge or OVKRidgeCV
        The fitted comparator.

    See Also
    --------
    regret, ProgressiveResult

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.evaluation import regret
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> found = regret(np.zeros((50, 1)), OVKRidge(alpha=0.1), X=X, Y=X)
    >>> print(f"{found.final:.2f} {found.final_regularised:.2f}")
    16.83 16.79
    """

    rows: npt.NDArray[np.int64]
    loss: Array
    comparator_loss: Array
    penalty: float
    comparator: Any

    @property
    def curve(self) -> Array:
        """(checkpoints,) regret against the loss of the comparator."""
        return self.loss - self.comparator_loss

    @property
    def regularised_curve(self) -> Array:
        """(checkpoints,) regret against the loss of the comparator plus its penalty, which it minimises."""
        return self.curve - self.penalty

    @property
    def final(self) -> float:
        """Regret over all rows."""
        return float(self.curve[-1])

    @property
    def final_regularised(self) -> float:
        """Regularised regret over all rows: at most `final`, and the usual quantity in regret bounds."""
        return float(self.regularised_curve[-1])


def regret(predictions: Any, comparator: Any, *, X: Any = None, Y: Any = None) -> Regret:
    """Regret of progressive predictions against the best fixed function in hindsight.

    With f the minimiser of  sum_i |y_i - f(x_i)|^2 + alpha |f|^2  over all rows, the regret after t rows is

        sum_{i <= t} |y_i - yhat_i|^2 - sum_{i <= t} |y_i - f(x_i)|^2          (regularised: - alpha |f|^2)

    over the observed outputs with a prediction: rows of a warm-up and skipped rows do not count.

    Parameters
    ----------
    predictions : ProgressiveResult, or (n, d) or (n,) array
        The progressive predictions, nan where missing.
    comparator : OVKRidge or OVKRidgeCV
        Regressor with the kernel and alpha to compare with; a copy is fitted on all rows.
    X, Y : (n, p) and (n, d) or (n,) arrays
        The rows; not needed for a result of ``progressive(..., keep="all")``.

    Returns
    -------
    Regret
        The regret, with `curve` and `final`.

    See Also
    --------
    progressive, Regret

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, OVKRidge
    >>> from ovk.evaluation import progressive, regret
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(size=(400, 1))
    >>> result = progressive(OLOK(Gaussian(0.2)), X, np.sin(6 * X[:, 0]), keep="all")
    >>> found = regret(result, OVKRidge(Gaussian(0.2), alpha=1.0))
    >>> found.rows[[-9, -1]], found.curve[[-9, -1]].round(1)
    (array([216, 400]), array([2.9, 3.2]))
    """
    F, X, Y = _arrays(predictions, X, Y)
    if not isinstance(comparator, OVKRegressor):
        raise TypeError(
            "comparator must be a batch regressor of ovk, such as OVKRidge(kernel, alpha), got "
            f"{type(comparator).__name__}"
        )
    seen = np.isfinite(Y) & ~np.isnan(F)
    rows = seen.any(axis=1)
    if not rows.any():
        raise ValueError("no output was both predicted and observed")
    fitted = clone(comparator).fit(X[rows], np.where(seen, Y, np.nan)[rows])
    if np.ndim(fitted.alpha_) > 0:
        raise ValueError(
            f"comparator must have one alpha for all outputs, got {fitted.alpha_!r}: otherwise the penalty "
            "alpha |f|^2 is not defined"
        )
    G = np.zeros(Y.shape)
    G[rows] = fitted.predict(X[rows]).reshape(-1, Y.shape[1])
    marks = np.union1d(checkpoints(0, len(Y)), [len(Y)])
    losses = [np.cumsum(np.where(seen, (A - Y) ** 2, 0.0).sum(axis=1))[marks - 1] for A in (F, G)]
    penalty = float(fitted.alpha_) * fitted.expansion_.norm() ** 2
    return Regret(marks, losses[0], losses[1], penalty, fitted)


def _arrays(predictions: Any, X: Any, Y: Any) -> tuple[Array, Array, Array]:
    """Predictions (n, d), inputs (n, p) and outputs (n, d)."""
    if isinstance(predictions, ProgressiveResult):
        if predictions.predictions is None:
            raise ValueError("the result has no stored predictions: run progressive with keep='predictions' or 'all'")
        X = predictions.inputs if X is None else X
        Y = predictions.targets if Y is None else Y
        predictions = predictions.predictions
    if X is None or Y is None:
        raise ValueError("X and Y are missing: pass them, or a result of progressive with keep='all'")
    F, X, Y = (np.asarray(A, dtype=np.float64) for A in (predictions, X, Y))
    n = len(Y)
    if F.shape != Y.shape or X.ndim != 2 or len(X) != n or n == 0:
        shapes = f"{F.shape}, {Y.shape} and {X.shape}"
        raise ValueError(f"predictions, Y and X must have the same rows, at least one, got shapes {shapes}")
    return F.reshape(n, -1), X, Y.reshape(n, -1)
