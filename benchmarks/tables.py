"""Tables with several outputs in random splits, for the comparison of default settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_diabetes, load_linnerud, make_friedman1, make_friedman2, make_friedman3

from reproduce.data import (
    load_canadian_weather,
    load_household,
    load_jura,
    load_mtr,
    load_parkinsons,
    load_wine,
)

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Maximum training and test rows.
MOST_TRAINING, MOST_TEST = 1000, 1000
#: Number of the 42 patients that a grouped split holds out.
HELD_OUT = 8
#: Days per mean of the weather curves.
PENTAD = 5


class Table(NamedTuple):
    """A data set; a split never separates rows of one group."""

    name: str
    X: Array
    Y: Array
    groups: Indices | None = None


class Part(NamedTuple):
    """One split."""

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array
    groups: Indices | None

    def arrmse(self, predicted: Array) -> float:
        """Mean over outputs of the RMSE relative to that of the training mean.

        Outputs that equal the training mean in all test rows are skipped.
        """
        spread = np.mean((self.Y_test - self.Y.mean(axis=0)) ** 2, axis=0)
        error = np.mean((self.Y_test - predicted) ** 2, axis=0)
        known = spread > 1e-12 * np.maximum(self.Y.var(axis=0), 1e-300)
        return float(np.mean(np.sqrt(error[known] / spread[known])))


def splits(table: Table, count: int, rows: int = MOST_TRAINING) -> list[Part]:
    """Two thirds of the rows for training, the rest for testing, at most `rows` and `MOST_TEST`.

    For more rows than `MOST_TRAINING`, four fifths may be used for training.
    """
    return [_split(table, np.random.default_rng(seed), rows) for seed in range(count)]


def _split(table: Table, rng: np.random.Generator, rows: int) -> Part:
    n = len(table.X)
    if table.groups is None:
        order = rng.permutation(n)
        size = min(rows, round((2 / 3 if rows <= MOST_TRAINING else 0.8) * n))
        train, test = order[:size], order[size : size + MOST_TEST]
    else:
        out = np.isin(table.groups, rng.permutation(np.unique(table.groups))[:HELD_OUT])
        train = rng.permutation(np.flatnonzero(~out))[:rows]
        test = rng.permutation(np.flatnonzero(out))[:MOST_TEST]
    groups = None if table.groups is None else table.groups[train]
    return Part(table.X[train], table.Y[train], table.X[test], table.Y[test], groups)


def _mtr(name: str) -> Callable[[], Table]:
    def load() -> Table:
        return Table(name, *load_mtr(name, return_X_y=True))

    return load


def _wine() -> Table:
    X, y = load_wine(return_X_y=True)
    return Table("wine", X, y.reshape(len(X), -1))


def _parkinsons(grouped: bool) -> Callable[[], Table]:
    def load() -> Table:
        voices = load_parkinsons()
        name = "parkinsons, new patients" if grouped else "parkinsons, shuffled"
        return Table(name, voices.data, voices.target, voices.groups if grouped else None)

    return load


def _jura() -> Table:
    """Seven metals from location, land use and rock; sampling and validation locations together."""
    soil = load_jura()
    places = np.concatenate([soil.data, soil.data_validation])
    kinds = [np.concatenate([soil[key], soil[f"{key}_validation"]]) for key in ("landuse", "rock")]
    indicators = [(kind[:, None] == np.unique(kind)).astype(np.float64) for kind in kinds]
    return Table(
        "Jura, 7 metals", np.hstack([places, *indicators]), np.concatenate([soil.target, soil.target_validation])
    )


def _weather() -> Table:
    """Precipitation from temperature over the year, both in means of five days."""
    weather = load_canadian_weather()
    X, Y = (curves.reshape(len(curves), -1, PENTAD).mean(axis=2) for curves in (weather.data, weather.target))
    return Table("weather", X, Y)


#: Loaders of all sets.
TABLES: dict[str, Callable[[], Table]] = {
    **{name: _mtr(name) for name in ("andro", "atp1d", "edm", "enb", "jura", "sf1", "slump", "wq")},
    "wine": _wine,
    "parkinsons, shuffled": _parkinsons(False),
    "parkinsons, new patients": _parkinsons(True),
    "Jura, 7 metals": _jura,
    "weather": _weather,
}


def unseen_tables() -> Iterator[Table]:
    """Sets of scikit-learn, evaluated after all choices were final."""
    X, y = load_diabetes(return_X_y=True)
    yield Table("diabetes", X, y[:, None])
    yield Table("linnerud", *load_linnerud(return_X_y=True))
    for number, make in enumerate((make_friedman1, make_friedman2, make_friedman3), start=1):
        # Noise of a tenth to a third of the signal.
        X, y = make(n_samples=450, noise=(1.0, 100.0, 0.1)[number - 1], random_state=0)
        yield Table(f"Friedman {number}", X, y[:, None])


# Further sets, fixed before their first run.

#: Outputs and dropped columns of sets in statsmodels.
_STATSMODELS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "randhie": (("mdvis",), ()),
    "fair": (("affairs",), ()),
    "anes96": (("income",), ()),
    "star98": (("NABOVE", "NBELOW"), ()),
    "engel": (("foodexp",), ()),
    "grunfeld": (("invest",), ()),
    "modechoice": (("invt", "gc"), ("individual",)),
    "macrodata": (("realinv", "unemp"), ()),
}
#: Minutes of the household's first rows.
_MINUTES = 60_000


def _statsmodels(name: str) -> Table:
    from statsmodels import datasets

    frame = getattr(datasets, name).load_pandas().data
    outputs, dropped = _STATSMODELS[name]
    columns = []
    for column in frame.columns.difference([*outputs, *dropped], sort=False):
        cells = frame[column].to_numpy()
        # Words become indicators, so that every regressor gets the same inputs.
        words = cells.dtype.kind not in "biuf"
        columns.append((cells[:, None] == np.unique(cells.astype(str))) if words else cells[:, None])
    X = np.hstack([np.asarray(column, dtype=np.float64) for column in columns])
    return Table(name, X, frame[list(outputs)].to_numpy(dtype=np.float64))


def _river(name: str) -> Table:
    from river import datasets

    rows = list(getattr(datasets, name)())
    X = np.array([[float(value) for value in x.values()] for x, _ in rows])
    return Table(name, X, np.array([[float(y)] for _, y in rows]))


def _household() -> Table:
    """Active power of a minute from its time, reactive power, voltage and sub-metered energies."""
    house = load_household(n_rows=_MINUTES)
    known = np.isfinite(house.target).all(axis=1)
    measured = house.target[known]
    X = np.hstack([house.data[known, 1:3], np.delete(measured, [0, 3], axis=1)])
    return Table("household", X, measured[:, :1])


#: Loaders of sets in packages, and of one with many rows.
FURTHER_TABLES: dict[str, Callable[[], Table]] = {
    **{name: partial(_statsmodels, name) for name in _STATSMODELS},
    "ChickWeights": partial(_river, "ChickWeights"),
    "TrumpApproval": partial(_river, "TrumpApproval"),
    "household": _household,
}


def made_up() -> Iterator[Table]:
    """Two small synthetic sets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (90, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]) + 0.1 * rng.standard_normal((90, 2))
    yield Table("smooth", X, Y)
    yield Table("linear", X, X @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((90, 4)))
