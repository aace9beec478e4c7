"""Properties of every scalar kernel, for any inputs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import instances
from ovk.kernels import Gaussian, Linear, Matern, Precomputed, Product, Scaled, Sum

KERNELS = st.sampled_from([kernel for _, kernel in instances.KERNELS])
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def points(draw, kernel, most=8):
    """Inputs with repetitions, for quarters repeat easily."""
    n = draw(st.integers(1, most))
    if isinstance(kernel, Precomputed):
        return draw(hnp.arrays(np.int64, (n, 1), elements=st.integers(0, instances.OBJECTS - 1))).astype(float)
    return draw(hnp.arrays(np.int64, (n, instances.P), elements=st.integers(-12, 12))) / 4.0


@SETTINGS
@given(st.data(), KERNELS)
def test_positive_semi_definite_and_symmetric(data, kernel):
    X = data.draw(points(kernel))
    G = kernel(X)
    scale = max(np.abs(G).max(), 1e-300)
    assert_allclose(G, G.T, atol=1e-7 * scale)
    assert np.linalg.eigvalsh(G).min() >= -1e-6 * scale
    assert_allclose(np.diagonal(G), kernel.diag(X), rtol=1e-12)


@SETTINGS
@given(st.data(), KERNELS)
def test_arguments_exchanged(data, kernel):
    X, Z = data.draw(points(kernel)), data.draw(points(kernel))
    G = kernel(X, Z)
    assert_allclose(G, kernel(Z, X).T, atol=1e-7 * max(np.abs(G).max(), 1e-300))


@SETTINGS
@given(st.data(), KERNELS)
def test_rows_permuted(data, kernel):
    X = data.draw(points(kernel))
    order = np.array(data.draw(st.permutations(range(len(X)))))
    G = kernel(X)
    assert_allclose(kernel(X[order]), G[np.ix_(order, order)], atol=1e-7 * max(np.abs(G).max(), 1e-300))


@SETTINGS
@given(st.data(), KERNELS)
def test_a_part_of_the_matrix_is_the_matrix_of_a_part(data, kernel):
    X = data.draw(points(kernel))
    G = kernel(X)
    assert_allclose(kernel(X[::2], X[-2:]), G[::2, -2:], atol=1e-7 * max(np.abs(G).max(), 1e-300))


@SETTINGS
@given(st.data(), st.floats(0.0, 100.0), st.integers(0, 100))
def test_algebra(data, factor, whole):
    one, two, three = Gaussian(1.1), Linear(), Matern(1.5, 0.7)
    X = data.draw(points(one))
    assert_allclose((one + two)(X), one(X) + two(X))
    assert_allclose((one * two)(X), one(X) * two(X))
    assert_allclose(sum([one, two, three])(X), one(X) + two(X) + three(X))
    for multiple in (factor, np.float64(factor), np.float32(factor), whole, np.int64(whole)):
        for kernel in (multiple * one, one * multiple):
            assert type(kernel) is Scaled
            assert_allclose(kernel(X), float(multiple) * one(X))
    assert type(one + two) is Sum
    assert type(one * two) is Product


@SETTINGS
@given(st.data(), KERNELS)
def test_no_inputs_give_an_empty_matrix(data, kernel):
    X = data.draw(points(kernel))
    assert kernel(X[:0]).shape == (0, 0)
    assert kernel(X[:0], X).shape == (0, len(X))
    assert kernel(X, X[:0]).shape == (len(X), 0)
    assert kernel.diag(X[:0]).shape == (0,)
