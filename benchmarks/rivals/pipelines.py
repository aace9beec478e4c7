"""Typical pipelines of river and scikit-learn, which predict each row before learning it; labels are -1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier

Array = npt.NDArray[np.float64]


class River:
    """A pipeline of river, one row at a time: a classifier, or a regressor of the labels."""

    def __init__(self, pipeline: Any, *, regressor: bool) -> None:
        self.pipeline, self.regressor = pipeline, regressor

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) scores; their sign is the class."""
        names = [f"x{j}" for j in range(X.shape[1])]
        scores = np.zeros(len(X))
        for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
            x = dict(zip(names, row, strict=True))
            if self.regressor:
                scores[i] = self.pipeline.predict_one(x)
                self.pipeline.learn_one(x, label)
            else:
                scores[i] = 2.0 * self.pipeline.predict_proba_one(x).get(True, 0.5) - 1.0
                self.pipeline.learn_one(x, label > 0)
        return scores


def river_bayesian() -> River:
    """Bayesian linear regression of the labels on standardised inputs."""
    from river import linear_model, preprocessing

    return River(preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(), regressor=True)


def river_features(gamma: float, n: int, step: float, seed: int = 0) -> River:
    """Logistic regression by gradient descent on river's random features."""
    from river import feature_extraction, linear_model, optim, preprocessing

    features = feature_extraction.RBFSampler(gamma=gamma, n_components=n, seed=seed)
    classifier = linear_model.LogisticRegression(optimizer=optim.SGD(step))
    return River(preprocessing.StandardScaler() | features | classifier, regressor=False)


class SklearnSGD:
    """scikit-learn's SGDClassifier on its kernel approximations, fitted on the first rows; row by row.

    The features of all rows of a call are computed at once, since they do not depend on labels.
    """

    def __init__(self, approximation: Any, warm_up: int, alpha: float, seed: int = 0) -> None:
        self.approximation, self.warm_up = approximation, warm_up
        self.classifier = SGDClassifier(loss="hinge", alpha=alpha, random_state=seed, average=False)
        self.fitted = False

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) scores; their sign is the class."""
        if not self.fitted:
            self.approximation.fit(X[: self.warm_up])
        Z = self.approximation.transform(X)
        scores = np.zeros(len(X))
        for i in range(len(X)):
            row = Z[i : i + 1]
            if self.fitted:
                scores[i] = self.classifier.decision_function(row)[0]
            self.classifier.partial_fit(row, y[i : i + 1], classes=[-1.0, 1.0])
            self.fitted = True
        return scores


def sklearn_fourier(gamma: float, n: int, alpha: float, seed: int = 0) -> SklearnSGD:
    """Random Fourier features and SGD."""
    return SklearnSGD(RBFSampler(gamma=gamma, n_components=n, random_state=seed), 1, alpha, seed)


def sklearn_nystroem(gamma: float, n: int, alpha: float, seed: int = 0) -> SklearnSGD:
    """Nystrom features of the first 2 n rows and SGD."""
    return SklearnSGD(Nystroem(gamma=gamma, n_components=n, random_state=seed), 2 * n, alpha, seed)
