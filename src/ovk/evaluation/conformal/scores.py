"""One number for how far an output is from its prediction, and the region of all outputs that are no farther.

    each       |r_q|, on its own for every output:       intervals, each with the coverage asked for
    box        max_q |r_q| / s_q:                        a box that holds all outputs at once
    ellipsoid  sqrt(r' S^-1 r):                          an ellipsoid that holds all outputs at once

s and S are the running root mean squares and second moments of the residuals r before the row, about zero, so that a
biased forecast is given a larger region. Where some outputs are missing, the others are compared with the region's
shadow: the sides of the box, or the projection of the ellipsoid, sqrt(r_o' S_oo^-1 r_o).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk._params import Registered
from ovk._validation import Array

#: Smallest eigenvalue of a correlation matrix that is left as it is.
DEFINITE = 1e-8
#: Residuals of an output before scores are taken in units of their spread.
FIRST = 10


@dataclass
class Moments(Registered):
    """Second moments of residuals, each over the rows in which both outputs were seen, with fading memory."""

    d: int
    decay: float
    weight: Array = field(init=False)
    squares: Array = field(init=False)

    #: Restored by `ovk.load`.
    _saved_state = ("weight", "squares")

    def __post_init__(self) -> None:
        self.weight = np.zeros((self.d, self.d))
        self.squares = np.zeros((self.d, self.d))
        self._known: tuple[Array, Array] | None = None

    def add(self, r: Array, seen: Array) -> None:
        """Take in one row of residuals."""
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
class Score(Registered, ABC):
    """From residuals to scores, and from a radius back to a region, as the rows so far have it.

    Attributes
    ----------
    d : outputs
    decay : what is left of a row's weight in the moments after another row
    """

    d: int
    decay: float

    #: Restored by `ovk.load`.
    _saved_state = ("moments",)

    def __post_init__(self) -> None:
        self.moments = Moments(self.d, self.decay)

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of scores of a row."""

    @abstractmethod
    def scores(self, r: Array, seen: Array) -> Array:
        """(k,) scores of the residuals (d,), nan where nothing was seen."""

    @abstractmethod
    def half_widths(self, radius: Array) -> Array:
        """(d,) half the sides of the box around the region of that radius."""

    def ready(self, seen: Array) -> bool:
        """Whether the spread of these outputs is known well enough for scores to mean anything."""
        known = np.diagonal(self.moments.weight)[seen]
        return bool((known >= min(FIRST, 0.5 / max(1.0 - self.decay, 1e-300))).all())

    def scatter(self) -> Array | None:
        """(d, d) the form of an ellipsoid."""
        return None

    def learn(self, r: Array, seen: Array) -> None:
        """Take in the residuals (d,) of a row."""
        self.moments.add(r, seen)


class EachOutput(Score):
    """|r_q|: an interval for each output."""

    @property
    def k(self) -> int:
        return self.d

    def scores(self, r: Array, seen: Array) -> Array:
        return np.where(seen, np.abs(r), np.nan)

    def half_widths(self, radius: Array) -> Array:
        return radius

    def ready(self, seen: Array) -> bool:
        return True

    def learn(self, r: Array, seen: Array) -> None:
        # Nothing is scaled, so there is nothing to learn.
        pass


class BoxOfAll(Score):
    """max_q |r_q| / s_q: a box for all outputs."""

    @property
    def k(self) -> int:
        return 1

    def scores(self, r: Array, seen: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.array([np.max(np.abs(r[seen]) / self.moments.scales()[seen]) if seen.any() else np.nan])

    def half_widths(self, radius: Array) -> Array:
        return float(radius[0]) * self.moments.scales()


class EllipsoidOfAll(Score):
    """sqrt(r' S^-1 r): an ellipsoid for all outputs."""

    @property
    def k(self) -> int:
        return 1

    def scores(self, r: Array, seen: Array) -> Array:
        if not seen.any():
            return np.array([np.nan])
        # In units of each output's own spread: outputs of 1e-200 and of 1e200 are factorised alike.
        s, C = self.moments.correlation()
        with np.errstate(over="ignore"):
            z = r[seen] / s[seen]
            if not np.isfinite(z).all():
                return np.array([np.inf])
            return np.array([float(np.sqrt(z @ cho_solve(cho_factor(C[np.ix_(seen, seen)], lower=True), z)))])

    def half_widths(self, radius: Array) -> Array:
        return float(radius[0]) * self.moments.scales()

    def scatter(self) -> Array:
        s, C = self.moments.correlation()
        result: Array = np.outer(s, s) * C
        return result


#: Forms of a region by name.
REGIONS: dict[str, type[Score]] = {"each": EachOutput, "box": BoxOfAll, "ellipsoid": EllipsoidOfAll}
