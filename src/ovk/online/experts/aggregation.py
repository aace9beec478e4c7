"""Prediction with expert advice, with a bound on the regret against each expert.

At each row expert k predicts f_k and the mixture predicts z = sum_k w_k f_k, with separate weights for each output.
The regret of the row against expert k is, for the squared loss linearised at the mixture's prediction,

    r_k = 2 (z - y) (z - f_k),        sum_k w_k r_k = 0,

which is at least (z - y)^2 - (f_k - y)^2. The sums of r_k therefore also bound the regret against the best fixed
convex combination of the experts.

Losses need not be bounded. A row whose largest regret exceeds the size b of the regrets before it is scaled down to b,
and b grows to that regret, but no more than twofold:

    m_t = max_k |r_k,t|,    r_k,t <- r_k,t min(1, b_(t-1) / m_t),    b_t = max(b_(t-1), min(m_t, 2 b_(t-1))),

with b_1 the first m_t that is not 0. A single outlier thus moves the sums no more than an inlier and at most doubles b,
and b reaches a new level of the losses after a few rows. The scaling cuts off

    C = sum_t (m_t - b_(t-1))+ <= B (1 + log2(B / b_1))        if no regret exceeds B,

because b doubles at most log2(B / b_1) times and the other rows cut off no more than the growth of b.

References: P. Gaillard, G. Stoltz and T. van Erven (2014), "A second-order bound with excess losses"; O. Wintenberger
(2017), "Optimal learning with Bernstein online aggregation".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from ovk.base import Array, Mask, Parameters, Transactional, reads_snapshot

#: Smaller relative differences between predictions are rounding errors.
ROUNDING = 8.0 * float(np.finfo(float).eps)
#: Limit on the growth of the size of the regrets in one row.
MAX_SIZE_GROWTH = 2.0
#: Rows with larger regrets, whose squares could overflow, are ignored.
MAX_REGRET = 1e140
#: Lower bound of denominators.
TINY = float(np.finfo(float).tiny)


class RegretRows:
    """One pass of an aggregation rule over rows; `F` are (n, k, d) predictions of the experts, nan for abstention."""

    def __init__(self, rule: Any, F: Array) -> None:
        self._rule, self.F = rule, F

    def mix(self, f: Array) -> Array:
        return mixture(self._rule.weights_, f)

    def update(self, regrets: Array) -> None:
        self._rule.update(regrets)

    def end(self) -> None:
        """Store the result in the rule."""


class MLPolyRows(RegretRows):
    """A faster `MLPoly.update` for rows in which every label is known and the same experts abstain.

    Experts not in `awake` (k,) abstain: the others share their weights, and their sums only decay. Sums that only the
    bounds need are computed at the end.
    """

    def __init__(self, rule: MLPoly, F: Array, awake: Mask) -> None:
        super().__init__(rule, F[:, awake])
        self._active_experts = awake
        self._step = np.empty((2, *self.F.shape[1:]))
        self._load()

    def _load(self) -> None:
        rule, awake = self._rule, self._active_experts
        self._fading, self._size = np.sqrt(rule.discount), rule.size_
        self._sums = np.stack([rule.sum_[awake], rule.squares_[awake]])
        self._spread = self._size**2 + self._sums[1]
        self._weights = shares(rule.weights_[awake], np.ones_like(self._spread))
        #: Whether every output has had a non-zero regret.
        self._begun = bool((self._size > 0.0).all())
        self._learned: list[tuple[Array, Array, Array, Array]] = []

    def mix(self, f: Array) -> Array:
        mixed: Array = np.add.reduce(self._weights * f)
        return mixed

    def update(self, regrets: Array) -> None:
        largest, size, step = np.maximum.reduce(np.abs(regrets)), self._size, self._step
        if not np.logical_and.reduce(largest <= MAX_REGRET):
            self._use_general_update(regrets)
            return
        factor = size / np.maximum(np.maximum(largest, size), TINY)
        self._learned.append((regrets, largest, factor, self._spread))
        np.multiply(factor, regrets, out=step[0])
        np.multiply(step[0], step[0], out=step[1])
        self._sums *= self._rule.discount
        self._sums += step
        reached = np.minimum(largest, MAX_SIZE_GROWTH * size)
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
        g, awake = rule.discount, self._active_experts
        ages = g ** np.arange(n - 1.0, -1.0, -1.0)
        regrets, largest, factor, spread = (np.array(parts) for parts in zip(*self._learned, strict=True))
        rises = (factor[:, None] * regrets) ** 2 / np.maximum(spread, TINY)
        rule.potential_ = g**n * rule.potential_ + ages @ rises.sum(axis=1) / g
        rule.cut_ = g**n * rule.cut_ + ages @ ((1.0 - factor) * largest)
        # New arrays, as snapshots share the old ones.
        rule.regret_, rule.sum_, rule.squares_ = (g**n * sums for sums in (rule.regret_, rule.sum_, rule.squares_))
        rule.regret_[awake] += np.tensordot(ages, regrets, 1)
        rule.sum_[awake], rule.squares_[awake] = self._sums
        rule.size_ = self._size
        rule.weights_ = shares(rule.sum_, rule.size_**2 + rule.squares_)
        self._learned = []

    def _use_general_update(self, regrets: Array) -> None:
        self.end()
        every = np.full(self._rule.weights_.shape, np.nan)
        every[self._active_experts] = regrets
        self._rule.update(every)
        self._load()


def shares(sums: Array, spread: Array) -> Array:
    """(k, d) weights proportional to max(R_k, 0) / (b^2 + V_k), equal where all are 0."""
    positive = np.maximum(sums, 0.0) / np.maximum(spread, TINY)
    total = np.add.reduce(positive)
    if not np.logical_and.reduce(total > 0.0):
        positive = np.where(total > 0.0, positive, 1.0)
        total = np.add.reduce(positive)
    found: Array = positive / total
    return found


def mixture(weights: Array, F: Array) -> Array:
    """(..., d) mixtures of (..., k, d) predictions with (k, d) weights, renormalised where some are nan."""
    plain: Array = np.add.reduce(weights * F, axis=-2)
    if np.isfinite(plain).all():
        return plain
    awake = np.isfinite(F)
    given = np.where(awake, weights, 0.0)
    total = given.sum(axis=-2, keepdims=True)
    # If the remaining weights are all 0, they become equal.
    alike = awake / np.maximum(awake.sum(axis=-2, keepdims=True), 1)
    given = np.where(total > 0.0, given / np.where(total > 0.0, total, 1.0), alike)
    mixed: Array = np.add.reduce(given * np.where(awake, F, 0.0), axis=-2)
    return mixed


class Aggregation(Transactional, Parameters, ABC, saved=False):
    """Base class of the aggregation rules.

    A prediction of nan means that an expert abstains: the others share its weight, and its sums do not change. All
    weights are equal at first. There are (k, d) `weights_` for the next row and sums `regret_` of the regrets,
    discounted if the rule discounts, the (d,) `size_` of the regrets so far, and the sum `cut_` that scaling has cut
    off.
    """

    weights_: Array
    regret_: Array
    size_: Array
    cut_: Array

    def start(self, experts: int, outputs: int) -> None:
        """Discard what was learned and give all experts the same weight."""
        self.weights_ = np.full((experts, outputs), 1.0 / experts)
        self.regret_ = np.zeros((experts, outputs))
        self.size_ = np.zeros(outputs)
        self.cut_ = np.zeros(outputs)

    def restart(self, outputs: Mask) -> None:
        """Discard what was learned about some outputs, a (d,) mask."""
        fresh = self.replace()
        fresh.start(*self.weights_.shape)
        for name, value in fresh.state().items():
            setattr(self, name, np.where(outputs, value, getattr(self, name)))

    @abstractmethod
    def update(self, regrets: Array) -> None:
        """Learn the (k, d) regrets of one row, nan where unknown: loss of the mixture minus loss of each expert."""

    @abstractmethod
    def regret_bound(self) -> Array:
        """(k, d) upper bound on `regret_`, computed from the regrets so far."""

    @reads_snapshot
    def predict(self, F: Any) -> Array:
        """Mix (n, k, d) predictions of the experts, nan where one abstains; (n, d), 0 where all abstain."""
        if "weights_" not in vars(self):
            raise NotFittedError(f"{type(self).__name__} has no weights yet: call start or predict_then_learn first")
        return mixture(self.weights_, self._checked(F))

    def predict_then_learn(self, F: Any, Y: Any, sample_weight: Any = None) -> Array:
        """Mix the predictions of each row before learning from its outputs.

        Parameters
        ----------
        F : (n, k, d) predictions of the experts, nan where one abstains
        Y : (n, d) outputs, nan where one was not observed
        sample_weight : (n,) >= 0, optional
            Factors of the losses, and therefore of the regrets. A row of weight 0 is not learned, and no sum decays.

        Returns
        -------
        (n, d) predictions of the mixture; 0 where all experts abstain
        """
        F, Y = self._checked(F), np.asarray(Y, dtype=float)
        F = np.where(np.isinf(F), np.nan, F)
        if Y.shape != (F.shape[0], F.shape[2]):
            raise ValueError(f"Y must have shape {(F.shape[0], F.shape[2])} for F of shape {F.shape}, got {Y.shape}")
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if weights is not None and (weights.shape != Y.shape[:1] or not (weights >= 0.0).all()):
            raise ValueError(f"sample_weight must contain {len(Y)} non-negative numbers, got {sample_weight!r}")
        Z, known = np.empty(Y.shape), ~np.isnan(Y).all(axis=1)
        with self._transaction() as work, np.errstate(over="ignore", invalid="ignore"):
            if "weights_" not in vars(work):
                work.start(*F.shape[1:])
            rows = work.rows(F, Y)
            for i, (f, y) in enumerate(zip(rows.F, Y, strict=True)):
                Z[i] = z = rows.mix(f)
                weight = 1.0 if weights is None else float(weights[i])
                if weight > 0.0 and known[i]:
                    # An expert that differs from the mixture by rounding has no regret; with large predictions it
                    # would outweigh all others.
                    gap = z - f
                    rows.update((2.0 * weight * (z - y)) * np.where(np.abs(gap) > ROUNDING * np.abs(z), gap, 0.0))
            rows.end()
        return Z

    def rows(self, F: Array, Y: Array) -> RegretRows:
        """The fastest pass of this rule over (n, k, d) predictions and (n, d) outputs."""
        return RegretRows(self, F)

    def _checked(self, F: Any) -> Array:
        F = np.asarray(F, dtype=float)
        if F.ndim != 3:
            raise ValueError(f"F must have shape (rows, experts, outputs), got {F.shape}")
        if "weights_" in vars(self) and F.shape[1:] != self.weights_.shape:
            experts, outputs = self.weights_.shape
            raise ValueError(f"F must contain {experts} experts and {outputs} outputs as before, got shape {F.shape}")
        return np.asarray(F)

    def _scale(self, regrets: Array, discount: float) -> tuple[Array, Any]:
        """Add a row to `regret_`; return its (k, d) scaled regrets, 0 where unknown, and the discount of the sums of
        each output, (d,) or a number.
        """
        age: Any = discount
        largest, size = np.maximum.reduce(np.abs(regrets)), self.size_
        if not (largest <= MAX_REGRET).all():
            with np.errstate(invalid="ignore"):
                regrets = np.where((np.abs(regrets) > MAX_REGRET).any(axis=0), np.nan, regrets)
            known = np.isfinite(regrets)
            regrets = np.where(known, regrets, 0.0)
            # The sums of an output without a label do not decay.
            age = np.where(known.any(axis=0), discount, 1.0)
            largest = np.maximum.reduce(np.abs(regrets))
        factor = size / np.maximum(np.maximum(largest, size), TINY)
        self.regret_ = age * self.regret_ + regrets
        self.cut_ = age * self.cut_ + (1.0 - factor) * largest
        reached = np.where(size > 0.0, np.minimum(largest, MAX_SIZE_GROWTH * size), largest)
        self.size_ = np.maximum(np.sqrt(age) * size, reached)
        return factor * regrets, age


class MLPoly(Aggregation):
    """Mixes experts by polynomially weighted averages with a learning rate for each expert.

    Let R_k be the sum of the scaled regrets against expert k, V_k that of their squares and b their size. Then

        w_k proportional to max(R_k, 0) / (b^2 + V_k).

    Without a discount the regret against expert k is at most

        C + sqrt((b^2 + V_k) sum_j log2((b^2 + V_j) / b_1^2)),        C <= B (1 + log2(B / b_1)),

    for every sequence, where the scaling has cut off C, b_1 is the first non-zero regret and B the largest one.

    With a discount g all sums decay by g per row and b by sqrt(g). The same bound then holds for the discounted regret,
    with (1 / g) sum_t g^(T-t) sum_j r_j,t^2 / (b^2 + V_j) in place of the sum of logarithms. Suppose that an expert
    loses rho times as much per row before a change as it gains afterwards. Its sum is positive again
    ln(1 + rho) / ln(1 / g) rows after the change, regardless of the time before it; without a discount this takes rho
    times that time.

    Parameters
    ----------
    discount : float in (0, 1]
        A row t rows ago has the weight discount^t. Values below 1 let the weights follow a change of the best expert.

    See Also
    --------
    BOA, AutoStream

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import MLPoly
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal((200, 1))
    >>> experts = np.stack([y + 0.1, y - 0.2, 0.0 * y], axis=1)
    >>> rule = MLPoly()
    >>> z = rule.predict_then_learn(experts, y)
    >>> print(rule.weights_[:, 0].round(2))
    [0.67 0.33 0.  ]
    """

    _stored = {"weights_ regret_ sum_ squares_": "k d", "size_ cut_ potential_": "d"}

    sum_: Array
    squares_: Array
    potential_: Array

    def __init__(self, discount: float = 1.0) -> None:
        self.discount = discount

    def start(self, experts: int, outputs: int) -> None:
        if not 0.0 < self.discount <= 1.0:
            raise ValueError(f"discount must be in (0, 1], got {self.discount!r}")
        super().start(experts, outputs)
        self.sum_ = np.zeros((experts, outputs))
        self.squares_ = np.zeros((experts, outputs))
        self.potential_ = np.zeros(outputs)

    def update(self, regrets: Array) -> None:
        before = self.size_**2 + self.squares_
        r, age = self._scale(regrets, self.discount)
        squares = r * r
        # A bound on the growth of the potential sum_k max(R_k, 0)^2 / (b^2 + V_k). Before the first regret b, V_k and
        # the scaled r are 0.
        rise = np.add.reduce(squares / np.maximum(before, TINY))
        self.potential_ = age * self.potential_ + rise / age
        self.sum_ = age * self.sum_ + r
        self.squares_ = age * self.squares_ + squares
        self.weights_ = shares(self.sum_, self.size_**2 + self.squares_)

    def rows(self, F: Array, Y: Array) -> RegretRows:
        known = np.isfinite(Y)
        labelled = known.any(axis=1)
        if labelled.sum() > 1 and known[labelled].all():
            awake: Mask = np.logical_and.reduce(np.isfinite(F), axis=(0, 2))
            if awake.any() and np.isnan(F[:, ~awake]).all():
                return MLPolyRows(self, F, awake)
        return super().rows(F, Y)

    def regret_bound(self) -> Array:
        bound: Array = self.cut_ + np.sqrt((self.size_**2 + self.squares_) * self.potential_)
        return bound


class BOA(Aggregation):
    """Mixes experts by Bernstein online aggregation: exponential weights with a second-order correction.

    Expert k of K has the learning rate eta_k = min(1 / (2 b), sqrt(ln K / V_k)), where b is the size of the regrets so
    far and V_k the sum of the squared scaled regrets against k. With Q_k = sum_t (r_k - eta_k r_k^2) the weights are

        w_k proportional to eta_k exp(eta_k Q_k).

    For every sequence the regret against expert k is at most

        C + sum_t eta_k r_k^2 + (ln K + ln W) / eta_k,        W = 1 + 1 / (e K) sum_t sum_j (eta_j,t-1 / eta_j,t - 1),

    which is of order sqrt(V_k ln K). The scaling has cut off C, at most B (1 + log2(B / b_1)), where b_1 is the first
    non-zero regret and B the largest.

    See Also
    --------
    MLPoly, AutoStream

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import BOA
    >>> y = np.random.default_rng(0).standard_normal((200, 1))
    >>> rule = BOA()
    >>> z = rule.predict_then_learn(np.stack([y + 0.1, y + 1.0], axis=1), y)
    >>> print(rule.weights_[:, 0].round(2))
    [1. 0.]
    """

    _stored = {
        "weights_": "k d",
        "regret_ squares_ corrected_ correction_ rates_": "k d inf",
        "size_ cut_ growth_": "d inf",
    }

    squares_: Array
    corrected_: Array
    correction_: Array
    rates_: Array
    growth_: Array

    def __init__(self) -> None:
        pass

    def start(self, experts: int, outputs: int) -> None:
        super().start(experts, outputs)
        self.squares_ = np.zeros((experts, outputs))
        self.corrected_ = np.zeros((experts, outputs))
        self.correction_ = np.zeros((experts, outputs))
        self.rates_ = np.full((experts, outputs), np.inf)
        self.growth_ = np.ones(outputs)

    def update(self, regrets: Array) -> None:
        r, _ = self._scale(regrets, 1.0)
        squares = r * r
        # Rates are infinite until the first regret, which is scaled to 0.
        rates = np.where(np.isinf(self.rates_), 0.0, self.rates_)
        correction = rates * squares
        self.correction_ = self.correction_ + correction
        self.corrected_ = self.corrected_ + r - correction
        self.squares_ = self.squares_ + squares
        experts = len(r)
        with np.errstate(divide="ignore"):
            new = np.minimum(0.5 / self.size_, np.sqrt(np.log(max(experts, 2)) / self.squares_))
        ratio = np.divide(rates, new, out=np.ones_like(new), where=rates > 0.0)
        self.growth_ = self.growth_ + (ratio - 1.0).sum(axis=0) / (math.e * experts)
        self.rates_ = new
        finite = np.where(np.isinf(new), 1.0, new)
        exponent = finite * self.corrected_
        raw = finite * np.exp(exponent - exponent.max(axis=0))
        self.weights_ = raw / raw.sum(axis=0)

    def regret_bound(self) -> Array:
        finite = np.where(np.isinf(self.rates_), 1.0, self.rates_)
        logs = np.log(len(finite)) + np.log(self.growth_)
        bound: Array = self.cut_ + self.correction_ + np.where(np.isinf(self.rates_), 0.0, logs / finite)
        return bound
