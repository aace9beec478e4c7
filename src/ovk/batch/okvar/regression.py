"""The regression problem of OKVAR: next states, increments, or whole curves as integrals.

    next:       x(t+1)                 = b + h(x(t))
    increment: (x(t+s) - x(t)) / s     = b - decay x(t) + h(x(t))
    integral:   x(t)                   = a + integral from 0 to t of (b - decay x + h(x))

With periods the constant b becomes b + S' w at the time of the next state, where w holds a cosine and a sine of each
period, which are known for all future times.

All three are Y = W F + E theta - decay O, with F the values of h at inputs Z: W is the identity for the first two, and
holds the weights of the trapezoidal rule for the third. E has the unpenalised columns (waves of given periods; a
constant; the start a of each series). O holds the decaying values, one column for each variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.integrate import cumulative_trapezoid

from ovk.base import Array, Indices, Mask
from ovk.batch.okvar.series import STEP_TOL, TimeSeries

TARGETS = ("next", "increment", "integral")


@dataclass(frozen=True, eq=False)
class SeriesRegression:
    """Y = W F + E theta - decay O, with F the values of h at Z.

    For given values V = W F the unpenalised coefficients leave the residual

        R = argmin over theta, decay >= 0 of  |Y - V - E theta + decay O|^2

    which is a projection for the columns E, and one more column, used where its coefficient is positive, for the
    decay. The minimum over them is a smooth convex function of V with the gradient -2 R.
    """

    Z: Array  # (m, q) inputs of h
    Y: Array  # (n, d), nan where not observed
    W: Any  # (n, m) sparse, None for the identity
    E: Array  # (n, e) columns of all outputs
    decaying: Array | None  # (n, d) O, a separate column for each output; None for no decay
    groups: Indices  # (m,) the series that each input comes from

    def apply(self, F: Array) -> Array:
        """W F."""
        return F if self.W is None else np.asarray(self.W @ F)

    def apply_adjoint(self, R: Array) -> Array:
        """W' R."""
        return R if self.W is None else np.asarray(self.W.T @ R)

    def with_targets(self, Y: Array) -> SeriesRegression:
        """Other targets on the same inputs; the decaying values of an integral follow the targets."""
        moves = self.decaying is not None and self.W is not None
        return replace(self, Y=Y, decaying=self.apply(np.nan_to_num(Y)) if moves else self.decaying)

    @cached_property
    def seen(self) -> Mask:
        return ~np.isnan(self.Y)

    @cached_property
    def _bases(self) -> list[Array]:
        """An orthonormal basis of E, or one for each output if outputs have gaps."""
        if self.seen.all():
            return [orthonormal(self.E)]
        return [orthonormal(self.E * self.seen[:, q : q + 1]) for q in range(self.Y.shape[1])]

    @cached_property
    def _decay_columns(self) -> tuple[Array, Array]:
        """-O projected on the complement of E, with columns of length one, and their original lengths."""
        masked = (np.zeros_like(self.Y) if self.decaying is None else -self.decaying) * self.seen
        rest = self._residual_of_columns(masked)
        lengths = np.linalg.norm(rest, axis=0)
        # A column in the span of E, such as a constant variable, has no decay.
        real = lengths > 1e-9 * np.maximum(np.linalg.norm(masked, axis=0), 1e-300)
        return np.where(real, rest / np.where(real, lengths, 1.0), 0.0), np.where(real, lengths, np.inf)

    def _residual_of_columns(self, R: Array) -> Array:
        if len(self._bases) == 1:
            Q = self._bases[0]
            return np.asarray(R - Q @ (Q.T @ R))
        return np.column_stack([R[:, q] - Q @ (Q.T @ R[:, q]) for q, Q in enumerate(self._bases)])

    def residual(self, V: Array) -> Array:
        """R, (n, d), zero where nothing was observed."""
        R = self._residual_of_columns(np.where(self.seen, self.Y - V, 0.0))
        if self.decaying is not None:
            own, _ = self._decay_columns
            R -= own * np.maximum((own * R).sum(axis=0), 0.0)
        return R

    def normal_matrix(self, V: Array) -> Array:
        """V'PV for columns V of values, (n d, s), with R = P (Y - V c) where nothing decays."""
        d = self.Y.shape[1]
        V = V * self.seen.reshape(-1, 1)
        U = np.concatenate([Q.T @ V[q::d] for q, Q in enumerate(self._bases * (d if len(self._bases) == 1 else 1))])
        return np.asarray(V.T @ V - U.T @ U)

    def coefficients(self, V: Array) -> tuple[Array, Array]:
        """theta, (e, d), and the decay of each output, (d,)."""
        d = self.Y.shape[1]
        R, decay = np.where(self.seen, self.Y - V, 0.0), np.zeros(d)
        if self.decaying is not None:
            own, lengths = self._decay_columns
            decay = np.maximum((own * self._residual_of_columns(R)).sum(axis=0), 0.0) / lengths
            R = R + decay * self.decaying * self.seen
        theta = np.empty((self.E.shape[1], d))
        for q in range(d):
            seen = self.seen[:, q]
            theta[:, q] = np.linalg.lstsq(self.E[seen], R[seen, q], rcond=None)[0]
        return theta, decay


def orthonormal(E: Array) -> Array:
    if E.shape[1] == 0:
        return E
    U, s, _ = np.linalg.svd(E, full_matrices=False)
    return np.asarray(U[:, s > 1e-10 * max(float(s[0]), 1e-300)])


def checked_periods(periods: Any, step: float, target: str) -> Array:
    """The periods in steps, (P,)."""
    if periods is None:
        return np.empty(0)
    found = np.atleast_1d(np.asarray(periods, dtype=np.float64))
    if found.ndim != 1 or not (np.isfinite(found).all() and (found >= 2 * step).all()):
        raise ValueError(f"periods must be at least two steps, {2 * step:g} in the units of the times, got {periods!r}")
    if target == "integral" and len(found):
        raise ValueError("periods are not supported with target='integral': use target='next' or 'increment'")
    return found / step


def waves(times: Array, periods: Array) -> Array:
    """w, (n, 2 P): a cosine and a sine of each period at times (n,), both in the same units."""
    phase = 2 * np.pi * times[:, None] / periods
    return np.column_stack([np.cos(phase), np.sin(phase)])


def windows(values: Array, lag: int) -> Array:
    """Rows [x(t), x(t-1), ..., x(t-lag+1)], (n, lag d), with nan before the start."""
    n, d = values.shape
    result = np.full((n, lag * d), np.nan)
    for k in range(min(lag, n)):
        result[k:, k * d : (k + 1) * d] = values[: n - k]
    return result


def steady(series: TimeSeries, step: float, lag: int) -> Mask:
    """(n - 1,) whether the step after each point, and the lag - 1 steps before it, have the usual length."""
    same = np.abs(np.diff(series.times) - step) <= STEP_TOL * step
    result = same.copy()
    for k in range(1, lag):
        result[k:] &= same[:-k]
    return result


def transitions(
    observed: Sequence[TimeSeries],
    seen: Sequence[TimeSeries],
    lag: int,
    *,
    rates: bool,
    constant: bool,
    decay: bool,
    periods: Array,
) -> SeriesRegression:
    """Pairs of a window and the next state or, with `rates`, the increment per unit of time.

    `observed` are the series, with time counted in usual steps, `seen` the inputs of h (the same, or low-passed). A
    pair is dropped if its window has a gap or, for next states, if its step is not the usual one. The waves of
    `periods` in E are taken at the time of the next state.
    """
    Z, Y, own, groups, clock = [], [], [], [], []
    for number, (series, view) in enumerate(zip(observed, seen, strict=True)):
        inputs = windows(view.values, lag)[:-1]
        whole: Mask = np.asarray(~np.isnan(inputs).any(axis=1))
        now, then = series.values[:-1], series.values[1:]
        if rates:
            target = (then - now) / np.diff(series.times)[:, None]
            if lag > 1:
                whole[1:] &= steady(series, 1.0, lag - 1)[:-1]
        else:
            target = then
            whole &= steady(series, 1.0, lag)
        whole &= ~np.isnan(target).all(axis=1)
        Z.append(inputs[whole])
        Y.append(target[whole])
        own.append(now[whole])
        clock.append(series.times[1:][whole])
        groups.append(np.full(int(whole.sum()), number))
    targets = np.concatenate(Y)
    E = np.column_stack([waves(np.concatenate(clock), periods), np.ones((len(targets), 1 if constant else 0))])
    decaying = np.nan_to_num(np.concatenate(own)) if decay and rates else None
    return SeriesRegression(np.concatenate(Z), targets, None, E, decaying, np.concatenate(groups))


def integrals(
    observed: Sequence[TimeSeries], seen: Sequence[TimeSeries], *, constant: bool, decay: bool
) -> SeriesRegression:
    """Whole curves as integrals from their start, by the trapezoidal rule; rows with a gap are dropped."""
    Z, Y, blocks, groups = [], [], [], []
    for number, (series, view) in enumerate(zip(observed, seen, strict=True)):
        whole = ~(np.isnan(series.values) | np.isnan(view.values)).any(axis=1)
        if whole.sum() < 2:
            continue
        Z.append(view.values[whole])
        Y.append(series.values[whole])
        # Weights of the integrals from the first time to each time.
        blocks.append(cumulative_trapezoid(np.eye(int(whole.sum())), series.times[whole], axis=0, initial=0.0))
        groups.append(np.full(int(whole.sum()), number))
    if not Z:
        none = np.empty((0, observed[0].values.shape[1]))
        return SeriesRegression(none, none, None, none, None, np.empty(0, dtype=np.intp))
    W = sparse.csr_array(sparse.block_diag(blocks, format="csr"))
    series_of = np.concatenate(groups)
    starts = (series_of[:, None] == np.unique(series_of)).astype(np.float64)
    E = np.column_stack([starts, W.sum(axis=1)]) if constant else starts
    targets = np.concatenate(Y)
    return SeriesRegression(np.concatenate(Z), targets, W, E, np.asarray(W @ targets) if decay else None, series_of)
