"""Closed-form leave-one-out functions equal those of refitting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import instances
import reference
from ovk.base import Targets
from ovk.kernels import Gaussian, Laplacian, Linear, Matern
from ovk.solvers import leave_one_out
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import PairwiseLeaveOneOut, ScalarPairsLeaveOneOut, SeparableLeaveOneOut

N, D, M = 9, 3, 4
X = np.random.default_rng(0).standard_normal((N, 3))
NEW = np.random.default_rng(5).standard_normal((M, 3))
Y = np.random.default_rng(1).standard_normal((N, D)) + 1.0
W = np.linspace(0.3, 2.0, N)
ALPHAS = np.array([0.1, 1.0, 0.4])
GAPS = np.where(np.random.default_rng(2).random((N, D)) < 0.3, np.nan, Y)
GROUPS = np.array([0, 1, 1, 2, 0, 3, 3, 3, 2])
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def refitted(G, cross, T, outputs, alpha, weight, intercept, together):
    """Residuals (n, d) and functions (m, blocks, d) by refitting without each block of rows."""
    K, new = np.kron(G, T), np.kron(cross, T)
    residuals, functions = np.full(outputs.shape, np.nan), []
    for number in np.unique(together):
        rows = together == number
        rest = outputs.copy()
        rest[rows] = np.nan
        C, b = reference.ridge(K, rest, alpha, weight, intercept)
        residuals[rows] = (outputs - (K @ C.reshape(-1)).reshape(outputs.shape) - b)[rows]
        functions.append((new @ C.reshape(-1)).reshape(-1, outputs.shape[1]) + b)
    return residuals, np.stack(functions, axis=1)


def posterior(G, cross, prior, T, outputs, alpha, weight, intercept):
    """Variance (m, d) of f at the new points, with an intercept of very large prior variance."""
    n, d = outputs.shape
    w = np.ones(n) if weight is None else weight
    seen = np.flatnonzero(~np.isnan(outputs.reshape(-1)))
    noise = (np.broadcast_to(alpha, d) / w[:, None]).reshape(-1)
    K, new = np.kron(G, T)[np.ix_(seen, seen)], np.kron(cross, T)[:, seen]
    A = K + np.diag(noise[seen])
    variance = np.kron(prior, np.diagonal(T)) - np.einsum("ij,ji->i", new, np.linalg.solve(A, new.T))
    if intercept:
        E = np.tile(np.eye(d), (n, 1))[seen]
        left = np.tile(np.eye(d), (len(cross), 1)) - new @ np.linalg.solve(A, E)
        variance += np.einsum("ij,ji->i", left, np.linalg.solve(E.T @ np.linalg.solve(A, E), left.T))
    return variance.reshape(-1, d)


def without(outputs, rows):
    result = outputs.copy()
    result[rows] = np.nan
    return result


def separable(kernel, T, alpha, weight, intercept, together, tol=0.0):
    G, v = kernel(X), np.ones(N) if weight is None else np.sqrt(weight)
    pairs = eigenpairs(G * np.outer(v, v), tol)
    return SeparableLeaveOneOut(pairs, Y, T, alpha, weight, intercept=intercept, together=together)


def on_pairs(kernel, T, outputs, alpha, weight, intercept, together):
    data = Targets(outputs, outputs.shape[1], False, None, weight).pairs()
    K = kernel(X)[np.ix_(data.points, data.points)] * T[np.ix_(data.outputs, data.outputs)]
    return PairwiseLeaveOneOut(K, data, alpha, intercept=intercept, together=together)


def pair_cross(kernel, T, outputs):
    data = Targets(outputs, outputs.shape[1], False, None, None).pairs()
    return kernel(NEW, X)[:, None, data.points] * T[None][:, :, data.outputs], np.outer(
        kernel.diag(NEW), np.diagonal(T)
    )


def agree(model, cross, prior, G, scalar_cross, scalar_prior, T, outputs, alpha, weight, intercept, together):
    numbers = np.arange(N) if together is None else together
    residuals, functions = refitted(G, scalar_cross, T, outputs, alpha, weight, intercept, numbers)
    assert_allclose(model.residuals, residuals, **CLOSE)
    assert_allclose(model.predict_without(cross), functions, **CLOSE)
    arguments = (G, scalar_cross, scalar_prior, T)
    assert_allclose(model.variance(cross, prior), posterior(*arguments, outputs, alpha, weight, intercept), **CLOSE)
    found = model.variance_without(cross, prior)
    for number in np.unique(numbers):
        rest = without(outputs, numbers == number)
        assert_allclose(found[:, number], posterior(*arguments, rest, alpha, weight, intercept), **CLOSE)
        # The variance of a residual is that of the leave-one-out function plus that of the observation.
        for i in np.flatnonzero(numbers == number):
            here = posterior(G, G[i : i + 1], np.diagonal(G)[i : i + 1], T, rest, alpha, weight, intercept)[0]
            noise = np.broadcast_to(alpha, D) / (1.0 if weight is None else weight[i])
            expected = np.where(np.isnan(outputs[i]), np.nan, here + noise)
            assert_allclose(model.variances[i], expected, **CLOSE)
    C, b = reference.ridge(np.kron(G, T), outputs, alpha, weight, intercept)
    whole = (np.kron(scalar_cross, T) @ C.reshape(-1)).reshape(-1, D) + b
    assert_allclose(model.predict(cross), whole, **CLOSE)


FLAGS = [(i, w, g) for i in (False, True) for w in (False, True) for g in (False, True)]
IDS = [
    "-".join(name for name, on in zip(("intercept", "weights", "groups"), flags, strict=True) if on) or "plain"
    for flags in FLAGS
]


@pytest.mark.pairwise
@pytest.mark.parametrize(("intercept", "weighted", "grouped"), FLAGS, ids=IDS)
@pytest.mark.parametrize("alpha", [0.3, ALPHAS], ids=["one", "each"])
@pytest.mark.parametrize("operator", instances.each(instances.OPERATORS))
def test_complete_outputs(operator, alpha, intercept, weighted, grouped):
    T, kernel = reference.operator(operator), Gaussian(1.5)
    weight, together = W if weighted else None, GROUPS if grouped else None
    model = separable(kernel, T, alpha, weight, intercept, together)
    G, cross, prior = kernel(X), kernel(NEW, X), kernel.diag(NEW)
    agree(model, cross, prior, G, cross, prior, T, Y, alpha, weight, intercept, together)


@pytest.mark.parametrize("kernel", [Matern(1.5, 2.0), Laplacian(3.0), Linear()], ids=lambda k: type(k).__name__)
def test_other_kernels(kernel):
    model = separable(kernel, instances.B, ALPHAS, W, True, GROUPS)
    G, cross, prior = kernel(X), kernel(NEW, X), kernel.diag(NEW)
    agree(model, cross, prior, G, cross, prior, instances.B, Y, ALPHAS, W, True, GROUPS)


def test_low_rank_eigenpairs():
    kernel = Linear()
    model = separable(kernel, instances.B, ALPHAS, W, True, GROUPS, tol=1e-12)
    G, cross, prior = kernel(X), kernel(NEW, X), kernel.diag(NEW)
    agree(model, cross, prior, G, cross, prior, instances.B, Y, ALPHAS, W, True, GROUPS)


@pytest.mark.parametrize(("intercept", "weighted", "grouped"), FLAGS, ids=IDS)
@pytest.mark.parametrize("alpha", [0.3, ALPHAS], ids=["one", "each"])
def test_gaps(alpha, intercept, weighted, grouped):
    T, kernel = instances.B, Gaussian(1.5)
    weight, together = W if weighted else None, GROUPS if grouped else None
    model = on_pairs(kernel, T, GAPS, alpha, weight, intercept, together)
    cross, prior = pair_cross(kernel, T, GAPS)
    agree(model, cross, prior, kernel(X), kernel(NEW, X), kernel.diag(NEW), T, GAPS, alpha, weight, intercept, together)


@pytest.mark.parametrize(("intercept", "weighted", "grouped"), FLAGS, ids=IDS)
@pytest.mark.parametrize("alpha", [0.3, ALPHAS], ids=["one", "each"])
def test_gaps_of_a_separable_kernel(alpha, intercept, weighted, grouped):
    T, kernel = instances.B, Gaussian(1.5)
    weight, together = W if weighted else None, GROUPS if grouped else None
    data = Targets(GAPS, D, False, None, weight).pairs()
    model = ScalarPairsLeaveOneOut(kernel(X), T, data, alpha, intercept=intercept, together=together)
    G, cross, prior = kernel(X), kernel(NEW, X), kernel.diag(NEW)
    agree(model, cross, prior, G, cross, prior, T, GAPS, alpha, weight, intercept, together)


def test_a_separable_kernel_where_a_row_has_no_output():
    outputs = without(GAPS, [4])
    data = Targets(outputs, D, False, None, W).pairs()
    fast = ScalarPairsLeaveOneOut(Gaussian(1.5)(X), instances.B, data, ALPHAS)
    slow = on_pairs(Gaussian(1.5), instances.B, outputs, ALPHAS, W, True, None)
    given, pairs = (Gaussian(1.5)(NEW, X), np.ones(M)), pair_cross(Gaussian(1.5), instances.B, outputs)
    assert_allclose(fast.variance(*given), slow.variance(*pairs), **CLOSE)
    assert_allclose(fast.predict_without(given[0]), slow.predict_without(pairs[0]), **CLOSE)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("fast", [True, False], ids=["separable", "any kernel"])
def test_small_variances_with_gaps_keep_their_digits(fast, intercept):
    """With a small alpha a variance is a millionth of the terms it is the difference of."""
    rng, T, kernel, alpha = np.random.default_rng(3), instances.B, Gaussian(2.0), 1e-7
    inputs, new = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (20, 2))
    data = Targets(np.where(rng.random((60, D)) < 0.3, np.nan, 0.0), D, False, None, None).pairs()
    at, outputs = data.points, data.outputs
    K = kernel(inputs)[np.ix_(at, at)] * T[np.ix_(outputs, outputs)]
    cross = kernel(new, inputs)[:, None, at] * T[:, outputs]
    if fast:
        model = ScalarPairsLeaveOneOut(kernel(inputs), T, data, alpha, intercept=intercept)
        found = model.variance(kernel(new, inputs), np.ones(20))
    else:
        found = PairwiseLeaveOneOut(K, data, alpha, intercept=intercept).variance(
            cross, np.tile(np.diagonal(T), (20, 1))
        )
    values, V = np.linalg.eigh(K)
    root = (V / np.sqrt(np.maximum(values, 0.0) + alpha)).T
    white = root @ cross.reshape(-1, len(at)).T
    expected = np.tile(np.diagonal(T), 20) - (white**2).sum(axis=0)
    if intercept:
        E = root @ np.eye(D)[outputs]
        left = np.tile(np.eye(D), (20, 1)) - white.T @ E
        expected += np.einsum("ij,ji->i", left, np.linalg.solve(E.T @ E, left.T))
    assert found.max() < 1e-5
    assert_allclose(found.ravel(), expected, rtol=1e-3)


def test_a_row_without_any_output_changes_nothing():
    outputs = without(Y, [4])
    model = on_pairs(Gaussian(1.5), instances.B, outputs, 0.3, None, True, None)
    cross, prior = pair_cross(Gaussian(1.5), instances.B, outputs)
    assert np.isnan(model.residuals[4]).all()
    assert_allclose(model.predict_without(cross)[:, 4], model.predict(cross))
    assert_allclose(model.variance_without(cross, prior)[:, 4], model.variance(cross, prior))


def test_both_routes_agree_on_complete_outputs():
    kernel = Matern(1.5, 1.0)
    fast = separable(kernel, instances.B, ALPHAS, W, True, GROUPS)
    slow = on_pairs(kernel, instances.B, Y, ALPHAS, W, True, GROUPS)
    assert_allclose(fast.residuals, slow.residuals, **CLOSE)
    assert_allclose(fast.variances, slow.variances, **CLOSE)
    assert_allclose(fast.scale, slow.scale, **CLOSE)


def test_the_scale_is_the_mean_of_squared_scores():
    model = on_pairs(Gaussian(1.5), instances.B, GAPS, ALPHAS, None, True, None)
    for q in range(D):
        seen = ~np.isnan(GAPS[:, q])
        expected = np.mean(model.residuals[seen, q] ** 2 / model.variances[seen, q])
        assert_allclose(model.scale[q], expected)


@pytest.mark.parametrize("weight", [None, W], ids=["", "weights"])
def test_the_noise_is_raised_to_the_spread(weight):
    """An observation of weight w has the noise e / w, where e times the scale is the spread."""
    model, alpha = separable(Gaussian(1.5), instances.B, 0.05, weight, True, None), 0.05
    before = model.variances
    spread = np.array([1.5, 2.0, 0.5]) * alpha * (model.residuals**2 / before).mean(axis=0)
    model.raise_noise(spread, weight)
    assert (model.noise[:2] > 1.2 * alpha).all()
    assert_allclose(model.noise[:2] * model.scale[:2], spread[:2])
    assert_allclose(model.noise[2], alpha)
    each = np.ones(N) if weight is None else weight
    assert_allclose(model.variances, before + (model.noise - alpha) / each[:, None])


@given(factor=st.floats(1e-3, 1e3), shift=st.floats(-100.0, 100.0))
def test_scaling_and_shifting_the_outputs(factor, shift):
    def fitted(outputs):
        return SeparableLeaveOneOut(eigenpairs(Gaussian(1.5)(X)), outputs, instances.B, ALPHAS)

    one, other, cross = fitted(Y), fitted(factor * Y + shift), Gaussian(1.5)(NEW, X)
    size = factor + abs(shift)
    assert_allclose(other.residuals, factor * one.residuals, rtol=1e-7, atol=1e-9 * size)
    assert_allclose(other.predict(cross), factor * one.predict(cross) + shift, rtol=1e-7, atol=1e-9 * size)
    assert_allclose(np.sqrt(other.scale), factor * np.sqrt(one.scale), rtol=1e-6, atol=1e-9 * size)
    assert_allclose(other.variances, one.variances)


def test_leaving_out_the_only_block_raises():
    with pytest.raises(ValueError, match="at least 2 blocks"):
        separable(Gaussian(1.5), np.eye(D), 0.3, None, True, np.zeros(N, dtype=int))


def test_an_intercept_needs_an_observation():
    with pytest.raises(ValueError, match="output 1 has none"):
        on_pairs(Gaussian(1.5), instances.B, np.where([False, True, False], np.nan, Y), 0.3, None, True, None)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("scalar", [False, True], ids=["any kernel", "separable"])
def test_many_pairs_in_single_precision(monkeypatch, intercept, scalar):
    """Coefficients keep double precision, variances that of the factor."""
    T, kernel = instances.B, Gaussian(1.5)
    pairs = Targets(GAPS, D, False, None, None).pairs()
    at, outputs = pairs.points, pairs.outputs

    def model():
        if scalar:
            return ScalarPairsLeaveOneOut(kernel(X), T, pairs, 0.3, intercept=intercept)
        K = kernel(X)[np.ix_(at, at)] * T[np.ix_(outputs, outputs)]
        return PairwiseLeaveOneOut(K, pairs, 0.3, intercept=intercept)

    exact = model()
    monkeypatch.setattr(leave_one_out, "MAX_DOUBLE_PAIRS", 0)
    single = model()
    assert single._L.dtype == np.float32
    assert_allclose(single._c, exact._c, rtol=1e-8, atol=1e-9)
    assert_allclose(single.b, exact.b, rtol=1e-8, atol=1e-9)
    for name in ("residuals", "variances"):
        assert_allclose(getattr(single, name), getattr(exact, name), rtol=1e-4, atol=1e-6)
    # A larger range of values than single precision resolves.
    monkeypatch.setattr(leave_one_out, "MAX_SINGLE_VALUE", 1e-3)
    assert model()._L.dtype == np.float64


def test_variances_of_few_points_and_of_many_agree():
    """Beyond n points, triangular matrices (n, n) replace the factor of the pairs."""
    model = ScalarPairsLeaveOneOut(Gaussian(1.5)(X), instances.B, Targets(GAPS, D, False, None, None).pairs(), 0.3)
    given = Gaussian(1.5)(NEW, X), np.ones(M)
    few = model.variance(*given)
    assert "_gathered" not in model.__dict__
    while "_gathered" not in model.__dict__:
        many = model.variance(*given)
    assert_allclose(many, few, **CLOSE)
