"""One number for how far the outputs of a row are from their predictions, and the region of all that are no farther.

    box        max_q |r_q| / s_q:     a box that holds all outputs at once
    ellipsoid  sqrt(r' S^-1 r):       an ellipsoid that holds all outputs at once

s and S are the running root mean squares and second moments of the residuals r before the row, about zero, so that a
biased forecast is given a larger region. Where some outputs are missing, the others are compared with the region's
shadow: the sides of the box, or the projection of the ellipsoid, sqrt(r_o' S_oo^-1 r_o).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk._state import State
from ovk._types import Array

#: Smallest eigenvalue of a correlation matrix that is left as it is.
DEFINITE = 1e-8
#: Residuals of an output before scores are taken in units of their spread.
FIRST = 10


@dataclass
class ResidualMoments(State):
    """Second moments of residuals, each over the rows in which both outputs were seen, with fading memory."""

    d: int
    decay: float
    weight: Array = field(init=False)
    squares: Array = field(init=False)

    _saved_state = ("weight", "squares")

    def __post_init__(self) -> None:
        self.weight = np.zeros((self.d, self.d))
        self.squares = np.zeros((self.d, self.d))
        self._known: tuple[Array, Array] | None = None

    def add(self, r: Array, seen: Array) -> None:
        """Add the residuals (d,) of a row."""
        known = np.where(seen, r, 0.0)
        with np.errstate(over="ignore"):
            outer = np.outer(known, known)
        # A square beyond the largest number would stay for ever: such a row is a miss, and no measure of spread.
        if np.isfinite(outer).all():
            self.weight = self.decay * self.weight + np.outer(seen, seen)
            self.squares = self.decay * self.squares + outer
            self._known = None

    def scales(self) -> Array:
        """(d,) root mean squares; the mean of the others', or 1, for an output without any."""
        weight, squares = np.diagonal(self.weight), np.diagonal(self.squares)
        known = (weight > 0) & (squares > 0)
        if not known.any():
            return np.ones(self.d)
        s = np.sqrt(np.where(known, squares, 1.0) / np.where(known, weight, 1.0))
        result: Array = np.where(known, s, s[known].mean())
        return result

    def correlation(self) -> tuple[Array, Array]:
        """Scales (d,) and a positive definite matrix (d, d) of correlations about zero.

        Correlations are drawn to 0 as long as there are few rows.
        """
        if self._known is None:
            self._known = self._correlation()
        return self._known

    def _correlation(self) -> tuple[Array, Array]:
        s = self.scales()
        together = self.weight > 0
        C = np.where(together, self.squares / np.where(together, self.weight, 1.0), 0.0) / np.outer(s, s)
        rows = float(np.diagonal(self.weight).max(initial=0.0))
        C *= rows / (rows + self.d)
        np.fill_diagonal(C, 1.0)
        smallest = float(np.linalg.eigvalsh(C)[0])
        if smallest < DEFINITE:
            # Moments over different rows need not be positive together.
            C = (C + (DEFINITE - smallest) * np.eye(self.d)) / (1.0 + DEFINITE - smallest)
        return s, C


@dataclass
class JointScore(State, ABC):
    """From the residuals of a row to a score, and from a radius back to a region, as the rows so far have it.

    Attributes
    ----------
    d : outputs
    decay : what is left of a row's weight in the moments after another row
    """

    d: int
    decay: float

    _saved_state = ("moments",)
    _state_classes = {"moments": ResidualMoments}

    def __post_init__(self) -> None:
        self.moments = ResidualMoments(self.d, self.decay)

    @abstractmethod
    def score(self, r: Array, seen: Array) -> float:
        """How far the residuals (d,) are from 0, nan where none was seen."""

    def half_widths(self, radius: float) -> Array:
        """(d,) half the sides of the box around the region of that radius; 0 for one that holds nothing."""
        with np.errstate(over="ignore"):
            return max(radius, 0.0) * self.moments.scales()

    def ready(self, seen: Array) -> bool:
        """Whether the spread of these outputs is known well enough for scores to mean anything."""
        known = np.diagonal(self.moments.weight)[seen]
        return bool((known >= min(FIRST, 0.5 / max(1.0 - self.decay, 1e-300))).all())

    def scatter(self) -> Array | None:
        """(d, d) the form of an ellipsoid."""
        return None

    def learn(self, r: Array, seen: Array) -> None:
        """Learn the spread from the residuals (d,) of a row."""
        self.moments.add(r, seen)


class BoxOfAll(JointScore, kind="box"):
    """max_q |r_q| / s_q: a box for all outputs."""

    def score(self, r: Array, seen: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.max(np.abs(r[seen]) / self.moments.scales()[seen])) if seen.any() else nan


class EllipsoidOfAll(JointScore, kind="ellipsoid"):
    """sqrt(r' S^-1 r): an ellipsoid for all outputs."""

    def score(self, r: Array, seen: Array) -> float:
        if not seen.any():
            return nan
        # In units of each output's own spread: outputs of 1e-200 and of 1e200 are factorised alike.
        s, C = self.moments.correlation()
        with np.errstate(over="ignore"):
            z = r[seen] / s[seen]
            if not np.isfinite(z).all():
                return inf
            return float(np.sqrt(z @ cho_solve(cho_factor(C[np.ix_(seen, seen)], lower=True), z)))

    def scatter(self) -> Array:
        s, C = self.moments.correlation()
        result: Array = np.outer(s, s) * C
        return result


#: Scores of all outputs at once, by the form of their region.
JOINT: dict[str, type[JointScore]] = {"box": BoxOfAll, "ellipsoid": EllipsoidOfAll}
