"""Ridge regression that forgets old rows, computed in blocks by matrix products.

The stream is divided into blocks of b rows. With a discount g and the sums S of phi phi' and B of phi y' over the
blocks before, row i of a block is predicted by phi_i' w_i with

    w_i = A_i^-1 B_i,
    A_i = g^i (S + c I) + sum_{l<i} g^(i-1-l) phi_l phi_l',
    B_i = g^i B + sum_{l<i} g^(i-1-l) phi_l y_l'.

Inside a block the ridge decays with the sums; c = alpha g^(-(b+1)/2) makes it alpha in the middle of the block. After
the block S <- g^b S + sum_l g^(b-1-l) phi_l phi_l', B likewise, and the next block starts with the full ridge. This
differs little from a constant ridge, and rows scaled by s_l = g^(-(l+1)/2) then satisfy the identities of a block
without forgetting: with A = S + c I = L L', w = A^-1 B, U = L^-1 (s Phi)' and I + U'U = C C',

    e = C^-1 (s Y - s Phi w),    phi_i' w_i = (s Phi w + tril(C, -1) e)_i / s_i.

C and e grow row by row, so the predictions do not depend on how the rows of a block arrive. A row of weight v adds
v phi phi' and v phi y' to the sums: s_i has the factor v_i^(1/2), on which its own prediction does not depend.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from ovk.base import SIZE, Array, Mask, SingularSystemError, State, Times


def packed(A: Array) -> Array:
    """(m (m + 1) / 2,) entries of the lower triangle of an (m, m) matrix, row by row."""
    return np.asarray(A[np.tri(len(A), dtype=bool)])


def unpacked(triangle: Array) -> Array:
    """The (m, m) matrix of a lower triangle, in Fortran order."""
    m = (isqrt(8 * len(triangle) + 1) - 1) // 2
    A = np.zeros((m, m), order="F")
    A[np.tri(m, dtype=bool)] = triangle
    return A


# Adaptive limits on residuals, which cap the influence of outliers.
#
# The limit of the next row is `factor` times the largest residual so far, which decays by `LIMIT_DECAY` per row. A
# larger residual is clipped to the limit, which then grows:
#
#     l_(t+1) = max(4 l_t, l_t^(1/2))                              if |r_t| > l_t,
#     l_(t+1) = max(LIMIT_DECAY l_t, factor |r_t|, MIN_LIMIT)      otherwise.
#
# One outlier thus raises the limit for a while. The limit follows a lasting change within a few rows: starting from
# `MIN_LIMIT`, it reaches 3 standard deviations of the labels at the fifth row. An infinite limit stays infinite until
# `first_limit` replaces it.

#: Decay of the limits per row.
LIMIT_DECAY = 0.995
#: Lower bound of the limits, relative to the standard deviation of the labels.
MIN_LIMIT = 1e-3
#: Quantile of the residuals that determines the first limit.
INLIER_QUANTILE = 0.98
#: Rows whose second half determines the first limit, and the default factor.
ROWS_BEFORE_LIMIT, LIMIT_FACTOR = 50, 3.0


def first_limit(residuals: Array, factor: float) -> Array:
    """(d,) limits after (n, d) residuals without limits; infinite where they are all 0 or nan."""
    size = np.abs(np.nan_to_num(residuals))
    large = factor * np.quantile(size, INLIER_QUANTILE, axis=0, method="lower")
    return np.where(large > 0.0, np.maximum(large, MIN_LIMIT), np.inf)


def next_limit(limit: Array, residual: Array, factor: float) -> Array:
    """(d,) limits after the (d,) residuals of a row, unchanged where the residual is nan."""
    size = np.abs(residual)
    fading = np.maximum(np.maximum(LIMIT_DECAY * limit, factor * size), MIN_LIMIT)
    grown: Array = np.where(size > limit, np.maximum(4.0 * limit, np.sqrt(limit)), fading)
    return np.where(np.isnan(grown), limit, grown)


def limits_along(limit: Array, residuals: Array, factor: float) -> Array:
    """(n + 1, d) limits of rows and after the last one, if the (n, d) residuals stay within them."""
    fades = LIMIT_DECAY ** np.arange(len(residuals) + 1.0)[:, None]
    raised = np.vstack([limit, factor * np.abs(residuals) / fades[1:]])
    limits: Array = np.maximum(np.maximum.accumulate(raised, axis=0) * fades, MIN_LIMIT)
    limits[0] = limit
    return limits


@dataclass
class ResidualLimits(State):
    """Limits (d,) on the residuals of the next row; `early` are the (n, d) residuals of the first rows."""

    _stored = {"limit": "d inf", "early": "n d nan"}

    limit: Array
    early: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def start(cls, d: int) -> ResidualLimits:
        return cls(np.full(d, np.inf), np.empty((0, d)))

    def inliers(self, residuals: Array) -> int:
        """Number of rows before the first outlier, given residuals (n, d), 0 for missing labels."""
        need = ROWS_BEFORE_LIMIT - len(self.early)
        limit = self.limit
        if need > 0:
            if len(residuals) <= need:
                return len(residuals)
            limit = _after_first(np.vstack([self.early, residuals[:need]]))
        need = max(need, 0)
        limits = limits_along(limit, residuals[need:], LIMIT_FACTOR)
        outlier = (np.abs(residuals[need:]) > limits[:-1]).any(axis=1)
        return need + (int(outlier.argmax()) if outlier.any() else len(residuals) - need)

    def clip(self, residuals: Array) -> Array:
        """Clip residuals (n, d), of which at most the last is an outlier, and update the limits."""
        found = residuals.copy()
        need = min(max(ROWS_BEFORE_LIMIT - len(self.early), 0), len(residuals))
        if need:
            self.early = np.vstack([self.early, residuals[:need]])
            if len(self.early) == ROWS_BEFORE_LIMIT:
                self.limit = _after_first(self.early)
        for i in range(need, len(residuals)):
            found[i] = np.clip(residuals[i], -self.limit, self.limit)
            self.limit = next_limit(self.limit, residuals[i], LIMIT_FACTOR)
        return found


def _after_first(residuals: Array) -> Array:
    # The first rows of a new learner have large residuals.
    return first_limit(residuals[len(residuals) // 2 :], LIMIT_FACTOR)


#: Rows that are replayed in a step.
REPLAY_ROWS = 256
#: Limit on the decay of the sums in a block, so that the scaled rows have similar sizes.
MIN_BLOCK_DECAY = 0.5
#: Rows for which a block first has space.
MIN_ROWS_ALLOCATED = 8
EPS = float(np.finfo(float).eps)


def block_length(discount: float, most: int = 128) -> int:
    """Rows of a block: at most `most`, and few enough that the sums decay by no more than half."""
    return most if discount >= 1.0 else max(1, min(most, int(np.log(MIN_BLOCK_DECAY) / np.log(discount))))


class DecayingRidge(State):
    """Ridge regression on features, which predicts each row before learning from it and forgets old rows.

    A row without labels is predicted and has no other effect. If only some labels are nan, they count as predicted
    exactly. A discount of 1 never forgets; below 1, the predictions depend on the block length. Residuals are clipped
    to `limit`, and from the second block or `replay` on to about `robust` times the largest recent residual; labels
    should then have a standard deviation of about 1.
    """

    _saved_state = (
        *("alpha", "discount", "block", "limit", "robust", "reach"),
        *("S", "B", "count", "errors", "factor", "whitened", "roots"),
    )
    _stored = {
        "alpha discount": float,
        "block": SIZE,
        "limit robust": "* inf",
        "reach": "d inf",
        "S": "s",
        "B": "m d",
        "count": int,
        "whitened": "count m",
        "errors": "count d",
        "factor": "t",
    }

    def __init__(
        self,
        features: int,
        outputs: int,
        alpha: float,
        *,
        discount: float = 1.0,
        block: int | None = None,
        limit: float = np.inf,
        robust: float = np.inf,
    ) -> None:
        self.alpha, self.discount, self.limit = float(alpha), float(discount), float(limit)
        self.robust, self.reach = float(robust), np.full(outputs, np.inf)
        self.block = block_length(discount) if block is None else int(block)
        #: Sums of phi phi', lower triangle, and of phi y'.
        self.S, self.B = np.zeros((features, features), order="F"), np.zeros((features, outputs))
        self.whitened = np.empty((0, features))
        self._start_block()

    _root: Array | None = None
    _weights: Array

    def _snapshot(self) -> Self:
        # Arrays are replaced, or written to beyond the rows that other snapshots count.
        return self._replace()

    def state(self) -> dict[str, Any]:
        # Only the lower triangles of S and of the factor are read.
        n, part = self.count, {"S": packed(self.S), "factor": packed(self.factor[: self.count, : self.count])}
        return super().state() | part | {"whitened": self.whitened[:n], "errors": self.errors[:n]}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state(),)

    @classmethod
    def _build(cls, state: Mapping[str, Any]) -> Self:
        built = super()._build(state)
        built.S, built.factor = unpacked(built.S), unpacked(built.factor)
        if not (0.0 < built.discount <= 1.0 and built.alpha > 0.0):
            raise ValueError(f"DecayingRidge.discount and alpha must be positive, got {built.discount:g}")
        if len(built.factor) != len(built.errors):
            found = f"{len(built.factor)} rows, and errors {len(built.errors)}"
            raise ValueError(f"DecayingRidge.factor has {found}: they must agree")
        return built

    def predict(self, Phi: Array, before: Times | None = None) -> Array:
        """(n, d) predictions of (n, m) rows, each as if it came next, or after the first `before` (n,) rows of the
        present block.
        """
        w, done = self._solved(), self.count
        Z: Array = Phi @ w
        if done:
            W = dtrsm(1.0, self.factor[:done, :done], self.whitened[:done] @ self._whiten(Phi).T, lower=1)
            if before is not None:
                # By forward substitution, the first entries do not depend on later rows.
                W[np.arange(done)[:, None] >= before] = 0.0
            Z += W.T @ self.errors[:done]
        return Z

    def predict_and_update(self, Phi: Array, Y: Array, weights: Array | None = None) -> Array:
        """(n, d) predictions of (n, m) rows with positive weights, each made before its (d,) labels are learned."""
        known: Mask = ~np.asarray(np.isnan(Y).all(axis=1))
        Z, learned, every, start = np.empty(Y.shape), np.flatnonzero(known), known.all(), 0
        #: The rows without a label, and how many of those with one come before each.
        others = np.flatnonzero(~known)
        before = np.searchsorted(learned, others)
        while start < len(learned) or len(others):
            done, stop = self.count, min(start + self.block - self.count, len(learned))
            if stop > start:
                rows: Any = slice(start, stop) if every else learned[start:stop]
                Z[rows] = self._append(Phi[rows], Y[rows], None if weights is None else np.sqrt(weights[rows]))
            full = self.count == self.block
            now = int(np.searchsorted(before, stop)) if full else len(others)
            if now:
                Z[others[:now]] = self.predict(Phi[others[:now]], done + before[:now] - start)
            others, before, start = others[now:], before[now:], stop
            if full:
                self.end_block()
        return Z

    def replay(self, Phi: Array, Y: Array, weights: Array | None = None) -> Generator[float, None, None]:
        """Learn rows without predicting them, in steps that yield their number of multiplications."""
        self.end_block()
        known = ~np.isnan(Y).all(axis=1)
        if not known.all():
            Phi, Y, weights = Phi[known], Y[known], None if weights is None else weights[known]
        batches = [slice(start, start + REPLAY_ROWS) for start in range(0, len(Phi), REPLAY_ROWS)]
        cost = min(REPLAY_ROWS, len(Phi)) * Phi.shape[1] * (0.5 * Phi.shape[1] + Y.shape[1])
        if np.isnan(Y).any():
            # A missing label is replaced by its prediction from the rows before.
            for some in batches:
                self.predict_and_update(Phi[some], Y[some], None if weights is None else weights[some])
                yield 3.0 * cost
            self.end_block()
            return
        ages = self.discount ** np.arange(len(Phi) - 1.0, -1.0, -1.0)
        weights = (ages if weights is None else ages * weights)[:, None]
        fading = self.discount ** len(Phi)
        for some in batches:
            self.S = self._with_rows(np.sqrt(weights[some]) * Phi[some], fading)
            self.B = fading * self.B + (weights[some] * Phi[some]).T @ Y[some]
            fading = 1.0
            yield cost
        self._start_block()
        if len(Phi) and self.robust < np.inf:
            self._solved()
            yield Phi.shape[1] ** 3 / 6.0
            residuals = []
            for some in batches:
                residuals.append(self.loo_residuals(Phi[some], Y[some], weights[some]))
                yield cost
            self.reach = first_limit(np.vstack(residuals), self.robust)

    def end_block(self) -> None:
        n, g = self.count, self.discount
        if n:
            s, w = g ** (-(np.arange(n) + 1.0) / 2)[:, None], self._solved()
            assert self._root is not None
            # The rows phi, from L^-1 s phi, times the roots of the weights.
            Phi = dtrmm(1.0, self._root, self.whitened[:n].T, lower=1).T / s
            # The labels as learned (missing ones replaced, outliers clipped), times the roots of the weights.
            Y = (Phi @ w) + (self.factor[:n, :n] @ self.errors[:n]) / s
            if self.robust < np.inf and np.isinf(self.reach).any():
                # The first rows of a new learner have large residuals.
                half = slice(n // 2, n)
                own = s[half] if self.roots is None else s[half] * self.roots[half, None]
                found = first_limit(np.diag(self.factor)[half, None] * self.errors[half] / own, self.robust)
                self.reach = np.where(np.isinf(self.reach), found, self.reach)
            R = g ** ((n - 1.0 - np.arange(n)) / 2)[:, None] * Phi
            self.S = self._with_rows(R, g**n)
            self.B = g**n * self.B + R.T @ (g ** ((n - 1.0 - np.arange(n)) / 2)[:, None] * Y)
        self._start_block()

    def leading(self, features: int) -> DecayingRidge:
        """A learner with the first features only; ends the block."""
        self.end_block()
        copy = self._replace(S=self.S[:features, :features].copy(order="F"), B=self.B[:features].copy())
        copy._start_block()
        return copy

    def _with_rows(self, R: Array, fading: float) -> Array:
        """The lower triangle of fading S + R'R for (n, m) rows."""
        S: Array = dsyrk(1.0, R.T, fading, self.S, lower=1)
        return S

    def loo_residuals(self, Phi: Array, Y: Array, weights: Array) -> Array:
        """(n, d) leave-one-out residuals of replayed rows; `weights` are (n, 1), including discounts."""
        residuals = Y - Phi @ self._solved()
        leverages = weights[:, 0] * np.einsum("ij,ij->i", *2 * (self._whiten(Phi),))
        return np.asarray(residuals / np.maximum(1.0 - leverages, 1e-6)[:, None])

    def _start_block(self) -> None:
        m, d = self.B.shape
        self.count, space = 0, len(self.whitened)
        self.whitened = np.zeros((space, m))
        self.factor, self.errors = np.zeros((space, space), order="F"), np.zeros((space, d))
        #: Roots of the weights of the rows in the block; None where all are 1.
        self.roots: Array | None = None
        self._root = None

    def _make_room(self, n: int) -> None:
        """Space for n more rows. It doubles up to a whole block, so that a learner of few rows is small."""
        need, space = self.count + n, len(self.whitened)
        if need > space:
            more = min(self.block, max(need, 2 * space, MIN_ROWS_ALLOCATED)) - space
            for name in ("whitened", "errors"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            self.factor = np.asfortranarray(np.pad(self.factor, (0, more)))

    def _solved(self) -> Array:
        """(m, d) weights at the start of the block; the normal matrix is factored once."""
        if self._root is None:
            A = self.S.copy(order="F")
            ridge = self.alpha * self.discount ** (-(self.block + 1) / 2)
            # Large weights of rows could otherwise make the ridge negligible.
            A.flat[:: len(A) + 1] += max(ridge, 4.0 * len(A) * EPS * float(A.diagonal().max()))
            root, info = dpotrf(A, lower=1, overwrite_a=1)
            if info:
                raise SingularSystemError(f"alpha={self.alpha!r} is too small for these features: increase it")
            self._weights = dtrsm(1.0, root, dtrsm(1.0, root, self.B, lower=1), lower=1, trans_a=1)
            # Set last: a thread that finds the factor also reads the weights.
            self._root = root
        return self._weights

    def _whiten(self, R: Array) -> Array:
        assert self._root is not None
        one = len(R) == 1
        U: Array = dtrsv(self._root, R[0], lower=1)[None] if one else dtrsm(1.0, self._root, R.T, lower=1).T
        return U

    def _append(self, Phi: Array, Y: Array, roots: Array | None) -> Array:
        if len(Phi) == 1 and not np.isnan(Y).any():
            return _append_row([self], [Phi[0]], Y[0], 1.0 if roots is None else float(roots[0]))
        w, done, n = self._solved(), self.count, len(Phi)
        self._make_room(n)
        rows, old = slice(done, done + n), slice(0, done)
        s = self.discount ** (-(np.arange(done, done + n) + 1.0) / 2)[:, None]
        if roots is not None:
            self._keep_roots(roots)
            Phi = Phi * roots[:, None]
        R = Phi * s if self.discount < 1.0 else Phi
        if roots is not None:
            s *= roots[:, None]
        U = self._whiten(R)
        G = U @ U.T
        G.flat[:: n + 1] += 1.0
        Z = R @ w
        if done:
            W = dtrsm(1.0, self.factor[old, old], self.whitened[old] @ U.T, lower=1)
            G -= W.T @ W
            Z += W.T @ self.errors[old]
            self.factor[rows, old] = W.T
        C = np.sqrt(G) if n == 1 else dpotrf(G, lower=1, clean=1)[0]
        e = self._solve_forward(C, Y, Z, s)
        Z += C @ e - C.diagonal()[:, None] * e
        self.whitened[rows], self.factor[rows, rows], self.errors[rows] = U, C, e
        self.count += n
        Z /= s
        return Z

    def _keep_roots(self, roots: Array) -> None:
        kept = np.ones(self.block) if self.roots is None else self.roots.copy()
        kept[self.count : self.count + len(roots)] = roots
        self.roots = kept

    def _next_row(self, phi: Array, root: float) -> _NextRow:
        w, done = self._solved(), self.count
        assert self._root is not None
        s = self.discount ** (-(done + 1) / 2)
        phi = phi if root == 1.0 else phi * root
        r = phi if s == 1.0 else phi * s
        u = dtrsv(self._root, r, lower=1)
        z, pivot = r.dot(w), 1.0 + float(u.dot(u))
        cross = None
        if done:
            cross = dtrsv(self.factor[:done, :done], self.whitened[:done].dot(u), lower=1)
            pivot -= float(cross.dot(cross))
            z += cross.dot(self.errors[:done])
        s *= root
        z /= s
        return _NextRow(u, cross, sqrt(pivot), s, z)

    def _append_next(self, row: _NextRow, residual: Array, reach: Array) -> None:
        """Learn the row, given its (d,) clipped residual; `reach` is the limit of the next row."""
        done = self.count
        self._make_room(1)
        if row.cross is not None:
            self.factor[done, :done] = row.cross
        self.whitened[done], self.factor[done, done] = row.u, row.pivot
        self.errors[done] = residual * (row.s / row.pivot)
        self.reach, self.count = reach, done + 1

    def _solve_forward(self, C: Array, Y: Array, base: Array, s: Array) -> Array:
        """e = C^-1 (s Y - base) with clipped residuals, 0 for missing labels."""
        right, n = s * Y - base, len(C)
        e: Array = np.zeros(Y.shape)
        if np.isnan(Y).any():
            for i, c in enumerate(C):
                self._solve_row(e, i, (right[i] - c[:i] @ e[:i]) / s[i], s[i] / c[i])
            return e
        weights, start = np.diag(C)[:, None] / s, 0
        while start < n:
            # Solve for the remaining rows without limits; clip the first outlier; continue after it.
            rest = slice(start, n)
            e[rest] = dtrsm(1.0, C[rest, rest], right[rest] - C[rest, :start] @ e[:start], lower=1)
            residuals = weights[rest] * e[rest]
            limits = limits_along(self.reach, residuals, self.robust) if self.robust < np.inf else None
            within = self.limit if limits is None else self._within(limits[:-1])
            outlier = np.logical_or.reduce(np.abs(residuals) > within, axis=1)
            first = int(outlier.argmax())
            if not outlier[first]:
                self.reach = self.reach if limits is None else limits[-1]
                break
            self.reach = self.reach if limits is None else limits[first]
            self._solve_row(e, start + first, residuals[first], 1.0 / weights[start + first])
            start += first + 1
        return e

    def _within(self, reach: Array) -> Array:
        """The adaptive limits, and `limit` before they are known."""
        return np.where(reach < np.inf, reach, self.limit)

    def _solve_row(self, e: Array, i: int, residual: Array, factor: Array) -> None:
        """Set row i of e from its (d,) residual, nan for missing labels, and update the limits."""
        limit = self._within(self.reach)
        e[i] = factor * np.nan_to_num(np.clip(residual, -limit, limit))
        if self.robust < np.inf:
            self.reach = next_limit(self.reach, residual, self.robust)


class _NextRow(NamedTuple):
    """A new row: L^-1 r, its row of C without the diagonal, the diagonal, s and the prediction."""

    u: Array
    cross: Array | None
    pivot: float
    s: float
    z: Array


def append_row(ridges: Sequence[DecayingRidge], rows: Sequence[Array], y: Array, root: float = 1.0) -> Array:
    """(k, d) predictions of one row by ridges with the same limits, which then learn its (d,) labels, none missing.

    `rows` are the (m,) features of each ridge.
    """
    Z = _append_row(ridges, rows, y, root)
    for ridge in ridges:
        if ridge.count == ridge.block:
            ridge.end_block()
    return Z


def _append_row(ridges: Sequence[DecayingRidge], rows: Sequence[Array], y: Array, root: float) -> Array:
    found = [ridge._next_row(phi, root) for ridge, phi in zip(ridges, rows, strict=True)]
    one = ridges[0]
    Z = np.array([row.z for row in found])
    reach = np.array([ridge.reach for ridge in ridges])
    residuals = y - Z
    limit = one._within(reach)
    clipped = np.minimum(np.maximum(residuals, -limit), limit)
    if one.robust < np.inf:
        reach = next_limit(reach, residuals, one.robust)
    for ridge, row, residual, after in zip(ridges, found, clipped, reach, strict=True):
        if root != 1.0:
            ridge._keep_roots(np.array([root]))
        ridge._append_next(row, residual, after)
    return Z
