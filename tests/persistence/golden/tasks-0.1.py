"""Support vector machines and vector fields of every form."""

import numpy as np

from ovk import MultiTaskSVC, MultiTaskSVR, VectorField
from ovk.features import PathFingerprints
from ovk.kernels import Gaussian
from ovk.operators import GraphLaplacian, MixedEffect

rng = np.random.default_rng(0)
X = rng.uniform(size=(24, 2)).round(3)
Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2]).round(3)
labels = np.where(Y.mean(axis=0) < Y, 1.0, 0.0)
new = np.array([[0.2, 0.4], [0.9, 0.1]])
graphs = [(["C", "C", "O"], [(0, 1), (1, 2)]), (["C", "N"], [(0, 1, "=")])]
path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


def make():
    return {
        "tasks": MultiTaskSVC(Gaussian(0.5) * MixedEffect(0.5), bias="task").fit(X, labels),
        "long form": MultiTaskSVC(Gaussian(0.5) * MixedEffect(0.5)).fit(X, labels[:, 0], task=np.arange(24) % 2),
        "classes": MultiTaskSVC(Gaussian(0.5) * GraphLaplacian(path, 0.5)).fit(X, np.array(["a", "b", "c"] * 8)),
        "regression": MultiTaskSVR(Gaussian(0.5) * MixedEffect(0.5)).fit(X, Y),
        "field": VectorField(alpha=0.1, criterion=None).fit(X, Y),
        "chosen field": VectorField(restarts=1, fit_intercept=True).fit(X, Y),
        "robust field": VectorField(restarts=1, robust=True, landmarks=X[:8]).fit(X, Y),
        "paths": PathFingerprints(2).fit(graphs),
    }


def check(loaded):
    made = make()
    assert set(loaded) == set(made)
    for name in ("tasks", "long form", "classes"):
        np.testing.assert_allclose(
            loaded[name].decision_function(new), made[name].decision_function(new), atol=1e-3, err_msg=name
        )
    for name in ("regression", "field"):
        np.testing.assert_allclose(loaded[name].predict(new), made[name].predict(new), atol=1e-4, err_msg=name)
    # What a search chose may move in its last digits from one machine to another.
    for name in ("chosen field", "robust field"):
        np.testing.assert_allclose(loaded[name].predict(new), made[name].predict(new), atol=0.05, err_msg=name)
        assert np.isfinite(loaded[name].curl(new)).all()
    np.testing.assert_array_equal(
        loaded["paths"].transform(graphs).toarray(), made["paths"].transform(graphs).toarray()
    )
