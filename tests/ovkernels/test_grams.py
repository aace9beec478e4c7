"""Every gram agrees with its dense matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import instances
from ovk.kernels import Gaussian, Linear
from ovk.operators import Cluster, Dense, GraphLaplacian, Identity, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal
from ovk.ovkernels.grams import ByOutput, DenseBlocks, Gram, Kronecker, Observed, Rotated, Stacked, common_eigenvectors

EVERY = instances.each(instances.GRAMS)
FULL = instances.each(instances.GRAMS, without={name for name, gram in instances.GRAMS if isinstance(gram, Observed)})
#: Grams between different points.
RECTANGULAR = [
    pytest.param(K.gram(instances.inputs(None, 5, 1), instances.inputs(None, 7, 2)), id=type(K).__name__)
    for K in (
        Gaussian(1.0) * Dense(instances.B),
        Gaussian(1.0) * Dense(instances.B) + Linear() * MixedEffect(0.3, 3),
        CurlFree(Gaussian(1.0)),
    )
]


def matrix(gram):
    """The (n d, m d) matrix of a gram written from its parts by loops over entries."""
    if isinstance(gram, Observed):
        base, d = matrix(gram.base), gram.base.output_dim
        kept = [i * d + q for i, q in zip(gram.rows, gram.outputs, strict=True)]
        return base[np.ix_(kept, kept)]
    if isinstance(gram, DenseBlocks):
        return gram.matrix
    return sum(np.kron(G, T.dense()) for G, T in gram.terms())


def coefficients(gram, seed=0):
    return np.random.default_rng(seed).standard_normal((gram.shape[1], gram.output_dim))


@pytest.mark.parametrize("gram", [*EVERY, *RECTANGULAR])
def test_dense(gram):
    n, m = gram.shape
    d = gram.output_dim
    assert gram.dense().shape == (n * d, m * d)
    assert_allclose(gram.dense(), matrix(gram), atol=1e-14)
    assert_allclose(Gram.dense(gram), matrix(gram), atol=1e-14)


@pytest.mark.parametrize("gram", [*EVERY, *RECTANGULAR])
def test_matmat(gram):
    C = coefficients(gram)
    before = C.copy()
    expected = (matrix(gram) @ C.reshape(-1)).reshape(gram.shape[0], gram.output_dim)
    assert_allclose(gram.matmat(C), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(C, before)


@pytest.mark.parametrize("gram", [*FULL, *RECTANGULAR])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_matmat_of_sparse_coefficients(gram, form):
    C = coefficients(gram) * (np.arange(gram.shape[1])[:, None] % 2)
    values = gram.matmat(form(C))
    assert type(values) is np.ndarray
    assert_allclose(values, gram.matmat(C), atol=1e-13)


@pytest.mark.parametrize("gram", [*EVERY, *RECTANGULAR])
def test_entries(gram):
    rng = np.random.default_rng(0)
    n, m = gram.shape
    d = gram.output_dim
    rows, outputs = rng.integers(0, n, 9), rng.integers(0, d, 9)
    columns, inputs = rng.integers(0, m, 6), rng.integers(0, d, 6)
    expected = matrix(gram)[np.ix_(rows * d + outputs, columns * d + inputs)]
    found = gram.entries(rows, outputs, columns, inputs)
    assert_allclose(found, expected, atol=1e-14)
    found[...] = 0.0
    assert_allclose(gram.entries(rows, outputs, columns, inputs), expected, atol=1e-14)


@pytest.mark.parametrize("gram", EVERY)
def test_diagonal_blocks(gram):
    n, d = gram.shape[0], gram.output_dim
    blocks = matrix(gram).reshape(n, d, n, d)
    assert_allclose(gram.diagonal_blocks(), [blocks[i, :, i] for i in range(n)], atol=1e-14)


@pytest.mark.parametrize("gram", [*FULL, *RECTANGULAR])
@pytest.mark.parametrize("which", ["rows", "columns", "outputs", "all", "none"])
def test_rescale(gram, which):
    rng = np.random.default_rng(0)
    n, m = gram.shape
    d = gram.output_dim
    rows = rng.random(n) + 0.5 if which in ("rows", "all") else None
    columns = rng.random(m) + 0.5 if which in ("columns", "all") else None
    outputs = rng.random(d) + 0.5 if which in ("outputs", "all") else None
    left = np.kron(np.ones(n) if rows is None else rows, np.ones(d) if outputs is None else outputs)
    right = np.kron(np.ones(m) if columns is None else columns, np.ones(d) if outputs is None else outputs)
    before = gram.dense().copy()
    scaled = gram.rescale(rows, columns, outputs)
    assert type(scaled) is type(gram)
    assert_allclose(scaled.dense(), left[:, None] * matrix(gram) * right, rtol=1e-12, atol=1e-14)
    assert np.array_equal(gram.dense(), before)


@pytest.mark.parametrize("gram", instances.each(instances.GRAMS, only={"observed", "observed-blocks"}))
def test_rescale_of_observed_pairs_scales_points_and_outputs(gram):
    v, s = np.linspace(1.0, 2.0, gram.base.shape[0]), np.array([1.0, 2.0, 3.0])
    scale = v[gram.rows] * s[gram.outputs]
    assert_allclose(gram.rescale(v, v, s).dense(), scale[:, None] * matrix(gram) * scale, rtol=1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from([gram for _, gram in instances.GRAMS]), st.integers(0, 1000))
def test_adjoint(gram, seed):
    """<C, K D> = <K C, D>: a square gram is its own adjoint."""
    C, E = coefficients(gram, seed), coefficients(gram, seed + 1)
    assert_allclose(np.vdot(C, gram.matmat(E)), np.vdot(gram.matmat(C), E), rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.sampled_from([K for _, K in instances.OVKERNELS]), st.integers(0, 1000))
def test_adjoint_between_different_points(K, seed):
    X, Z = instances.inputs(K, 4, seed), instances.inputs(K, 6, seed + 1)
    there, back = K.gram(X, Z), K.gram(Z, X)
    C, E = coefficients(back, seed), coefficients(there, seed + 1)
    assert_allclose(np.vdot(C, there.matmat(E)), np.vdot(back.matmat(C), E), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gram", EVERY)
def test_positive_semi_definite(gram):
    values = np.linalg.eigvalsh(gram.dense())
    assert values.min() >= -1e-10 * values.max()


def test_spread_puts_coefficients_of_pairs_where_they_belong():
    gram = dict(instances.GRAMS)["observed"]
    c = np.arange(1.0, gram.shape[0] + 1)
    full = gram.spread(c[:, None])
    assert_allclose(full[gram.rows, gram.outputs], c)
    assert np.count_nonzero(full) == len(c)


# ------------------------------------------------------------------------------------------ sums of operators

G, H = Gaussian(1.0)(instances.inputs(None, 6)), Linear()(instances.inputs(None, 6))


def test_terms_with_equal_operators_are_added():
    terms = [
        (G, Dense(instances.B)),
        (H, Identity(3)),
        (G, Dense(instances.B.copy())),
        (H, MixedEffect(0.2, 3)),
        (H, Identity(3)),
    ]
    gram = Kronecker([A for A, _ in terms], [T for _, T in terms])
    assert len(gram.terms()) == 3
    assert_allclose(gram.dense(), sum(np.kron(A, T.dense()) for A, T in terms))
    assert np.array_equal(terms[0][0], G)


def test_the_route_to_scalar_problems():
    kinds = {name: type(gram.decouple()) for name, gram in instances.GRAMS}
    assert kinds == {
        "kronecker": Rotated,
        "kronecker-singular": Rotated,
        "kronecker-sum": type(None),
        "kronecker-sum-commuting": Rotated,
        "dense-blocks": Stacked,
        "observed": Stacked,
        "observed-by-output": ByOutput,
        "observed-sum": Stacked,
        "observed-blocks": Stacked,
    }


#: The first and third of four outputs were never observed.
TWO_OF_FOUR = Observed(
    Diagonal([Gaussian(1.0), Gaussian(2.0), Linear(), Gaussian(0.5)]).gram(instances.inputs(None, 6)),
    np.array([0, 1, 2, 3, 5, 5]),
    np.array([1, 3, 3, 1, 1, 3]),
)


@pytest.mark.parametrize("gram", [*instances.each(instances.GRAMS, without={"kronecker-sum"}), TWO_OF_FOUR])
def test_scalar_problems_make_up_the_gram(gram):
    """Splitting a vector, multiplying by each scalar gram and joining is multiplying by the gram."""
    decoupled = gram.decouple()
    C = coefficients(gram)
    parts = decoupled.split(C)
    assert len(parts) == len(decoupled)
    assert_allclose(decoupled.join([part.copy() for part in parts]), C, atol=1e-12)
    products = [decoupled.matrix(q) @ part for q, part in enumerate(parts)]
    assert_allclose(decoupled.join(products), gram.matmat(C), atol=1e-11)
    for q in range(len(decoupled)):
        if decoupled.vanishes(q):
            assert not decoupled.matrix(q).any()


@pytest.mark.parametrize("gram", instances.each(instances.GRAMS, without={"kronecker-sum"}))
def test_scalar_problems_may_be_overwritten(gram):
    before, C = gram.dense().copy(), coefficients(gram)
    decoupled = gram.decouple()
    for q, part in enumerate(decoupled.split(C)):
        decoupled.matrix(q)[...] = 0.0
        part[...] = 0.0
    assert np.array_equal(gram.dense(), before)
    assert C.any()


@pytest.mark.parametrize(
    ("one", "other", "problems"),
    [
        (MixedEffect(0.4, 3), Identity(3), 2),
        (MixedEffect(0.4, 3), MixedEffect(0.7, 3), 2),
        (Dense(np.diag([1.0, 2.0, 3.0])), Dense(np.diag([1.0, 0.0, 1.0])), 3),
        (Dense(np.diag([1.0, 1.0, 0.0])), Dense(np.diag([0.0, 0.0, 1.0])), 2),
        (Dense(instances.B), Dense(instances.B @ instances.B), 3),
        (Cluster("aab", within=0.5), Identity(3), 3),
        (GraphLaplacian(np.ones((3, 3))), MixedEffect(0.2, 3), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_operators_that_commute(one, other, problems):
    gram = Kronecker([G, H], [one, other])
    decoupled = gram.decouple()
    assert isinstance(decoupled, Rotated)
    assert len(decoupled) == problems
    V = decoupled.vectors
    assert_allclose(V @ V.T, np.eye(3), atol=1e-12)
    for q, group in enumerate(decoupled.groups):
        for weight, T in zip(decoupled.weights[q], (one, other), strict=True):
            assert_allclose(T.dense() @ V[:, group], weight * V[:, group], atol=1e-10)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Dense(instances.B), MixedEffect(0.4, 3)),
        (Dense(np.diag([1.0, 2.0, 3.0])), MixedEffect(0.01, 3)),
        (LowRank([[1.0], [0.0], [0.0]]), LowRank([[1.0], [1.0], [0.0]])),
        (Dense(instances.B), Dense(1e-6 * np.diag([1.0, 2.0, 3.0]))),
    ],
)
def test_operators_that_do_not_commute(one, other):
    assert Kronecker([G, H], [one, other]).decouple() is None


def test_a_diagonal_kernel_is_one_problem_for_each_different_kernel():
    K = Diagonal([Gaussian(1.0), Linear(), Gaussian(1.0), Gaussian(2.0)])
    assert len(K.gram(instances.inputs(None, 5)).decouple()) == 3


def test_tuples_that_occur_twice_are_one_problem():
    values, vectors, groups = common_eigenvectors([np.diag([1.0, 2.0, 1.0, 2.0]), np.diag([3.0, 3.0, 3.0, 4.0])])
    assert len(groups) == 3
    assert values.shape == (2, 4)
    assert_allclose(vectors @ vectors.T, np.eye(4), atol=1e-14)


def test_vanishing_problems_are_known():
    decoupled = Kronecker(G, MixedEffect(1.0, 3)).decouple()
    assert [decoupled.vanishes(q) for q in range(len(decoupled))] == [True, False]
    seen = Observed(Kronecker(G, Dense(np.diag([1.0, 0.0, 2.0]))), np.arange(6), np.array([0, 1, 2, 0, 1, 2]))
    decoupled = seen.decouple()
    assert [decoupled.vanishes(q) for q in range(len(decoupled))] == [False, True, False]


@pytest.mark.parametrize("name", [name for name, _ in instances.GRAMS])
def test_weights_multiply_the_blocks(name):
    gram = dict(instances.GRAMS)[name]
    n, m = gram.shape
    weights = np.random.default_rng(1).uniform(size=(n, m))
    d = gram.output_dim
    np.testing.assert_allclose(
        gram.weighted(weights).dense(), gram.dense() * np.kron(weights, np.ones((d, d))), rtol=1e-12, atol=1e-12
    )
