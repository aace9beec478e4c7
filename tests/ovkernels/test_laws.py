"""Properties of every operator-valued kernel, for any inputs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import instances
from ovk.base.parameters import equal
from ovk.kernels import Gaussian, Linear, Scaled
from ovk.operators import Dense, MixedEffect
from ovk.ovkernels import CurlFree, Separable, WeightedSum

KERNELS = st.sampled_from([K for _, K in instances.OVKERNELS])
SETTINGS = settings(max_examples=50, deadline=None, derandomize=True)
POINTS = st.integers(1, 6).flatmap(
    lambda n: hnp.arrays(np.int64, (n, instances.P), elements=st.integers(-8, 8)).map(lambda X: X / 4.0)
)


@SETTINGS
@given(KERNELS, POINTS)
def test_positive_semi_definite(K, X):
    matrix = K.gram(X).dense()
    scale = np.abs(matrix).max()
    assert_allclose(matrix, matrix.T, atol=1e-7 * scale)
    assert np.linalg.eigvalsh(0.5 * (matrix + matrix.T)).min() >= -1e-6 * scale


@SETTINGS
@given(KERNELS, POINTS, POINTS)
def test_hermitian(K, X, Z):
    """K(x, z) = K(z, x)'."""
    there, back = K.gram(X, Z).dense(), K.gram(Z, X).dense()
    assert_allclose(there, back.T, atol=1e-7 * max(np.abs(there).max(), 1e-300))


@SETTINGS
@given(st.data(), KERNELS, POINTS)
def test_rows_permuted(data, K, X):
    order = np.array(data.draw(st.permutations(range(len(X)))))
    wide = (order[:, None] * instances.D + np.arange(instances.D)).ravel()
    matrix = K.gram(X).dense()
    assert_allclose(K.gram(X[order]).dense(), matrix[np.ix_(wide, wide)], atol=1e-7 * max(np.abs(matrix).max(), 1e-300))


@SETTINGS
@given(KERNELS, KERNELS, KERNELS, POINTS, st.floats(0.0, 50.0))
def test_algebra(one, two, three, X, factor):
    a, b, c = (K.gram(X).dense() for K in (one, two, three))
    scale = 1e-9 * max(np.abs(a).max(), np.abs(b).max(), np.abs(c).max(), 1.0) ** 2 * (1 + factor)
    assert_allclose((one + two).gram(X).dense(), a + b, atol=scale)
    assert_allclose(sum([one, two, three]).gram(X).dense(), a + b + c, atol=scale)
    assert_allclose(((one + two) + three).gram(X).dense(), (one + (two + three)).gram(X).dense(), atol=scale)
    assert_allclose((one & two).gram(X).dense(), a * b, atol=scale)
    assert_allclose((factor * one).gram(X).dense(), factor * a, atol=scale)
    assert_allclose((factor * (one + two)).gram(X).dense(), (factor * one + factor * two).gram(X).dense(), atol=scale)


def test_the_grams_of_a_sum_add_up_without_becoming_dense():
    X = instances.inputs(None, 5)
    one, two = Gaussian(1.0) * Dense(instances.B), Linear() * MixedEffect(0.3, 3)
    C = np.random.default_rng(0).standard_normal((5, 3))
    total = (one + two).gram(X)
    assert [len(gram.terms()) for gram in (one.gram(X), two.gram(X), total)] == [1, 1, 2]
    assert_allclose(total.matmat(C), one.gram(X).matmat(C) + two.gram(X).matmat(C))


def test_multiples_of_every_kind_of_number():
    K, field = Gaussian(1.0) * Dense(instances.B), CurlFree(Gaussian(1.0))
    for factor in (2.0, 2, np.float64(2.0), np.float32(2.0), np.int64(2)):
        for multiple in (factor * K, K * factor):
            assert equal(multiple, Separable(Scaled(2.0, Gaussian(1.0)), Dense(instances.B)))
        for multiple in (factor * field, field * factor):
            assert type(multiple) is WeightedSum
            assert multiple.weights == [2.0]


def test_sum_of_a_list():
    kernels = [Gaussian(1.0) * Dense(instances.B), Linear() * MixedEffect(0.3, 3), CurlFree(Gaussian(1.0))]
    total = sum(kernels)
    assert type(total) is WeightedSum
    assert total.weights is None
    assert all(found is given for found, given in zip(total.kernels, kernels, strict=True))
