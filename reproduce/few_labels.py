"""Semi-supervised classification: the manifold penalty of `OVKRidge`, with an operator on the classes.

The lectures use the penalty for link prediction, and mention semi-supervised learning with operator-valued kernels
(Minh and Sindhwani 2011). Here the outputs are codes of digits, and a few images of each digit are labelled.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from ovk import OVKRidge
from ovk.kernels import Gaussian
from ovk.operators import Identity, MixedEffect
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, Indices, track

#: Labelled images of each digit.
LABELLED = (1, 3, 10)
WIDTH, NEIGHBOURS = 1.0, 7
#: Chosen on a separate draw.
ALPHA, ALPHA_GRAPH = 1e-3, 1e-3


def split(each: int, n: int, rng: np.random.Generator) -> tuple[Array, Indices, Indices]:
    """Images (n, 64), their digits, and `each` labelled rows of every digit."""
    digits = load_digits()
    rows = rng.permutation(len(digits.data))[:n]
    X, y = digits.data[rows] / 16.0, digits.target[rows]
    known = np.concatenate([np.flatnonzero(y == digit)[:each] for digit in range(10)])
    return X, y, known


def accuracies(X: Array, y: Indices, known: Indices) -> dict[str, float]:
    """Accuracies on the unlabelled images, in percent."""
    rest = np.setdiff1d(np.arange(len(y)), known)
    codes = np.where(y[known][:, None] == np.arange(10), 1.0, -0.1)
    found = {}
    for (name, T), weight in product(
        {"": Identity(10), ", classes coupled": MixedEffect(0.3, 10)}.items(), (0.0, ALPHA_GRAPH)
    ):
        model = OVKRidge(Gaussian(WIDTH) * T, ALPHA, fit_intercept=False, alpha_graph=weight, n_neighbors=NEIGHBOURS)
        model.fit(X[known], codes, unlabelled=X[rest] if weight else None)
        found["OVKRidge" + ", unlabelled inputs too" * (weight > 0) + name] = model.predict(X[rest]).argmax(axis=1)
    partly = np.full(len(y), -1)
    partly[known] = y[known]
    # The second width is that of scikit-learn's own example on digits.
    spreading = {
        "neighbours": LabelSpreading(kernel="knn", n_neighbors=NEIGHBOURS, max_iter=1000),
        "Gaussian": LabelSpreading(gamma=64.0, max_iter=1000),
    }
    for name, spread in spreading.items():
        # Images that no label reaches have probabilities 0 / 0 and get the first class.
        with np.errstate(invalid="ignore"):
            labels = spread.fit(X, partly).predict(X[rest])
        found[f"LabelSpreading (scikit-learn), {name}, unlabelled inputs too"] = labels
    found["SVC (scikit-learn)"] = SVC(C=10.0, gamma=0.5 / WIDTH**2).fit(X[known], y[known]).predict(X[rest])
    return {name: 100.0 * float(np.mean(labels == y[rest])) for name, labels in found.items()}


@reproduction(
    "few_labels", "Semi-supervised learning with K = k T (Minh and Sindhwani 2011, in d'Alché-Buc's lectures)"
)
def few_labels(data_home: str | Path | None = None, repeats: int = 10, n: int = 800) -> Result:
    """Accuracy on digits with few labels."""
    found: dict[str, list[float]] = {}
    for each, repeat in track(list(product(LABELLED, range(repeats))), "few labels"):
        for name, value in accuracies(*split(each, n, np.random.default_rng(repeat))).items():
            found.setdefault(f"{each} of each digit: {name}", []).append(value)
    return Result(
        title="Few labels, and many inputs without",
        measure="accuracy on the unlabelled digits in per cent, large is good",
        data=f"digits of scikit-learn, {n} pictures",
        rows=[
            Row(name, float(np.mean(values)), setting=f"{repeats} draws, standard deviation {np.std(values):.1f}")
            for name, values in found.items()
        ],
        remarks=[
            f"Gaussian kernels of width {WIDTH:g}, {NEIGHBOURS} neighbours, both penalties {ALPHA:g}, fixed on another "
            "draw. Classes coupled: MixedEffect(0.3).",
            "No published number has this protocol.",
        ],
    )
