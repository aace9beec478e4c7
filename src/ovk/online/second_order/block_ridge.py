"""Progressive ridge regression on finite features, in exact blocks.

With whitened features phi, S = sum phi phi', B = sum phi y' over the rows before a block and A = S + ridge I = L L':

    U = Phi L'^-1,   z = L^-1 B,   base = U z,   I + U U' = C C',   ridge = base + tril(C, -1) C^-1 (Y - base),

with the result of one row at a time (`GrowingCholesky`). At the end of the block S += Phi'Phi and B += Phi'Y. The ridge
is added when A is factored, so it accumulates no rounding errors. A block may arrive in pieces; C and U store the rows
so far. A feature added within a block was zero before: A gains the ridge on its diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ovk.base import SIZE, Array, Indices, Mask, State, Times
from ovk.features import FeatureSums, RidgeFactor
from ovk.online.second_order.decaying_ridge import block_length
from ovk.online.second_order.growing_cholesky import GrowingCholesky, RidgeForecast

#: Blocks that are summed before they are added to the large sum, to limit rounding errors.
RECENT_BLOCKS = 64
#: Segments of a window, which is forgotten one segment at a time.
WINDOW_SEGMENTS = 8


@dataclass
class SumsOfEachOutput(FeatureSums, kind="each output"):
    """Sums S (d, m, m) and B (m, d) over the rows in which each output was observed."""

    _stored = {"S": "k m m"}

    @classmethod
    def zeros(cls, m: int, k: int) -> Self:
        return cls(np.zeros((k, m, m)), np.zeros((m, k)))

    def add(self, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        for q, y in enumerate(Y.T):
            seen = ~np.isnan(y)
            phi = Phi[seen]
            right = phi.T if weights is None else phi.T * weights[seen]
            self.S[q] += right @ phi
            self.B[:, q] += right @ y[seen]

    def with_new_features(self, new: slice, Phi: Array, Y: Array, weights: Array) -> Self:
        sums = self * 1.0
        for q, y in enumerate(Y.T):
            seen = ~np.isnan(y)
            right = (Phi[seen, new] * weights[seen, None]).T
            sums.S[q, new] += right @ Phi[seen]
            sums.S[q, :, new] = sums.S[q, new].T
            sums.B[new, q] += right @ y[seen]
        return sums


class StreamSums(State, ABC):
    """The sums S and B over the rows that a learner has not forgotten: all, with decaying weights, or in a window."""

    @abstractmethod
    def total(self) -> FeatureSums:
        """The current sums; the caller must not change them."""

    @abstractmethod
    def add(self, Phi: Array, Y: Array, points: int) -> None:
        """Add the rows of at most `points_left` points."""

    @abstractmethod
    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        """Apply a linear map to the sums."""

    def points_left(self) -> int | None:
        """Maximum number of points of the next block, None for no limit."""
        return None

    def labels(self) -> Array:
        return self.total().B

    def ridge_factor(self) -> float:
        return 1.0

    def row_factors(self, before: Times) -> Array | None:
        """(n,) factors of the rows of a block, given how many of its points come before each; None for 1."""
        return None

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        """Add the values of new features in past rows, with their labels and ages in points."""
        raise TypeError(f"{type(self).__name__} does not support new features")

    def merge(self, other: StreamSums) -> None:
        raise TypeError(f"{type(self).__name__} cannot be merged")


@dataclass
class AllRowsSums(StreamSums, kind="all rows"):
    """Sums over all rows: those of recent blocks, and those of all blocks before."""

    _state_classes = {"old": FeatureSums, "recent": FeatureSums}

    old: FeatureSums
    recent: FeatureSums
    count: int = 0

    def total(self) -> FeatureSums:
        return self.old + self.recent

    def labels(self) -> Array:
        return self.old.B + self.recent.B

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.recent = self.recent.with_rows(Phi, Y)
        self.count += 1
        if self.count % RECENT_BLOCKS == 0:
            self.old, self.recent = self.total(), self.recent.zeros(*self.recent.B.shape)

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.old, self.recent = change(self.old), change(self.recent)

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        self.old = self.old.with_new_features(new, Phi, Y, np.ones(len(Phi)))

    def merge(self, other: StreamSums) -> None:
        self.old = self.old + other.total()


@dataclass
class DecayingSums(StreamSums, kind="decaying"):
    """Sums in which a point k points ago has the weight g^k; `points` counts those of the current block.

    The stream is divided into blocks of b points. Inside a block the ridge decays with the sums, and the next block
    starts with the full ridge. After n points of the block, a row is predicted from

        A = g^(n+1) (S + c I) + sum_{l<n} g^(n-l) phi_l phi_l',      c = ridge g^(-(b+1)/2),

    so the ridge has its value in the middle of the block, and differs by at most a factor of 2^(1/2) elsewhere. Rows
    times g^(-(l+1)/2) then satisfy the identities of a block without forgetting, as A g^-(n+1) is S + c I plus their
    sum; and after n points S <- g^n (S + the sum over the scaled rows).
    """

    _state_classes = {"sums": FeatureSums}

    discount: float
    sums: FeatureSums
    points: int = 0

    @property
    def block(self) -> int:
        return block_length(self.discount)

    def total(self) -> FeatureSums:
        return self.sums

    def points_left(self) -> int:
        return self.block - self.points

    def ridge_factor(self) -> float:
        return float(self.discount ** (self.points - (self.block + 1) / 2))

    def row_factors(self, before: Times) -> Array:
        return np.asarray(self.discount ** (-0.5 * (before + 1.0)), dtype=np.float64)

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.sums = self.sums.with_rows(Phi, Y) * self.discount**points
        self.points = (self.points + points) % self.block

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.sums = change(self.sums)

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        self.sums = self.sums.with_new_features(new, Phi, Y, np.asarray(self.discount**ages))


@dataclass
class WindowSums(StreamSums, kind="window"):
    """Sums over at most the last `window` points, in segments: seven or eight eighths of the window once it is full.

    Rows that leave the window are never subtracted, so rounding errors do not accumulate. The last segment is `filled`
    with the newest points.
    """

    _state_classes = {"segments": FeatureSums}

    window: int
    segments: list[FeatureSums]
    filled: int = 0

    def total(self) -> FeatureSums:
        total = self.segments[0] * 1.0
        for segment in self.segments[1:]:
            total.S += segment.S
            total.B += segment.B
        return total

    def points_left(self) -> int | None:
        return self.window // min(WINDOW_SEGMENTS, self.window) - self.filled

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        last, left = self.segments[-1], self.points_left()
        self.segments, self.filled = [*self.segments[:-1], last.with_rows(Phi, Y)], self.filled + points
        if points == left:
            self.segments.append(last.zeros(*last.B.shape))
            self.segments, self.filled = self.segments[-min(WINDOW_SEGMENTS, self.window) :], 0

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.segments = [change(segment) for segment in self.segments]


#: Points of a block of `BlockRidge`.
MIN_BLOCK_POINTS, MAX_BLOCK_POINTS = 128, 512


@dataclass
class OutputGroup(State):
    """Outputs with the same ridge: columns `start` to `stop` of B. With an infinite ridge their weights are 0."""

    _stored = {"ridge": "* inf"}

    ridge: float
    start: int
    stop: int

    @property
    def columns(self) -> slice:
        return slice(self.start, self.stop)


class RidgeRows(NamedTuple):
    """Points of a block: the rows of their features Phi; their outputs Y and which of them are observed, (n, k).

    Points in `learned` (n,) age the sums of a learner that forgets. `weights` (n,) are None for 1. With `sizes` (n,),
    which increase up to m, point i is predicted from the first sizes_i features.
    """

    Phi: Any
    Y: Array
    observed: Mask
    learned: Mask
    weights: Array | None = None
    sizes: Indices | None = None

    def take(self, start: int, stop: int) -> RidgeRows:
        rows, per = slice(start, stop), len(self.Phi) // len(self.Y)
        others: Any = [None if values is None else values[rows] for values in self[1:]]
        return RidgeRows(self.Phi[start * per : stop * per], *others)


@dataclass
class ProgressiveRidge(State, ABC):
    """Ridge regression of several outputs on the same features in blocks; `sums` are those before the current block."""

    _state_classes = {"sums": StreamSums}

    #: Whether rows may have fewer features than the sums.
    nested: ClassVar[bool] = False
    sums: StreamSums

    @abstractmethod
    def block_size(self, m: int) -> int:
        """Number of points of a block with m features."""

    @abstractmethod
    def start_block(self, points: int) -> None:
        """Start a block of at most `points` points."""

    @abstractmethod
    def predict_and_update(self, rows: RidgeRows, *, last: bool) -> RidgeForecast:
        """Predict each point from those before it, and learn its observed labels; `last`: they end the block."""

    @abstractmethod
    def predict(self, Phi: Array) -> RidgeForecast:
        """Predict points from all rows learned."""

    @abstractmethod
    def commit(self, m: int) -> None:
        """End the block: add its rows to the sums, which then have m features."""

    def _row_factors(self, before: Times, weights: Array | None) -> Array | None:
        """(n,) factors of points, given how many of the block come before each; None for 1."""
        factors = self.sums.row_factors(before)
        if weights is None:
            return factors
        return np.sqrt(weights) if factors is None else factors * np.sqrt(weights)

    def add_for_new_features(self, new: slice, rows: RidgeRows, ages: Array) -> None:
        self.sums.add_for_new_features(new, rows.Phi, np.where(rows.observed, rows.Y, np.nan), ages)

    def merge(self, other: ProgressiveRidge) -> None:
        self.sums.merge(other.sums)


@dataclass
class GroupBlock(State):
    """A group of outputs during a block: the ridge added to S, the factor L of A, and z = L^-1 B at its start.

    U (j, m) are its whitened rows so far, for single rows a view of a larger array, and `triangle` is the Cholesky
    factor C of their Gram matrix.
    """

    _state_classes = {"factor": RidgeFactor, "triangle": GrowingCholesky}
    _stored = {"ridge": "* inf", "z": "m k", "U": "j l"}

    ridge: float
    factor: RidgeFactor
    z: Array
    U: Array
    triangle: GrowingCholesky
    _room: Array | None = field(default=None, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles of the view would not be views.
        return GroupBlock, (self.ridge, self.factor, self.z, self.U, self.triangle)

    @classmethod
    def start(cls, group: OutputGroup, ridge: float, total: FeatureSums, rows: int) -> GroupBlock | None:
        """The block of a group before its first row, None with an infinite ridge."""
        if not np.isfinite(ridge):
            return None
        B = np.ascontiguousarray(total.B[:, group.columns])
        factor = total.factor(ridge).triangular()
        triangle = GrowingCholesky(group.stop - group.start, rows)
        return cls(ridge, factor, factor.whiten_columns(B), np.empty((0, len(B))), triangle)

    def whiten(self, Phi: Array) -> Array:
        """Phi A^-1/2; for features added during the block A is the ridge."""
        m = len(self.z)
        if Phi.shape[1] == m:
            return self.factor.whiten_rows(Phi)
        old = self.factor.whiten_rows(np.ascontiguousarray(Phi[:, :m]))
        return np.concatenate([old, Phi[:, m:] / self.ridge**0.5], axis=1)

    def base(self, U: Array) -> Array:
        return U[:, : len(self.z)] @ self.z

    def cross(self, U: Array) -> Array:
        return self.U @ U[:, : self.U.shape[1]].T

    def append(self, U: Array) -> None:
        new = U.shape[1] - self.U.shape[1]
        self.U = np.concatenate([np.pad(self.U, ((0, 0), (0, new))) if new else self.U, U])
        self._room = None

    def predict_nested(
        self, U: Array, earlier: Array, Y: Array, seen: Mask, sizes: Indices, per: int, *, keep: bool
    ) -> RidgeForecast:
        """Predict row i from the first sizes_i features and the rows before it, and learn the rows in `seen`.

        The leading block of L is the factor of that of A, so the first entries of U and z are those for fewer features.
        Each growth adds u u' to the Gram matrix of the rows of the block, whose factor is computed again.
        """
        old, found, start, m = len(self.U), [], 0, 0
        W = np.concatenate([self.U, U])
        G, base = np.zeros((len(W), len(W))), np.zeros((len(W), len(earlier.T)))
        distinct, counts = np.unique(sizes, return_counts=True)
        for size, stop in zip(distinct.tolist(), np.cumsum(counts).tolist(), strict=True):
            new = slice(m, size)
            G += W[:, new] @ W[:, new].T
            base += W[:, new] @ self.z[new]
            triangle, end = GrowingCholesky(self.triangle.k, self.triangle.panel), old + stop
            if old:
                known = np.full(old, True)
                triangle.predict_and_update(np.empty((0, old)), G[:old, :old].copy(), base[:old], earlier, known)
            part = G[:old, old:end].copy(), G[old:end, old:end].copy(), base[old:end], Y[:stop], seen[:stop]
            forecast = triangle.predict_and_update(*part, per, keep=keep and stop == len(U))
            found.append(RidgeForecast(forecast.ridge[start:], forecast.H[start // per :]))
            start, m, self.triangle = stop, size, triangle
        return RidgeForecast.concatenate(found)

    def after_row(self, phi: Array, y: Array) -> tuple[Self, Array, float]:
        """The block with one more row, and the ridge prediction (k,) and leverage of the row."""
        u = self.factor.whiten_row(phi)
        triangle, ridge, h = self.triangle.after_row(self.U.dot(u), float(u.dot(u)), u.dot(self.z), y)
        n, room = len(self.U), self._room
        if room is None or n == len(room):
            room = np.empty((max(self.triangle.panel, n + 1), len(u)))
            room[:n] = self.U
        room[n] = u
        return self._replace(triangle=triangle, U=room[: n + 1], _room=room), ridge, h

    def predict_row(self, phi: Array) -> tuple[Array, float]:
        u = self.factor.whiten_row(phi)
        _, ridge, h = self.triangle.predict_row(self.U.dot(u), float(u.dot(u)), u.dot(self.z))
        return ridge, h


@dataclass
class BlockRidge(ProgressiveRidge, kind="block"):
    """Ridge regression of outputs observed in the same rows, or with separate rows for each output.

    With `per` > 1 rows per point, which are predicted together, there is one column for all outputs. A group with an
    infinite ridge has no block. `pending` are the features and labels of the `points` of the block so far.
    """

    _state_classes = {"groups": OutputGroup, "blocks": GroupBlock}
    _stored = {"per": SIZE}

    nested = True
    groups: list[OutputGroup]
    per: int
    blocks: list[GroupBlock | None] = field(default_factory=list)
    pending: list[tuple[Array, Array]] = field(default_factory=list)
    points: int = 0

    @classmethod
    def start(cls, sums: FeatureSums, groups: list[OutputGroup], per: int, discount: float, window: int | None) -> Self:
        """A problem before the first row, with sums of zeros."""
        if discount != 1:
            return cls(DecayingSums(float(discount), sums), groups, per)
        return cls(AllRowsSums(sums, sums * 1.0) if window is None else WindowSums(int(window), [sums]), groups, per)

    def block_size(self, m: int) -> int:
        # Half of m balances the factor of A against that of the block.
        return min(max(MIN_BLOCK_POINTS, 32 * (m // 64)), MAX_BLOCK_POINTS)

    def start_block(self, points: int) -> None:
        total, factor = self.sums.total(), self.sums.ridge_factor()
        self.blocks = [GroupBlock.start(one, factor * one.ridge, total, points * self.per) for one in self.groups]

    def predict_and_update(self, rows: RidgeRows, *, last: bool) -> RidgeForecast:
        Phi, Y, observed, learned, weights, sizes = rows
        Y, seen = self._points(Y, observed)
        before = self.points + np.cumsum(learned) - learned
        factors = self._row_factors(before, weights)
        if factors is not None:
            factors = np.repeat(factors, self.per)[:, None]
            Phi, Y = factors * Phi, factors * Y

        def one(block: GroupBlock, columns: slice, U: Array) -> RidgeForecast:
            labels, per = Y[:, columns], self.per
            if sizes is not None and sizes[0] < Phi.shape[1]:
                earlier = np.concatenate([np.empty((0, Y.shape[1])), *(y for _, y in self.pending)])[:, columns]
                found = block.predict_nested(U, earlier, labels, seen, np.repeat(sizes, per), per, keep=not last)
            else:
                grams = block.cross(U), U @ U.T, block.base(U)
                found = block.triangle.predict_and_update(*grams, labels, seen, per, weights, keep=not last)
            if not last:
                block.append(U[seen])
            return found

        forecast = self._each_group(Phi, factors, one)
        self.pending.append((Phi, Y) if seen.all() else (Phi[seen], Y[seen]))
        self.points += int(learned.sum())
        return forecast

    def predict(self, Phi: Array) -> RidgeForecast:
        def one(block: GroupBlock, columns: slice, U: Array) -> RidgeForecast:
            if self.per == 1:
                own = np.einsum("ij,ij->i", U, U)
            else:
                points = U.reshape(-1, self.per, U.shape[1])
                own = points @ points.transpose(0, 2, 1)
            return block.triangle.predict(block.cross(U), own, block.base(U), self.per)

        factors = self.sums.row_factors(np.array([self.points]))
        return self._each_group(Phi if factors is None else factors * Phi, factors, one)

    def after_row(self, phi: Array, y: Array) -> tuple[Self, Array, Array]:
        """The problem with one more row, (m,) and (k,) without nan, and its ridge prediction and leverages (k,)."""
        s = self._row_factor()
        if s != 1.0:
            phi, y = s * phi, s * y
        ridge, H, blocks = np.zeros(len(y)), np.zeros(len(y)), self.blocks.copy()
        for i, (group, block) in enumerate(zip(self.groups, self.blocks, strict=True)):
            if block is not None:
                columns = group.columns
                blocks[i], ridge[columns], H[columns] = block.after_row(phi, y[columns])
        pending = [*self.pending, (phi[None], y[None])]
        return self._replace(blocks=blocks, pending=pending, points=self.points + 1), ridge / s, H

    def predict_row(self, phi: Array) -> tuple[Array, Array]:
        s, k = self._row_factor(), self.groups[-1].stop
        ridge, H = np.zeros(k), np.zeros(k)
        for group, block in zip(self.groups, self.blocks, strict=True):
            if block is not None:
                ridge[group.columns], H[group.columns] = block.predict_row(s * phi)
        return ridge / s, H

    def _row_factor(self) -> float:
        factors = self.sums.row_factors(np.array([self.points]))
        return 1.0 if factors is None else float(factors[0])

    def _each_group(
        self, Phi: Array, factors: Array | None, one: Callable[[GroupBlock, slice, Array], RidgeForecast]
    ) -> RidgeForecast:
        """The joint forecast of all groups, from the function `one` of a block and its whitened rows."""
        n, k = len(Phi) // self.per, self.groups[-1].stop
        ridge = np.zeros((len(Phi), k))
        H = np.zeros((n, k) if self.per == 1 else (n, self.per, self.per))
        for group, block in zip(self.groups, self.blocks, strict=True):
            if block is not None:
                found = one(block, group.columns, block.whiten(Phi))
                ridge[:, group.columns] = found.ridge
                if self.per == 1:
                    H[:, group.columns] = found.H[:, None]
                else:
                    H[...] = found.H
        if factors is not None:
            ridge /= factors
        return RidgeForecast(ridge if self.per == 1 else ridge.reshape(n, self.per), H)

    def commit(self, m: int) -> None:
        self.sums.transform(lambda sums: sums.padded(m))
        if self.pending:
            # Features that were added later were 0 before.
            Phi = [F if F.shape[1] == m else np.pad(F, ((0, 0), (0, m - F.shape[1]))) for F, _ in self.pending]
            Y = [Y for _, Y in self.pending]
            only = len(Y) == 1
            self.sums.add(Phi[0] if only else np.concatenate(Phi), Y[0] if only else np.concatenate(Y), self.points)
        self.pending, self.points = [], 0

    def add_for_new_features(self, new: slice, rows: RidgeRows, ages: Array) -> None:
        Phi, Y, observed, *_ = rows
        Y, seen = self._points(Y, observed)
        self.sums.add_for_new_features(new, Phi[seen], Y[seen], np.repeat(ages, self.per)[seen])

    def _points(self, Y: Array, observed: Mask) -> tuple[Array, Mask]:
        """Outputs and mask of the rows of Phi."""
        k = self.groups[-1].stop
        return Y.reshape(-1, k), np.asarray(observed.reshape(-1, k).any(axis=1))
