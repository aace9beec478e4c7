"""Functions shared by `KAWV` and `PKAWV`.

Both predict row t from the rows before it with the ridge solution

    f_t = argmin_f  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2

(``forecaster="ridge"``), or with the additional penalty |f(x_t)|^2 (``"awv"``, the nonlinear ridge forecaster of
Azoury, Vovk and Warmuth), which shrinks the prediction: (I + H_t)^-1 f_t(x_t), where H_t is the leverage of the row.
The second has the better worst-case guarantee; the first is usually better for well-behaved labels.

With weights, sum_{s<t} w_s |y_s - f(x_s)|^2 is the same problem for rows times r_s = w_s^(1/2). The rows of a block are
scaled by r_s, and the results for row t are scaled back: the prediction by 1 / r_t and the leverage by 1 / w_t.

A learner provides `_start_state(X, d)`, `_predict_and_update(X, Y, weights)`, `_forecast(X)` (predictions and leverages
of new inputs), `_covariance(X, forecast)` and `_numbers_per_row()` (numbers stored per row of a prediction).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    check_choice,
    check_finite_rows,
    check_inputs,
    check_no_overflow,
    positive,
    reads_snapshot,
    thread_for_row,
    threads_for,
)
from ovk.kernels import Gaussian
from ovk.online.shared.rows import Rows
from ovk.ovkernels import OperatorKernel, as_operator_kernel, row_slices


@reads_snapshot
def predict(model: Any, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
    """Predict without learning, as if each row came next.

    Parameters
    ----------
    X : (n, p) inputs
    return_std : also return the posterior standard deviation, in the shape of the prediction
    return_cov : also return the posterior covariance between outputs, (n, d, d)

        Both are those of f(x), without the noise of a new observation, in the Gaussian process with covariance K and
        noise variance alpha, whose posterior mean is the ridge prediction.

    Returns
    -------
    (n, d) predictions, or (n,) if y was one-dimensional; with `return_std` or `return_cov`, a pair
    """
    if model._fast_path is not None and not return_std and not return_cov and model._fast_path.accepts(model, X):
        with thread_for_row():
            z = model._outputs_of_user(row_forecast(model, *model._predict_row(model._inputs(X))))
        return z if model.single_output_ else z[None]
    check_is_fitted(model, "kernel_")
    if return_std and return_cov:
        raise ValueError("return_std and return_cov cannot be combined; the variances are the diagonals of return_cov")
    X_given, X = X, model._inputs(check_inputs(model, X, reset=False, dtype=np.float64))
    n, d = len(X), model.n_outputs_
    mean, cov = np.empty((n, d)), np.empty((n, d, d) if return_cov or return_std else (0, d, d))
    with thread_for_row() if n == 1 else threads_for(model._numbers_per_row()):
        for rows in row_slices(n, model._numbers_per_row()):
            forecast = model._forecast(X[rows])
            mean[rows] = clipped(model, forecast.predictions(shrink=model.forecaster == "awv"))
            if len(cov):
                cov[rows] = model._covariance(X[rows], forecast)
    mean = model._outputs_of_user(mean)
    if model.output_units_ is not None and len(cov):
        cov *= np.outer(model.output_units_.scale, model.output_units_.scale)
    shown = mean[:, 0] if model.single_output_ else model._named(mean, X_given)
    if return_cov:
        return shown, cov
    if return_std:
        std = np.sqrt(np.maximum(np.einsum("nqq->nq", cov), 0.0))
        return shown, std[:, 0] if model.single_output_ else model._named(std, X_given)
    return shown


def row_forecast(model: Any, ridge: Array, H: Array, vectors: Array) -> Array:
    """The forecast (d,) of a row from its ridge prediction and leverages (d,) in the operator's eigenvectors."""
    z = ridge / (1.0 + np.maximum(H, 0.0)) if model.forecaster == "awv" else ridge
    return clipped(model, z if len(z) == 1 else vectors @ z)


def after_row(model: Any, y: Array, ridge: Array, H: Array, vectors: Array, **changes: Any) -> tuple[Any, Array]:
    """The learner after a row with labels y (d,), and the prediction of the row in the units of the user."""
    z = row_forecast(model, ridge, H, vectors)
    loss = model.cumulative_loss_ + float((y - z).dot(y - z))
    return model._replace(**changes, t_=model.t_ + 1, cumulative_loss_=loss), model._outputs_of_user(z)


def check_parameters(model: Any) -> None:
    if positive(model.alpha, "alpha") < 1e-100:
        raise ValueError(f"alpha must be at least 1e-100, got {model.alpha!r}")
    check_choice(model.forecaster, "forecaster", ("awv", "ridge"))
    _limits(model.clip)


def _limits(clip: Any) -> tuple[float, float] | None:
    if clip is None:
        return None
    pair = np.asarray(clip)
    if pair.dtype.kind in "iuf" and pair.shape in ((), (2,)):
        low, high = (-float(pair), float(pair)) if pair.ndim == 0 else (float(pair[0]), float(pair[1]))
        if low < high:
            return low, high
    raise ValueError(f"clip must be None, a positive number or a pair low < high, got {clip!r}")


def clipped(model: Any, values: Array) -> Array:
    limits = _limits(model.clip)
    if limits is None:
        return values
    units = model.output_units_
    low, high = limits if units is None else [(limit - units.centre) / units.scale for limit in limits]
    return np.clip(values, low, high)


def start(model: Any, rows: Rows) -> None:
    kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if model.kernel is None else model.kernel))
    X, d = rows.X, rows.Y.shape[1]
    resolved = kernel.resolve(X, d)
    # A sum of kernels times the same operator becomes one product, with a factorisation of size m instead of m d.
    model.kernel_ = resolved.as_separable() or resolved
    check_no_overflow(model, model.kernel_, X)
    model.t_, model.cumulative_loss_ = 0, 0.0
    model._start_state(X, d)


def learn(model: Any, rows: Rows) -> Array:
    X, Y, weights = rows.X, rows.Y, rows.weights
    model._check_capacity(Y)
    check_no_overflow(model, model.kernel_, X)
    # The squares of outputs of 1e300 overflow in the sum of losses; predictions do not.
    with np.errstate(over="ignore", invalid="ignore"), threads_for(model._numbers_per_row()):
        found: Array = clipped(model, model._predict_and_update(X, Y, weights))
        check_finite_rows(model, model.t_, found, X, Y)
        losses = (Y - found) ** 2
        model.cumulative_loss_ += float(np.nansum(losses if weights is None else weights[:, None] * losses))
    model.t_ += int((~np.isnan(Y)).any(axis=1).sum())
    return found
