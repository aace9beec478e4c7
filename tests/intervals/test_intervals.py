"""Intervals and regions from leave-one-out residuals: their definition by refitting, and their coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

import instances
import reference
from ovk.base import Targets
from ovk.intervals import Regions, fold_indices, jackknife, jackknife_plus
from ovk.intervals.jackknife_intervals import _largest as largest_score
from ovk.intervals.jackknife_intervals import shrunk_correlation
from ovk.intervals.regions import conformal_rank, masses, rows_needed, upper_quantile
from ovk.kernels import Gaussian
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import PairwiseLeaveOneOut, SeparableLeaveOneOut

KERNEL = Gaussian(1.0)
REGIONS = ("each", "box", "ellipsoid")


def curves(n, rng, noise=0.2, d=3):
    """Inputs (n, 2) and outputs (n, d) with correlated noise that grows with the first input."""
    X = rng.uniform(-2, 2, (n, 2))
    F = np.column_stack([np.sin(X[:, 0] + j) + 0.3 * X[:, 1] for j in range(d)])
    common = rng.standard_normal((n, 1)) + rng.standard_normal((n, d))
    return X, F + noise * common


def fitted(X, Y, alpha=0.1, T=None, **more):
    return SeparableLeaveOneOut(eigenpairs(KERNEL(X)), Y, np.eye(Y.shape[1]) if T is None else T, alpha, **more)


def at(X, new):
    return KERNEL(new, X), KERNEL.diag(new)


def pairs_of(X, Y, T, alpha):
    data = Targets(Y, Y.shape[1], False, None, None).pairs()
    K = KERNEL(X)[np.ix_(data.points, data.points)] * T[np.ix_(data.outputs, data.outputs)]
    return PairwiseLeaveOneOut(K, data, alpha)


def pairs_at(X, Y, T, new):
    data = Targets(Y, Y.shape[1], False, None, None).pairs()
    return KERNEL(new, X)[:, None, data.points] * T[None][:, :, data.outputs], np.tile(np.diagonal(T), (len(new), 1))


def order_statistic(values, level):
    """The ceil(level (n + 1))-th smallest of n, infinite if there is none."""
    k = int(np.ceil(level * (len(values) + 1) - 1e-9))
    return np.sort(values)[k - 1] if k <= len(values) else np.inf


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [8, 19, 50])
def test_the_quantile_is_an_order_statistic(n, level):
    values = np.random.default_rng(n).standard_normal((4, n))
    found = upper_quantile(values, masses(np.ones(n, dtype=bool), None), level)
    assert_allclose(found, [order_statistic(row, level) for row in values])


def test_groups_of_one_row_are_rows():
    seen = np.array([True, False, True, True])
    assert_allclose(masses(seen, np.arange(4)), masses(seen, None))
    assert_allclose(masses(seen, np.array([0, 0, 0, 1])), [1 / 6, 0, 1 / 6, 1 / 3])


def test_jackknife_plus_by_refitting():
    """Intervals equal those from refits without each row, with an operator and an alpha for each output."""
    rng = np.random.default_rng(0)
    X, Y = curves(12, rng)
    new, alpha, level, T = rng.uniform(-2, 2, (5, 2)), np.array([0.1, 0.5, 0.2]), 0.8, instances.B
    found = jackknife_plus(fitted(X, Y, alpha, T), *at(X, new), level)
    K = np.kron(KERNEL(X), T)
    ends = []
    for i in range(len(X)):
        rest = Y.copy()
        rest[i] = np.nan
        C, b = reference.ridge(K, rest, alpha, intercept=True)
        keep = np.repeat(np.arange(len(X)) != i, 3)
        A = K[np.ix_(keep, keep)] + np.diag(np.tile(alpha, len(X) - 1))
        E = np.tile(np.eye(3), (len(X) - 1, 1))
        points = np.concatenate([X[i : i + 1], new])
        cross = np.kron(KERNEL(points, X), T)
        F = (cross @ C.reshape(-1)).reshape(-1, 3) + b
        left = np.tile(np.eye(3), (len(points), 1)) - cross[:, keep] @ np.linalg.solve(A, E)
        v = np.tile(np.diagonal(T), len(points))
        v -= np.einsum("ij,ji->i", cross[:, keep], np.linalg.solve(A, cross[:, keep].T))
        v += np.einsum("ij,ji->i", left, np.linalg.solve(E.T @ np.linalg.solve(A, E), left.T))
        s = np.sqrt(v.reshape(-1, 3) + alpha)
        half = np.abs(Y[i] - F[0]) / s[0] * s[1:]
        ends.append((F[1:] - half, F[1:] + half))
    lower, upper = (np.array(side) for side in zip(*ends, strict=True))
    for m in range(len(new)):
        for j in range(3):
            assert_allclose(found.upper[m, j], order_statistic(upper[:, m, j], level), rtol=1e-8)
            assert_allclose(found.lower[m, j], -order_statistic(-lower[:, m, j], level), rtol=1e-8)


def test_jackknife_plus_gives_each_group_one_vote():
    """Eight groups of one row and one of sixteen: with equal weights of rows the last group would dominate."""
    rng = np.random.default_rng(0)
    X, Y = curves(24, rng)
    points, level = at(X, rng.uniform(-2, 2, (5, 2))), 0.7
    groups = np.repeat(np.arange(9), [*[1] * 8, 16])
    model = fitted(X, Y, together=groups)
    found = jackknife_plus(model, *points, level, groups=groups)
    F = model.predict_without(points[0])[:, groups]
    half = np.abs(model.residuals) / np.sqrt(model.variances)
    half = half * np.sqrt(model.variance_without(*points) + model.noise)[:, groups]
    # Sixteen votes for each of nine groups, and for the new one.
    votes = 16 // np.bincount(groups)[groups]
    rank = int(np.ceil(level * 160 - 1e-9))
    assert_allclose(found.upper, np.sort(np.repeat(F + half, votes, axis=1), axis=1)[:, rank - 1])
    assert_allclose(found.lower, -np.sort(np.repeat(half - F, votes, axis=1), axis=1)[:, rank - 1])


@pytest.mark.parametrize("region", REGIONS)
def test_the_share_of_left_out_rows_inside_their_region_is_the_level(region):
    """The region around the leave-one-out prediction contains the row with the required frequency."""
    X, Y = curves(99, np.random.default_rng(1))
    model = fitted(X, Y)
    found = jackknife(model, *at(X, X), 0.9, region=region)
    scores = model.residuals / np.sqrt(model.variances)
    if region == "each":
        assert_allclose((np.abs(scores) <= found.radius[0] * (1 + 1e-12)).mean(axis=0), 90 / 99)
    elif region == "box":
        others = [np.sqrt(np.mean(np.delete(scores, i, axis=0) ** 2, axis=0)) for i in range(99)]
        largest = np.abs(scores / others).max(axis=1)
        assert_allclose(found.radius[0, 0], np.sort(largest)[89])


@pytest.mark.parametrize("region", ["box", "ellipsoid"])
def test_a_joint_region_of_many_outputs_has_its_coverage_with_few_rows(region):
    """An outlier must not inflate its own scale: with the scale of all rows, a box covers only 82%."""
    inside = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, new = rng.uniform(-1, 1, (15, 1)), rng.uniform(-1, 1, (50, 1))
        Y, truth = rng.standard_normal((15, 8)), rng.standard_normal((50, 8))
        model = SeparableLeaveOneOut(eigenpairs(Gaussian(1.0)(X)), Y, np.eye(8), 10.0)
        inside.append(jackknife(model, *at(X, new), region=region).contains(truth).mean())
    assert 0.86 < np.mean(inside) < 0.95


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
def test_coverage(region, gaps):
    inside = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, Y = curves(80, rng)
        new, truth = curves(200, rng)
        if gaps:
            Y = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
            model, points = pairs_of(X, Y, np.eye(3), 0.1), pairs_at(X, Y, np.eye(3), new)
        else:
            model, points = fitted(X, Y), at(X, new)
        inside.append(jackknife(model, *points, region=region).contains(truth).mean())
    assert 0.86 < np.mean(inside) < 0.96


@pytest.mark.parametrize("folds", [None, 8], ids=["jackknife+", "cv+"])
def test_coverage_of_jackknife_plus_and_cv_plus(folds):
    inside = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, Y = curves(80, rng)
        new, truth = curves(100, rng)
        together = None if folds is None else fold_indices(len(X), folds, rng)
        model = fitted(X, Y, together=together)
        inside.append(jackknife_plus(model, *at(X, new)).contains(truth).mean())
    assert 0.87 < np.mean(inside) < 0.96


def test_new_groups_are_covered_when_groups_are_left_out_together():
    """Rows of a group share an offset that is independent of other groups."""
    together, apart = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(50), 5)
        X = np.column_stack([rng.standard_normal((50, 2))[groups], 0.1 * rng.standard_normal(250)])
        y = (rng.standard_normal(50)[groups] + 0.1 * rng.standard_normal(250))[:, None]
        train, test = groups < 40, groups >= 40
        new = at(X[train], X[test])
        one = fitted(X[train], y[train], 0.01, together=groups[train])
        together.append(jackknife(one, *new, groups=groups[train]).contains(y[test]).mean())
        apart.append(jackknife(fitted(X[train], y[train], 0.01), *new).contains(y[test]).mean())
    assert 0.85 < np.mean(together) < 0.97
    assert np.mean(apart) < 0.75


def test_a_wide_output_does_not_widen_the_others():
    rng = np.random.default_rng(3)
    X, Y = curves(60, rng)
    new = rng.uniform(-2, 2, (7, 2))
    for region in REGIONS:
        one = jackknife(fitted(X, Y), *at(X, new), region=region)
        other = jackknife(fitted(X, Y * [1.0, 1.0, 100.0]), *at(X, new), region=region)
        assert_allclose(other.width, one.width * [1.0, 1.0, 100.0], rtol=1e-7)


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(1e-2, 1e2), shift=st.floats(-50.0, 50.0), region=st.sampled_from((*REGIONS, "plus")))
def test_scaling_and_shifting_the_outputs(factor, shift, region):
    rng = np.random.default_rng(4)
    X, Y = curves(25, rng)
    new = rng.uniform(-2, 2, (4, 2))

    def regions(outputs):
        if region == "plus":
            return jackknife_plus(fitted(X, outputs), *at(X, new))
        return jackknife(fitted(X, outputs), *at(X, new), region=region)

    one, other, size = regions(Y), regions(factor * Y + shift), 1e-8 * (factor + abs(shift))
    for name in ("predictions", "lower", "upper"):
        assert_allclose(getattr(other, name), factor * getattr(one, name) + shift, rtol=1e-7, atol=size)


@pytest.mark.parametrize("region", REGIONS)
def test_permuting_the_outputs(region):
    rng = np.random.default_rng(5)
    X, Y = curves(30, rng)
    new, order = rng.uniform(-2, 2, (4, 2)), np.array([2, 0, 1])
    one, other = (jackknife(fitted(X, outputs), *at(X, new), region=region) for outputs in (Y, Y[:, order]))
    assert_allclose(other.lower, one.lower[:, order], rtol=1e-9)
    assert_allclose(other.upper, one.upper[:, order], rtol=1e-9)


def ellipsoid_radius(scores, block):
    """The quantile of the distances of rows, each with scale and correlation of the rows of other blocks."""
    found = []
    for row, own in zip(scores, block, strict=True):
        others = scores[block != own]
        c = np.sqrt((others**2).mean(axis=0))
        M = np.einsum("ij,ik->jk", others / c, others / c) / len(others)
        weight = len(others) / (len(others) + scores.shape[1])
        C = weight * M + (1.0 - weight) * np.eye(len(c))
        found.append(np.sqrt((row / c) @ np.linalg.solve(C, row / c)))
    return np.array(found)


@pytest.mark.parametrize("size", [1, 4], ids=["rows", "groups"])
def test_scores_of_the_ellipsoid_use_the_scale_of_other_rows(size):
    X, Y = curves(20, np.random.default_rng(6), d=5)
    block = np.arange(20) // size
    model = fitted(X, Y, together=block)
    found = jackknife(model, *at(X, X[:1]), 0.8, region="ellipsoid").radius[0, 0]
    scores = model.residuals / np.sqrt(model.variances)
    assert_allclose(found, order_statistic(ellipsoid_radius(scores, block), 0.8))


def test_with_many_rows_the_scale_without_one_of_them_is_approximated():
    X, Y = curves(260, np.random.default_rng(6), d=4)
    model = fitted(X, Y)
    found = jackknife(model, *at(X, X[:1]), 0.8, region="ellipsoid").radius[0, 0]
    scores = model.residuals / np.sqrt(model.variances)
    assert_allclose(found, order_statistic(ellipsoid_radius(scores, np.arange(260)), 0.8), rtol=0.01)


def test_too_few_rows_give_infinite_intervals():
    X, Y = curves(6, np.random.default_rng(7))
    assert np.isinf(jackknife(fitted(X, Y), *at(X, X[:2])).upper).all()
    assert np.isinf(jackknife_plus(fitted(X, Y), *at(X, X[:2])).lower).all()


def test_an_output_without_errors():
    X, Y = curves(30, np.random.default_rng(8))
    Y[:, 1] = 2.0
    for region in REGIONS:
        found = jackknife(fitted(X, Y), *at(X, X[:3]), region=region)
        assert_allclose(found.lower[:, 1], 2.0, atol=1e-9)
        assert_allclose(found.upper[:, 1], 2.0, atol=1e-9)


def test_folds_keep_groups_whole():
    groups = np.repeat([7, 3, 9, 4], 5)
    folds = fold_indices(20, 3, np.random.default_rng(0), groups)
    assert all(len(np.unique(folds[groups == g])) == 1 for g in groups)
    assert len(np.unique(folds)) == 3


def test_unknown_region():
    X, Y = curves(12, np.random.default_rng(9))
    with pytest.raises(ValueError, match="'each', 'box' or 'ellipsoid', got 'ball'"):
        jackknife(fitted(X, Y), *at(X, X), region="ball")


@pytest.mark.parametrize("level", [0.5, 0.9, 0.975, 0.9999])
def test_rows_needed_are_the_fewest_with_a_finite_quantile(level):
    n = rows_needed(level)
    assert conformal_rank(n, level) <= n
    assert conformal_rank(n - 1, level) > n - 1


def test_correlations_over_different_rows_are_made_positive_definite():
    """Pairwise correlations that are not positive definite are shrunk by one factor."""
    one, gap = np.ones(30), np.full(30, np.nan)
    z = np.concatenate([np.stack(p, axis=1) for p in ([one, one, gap], [gap, one, one], [one, gap, -one])])
    C = shrunk_correlation(z)
    assert_allclose(np.diagonal(C), 1.0)
    assert_allclose(C, C.T)
    smallest = np.linalg.eigvalsh(C)[0]
    assert 0.0 < smallest < 0.1
    assert_allclose(C[0, 1], C[1, 2])
    assert_allclose(C[0, 2], -C[0, 1])
    # As large as they can be: the three of them would make the smallest eigenvalue 1 - 2 c.
    assert_allclose(smallest, 1.0 - 2.0 * C[0, 1])


def test_the_largest_of_some_outputs_is_as_rare_as_that_of_all():
    z = np.array([[1.0, -2.0, 0.5], [np.nan, -2.0, 0.5], [np.nan, np.nan, 2.0], [np.nan, np.nan, np.nan]])
    found = largest_score(z)
    assert found[0] == 2.0
    inside = 1.0 - 2.0 * norm.sf(2.0)
    assert_allclose((1.0 - 2.0 * norm.sf(found[1:3])) ** 3, [inside**2, inside], rtol=1e-10)
    assert np.isnan(found[3])


def ellipsoid(lower, upper):
    """One region around zero: a disc of radius 2, clipped to a box."""
    zero = np.zeros((1, 2))
    return Regions(
        zero, np.array([lower]), np.array([upper]), np.array([[2.0]]), np.full((1, 1), np.nan), np.eye(2)[None]
    )


def test_an_ellipsoid_is_clipped_to_bounds():
    region = ellipsoid([-0.5, -2.0], [2.0, 2.0])
    for y, inside in (([-1.0, 0.0], 0.0), ([-0.4, 0.0], 1.0), ([1.9, 1.9], 0.0), ([0.0, 1.0], 1.0)):
        assert region.contains(np.array([y]))[0, 0] == inside


def test_scaled_ellipsoids_contain_the_scaled_outputs():
    region, factor = ellipsoid([-2.0, -2.0], [2.0, 2.0]), np.array([0.5, 30.0])
    moved = region.scaled(factor, 7.0)
    for y in ([1.9, 0.0], [0.0, 1.9], [1.3, 1.3], [1.5, 1.5], [-1.5, 1.5], [0.0, -2.1]):
        Y = np.array([y])
        assert moved.contains(Y * factor + 7.0)[0, 0] == region.contains(Y)[0, 0]
    assert_allclose(moved.width, region.width * factor)
