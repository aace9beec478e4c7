"""What the second-order learners share: their faces, and the two forecasters.

Both predict row t from the rows before it with the ridge solution

    f_t = argmin_f  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2,

as it is (``forecaster="ridge"``), or with the row's own input in the penalty, + |f(x_t)|^2 (``"awv"``, the nonlinear
ridge forecaster of Azoury, Vovk and Warmuth), which shrinks it: (I + H_t)^-1 f_t(x_t), H_t the row's leverage. The
second has the better guarantee against any sequence; the first is the better guess when labels are what they seem.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._validation import Array, positive
from ovk.expansion import chunks
from ovk.kernels import Gaussian
from ovk.online.learner import StreamRegressor
from ovk.online.outlook import Outlook
from ovk.online.rows import Rows, checked_rows
from ovk.ovkernels import OperatorKernel, as_operator_kernel

FORECASTERS = ("awv", "ridge")


class SecondOrder(StreamRegressor):
    """A learner that solves a ridge problem at every row, in blocks."""

    kernel: Any
    alpha: float
    forecaster: str
    clip: Any
    on_invalid: str
    kernel_: OperatorKernel

    @abstractmethod
    def _start(self, X: Array, d: int) -> None:
        """Make the state of a learner that knows nothing yet; the kernel is there already."""

    @abstractmethod
    def _make_room(self, X: Array, Y: Array) -> None:
        """Refuse rows for which there is no room, before anything changes."""

    @abstractmethod
    def _take(self, X: Array, Y: Array) -> Array:
        """Predictions (n, d) of rows, each before its own outputs (nan where missing) are learned from."""

    @abstractmethod
    def _look(self, X: Array) -> Outlook:
        """What is known about new inputs; nothing changes."""

    @abstractmethod
    def _covariance(self, X: Array, outlook: Outlook) -> Array:
        """Posterior covariance, (n, d, d)."""

    @abstractmethod
    def _width(self) -> int:
        """Numbers that one row of a prediction takes on the way."""

    # Faces ------------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict without learning, as if each row came next.

        Parameters
        ----------
        X : (n, p)
        return_std : also return the posterior standard deviation, in the shape of the prediction
        return_cov : also return the posterior covariance between outputs, (n, d, d)

            Both are those of the Gaussian process with covariance K and noise variance alpha whose posterior mean is
            the ridge prediction: the uncertainty of f(x), without the noise of a new observation.

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional; with `return_std` or `return_cov`, a tuple with that behind it
        """
        check_is_fitted(self, "kernel_")
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: the first is the diagonal of the second")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        n, d = len(X), self.n_outputs_
        mean, cov = np.empty((n, d)), np.empty((n, d, d) if return_cov or return_std else (0, d, d))
        for rows in chunks(n, self._width()):
            outlook = self._look(X[rows])
            mean[rows] = self._clipped(outlook.predictions(shrink=self.forecaster == "awv"))
            if len(cov):
                cov[rows] = self._covariance(X[rows], outlook)
        shown = mean[:, 0] if self.single_output_ else mean
        if return_cov:
            return shown, cov
        if return_std:
            std = np.sqrt(np.maximum(np.einsum("nqq->nq", cov), 0.0))
            return shown, std[:, 0] if self.single_output_ else std
        return shown

    # Steps ------------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if positive(self.alpha, "alpha") < 1e-100:
            raise ValueError(f"alpha must be at least 1e-100, for kernel values are divided by it; got {self.alpha!r}")
        if self.forecaster not in FORECASTERS:
            raise ValueError(f"forecaster must be 'awv' or 'ridge', got {self.forecaster!r}")
        if self.on_invalid not in ("raise", "skip"):
            raise ValueError(f"on_invalid must be 'raise' or 'skip', got {self.on_invalid!r}")
        self._limits()

    def _limits(self) -> tuple[float, float] | None:
        if self.clip is None:
            return None
        pair = np.asarray(self.clip)
        if pair.dtype.kind in "iuf" and pair.shape in ((), (2,)):
            low, high = (-float(pair), float(pair)) if pair.ndim == 0 else (float(pair[0]), float(pair[1]))
            if low < high:
                return low, high
        raise ValueError(f"clip must be None, a number > 0 or a pair low < high, got {self.clip!r}")

    def _clipped(self, values: Array) -> Array:
        limits = self._limits()
        return values if limits is None else np.clip(values, *limits)

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        outputs = None if first else self.n_outputs_
        return checked_rows(self, X, y, outputs=outputs, on_invalid=self.on_invalid, whole=whole)

    def _begin(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X[rows.valid], rows.Y.shape[1]
        self.kernel_ = kernel.resolve(X, d)
        self.n_outputs_ = d
        self.single_output_ = rows.single
        self.t_ = 0
        self.n_skipped_ = getattr(self, "n_skipped_", 0)
        self.cumulative_loss_ = 0.0
        self._start(X, d)

    def _learn(self, rows: Rows) -> Array:
        Z = np.full(rows.Y.shape, np.nan)
        X, Y = (rows.X, rows.Y) if rows.valid.all() else (rows.X[rows.valid], rows.Y[rows.valid])
        self._make_room(X, Y)
        self.n_skipped_ += len(rows.X) - len(X)
        # Outputs of 1e300 square to infinity in the sum of losses; predictions do not.
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._clipped(self._take(X, Y))
            self.cumulative_loss_ += float(np.nansum((Y - found) ** 2))
        self.t_ += int((~np.isnan(Y)).any(axis=1).sum())
        Z[rows.valid] = found
        return Z
