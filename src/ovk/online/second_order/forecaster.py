"""What the second-order learners share: their public methods, and the two forecasters.

Both predict row t from the rows before it with the ridge solution

    f_t = argmin_f  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2,

as it is (``forecaster="ridge"``), or with the row's own input in the penalty, + |f(x_t)|^2 (``"awv"``, the nonlinear
ridge forecaster of Azoury, Vovk and Warmuth), which shrinks it: (I + H_t)^-1 f_t(x_t), H_t the row's leverage. The
second has the better guarantee against any sequence; the first is the better guess when labels are what they seem.

With weights, sum_{s<t} w_s |y_s - f(x_s)|^2 is the same problem for rows times r_s = w_s^(1/2). In the identities of a
block the rows are scaled, and what is found for row t is scaled back: the prediction by 1 / r_t, its leverage, which
has the weight 1 whatever w_t is, by 1 / w_t.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    check_inputs,
    positive,
    reads_snapshot,
    refuse_not_finite,
    refuse_overflow,
    thread_for_row,
    threads_for,
)
from ovk.kernels import Gaussian
from ovk.online.second_order.growing_cholesky import RidgeForecast
from ovk.online.shared.learner import StreamRegressor, learns_width
from ovk.online.shared.rows import Rows
from ovk.ovkernels import OperatorKernel, as_operator_kernel, row_slices

FORECASTERS = ("awv", "ridge")


class SecondOrder(StreamRegressor, saved=False):
    """A learner that solves a ridge problem at every row, in blocks."""

    _default_factories = {"kernel": Gaussian}

    kernel: Any
    alpha: float
    forecaster: str
    clip: Any
    kernel_: OperatorKernel

    @abstractmethod
    def _start_state(self, X: Array, d: int) -> None:
        """Make the state of a learner that knows nothing yet; the kernel is there already."""

    @abstractmethod
    def _check_capacity(self, X: Array, Y: Array) -> None:
        """Refuse rows for which there is no room."""

    @abstractmethod
    def _predict_and_update(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predictions (n, d) of rows, each before its own outputs (nan where missing) are learned from with `weights`
        (n,).
        """

    @abstractmethod
    def _forecast(self, X: Array) -> RidgeForecast:
        """Predictions and leverages of new inputs, as if each came next; nothing changes."""

    @abstractmethod
    def _covariance(self, X: Array, forecast: RidgeForecast) -> Array:
        """Posterior covariance, (n, d, d)."""

    @abstractmethod
    def _width(self) -> int:
        """Numbers that one row of a prediction takes on the way."""

    # Public methods ---------------------------------------------------------------------------------------------------

    def _predict_row(self, X: Array) -> Array:
        """Prediction (d,) of a row (1, p) that the gate admits; asked only of learners that give a `_row_plan`."""
        raise NotImplementedError

    def _row_forecast(self, ridge: Array, H: Array, vectors: Array) -> Array:
        """The forecast (d,) of a row from its ridge prediction and leverages (d,) in the operator's eigenvectors."""
        z = ridge / (1.0 + np.maximum(H, 0.0)) if self.forecaster == "awv" else ridge
        # With one output the eigenvector is 1.
        return self._clipped(z if len(z) == 1 else vectors @ z)

    @reads_snapshot
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
        if self._gate is not None and not return_std and not return_cov and self._gate.accepts(self, X):
            with thread_for_row():
                z = self._predict_row(X)
            return z if self.single_output_ else z[None]
        check_is_fitted(self, "kernel_")
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: the first is the diagonal of the second")
        asked, X = X, self._inputs(check_inputs(self, X, reset=False, dtype=np.float64))
        n, d = len(X), self.n_outputs_
        mean, cov = np.empty((n, d)), np.empty((n, d, d) if return_cov or return_std else (0, d, d))
        with thread_for_row() if n == 1 else threads_for(self._width()):
            for rows in row_slices(n, self._width()):
                forecast = self._forecast(X[rows])
                mean[rows] = self._clipped(forecast.predictions(shrink=self.forecaster == "awv"))
                if len(cov):
                    cov[rows] = self._covariance(X[rows], forecast)
        mean = self._outputs_of_user(mean)
        if self.output_units_ is not None and len(cov):
            cov *= np.outer(self.output_units_.scale, self.output_units_.scale)
        shown = mean[:, 0] if self.single_output_ else self._named(mean, asked)
        if return_cov:
            return shown, cov
        if return_std:
            std = np.sqrt(np.maximum(np.einsum("nqq->nq", cov), 0.0))
            return shown, std[:, 0] if self.single_output_ else self._named(std, asked)
        return shown

    # Learning ---------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if positive(self.alpha, "alpha") < 1e-100:
            raise ValueError(f"alpha must be at least 1e-100, for kernel values are divided by it; got {self.alpha!r}")
        if self.forecaster not in FORECASTERS:
            raise ValueError(f"forecaster must be 'awv' or 'ridge', got {self.forecaster!r}")
        self._limits()
        super()._check_parameters()

    def _refuse_weights(self) -> None:
        pass

    def _default_warm_up(self) -> int:
        return super()._default_warm_up() if learns_width(self.kernel) else 0

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
        if limits is None:
            return values
        units = self.output_units_
        low, high = limits if units is None else [(limit - units.centre) / units.scale for limit in limits]
        return np.clip(values, low, high)

    def _start(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X[rows.valid], rows.Y.shape[1]
        resolved = kernel.resolve(X, d)
        # A sum of kernels times one operator is the product with their sum, which costs a factorisation of m, not m d.
        self.kernel_ = resolved.as_separable() or resolved
        refuse_overflow(self, self.kernel_, X)
        self.n_outputs_ = d
        self.single_output_ = rows.single
        self.t_ = 0
        self.cumulative_loss_ = 0.0
        self._start_state(X, d)

    def _learn(self, rows: Rows) -> Array:
        Z = np.full(rows.Y.shape, np.nan)
        whole = rows.valid.all()
        X, Y, _, _, weights, _ = rows if whole else rows.chosen(np.flatnonzero(rows.valid))
        self._check_capacity(X, Y)
        refuse_overflow(self, self.kernel_, X)
        self.n_skipped_ += len(rows.X) - len(X)
        # Outputs of 1e300 square to infinity in the sum of losses; predictions do not.
        with np.errstate(over="ignore", invalid="ignore"), threads_for(self._width()):
            found = self._clipped(self._predict_and_update(X, Y, weights))
            refuse_not_finite(self, self.t_, found, X, Y)
            losses = (Y - found) ** 2
            self.cumulative_loss_ += float(np.nansum(losses if weights is None else weights[:, None] * losses))
        self.t_ += int((~np.isnan(Y)).any(axis=1).sum())
        Z[rows.valid] = found
        return Z
