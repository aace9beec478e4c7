"""What regions did over a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ovk._validation import Array
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.conformal.regions import Regions
from ovk.evaluation.curves import Marks, Tally


@dataclass(frozen=True)
class IntervalResult:
    """Coverage and width of regions that were all made before their outputs were seen.

    Attributes
    ----------
    name : the method
    target : the coverage that was asked for
    region : "each", "box" or "ellipsoid"
    rows : (checkpoints,) rows read by then
    tested, covered : (checkpoints, k) how many regions of observed outputs there were by then, and how many held them;
        k = d, or 1 for a region of all outputs
    bounded, widths : (checkpoints, d) how many intervals were finite, and the sum of their widths
    regions : all of them (nan in a warm-up), None if not kept

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> found = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.8).intervals
    >>> found.name, bool(abs(found.coverage[0] - 0.8) < 0.06)
    ('ACI', True)
    """

    name: str
    target: float
    region: str
    rows: npt.NDArray[np.int64]
    tested: Array
    covered: Array
    bounded: Array
    widths: Array
    regions: Regions | None

    @property
    def coverage(self) -> Array:
        """(k,) share of regions that held what was observed."""
        return _ratio(self.covered, self.tested)

    @property
    def width(self) -> Array:
        """(d,) mean width of the intervals that were finite."""
        return _ratio(self.widths, self.bounded)

    @property
    def n_unbounded(self) -> int:
        """Rows whose region was infinite, as the first ones are."""
        return int(self.tested[-1].max() - self.bounded[-1].min()) if len(self.tested) else 0


def _ratio(sums: Array, counts: Array) -> Array:
    if len(sums) == 0:
        return np.full(sums.shape[1], np.nan)
    result: Array = np.divide(sums[-1], counts[-1], out=np.full(sums.shape[1], np.nan), where=counts[-1] > 0)
    return result


class IntervalRecord:
    """Regions on their way through a stream, with sums noted at checkpoints."""

    def __init__(self, method: Conformal, d: int, *, keep: bool) -> None:
        self.method = method
        self.keep = keep
        self.k = d if method.region == "each" else 1
        self.sums = [Tally.empty(width) for width in (self.k, self.k, d, d)]
        self.kept: list[Regions] = []

    def take(self, F: Array, Y: Array, marks: Marks) -> None:
        """Regions for the rows, then learn from them."""
        regions = self.method.regions_then_learn(F, Y)
        seen, finite = ~np.isnan(regions.covered), np.isfinite(regions.width)
        # Only rows whose outputs were observed count, here as there.
        finite &= np.isfinite(Y).any(axis=1, keepdims=True) if self.k == 1 else np.isfinite(Y)
        self._add(
            [
                seen.astype(np.float64),
                np.where(seen, regions.covered, 0.0),
                finite.astype(np.float64),
                np.where(finite, regions.width, 0.0),
            ],
            marks,
        )
        if self.keep:
            self.kept.append(regions)

    def skip(self, F: Array) -> None:
        """Rows of a warm-up: there are no regions."""
        if self.keep:
            (n, d), nothing = F.shape, np.full_like(F, np.nan)
            one = np.full((n, self.k), np.nan)
            shape = np.full((n, d, d), np.nan) if self.method.region == "ellipsoid" else None
            self.kept.append(Regions(nothing, nothing, nothing, one, one, shape))

    def _add(self, values: list[Array], marks: Marks) -> None:
        for tally, value in zip(self.sums, values, strict=True):
            tally.add(value, marks)

    def result(self, rows: npt.NDArray[np.int64], last: bool = False) -> IntervalResult:
        """What was found at the checkpoints `rows`; `last`: the last one of them is the present."""
        tested, covered, bounded, widths = (tally.curve(last) for tally in self.sums)
        name, target = type(self.method).__name__, float(self.method.coverage)
        regions = _joined(self.kept) if self.kept else None
        return IntervalResult(name, target, self.method.region, rows, tested, covered, bounded, widths, regions)


def _joined(parts: list[Regions]) -> Regions:
    shapes = [part.scatter for part in parts if part.scatter is not None]
    return Regions(
        predictions=np.concatenate([part.predictions for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        radius=np.concatenate([part.radius for part in parts]),
        covered=np.concatenate([part.covered for part in parts]),
        scatter=np.concatenate(shapes) if shapes else None,
    )
