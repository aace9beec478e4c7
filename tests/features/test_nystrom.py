"""Nystrom features: exact at their points, a projection elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import instances
import ovk
import reference
from ovk import KAWV, PKAWV, OVKRidge
from ovk.base.parameters import equal
from ovk.features import DEPENDENCE_TOL, KORS, ROUNDING_TOL, Given, Nystrom, NystromMap, OperatorNystromMap, Uniform
from ovk.features.nystrom import independent
from ovk.kernels import Gaussian, Linear, Tanimoto
from ovk.online.theory import suggest
from ovk.operators import Dense, LowRank, MixedEffect
from ovk.ovkernels import CurlFree

KERNELS = instances.each(instances.KERNELS)
OVKERNELS = instances.each(instances.OVKERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_points_give_the_kernel(kernel):
    X = instances.inputs(kernel, 8, seed=1)
    phi = NystromMap.from_points(kernel, X).transform(X)
    G = reference.scalar_gram(kernel, X)
    assert_allclose(phi @ phi.T, G, atol=1e-6 * np.abs(G).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_points_are_projected(kernel):
    points, X = instances.inputs(kernel, 4, seed=1), instances.inputs(kernel, 6, seed=2)
    phi = NystromMap.from_points(kernel, points).transform(X)
    k, D = reference.scalar_gram(kernel, X, points), reference.scalar_gram(kernel, points)
    assert_allclose(phi @ phi.T, k @ np.linalg.pinv(D, rcond=1e-10) @ k.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_coefficients_of_the_expansion(kernel):
    points, X = instances.inputs(kernel, 4, seed=1), instances.inputs(kernel, 6, seed=2)
    features = NystromMap.from_points(kernel, points)
    W = np.random.default_rng(0).standard_normal((len(features.L), 2))
    expected = reference.scalar_gram(kernel, X, features.points) @ features.coefficients(W)
    assert_allclose(features.transform(X) @ W, expected, rtol=1e-8, atol=1e-8)


def test_duplicates_are_dropped():
    X = np.random.default_rng(0).standard_normal((5, 2))
    features = NystromMap.from_points(Gaussian(1.0), X[[0, 1, 0, 2, 2, 3, 4, 1]])
    assert features.points.shape == (5, 2)
    assert {tuple(row) for row in features.points} == {tuple(row) for row in X}
    assert_allclose(features.L @ features.L.T, Gaussian(1.0)(features.points), atol=1e-14)


def test_points_that_depend_on_the_others_are_dropped():
    X = np.random.default_rng(0).standard_normal((9, 3))
    features = NystromMap.from_points(Linear(), X)
    assert features.points.shape == (3, 3)
    phi = features.transform(X)
    assert_allclose(phi @ phi.T, X @ X.T, atol=1e-10)


def test_kept_points_stay_in_order():
    X = np.linspace(0.0, 3.0, 7)[:, None]
    features = NystromMap.from_points(Gaussian(0.3), X)
    assert np.array_equal(features.points, X)
    keep, L = independent(np.diag([1.0, 1e-12, 3.0, 2.0]))
    assert keep.tolist() == [0, 2, 3]
    assert_allclose(L @ L.T, np.diag([1.0, 3.0, 2.0]))


def test_sparse_points():
    X = sparse.csr_array(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    features = NystromMap.from_points(Tanimoto(), X)
    assert features.points.shape == (2, 3)
    phi = features.transform(X)
    assert_allclose(phi @ phi.T, Tanimoto()(X), atol=1e-12)


@pytest.mark.parametrize("K", [0.0 * (Gaussian(1.0) * Dense(instances.B)), Linear() * Dense(instances.B)])
def test_a_kernel_that_is_zero_at_every_landmark(K):
    points = np.zeros((3, 2))
    with pytest.raises(ValueError, match="zero at every landmark: choose other landmarks or another kernel"):
        NystromMap.from_points(K.scalar, points)
    with pytest.raises(ValueError, match="zero at every landmark"):
        OperatorNystromMap.from_points(K, points)


# -------------------------------------------------------------------------------------------- operator-valued


@pytest.mark.parametrize("K", OVKERNELS)
def test_operator_map_with_all_points_is_the_kernel(K):
    X = instances.inputs(K, 5, seed=1)
    features = OperatorNystromMap.from_points(K, X)
    phi = features.transform(X)
    G = reference.gram(K, X)
    assert features.output_dim == instances.D
    assert phi.shape == (15, len(features.keep))
    assert_allclose(phi @ phi.T, G, atol=1e-6 * np.abs(G).max())


@pytest.mark.parametrize("K", OVKERNELS)
def test_operator_coefficients(K):
    points, X = instances.inputs(K, 4, seed=1), instances.inputs(K, 3, seed=2)
    features = OperatorNystromMap.from_points(K, points)
    W = np.random.default_rng(0).standard_normal(len(features.keep))
    C = features.coefficients(W)
    assert C.shape == (4, instances.D)
    assert_allclose(features.transform(X) @ W, reference.gram(K, X, points) @ C.ravel(), rtol=1e-7, atol=1e-7)


def test_operator_map_of_duplicates_and_of_singular_operators():
    X = np.random.default_rng(0).standard_normal((4, 2))
    assert len(OperatorNystromMap.from_points(CurlFree(Gaussian(1.0)), np.concatenate([X, X])).keep) == 8
    K = Gaussian(1.0) * LowRank([[1.0], [2.0]])
    features = OperatorNystromMap.from_points(K, X)
    assert len(features.keep) == 4
    phi = features.transform(X)
    assert_allclose(phi @ phi.T, K.gram(X).dense(), atol=1e-8)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), CurlFree(Gaussian(1.0))])
def test_save_and_load(kernel, tmp_path):
    X = np.random.default_rng(0).standard_normal((5, 2))
    model = ovk.OVKRidge(kernel, landmarks=X).fit(X, X)
    ovk.save(model, tmp_path / "model")
    features, again = model.landmarks_.features, ovk.load(tmp_path / "model").landmarks_.features
    assert equal(again.kernel, features.kernel)
    assert np.array_equal(again.transform(X), features.transform(X))


def test_points_chosen_for_a_sum_of_products_are_those_of_its_scalar_kernel():
    X, T = instances.inputs(None, 60), MixedEffect(0.5)
    kernels = (Gaussian(1.0) * T + Linear() * T, Gaussian(1.0) + Linear())
    terms, scalar = (Given.chosen(K, X, KORS(0.1), random_state=0).points for K in kernels)
    assert 10 < len(scalar) < 60
    assert_array_equal(terms, scalar)


@pytest.mark.parametrize("seed", range(3))
def test_points_chosen_by_leverage_are_those_of_the_definition(seed):
    """Over enough rows that the weights of the points decide which rows join."""
    X = np.random.default_rng(seed + 10).standard_normal((400, 1))
    found = Given.chosen(Gaussian(1.0), X, KORS(0.1, 0.8, 0.2), random_state=seed).points
    draws = np.random.default_rng(seed).random(400)
    expected = reference.kors(Gaussian(1.0)(X), 0.1, 0.8, 0.2, draws)
    assert 10 < len(expected) < 100
    assert_array_equal(found, X[expected])


@pytest.mark.parametrize("alpha", [1e-4, 1e-8])
def test_nearly_dependent_points_count_where_only_the_span_matters(alpha):
    """With all rows as points, learners with a given dictionary or an exact past are the exact ones."""
    rng = np.random.default_rng(0)
    X, T = rng.uniform(0, 4, (60, 1)), np.linspace(0, 4, 50)[:, None]
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    exact = KAWV(Gaussian(1.0), alpha)
    Z = exact.predict_then_learn(X, y)
    for features in (Nystrom(Given(X)), Nystrom(Uniform(rate=1.0), past="exact"), Nystrom(KORS(1e-12), past="exact")):
        model = PKAWV(Gaussian(1.0), alpha, features, random_state=0)
        assert_allclose(model.predict_then_learn(X, y), Z, atol=1e-4)
        assert_allclose(model.predict(T), exact.predict(T), atol=1e-4)
    ridge, landmarks = (OVKRidge(Gaussian(1.0), alpha, landmarks=points).fit(X, y) for points in (None, X))
    assert_allclose(landmarks.predict(T), ridge.predict(T), atol=1e-4)


def test_suggested_scales_are_not_below_what_features_resolve():
    assert PKAWV.auto(Gaussian(1.0), n=10_000).features.selection.mu == DEPENDENCE_TOL
    assert suggest(Gaussian(1.0), 10**7, 1).mu == ROUNDING_TOL
