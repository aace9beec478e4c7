"""Tables with classes in random splits, for the comparison of class probabilities.

The list was fixed before the first comparison: bundled sets of scikit-learn and river, files of `OVK_DATA`, and
generated sets, among them one with 3% positives and one with mostly irrelevant inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import datasets

from reproduce.data import load_codrna, load_elec2, load_wine

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: Maximum training and test rows.
MOST_TRAINING, MOST_TEST = 600, 1000


class ClassTable(NamedTuple):
    """Inputs (n, p) and class numbers (n,)."""

    name: str
    X: Array
    y: Labels


class ClassPart(NamedTuple):
    """One split."""

    X: Array
    y: Labels
    X_test: Array
    y_test: Labels


def splits(table: ClassTable, count: int) -> Iterator[ClassPart]:
    """Two thirds of the rows for training, the rest for testing, at most `MOST_TRAINING` and `MOST_TEST`."""
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(table.X))
        size = min(MOST_TRAINING, round(2 * len(order) / 3))
        train, test = order[:size], order[size : size + MOST_TEST]
        # Every class must be known.
        test = test[np.isin(table.y[test], table.y[train])]
        yield ClassPart(table.X[train], table.y[train], table.X[test], table.y[test])


def _made(make: Callable[..., Any], **how: Any) -> Callable[[], tuple[Array, Labels]]:
    return lambda: make(random_state=0, **how)


def _river(name: str) -> Callable[[], tuple[Array, Labels]]:
    def load() -> tuple[Array, Labels]:
        from river import datasets as river_datasets

        rows = list(getattr(river_datasets, name)())
        X = np.array([[float(value) for value in x.values()] for x, _ in rows])
        return X, np.unique([str(label) for _, label in rows], return_inverse=True)[1]

    return load


def _wine_grade() -> tuple[Array, Labels]:
    X, y = load_wine(return_X_y=True)
    return X, (np.asarray(y).reshape(-1) >= 6).astype(np.intp)


def _file(load: Callable[..., Any]) -> Callable[[], tuple[Array, Labels]]:
    def loaded() -> tuple[Array, Labels]:
        X, y = load(return_X_y=True)
        return np.asarray(X, dtype=np.float64), np.unique(np.asarray(y), return_inverse=True)[1]

    return loaded


_CLASSES = datasets.make_classification
#: Loaders of all sets.
CLASS_TABLES: dict[str, Callable[[], tuple[Array, Labels]]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine cultivars": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "3% positives": _made(_CLASSES, n_samples=1600, n_features=10, n_informative=5, weights=[0.97], flip_y=0.0),
    "irrelevant inputs": _made(_CLASSES, n_samples=1600, n_features=40, n_informative=4, n_classes=3),
    "quantiles": _made(datasets.make_gaussian_quantiles, n_samples=1600, n_features=5, n_classes=3),
    "Hastie": _made(datasets.make_hastie_10_2, n_samples=1600),
    "blobs": _made(datasets.make_blobs, n_samples=1600, centers=5, n_features=3, cluster_std=4.0),
    "wine grade": _wine_grade,
    "codrna": _file(load_codrna),
    "elec2": _file(load_elec2),
    "phishing": _river("Phishing"),
    "image segments": _river("ImageSegments"),
    "bananas": _river("Bananas"),
}


def class_tables() -> Iterator[ClassTable]:
    """All sets that can be loaded here."""
    for name, load in CLASS_TABLES.items():
        try:
            X, y = load()
        except (FileNotFoundError, ImportError):
            continue
        yield ClassTable(name, np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1])
