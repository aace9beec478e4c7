"""Rows of an aggregation, one after the other: as its definition says, or many of them quickly.

Both ways have the same three methods: `mix` predicts a row, `update` learns its regrets, and `end` leaves the rule as
it is after the last row. `F` holds the predictions in the form that `mix` takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ovk._types import Array, Mask

if TYPE_CHECKING:
    from ovk.online.experts.aggregation import Aggregation, MLPoly

#: The size of the regrets grows by at most this factor in a row.
GROWTH = 2.0
#: Squares of larger regrets could overflow: such a row is left out.
LARGEST = 1e140
#: What is never divided by less.
TINY = float(np.finfo(float).tiny)


class RegretRows(Protocol):
    """Rows that an aggregation predicts and learns, one after the other."""

    F: Array

    def mix(self, f: Array) -> Array:
        """(d,) mixture of a row of `F`."""

    def update(self, regrets: Array) -> None:
        """Learn the regrets of a row against the experts of `F`."""

    def end(self) -> None:
        """Put what was learned into the rule."""


class PlainRows:
    """Every row by `Aggregation.update`.

    Parameters
    ----------
    rule : what learns
    F : (n, k, d) predictions of the experts, nan where one abstains
    """

    def __init__(self, rule: Aggregation, F: Array) -> None:
        self._rule, self.F = rule, F

    def mix(self, f: Array) -> Array:
        return mixture(self._rule.weights_, f)

    def update(self, regrets: Array) -> None:
        self._rule.update(regrets)

    def end(self) -> None:
        pass


class MLPolyRows:
    """What `MLPoly.update` does, for rows in which the same experts abstain and every label is known.

    Those who abstain do not take part: their shares go to the others, and their sums only age. What only the bounds
    need is summed at the end.

    Parameters
    ----------
    rule : what learns
    F : (n, k, d) predictions of the experts
    awake : (k,) experts who do not abstain; their predictions are finite
    """

    _size: Array
    _sums: Array
    _spread: Array
    _weights: Array
    _begun: bool
    _learned: list[tuple[Array, Array, Array, Array]]

    def __init__(self, rule: MLPoly, F: Array, awake: Mask) -> None:
        self._rule, self._awake, self.F = rule, awake, F[:, awake]
        self._step = np.empty((2, *self.F.shape[1:]))
        self._load()

    def mix(self, f: Array) -> Array:
        mixed: Array = np.add.reduce(self._weights * f)
        return mixed

    def update(self, regrets: Array) -> None:
        largest, size, step = np.maximum.reduce(np.abs(regrets)), self._size, self._step
        if not np.logical_and.reduce(largest <= LARGEST):
            self._leave_to_rule(regrets)
            return
        factor = size / np.maximum(np.maximum(largest, size), TINY)
        self._learned.append((regrets, largest, factor, self._spread))
        np.multiply(factor, regrets, out=step[0])
        np.multiply(step[0], step[0], out=step[1])
        self._sums *= self._rule.discount
        self._sums += step
        reached = np.minimum(largest, GROWTH * size)
        if not self._begun:
            reached = np.where(size > 0.0, reached, largest)
        self._size = size = np.maximum(self._fading * size, reached)
        self._spread = size * size + self._sums[1]
        self._weights = shares(self._sums[0], self._spread)
        self._begun = self._begun or bool(np.logical_and.reduce(size > 0.0))

    def end(self) -> None:
        rule, n = self._rule, len(self._learned)
        if not n:
            return
        g, awake = rule.discount, self._awake
        ages = g ** np.arange(n - 1.0, -1.0, -1.0)
        regrets, largest, factor, spread = (np.array(parts) for parts in zip(*self._learned, strict=True))
        rises = (factor[:, None] * regrets) ** 2 / np.maximum(spread, TINY)
        rule.potential_ = g**n * rule.potential_ + ages @ rises.sum(axis=1) / g
        rule.cut_ = g**n * rule.cut_ + ages @ ((1.0 - factor) * largest)
        # Copies with other numbers: forks share the arrays.
        rule.regret_, rule.sum_, rule.squares_ = (g**n * sums for sums in (rule.regret_, rule.sum_, rule.squares_))
        rule.regret_[awake] += np.tensordot(ages, regrets, 1)
        rule.sum_[awake], rule.squares_[awake] = self._sums
        rule.size_ = self._size
        rule.weights_ = shares(rule.sum_, rule.size_**2 + rule.squares_)
        self._learned = []

    def _load(self) -> None:
        rule, awake = self._rule, self._awake
        self._fading, self._size = np.sqrt(rule.discount), rule.size_
        self._sums = np.stack([rule.sum_[awake], rule.squares_[awake]])
        self._spread = self._size**2 + self._sums[1]
        self._weights = shares(rule.weights_[awake], np.ones_like(self._spread))
        #: Whether all outputs have had a regret that was not 0.
        self._begun = bool((self._size > 0.0).all())
        self._learned = []

    def _leave_to_rule(self, regrets: Array) -> None:
        self.end()
        every = np.full(self._rule.weights_.shape, np.nan)
        every[self._awake] = regrets
        self._rule.update(every)
        self._load()


def shares(sums: Array, spread: Array) -> Array:
    """(k, d) weights max(R_k, 0) / (b^2 + V_k) over their sum, alike where all are 0."""
    positive = np.maximum(sums, 0.0) / np.maximum(spread, TINY)
    total = np.add.reduce(positive)
    if not np.logical_and.reduce(total > 0.0):
        positive = np.where(total > 0.0, positive, 1.0)
        total = np.add.reduce(positive)
    found: Array = positive / total
    return found


def mixture(weights: Array, F: Array) -> Array:
    """(..., d) mixtures of (..., k, d) predictions with (k, d) weights, shared among those that are not nan."""
    plain: Array = np.add.reduce(weights * F, axis=-2)
    if np.isfinite(plain).all():
        return plain
    awake = np.isfinite(F)
    given = np.where(awake, weights, 0.0)
    total = given.sum(axis=-2, keepdims=True)
    # If the weights of those who do not abstain are all 0, these count alike.
    alike = awake / np.maximum(awake.sum(axis=-2, keepdims=True), 1)
    given = np.where(total > 0.0, given / np.where(total > 0.0, total, 1.0), alike)
    mixed: Array = np.add.reduce(given * np.where(awake, F, 0.0), axis=-2)
    return mixed
