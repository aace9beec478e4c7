"""Closed-form leave-one-out residuals equal those of refitting."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
import reference
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity, Integral
from ovk.ovkernels import CurlFree, Kronecker, Observed
from ovk.solvers import leave_one_out
from ovk.solvers.eigen import eigenpairs, observed_eigenpairs
from ovk.solvers.leave_one_out import SeparablePath, factored_leave_one_out, pairwise_path

N = 9
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.random.default_rng(1).standard_normal((N, 3)) + 1.0
W = np.linspace(0.3, 2.0, N)

FLAGS = [(i, w, e) for i in (False, True) for w in (False, True) for e in (False, True)]
IDS = [
    "-".join(name for name, on in zip(("intercept", "weights", "entry"), flags, strict=True) if on) or "rows"
    for flags in FLAGS
]


def kronecker(G, operator, alpha, intercept, weighted, entry, tol=0.0):
    """Closed-form residuals in the units of Y."""
    n = len(G)
    v = np.sqrt(np.resize(W, n)) if weighted else np.ones(n)
    pairs = eigenpairs(G * v[:, None] * v, tol)
    outputs = np.resize(Y, (n, 3))
    closed = SeparablePath(pairs, outputs * v[:, None], v if intercept else None)
    return pairs, outputs, v, closed.residuals(operator.eigh(), alpha, entry=entry) / v[:, None]


@pytest.mark.pairwise
@pytest.mark.parametrize(("intercept", "weighted", "entry"), FLAGS, ids=IDS)
@pytest.mark.parametrize("operator", instances.each(instances.OPERATORS))
def test_separable(operator, intercept, weighted, entry):
    G = Gaussian(1.5)(X)
    for alpha in (1e-2, 1.0):
        _, _, v, found = kronecker(G, operator, alpha, intercept, weighted, entry)
        K = np.kron(G, reference.operator(operator))
        expected = reference.leave_one_out(K, Y, alpha, v**2, intercept, entry)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("E", [None, np.ones(N), np.sqrt(W)])
def test_all_alphas_at_once_give_the_same_residuals(E):
    path, alphas = SeparablePath(eigenpairs(Gaussian(1.5)(X)), Y, E), np.logspace(-3, 1, 4)
    assert_allclose(path.uncoupled(alphas), list(path.path(Identity(3).eigh(), alphas)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("together", [None, np.arange(N)[::-1], np.arange(N) % 4], ids=["alone", "renumbered", "sets"])
def test_cholesky_and_eigenvectors_agree(together, intercept):
    kernel, u = Gaussian(1.5), np.sqrt(W) if intercept else None
    path = SeparablePath(eigenpairs(kernel(X)), Y, u, together)
    (solution,) = path.solutions(Identity(3).eigh(), np.array([0.1]))
    residuals, diagonal = factored_leave_one_out(lambda: kernel(X), 0.1, Y, u, together)
    assert_allclose(residuals, path.residuals(Identity(3).eigh(), 0.1), rtol=1e-10)
    assert_allclose(diagonal, path.blocks.diagonal([P[..., 0] for P in solution.P]), rtol=1e-10)


@pytest.mark.parametrize(("intercept", "weighted", "entry"), FLAGS, ids=IDS)
def test_separable_with_low_rank_eigenpairs(intercept, weighted, entry):
    G = Gaussian(8.0)(np.random.default_rng(3).standard_normal((20, 1)))
    operator = Dense(instances.B)
    pairs, outputs, v, found = kronecker(G, operator, 0.1, intercept, weighted, entry, tol=1e-11)
    assert pairs.full is False
    expected = reference.leave_one_out(np.kron(G, instances.B), outputs, 0.1, v**2, intercept, entry)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("entry", [False, True], ids=["rows", "entries"])
@pytest.mark.parametrize("tol", [0.0, 1e-11])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_a_path_of_alphas_in_batches(entry, tol, intercept, monkeypatch):
    G = Gaussian(8.0)(np.random.default_rng(3).standard_normal((20, 1)))
    alphas, spectrum = np.array([1e-2, 0.1, 1.0, 3.0, 10.0]), Dense(instances.B).eigh()
    closed = SeparablePath(eigenpairs(G, tol), np.resize(Y, (20, 3)), np.ones(20) if intercept else None)
    one_by_one = [closed.residuals(spectrum, alpha, entry=entry) for alpha in alphas]
    for batch in (1, 2 * 60, 1 << 22):  # one alpha, two alphas, all of them at once
        monkeypatch.setattr(leave_one_out, "MAX_BATCH_SIZE", batch)
        found = list(closed.path(spectrum, alphas, entry=entry))
        assert len(found) == len(alphas)
        assert_allclose(found, one_by_one, rtol=1e-10, atol=1e-12)


def test_subtracting_the_mean_beforehand_is_not_the_same():
    G, operator = Gaussian(1.5)(X), Dense(instances.B)
    _, _, _, exact = kronecker(G, operator, 0.1, True, False, False)
    centred = SeparablePath(eigenpairs(G), Y - Y.mean(axis=0)).residuals(operator.eigh(), 0.1)
    assert np.abs(exact - centred).max() > 1e-2


# ------------------------------------------------------------------------------------------------------ dense


@pytest.mark.parametrize("entry", [False, True], ids=["rows", "entries"])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("holes", [False, True], ids=["complete", "holes"])
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_dense(entry, intercept, holes, alpha):
    K = CurlFree(Gaussian(1.5)).gram(X).dense()
    seen = np.random.default_rng(5).random((N, 3)) < (0.7 if holes else 2.0)
    points, outputs = np.nonzero(seen)
    kept = points * 3 + outputs
    E = np.eye(3)[outputs] if intercept else None
    together = np.arange(len(points)) if entry else points
    (found,) = pairwise_path(K[np.ix_(kept, kept)], Y[seen], together, np.array([alpha]), E)
    expected = reference.leave_one_out(K, np.where(seen, Y, np.nan), alpha, None, intercept, entry)
    assert_allclose(found, expected[seen], rtol=1e-9, atol=1e-9)


def test_any_groups_of_pairs():
    """Pairs with the same number are left out together: here two points at a time."""
    K = CurlFree(Gaussian(1.5)).gram(X).dense()
    (found,) = pairwise_path(K, Y.ravel(), np.repeat(np.arange(N) // 2, 3), np.array([0.1]))
    found = found.reshape(N, 3)
    for group in range(5):
        left = np.arange(N) // 2 == group
        C, _ = reference.ridge(K, np.where(left[:, None], np.nan, Y), 0.1)
        assert_allclose(found[left], (Y - (K @ C.ravel()).reshape(N, 3))[left], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [True, False], ids=["full", "low rank"])
@pytest.mark.parametrize("large", [30, 1], ids=["small sets", "large sets"])
def test_a_path_of_alphas(monkeypatch, full, large):
    """A path equals the residuals at each alpha, for any batch size and blocks of one to three pairs."""
    monkeypatch.setattr(leave_one_out, "MAX_PRODUCT_ROWS", large)
    G = Gaussian(1.5)(X) if full else X @ X.T
    seen = np.random.default_rng(5).random((N, 3)) < 0.7
    points, outputs = np.nonzero(seen)
    K = np.kron(G, instances.B)
    alphas = np.logspace(-2, 1, 4)
    expected = [reference.leave_one_out(K, np.where(seen, Y, np.nan), a, None, True, False)[seen] for a in alphas]
    kept = points * 3 + outputs
    pairs = eigenpairs(K[np.ix_(kept, kept)], 0.0 if full else 1e-12)
    assert pairs.full == full
    for batch in (1 << 22, 200, 1):
        monkeypatch.setattr(leave_one_out, "MAX_BATCH_SIZE", batch)
        found = pairwise_path(pairs, Y[seen], points, alphas, np.eye(3)[outputs])
        assert_allclose(list(found), expected, rtol=1e-8, atol=1e-8)


def test_dense_in_any_order():
    """Pairs of a point need not be adjacent."""
    K = CurlFree(Gaussian(1.5)).gram(X).dense()
    points = np.repeat(np.arange(N), 3)
    order = np.random.default_rng(0).permutation(3 * N)
    (straight,) = pairwise_path(K, Y.ravel(), points, np.array([0.1]))
    (shuffled,) = pairwise_path(K[np.ix_(order, order)], Y.ravel()[order], points[order], np.array([0.1]))
    assert_allclose(shuffled, straight[order], rtol=1e-9)


def test_dense_and_separable_agree():
    G = Gaussian(1.5)(X)
    for entry, together in ((False, np.repeat(np.arange(N), 3)), (True, np.arange(3 * N))):
        E = np.tile(np.eye(3), (N, 1))
        (dense,) = pairwise_path(np.kron(G, instances.B), Y.ravel(), together, np.array([0.3]), E)
        _, _, _, found = kronecker(G, Dense(instances.B), 0.3, True, False, entry)
        assert_allclose(dense.reshape(N, 3), found, rtol=1e-9)


@pytest.mark.parametrize("entry", [False, True], ids=["rows", "entries"])
@pytest.mark.parametrize(
    "intercept", [pytest.param(False, marks=pytest.mark.long, id=""), pytest.param(True, id="intercept")]
)
def test_curves_with_gaps_in_few_coordinates(entry, intercept):
    """The eigenvectors of smooth curves reproduce refitting, and are fewer than the values."""
    d, rng = 24, np.random.default_rng(4)
    operator = Integral(Gaussian(0.3), grid=np.linspace(0, 1, d))
    base = Kronecker(Gaussian(1.5)(X), operator)
    curves = rng.standard_normal((N, d)).cumsum(axis=1)
    seen = rng.random((N, d)) < 0.8
    seen[0], seen[1, 5:] = True, False
    points, outputs = np.nonzero(seen)
    pairs = observed_eigenpairs(Observed(base, points, outputs), tol=1e-11)
    assert not pairs.full
    assert pairs.Q.shape[1] < 0.8 * len(points)
    together = np.arange(len(points)) if entry else points
    E, alphas = np.eye(d)[outputs] if intercept else None, np.array([1e-2, 1.0])
    for alpha, found in zip(alphas, pairwise_path(pairs, curves[seen], together, alphas, E), strict=True):
        K = np.kron(Gaussian(1.5)(X), operator.dense())
        expected = reference.leave_one_out(K, np.where(seen, curves, np.nan), alpha, None, intercept, entry)
        assert_allclose(found, expected[seen], rtol=1e-8, atol=1e-8)


def test_curves_with_gaps_lose_no_more_than_the_tolerance_in_all():
    """Columns that are each below the tolerance are kept if together they exceed it."""
    scales, tol = np.array([1.0] + 3 * [1e-3] + 16 * [1e-9]), 2e-3
    points, outputs = np.nonzero(np.random.default_rng(4).random((N, 20)) < 0.8)
    observed = Observed(Kronecker(np.eye(N), Dense(np.diag(scales))), points, outputs)
    pairs = observed_eigenpairs(observed, tol)
    assert not pairs.full
    assert pairs.Q.shape[1] < 0.8 * len(points)
    assert 0.0 < scales[outputs].sum() - pairs.g.sum() <= tol


def test_rough_curves_with_gaps_take_the_plain_eigenvectors():
    base = Kronecker(Gaussian(1.5)(X), Integral(grid=np.linspace(0, 1, 24)))
    points, outputs = np.nonzero(np.random.default_rng(4).random((N, 24)) < 0.6)
    observed = Observed(base, points, outputs)
    assert observed_eigenpairs(observed, tol=1e-11).full
    assert observed_eigenpairs(observed).full
