"""What is regressed on what: next states, increments, or whole curves on integrals.

    next:       x(t+1)                 = b + h(x(t))
    increment: (x(t+s) - x(t)) / s     = b - decay x(t) + h(x(t))
    integral:   x(t)                   = a + integral from 0 to t of (b - decay x + h(x))

All three are  Y = W F + E theta - decay O,  F the values of h at some inputs Z: W is the identity for the first two,
and holds the weights of the trapezoidal rule for the third. E has the columns of what is not penalised (a constant; one
start a of each series), O the values that decay, one column for each variable and only for that variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ovk._validation import Array
from ovk.batch.okvar.series import SAME_STEP, Series

TARGETS = ("next", "increment", "integral")


@dataclass(frozen=True, eq=False)
class Regression:
    """Y = W F + E theta - decay O, with F the values of h at Z.

    Attributes
    ----------
    Z : (m, q) inputs of h
    Y : (n, d), nan where not observed
    W : (n, m) sparse, None for the identity
    E : (n, e) columns of all outputs
    O : (n, d) a column of its own for each output, None for no decay
    groups : (m,) the series that each input comes from
    """

    Z: Array
    Y: Array
    W: Any
    E: Array
    O: Array | None  # noqa: E741
    groups: npt.NDArray[np.intp]

    def left(self, F: Array) -> Array:
        """W F."""
        return F if self.W is None else np.asarray(self.W @ F)

    def back(self, R: Array) -> Array:
        """W' R."""
        return R if self.W is None else np.asarray(self.W.T @ R)

    def integrated(self, G: Array) -> Array:
        """W G W' of a scalar gram."""
        return G if self.W is None else np.asarray(self.W @ (self.W @ G).T)

    def with_targets(self, Y: Array) -> Regression:
        """Other targets on the same inputs; what decays moves with them in an integral."""
        moves = self.O is not None and self.W is not None
        return Regression(self.Z, Y, self.W, self.E, self.left(np.nan_to_num(Y)) if moves else self.O, self.groups)


def windows(values: Array, lag: int) -> Array:
    """Rows [x(t), x(t-1), ..., x(t-lag+1)], (n, lag d), with nan where there is no past."""
    n, d = values.shape
    result = np.full((n, lag * d), np.nan)
    for k in range(min(lag, n)):
        result[k:, k * d : (k + 1) * d] = values[: n - k]
    return result


def steady(series: Series, step: float, lag: int) -> npt.NDArray[np.bool_]:
    """(n - 1,) whether the step behind each point, and the lag - 1 before it, are the usual one."""
    same = np.abs(np.diff(series.times) - step) <= SAME_STEP * step
    result = same.copy()
    for k in range(1, lag):
        result[k:] &= same[:-k]
    return result


def transitions(
    observed: Sequence[Series],
    seen: Sequence[Series],
    lag: int,
    step: float,
    *,
    rates: bool,
    constant: bool,
    decay: bool,
) -> Regression:
    """Pairs of a window and what comes next, next states or, with `rates`, increments per unit of time.

    `observed` are the series themselves, `seen` what h sees of them (the same, or a low pass). A pair whose window has
    a hole or, for next states, whose step is not the usual one is left out.
    """
    Z, Y, own, groups = [], [], [], []
    for number, (series, view) in enumerate(zip(observed, seen, strict=True)):
        inputs = windows(view.values, lag)[:-1]
        whole: npt.NDArray[np.bool_] = np.asarray(~np.isnan(inputs).any(axis=1))
        now, then = series.values[:-1], series.values[1:]
        if rates:
            span = np.diff(series.times)[:, None]
            target = (then - now) / span
            if lag > 1:
                whole[1:] &= steady(series, step, lag - 1)[:-1]
        else:
            target = then
            whole &= steady(series, step, lag)
        whole &= ~np.isnan(target).all(axis=1)
        Z.append(inputs[whole])
        Y.append(target[whole])
        own.append(now[whole])
        groups.append(np.full(int(whole.sum()), number))
    targets = np.concatenate(Y)
    E = np.ones((len(targets), 1 if constant else 0))
    O = np.nan_to_num(np.concatenate(own)) if decay and rates else None  # noqa: E741
    return Regression(np.concatenate(Z), targets, None, E, O, np.concatenate(groups))


def integrals(observed: Sequence[Series], seen: Sequence[Series], *, constant: bool, decay: bool) -> Regression:
    """Whole curves as integrals from their start, by the trapezoidal rule; rows with a hole are left out."""
    Z, Y, blocks, groups = [], [], [], []
    for number, (series, view) in enumerate(zip(observed, seen, strict=True)):
        whole = ~(np.isnan(series.values) | np.isnan(view.values)).any(axis=1)
        if whole.sum() < 2:
            continue
        Z.append(view.values[whole])
        Y.append(series.values[whole])
        blocks.append(trapezoidal(series.times[whole]))
        groups.append(np.full(int(whole.sum()), number))
    if not Z:
        d = observed[0].values.shape[1]
        return Regression(np.empty((0, d)), np.empty((0, d)), None, np.empty((0, 0)), None, np.empty(0, dtype=np.intp))
    W = sparse.csr_array(sparse.block_diag(blocks, format="csr"))
    series_of = np.concatenate(groups)
    starts = (series_of[:, None] == np.unique(series_of)).astype(np.float64)
    E = np.column_stack([starts, W.sum(axis=1)]) if constant else starts
    targets = np.concatenate(Y)
    return Regression(np.concatenate(Z), targets, W, E, np.asarray(W @ targets) if decay else None, series_of)


def trapezoidal(times: Array) -> Array:
    """Weights (n, n) of the integrals from the first time to every time."""
    halves = 0.5 * np.diff(times)
    weights = np.zeros((len(times), len(times)))
    for k, half in enumerate(halves):
        weights[k + 1 :, k] += half
        weights[k + 1 :, k + 1] += half
    return weights
