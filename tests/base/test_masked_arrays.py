"""Masked outputs are missing values; masked inputs and labels are rejected."""

import numpy as np
import pytest

import ovk
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.structured import Delta

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2))
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], axis=1)
GAPS = RNG.random(Y.shape) < 0.3
LABELS = np.where(X[:, 0] > 0, 1, 0)
#: What a careless user fills in: learned as a number it would show.
WRONG = -999.0
K = Gaussian(1.0) * MixedEffect(0.5)
REGRESSORS = {
    "ridge": lambda: ovk.OVKRidge(K, alpha=0.1),
    "ridge-cv": lambda: ovk.OVKRidgeCV(K, alphas=[0.1, 1.0]),
    "landmarks": lambda: ovk.OVKRidge(K, alpha=0.1, landmarks=X[:8]),
    "output-kernel": lambda: ovk.OutputKernelRidge(Gaussian(1.0)),
    "svr": lambda: ovk.MultiTaskSVR(K),
    "field": lambda: ovk.VectorField(K),
    "movkl": lambda: ovk.MovKL([K, Gaussian(2.0) * MixedEffect(0.5)]),
    "olok": lambda: ovk.OLOK(K),
    "kawv": lambda: ovk.KAWV(K),
    "pkawv": lambda: ovk.PKAWV(K, random_state=0),
}
OTHERS = {
    "svc": lambda: ovk.MultiTaskSVC(Gaussian(1.0)),
    "olok-classifier": lambda: ovk.OLOKClassifier(Gaussian(1.0)),
    "pkawv-classifier": lambda: ovk.PKAWVClassifier(Gaussian(1.0), random_state=0),
    "iokr": lambda: ovk.IOKR(Gaussian(1.0), Delta()),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_masked_outputs_are_gaps(name):
    masked = np.ma.array(np.where(GAPS, WRONG, Y), mask=GAPS)
    with_nan = REGRESSORS[name]().fit(X, np.where(GAPS, np.nan, Y))
    np.testing.assert_array_equal(REGRESSORS[name]().fit(X, masked).predict(X), with_nan.predict(X))


@pytest.mark.parametrize("name", [*REGRESSORS, *OTHERS])
def test_masked_inputs_are_refused(name):
    mask = np.zeros(X.shape, dtype=bool)
    mask[4, 1] = True
    masked = np.ma.array(np.where(mask, WRONG, X), mask=mask)
    model, target = (REGRESSORS[name](), Y) if name in REGRESSORS else (OTHERS[name](), LABELS)
    with pytest.raises(ValueError, match="X is a masked array with 1 masked values, the first at row 4, column 1"):
        model.fit(masked, target)
    model.fit(X, target)
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(masked)
    # A masked array without a masked value is an array.
    np.testing.assert_array_equal(model.predict(np.ma.array(X)), model.predict(X))


@pytest.mark.parametrize("name", OTHERS)
def test_masked_labels_are_refused(name):
    masked = np.ma.array(LABELS, mask=np.arange(30) == 7)
    with pytest.raises(ValueError, match="y is a masked array with 1 masked values, the first at row 7"):
        OTHERS[name]().fit(X, masked)


def test_integers_and_long_form():
    masked = np.ma.array([1, 2, -999], mask=[False, False, True])
    expected = ovk.OVKRidge(Gaussian(1.0), alpha=0.1).fit(X[:2], [1.0, 2.0]).predict(X)
    np.testing.assert_allclose(ovk.OVKRidge(Gaussian(1.0), alpha=0.1).fit(X[:3], masked).predict(X), expected)
    with pytest.raises(ValueError, match="in long form y must not contain nan"):
        ovk.OVKRidge(K).fit(X[:3], masked, task=[0, 1, 0])


def test_series():
    series = np.cumsum(RNG.standard_normal((40, 2)), axis=0)
    gaps = RNG.random(series.shape) < 0.05
    gaps[[0, -1]] = False
    masked = np.ma.array(np.where(gaps, WRONG, series), mask=gaps)
    found, expected = ovk.OKVAR().fit(masked), ovk.OKVAR().fit(np.where(gaps, np.nan, series))
    np.testing.assert_array_equal(found.jacobian(), expected.jacobian())


@pytest.mark.parametrize("make", [ovk.AutoStream, ovk.AutoStreamClassifier])
def test_learners_without_settings_do_not_lose_a_mask(make):
    X = np.ma.masked_greater(np.random.default_rng(0).standard_normal((30, 2)), 1.0)
    with pytest.raises(ValueError, match="X is a masked array"):
        make().fit(X, np.arange(30) % 2)
