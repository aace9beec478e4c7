"""Sums of separable terms: the same as kernel by kernel, each scalar kernel evaluated once, equal operators added."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

import instances
import reference
from ovk import OLOK
from ovk.kernels import Function, Gaussian, Linear, Polynomial
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, Kronecker, Separable, WeightedSum
from ovk.solvers import Cholesky, ConjugateGradient, select

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
X, Z = instances.inputs(None, 6), instances.inputs(None, 5, seed=1)
SCALARS = [Gaussian(1.3), Gaussian(0.7), Linear(), 2.0 * Linear(), Gaussian(1.3) + 0.5 * Polynomial(2)]
OPERATORS = [Identity(3), MixedEffect(0.4, 3), Dense(instances.B), Dense(instances.B.copy())]
PRODUCTS = st.tuples(st.sampled_from(SCALARS), st.sampled_from(OPERATORS), st.sampled_from([0.0, 0.5, 1.0, 3.0]))


def added(kernel, *args):
    """The matrix of a kernel as the sum of its terms."""
    return sum(term.weight * np.kron(term.kernel(*args), term.operator.dense()) for term in kernel.terms())


@pytest.mark.parametrize("K", instances.each(instances.OVKERNELS))
def test_the_gram_is_the_sum_of_the_terms(K):
    if K.terms() is None:
        assert K.gram(X).terms() is None
    else:
        assert_allclose(added(K, X, Z), K.gram(X, Z).dense(), atol=1e-12)
        assert_allclose(sum(np.kron(G, T.dense()) for G, T in K.gram(X, Z).terms()), K.gram(X, Z).dense(), atol=1e-12)


@SETTINGS
@given(st.lists(PRODUCTS, min_size=1, max_size=5))
def test_sums_of_products_equal_their_parts(products):
    K = WeightedSum([k * T for k, T, _ in products], [w for _, _, w in products])
    C = np.random.default_rng(0).standard_normal((5, 3))
    s, t = np.array([0, 2, 1, 1, 0, 2]), np.array([1, 0, 2, 2, 0])
    since = np.array([0, 0, 1, 2, 2, 4])

    def by_parts(method):
        return sum(w * method(k * T) for k, T, w in products)

    assert_allclose(added(K, X, Z), K.gram(X, Z).dense(), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.gram(X, Z).dense()), K.gram(X, Z).dense(), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.product(X, Z, C)), K.product(X, Z, C), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.product(X, Z, C, since)), K.product(X, Z, C, since), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.pairs(X, s, Z, t)), K.pairs(X, s, Z, t), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.diagonal_blocks(X)), K.diagonal_blocks(X), atol=1e-10)
    assert_allclose(by_parts(lambda P: P.jacobian(X, Z, C)), K.jacobian(X, Z, C), atol=1e-10)
    assert_allclose(K(X[0], Z[0]), reference.block(K, X[0], Z[0]), atol=1e-10)
    single = K.as_separable()
    if single is not None:
        assert_allclose(single.gram(X, Z).dense(), K.gram(X, Z).dense(), atol=1e-10)


class Counted:
    """A kernel function that counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, X, Z):
        self.calls += 1
        return X @ Z.T


@pytest.mark.parametrize(
    "ask",
    [
        lambda K: K.gram(X, Z),
        lambda K: K.product(X, Z, np.ones((5, 3))),
        lambda K: K.pairs(X, np.zeros(6, dtype=int), Z, np.zeros(5, dtype=int)),
    ],
)
def test_equal_scalar_kernels_are_evaluated_once(ask):
    counted = Counted()
    k = Function(counted)
    K = k * Identity(3) + 2.0 * k * MixedEffect(0.4, 3) + (k + Gaussian(1.0)) * Dense(instances.B)
    ask(K)
    assert counted.calls == 1


def test_kernels_without_weight_are_not_evaluated():
    counted = Counted()
    K = WeightedSum([Gaussian(1.0) * Identity(3), Function(counted) * Identity(3)], [1.0, 0.0])
    assert_allclose(K.gram(X).dense(), (Gaussian(1.0) * Identity(3)).gram(X).dense())
    assert counted.calls == 0
    assert not WeightedSum([Gaussian(1.0) * Identity(3)], [0.0]).gram(X).dense().any()
    assert not WeightedSum([CurlFree(Gaussian(1.0))], [0.0]).gram(X).dense().any()


def test_sums_with_a_shared_operator_take_the_route_of_a_single_product():
    shared = Gaussian(1.3) * Dense(instances.B) + Linear() * Dense(instances.B) + Polynomial(2) * Dense(instances.B)
    gram = shared.gram(X)
    ((G, T),) = gram.terms()
    assert T is shared.kernels[0].operator
    assert_allclose(G, Gaussian(1.3)(X) + Linear()(X) + Polynomial(2)(X))
    assert len(gram.decouple().grams) == 1
    assert type(select(gram)) is Cholesky
    assert shared.as_separable() is not None


def test_sums_with_a_shared_scalar_kernel_are_a_single_product():
    """The operators do not commute, yet their sum is one operator: no iteration is needed."""
    shared = Gaussian(1.3) * Dense(instances.B) + Gaussian(1.3) * MixedEffect(0.6, 3)
    ((_, T),) = shared.gram(X).terms()
    assert_allclose(T.dense(), instances.B + MixedEffect(0.6, 3).dense())
    assert type(select(shared.gram(X))) is Cholesky
    apart = Gaussian(1.3) * Dense(instances.B) + Gaussian(1.4) * MixedEffect(0.6, 3)
    assert apart.as_separable() is None
    assert type(select(apart.gram(X))) is ConjugateGradient


def test_operators_that_share_all_their_scalar_kernels_are_added():
    k = Gaussian(1.0) + Linear()
    gram = (k * Dense(instances.B) + k * MixedEffect(0.3, 3) + Polynomial(2) * Identity(3)).gram(X)
    assert len(gram.terms()) == 2
    assert len(gram.by_operator()) == 3
    assert_allclose(sum(np.kron(G, T.dense()) for G, T in gram.by_operator()), gram.dense())


def test_multiples_of_grams():
    for _, gram in instances.GRAMS:
        assert_allclose((2.5 * gram).dense(), 2.5 * gram.dense())
    assert (2.5 * Kronecker(np.eye(2), Identity(2))).grams[0][0, 0] == 1.0


def test_parts_are_parameters():
    K = Gaussian(1.0) * MixedEffect(0.4, 3) + Linear() * Identity(3)
    assert K.get_params()["kernels[0]__kernel__length_scale"] == 1.0
    copy = clone(K).set_params(**{"kernels[0]__kernel__length_scale": 2.0, "kernels[1]": Polynomial(2) * Identity(3)})
    assert copy.kernels[0].kernel.length_scale == 2.0
    assert copy.kernels[1].kernel.degree == 2
    assert K.kernels[0].kernel.length_scale == 1.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        K.set_params(**{"kernels[7]__kernel__length_scale": 1.0})
    D = Diagonal([Gaussian(1.0), Linear()])
    assert D.replace(**{"kernels[0]__length_scale": 3.0}).kernels[0].length_scale == 3.0


def test_sums_are_flat():
    field, other = CurlFree(Gaussian(1.0)), CurlFree(Gaussian(2.0))
    K = 2.0 * (field + 3.0 * other) + field
    assert K.weights == [2.0, 6.0, 1.0]
    assert [kernel is field for kernel in K.kernels] == [True, False, True]
    assert (field + other).weights is None


def test_a_stream_is_learned_the_same_way():
    rng = np.random.default_rng(0)
    rows, Y = rng.standard_normal((700, 3)), rng.standard_normal((700, 3))
    T = MixedEffect(0.4)
    by_terms = OLOK(Gaussian(2.0) * T + Linear() * T, alpha=0.1).fit(rows, Y)
    by_hand = OLOK(Separable(Gaussian(2.0) + Linear(), T), alpha=0.1).fit(rows, Y)
    assert_allclose(by_terms.predict(rows[:20]), by_hand.predict(rows[:20]), rtol=1e-9)
