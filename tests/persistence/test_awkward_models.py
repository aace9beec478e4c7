"""`load` reads every model that could be fitted: rejecting a real model would be the worst fault."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ovk
from ovk.base import DivergenceError, SingularSystemError
from ovk.features import Fourier
from ovk.kernels import Gaussian
from ovk.operators import Identity
from ovk.persistence import load, save
from persistence.regenerate import HOLES, LABELS, X, Y

K = Gaussian(0.5) * Identity()
GAPS = np.where(np.arange(60).reshape(30, 2) % 5 == 0, np.nan, X)
#: Inputs and outputs, and the labels of classifiers.
DATA = {
    "gaps in outputs": (X, HOLES),
    "gaps in inputs": (GAPS, Y),
    "an output without numbers": (X, np.column_stack([Y[:, 0], np.full(30, np.nan)])),
    "constant inputs": (np.ones((30, 2)), Y),
    "constant outputs": (X, np.ones((30, 2))),
    "a constant column": (np.column_stack([X[:, 0], np.zeros(30)]), np.column_stack([Y[:, 0], np.zeros(30)])),
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "huge numbers": (1e100 * X, 1e100 * Y),
    "large outputs": (X, 1e30 * Y),
    "tiny numbers": (1e-150 * X, 1e-150 * Y),
    "one output": (X, Y[:, 0]),
}
REGRESSORS = {
    "OVKRidge": ovk.OVKRidge,
    "OVKRidge with landmarks": lambda: ovk.OVKRidge(landmarks=5, random_state=0),
    "OVKRidgeCV": lambda: ovk.OVKRidgeCV(alphas=[0.1, 1.0]),
    "OutputKernelRidge": lambda: ovk.OutputKernelRidge(alphas=[0.1, 1.0]),
    "GradientMetric": ovk.GradientMetric,
    "FunctionalRidge": ovk.FunctionalRidge,
    "FunctionalRidgeCV": lambda: ovk.FunctionalRidgeCV(alphas=[0.1, 1.0]),
    "OperatorRidge": ovk.OperatorRidge,
    "MovKL": lambda: ovk.MovKL([K]),
    "VectorField": lambda: ovk.VectorField(restarts=1),
    "MultiTaskSVR": ovk.MultiTaskSVR,
    "OLOK": ovk.OLOK,
    "OLOK with a window": lambda: ovk.OLOK(K, truncation=5),
    "KAWV": ovk.KAWV,
    "PKAWV": ovk.PKAWV,
    "PKAWV with Fourier features": lambda: ovk.PKAWV(features=Fourier(3), discount=0.9, random_state=0),
    "OnlineMovKL": lambda: ovk.OnlineMovKL([K]),
    "OnlineOperator": lambda: ovk.OnlineOperator(ovk.OLOK(K, truncation=5), warm_up=1),
    "AutoStream": ovk.AutoStream,
    "NoveltyDetector": ovk.NoveltyDetector,
}
CLASSIFIERS = {
    "OVKClassifier": ovk.OVKClassifier,
    "OVKClassifierCV": lambda: ovk.OVKClassifierCV(alphas=[0.1, 1.0]),
    "MultiTaskSVC": ovk.MultiTaskSVC,
    "OLOKClassifier": ovk.OLOKClassifier,
    "PKAWVClassifier": ovk.PKAWVClassifier,
    "AutoStreamClassifier": ovk.AutoStreamClassifier,
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", [*REGRESSORS, *CLASSIFIERS])
def test_models_of_awkward_data_are_loaded(name, data, path):
    inputs, outputs = DATA[data]
    labels = LABELS[: len(inputs)] if name in CLASSIFIERS else outputs
    model = (REGRESSORS | CLASSIFIERS)[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(inputs, labels)
        except (ValueError, DivergenceError, SingularSystemError) as error:
            pytest.skip(f"fit refuses these data: {error}"[:100])
        save(model, path)
        loaded = load(path)
        if name == "GradientMetric":
            np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
        else:
            np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
