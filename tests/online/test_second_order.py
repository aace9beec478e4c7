"""KAWV and PKAWV against a separate solution for each row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from online.streams import KERNELS, stream
from ovk import KAWV, PKAWV, OnlineMovKL, PKAWVClassifier
from ovk.features import ALD, KORS, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear
from ovk.operators import Identity, MixedEffect
from ovk.ovkernels import Diagonal, Separable, Transformable

N = 20


def holes(n, missing, seed=0):
    """A stream whose first rows are complete, with some rows wholly missing."""
    X, Y = stream(n, seed=seed, missing=missing)
    Y[:10] = stream(n, seed=seed)[1][:10]
    if missing:
        Y[[4, 15, 16]] = np.nan
    return X, Y


@pytest.mark.parametrize("forecaster", ["awv", "ridge"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_forecaster(kernel, missing, forecaster):
    X, Y = holes(N, missing)
    K = KERNELS[kernel]
    model = KAWV(K, 0.3, forecaster=forecaster)
    Z = model.predict_then_learn(X, Y)
    assert_allclose(Z, reference.forecasts(K.gram(X).dense(), Y, 0.3, forecaster == "awv"), rtol=0, atol=1e-9)
    assert model.t_ == int((~np.isnan(Y)).any(axis=1).sum())


@pytest.mark.parametrize("learner", [KAWV, PKAWV])
def test_a_sum_that_is_one_product_is_learned_as_one(learner):
    X, Y = holes(N, 0.0)
    T = MixedEffect(0.5)
    apart, together = Gaussian(1.0) * T + 0.5 * Linear() * T, (Gaussian(1.0) + 0.5 * Linear()) * T
    model = learner(apart, 0.3)
    assert_allclose(model.predict_then_learn(X, Y), learner(together, 0.3).predict_then_learn(X, Y), rtol=1e-10)
    assert isinstance(model.kernel_, Separable)


SELECTIONS = {
    "all": (Uniform(rate=1.0), lambda K, draws: list(range(len(K)))),
    "rate": (Uniform(rate=0.4), lambda K, draws: np.flatnonzero(draws < 0.4).tolist()),
    "size": (Uniform(size=7), lambda K, draws: list(range(7))),
    "kors": (KORS(0.5, 0.8, 0.2), lambda K, draws: reference.kors(K, 0.5, 0.8, 0.2, draws)),
    "ald": (ALD(0.2), lambda K, draws: reference.independent_points(K, 0.2)),
}

FORGET = {
    "all": ({}, None, None),
    # Blocks of six rows, in which the ridge decays as well.
    "discount": ({"discount": 0.9}, lambda t, s: 0.9 ** (t - s), lambda t: 0.9 ** (t % 6 + 1 - 3.5)),
    # Segments of two rows: seven full ones and a partial eighth.
    "window": ({"window": 16}, lambda t, s: float(s // 2 > t // 2 - 8), None),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("forget", FORGET)
@pytest.mark.parametrize("past", ["projected", "exact"])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("kernel", ["separable", "gaps", "curl-free"])
def test_projected_forecaster(kernel, selection, past, forget):
    if (forget == "window" and past == "exact") or (kernel != "separable" and selection in ("rate", "size")):
        return
    X, Y = stream(N)
    if kernel == "gaps":
        # At least one output of every row is observed, so that every row ages the sums.
        Y[np.random.default_rng(1).random(Y.shape) < [0.0, 0.5, 0.5]] = np.nan
        kernel = "separable"
    K = KERNELS[kernel]
    gram = K.gram(X).dense()
    plan, twin = SELECTIONS[selection]
    params, weight, ridge = FORGET[forget]
    draws = np.random.default_rng(3).random(N)
    kept = twin(gram.reshape(N, 3, N, 3).trace(axis1=1, axis2=3) / 3, draws)
    model = PKAWV(K, 0.3, Nystrom(plan, past), random_state=3, **params)
    Z = model.predict_then_learn(X, Y)
    assert_array_equal(model.support_, X[kept])
    dictionaries = [[i for i in kept if i <= t] for t in range(N)]
    expected = reference.forecasts(gram, Y, 0.3, True, dictionaries, past == "exact", weight, ridge)
    assert_allclose(Z, expected, rtol=0, atol=1e-8)


ONE_OUTPUT = {
    "diagonal": (Diagonal([Gaussian(1.0)]), Gaussian(1.0)),
    "transformable": (Transformable(Gaussian(1.0), [np.eye(1)]), Gaussian(1.0)),
    "hadamard": ((Gaussian(1.0) * Identity()) & Diagonal([Gaussian(2.0)]), Gaussian(1.0) * Gaussian(2.0)),
    "sum": (Gaussian(1.0) * Identity() + Diagonal([Gaussian(2.0)]), Gaussian(1.0) + Gaussian(2.0)),
}


@pytest.mark.parametrize("selection", [Uniform(size=7), KORS(0.5), ALD(0.2)], ids=str)
@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_any_kernel_with_one_output_is_a_scalar_kernel(name, selection):
    X, Y = stream(N)
    X, y = X[:, :1], Y[:, 0]
    found, expected = (
        PKAWV(kernel, 0.3, Nystrom(selection, past="exact"), random_state=0) for kernel in ONE_OUTPUT[name]
    )
    assert_allclose(found.predict_then_learn(X, y), expected.predict_then_learn(X, y), atol=1e-12)
    for one, other in zip(found.predict(X, return_cov=True), expected.predict(X, return_cov=True), strict=True):
        assert_allclose(one, other, atol=1e-12)


def test_two_classes_and_mixtures_take_any_kernel_with_one_output():
    X, Y = stream(N)
    X, y = X[:, :1], Y[:, 0]
    kernel, scalar = ONE_OUTPUT["sum"]
    labels = np.where(y > np.median(y), "high", "low")
    found, expected = (PKAWVClassifier(k, 0.3).fit(X, labels) for k in (kernel, scalar))
    assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-12)
    kernels = [Diagonal([Gaussian(1.0)]), Gaussian(2.0) * Identity()]
    mixture = OnlineMovKL(kernels, learner=PKAWV(alpha=0.3, warm_up=0)).fit(X, y)
    assert_allclose(mixture.learners_[0].predict(X)[:, 0], PKAWV(Gaussian(1.0), 0.3).fit(X, y).predict(X), atol=1e-12)
