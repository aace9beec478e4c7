"""The automatic choice: results on data with a known answer, and invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from ovk import OVKRidgeCV
from ovk.batch.tuning.automatic import (
    ALPHAS,
    Candidate,
    ComparisonData,
    automatic_choice,
    averaged,
    correlation,
    few_alphas,
    kernel_candidates,
    mean_loss,
    pooled,
)
from ovk.batch.tuning.gradient_metric import halves, metric_kernels
from ovk.kernels import Gaussian
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import SeparableLeaveOneOut

PATH = np.array([0.05, 1.0])


def wave(n, rng, d=2, noise=0.1):
    X = rng.uniform(-2, 2, (n, 2))
    F = np.column_stack([np.sin(2 * X[:, 0] + j) * X[:, 1] for j in range(d)])
    return X, F / F.std(axis=0) + noise * rng.standard_normal(F.shape)


def fitted(X, Y, new, kernel, alphas):
    model = SeparableLeaveOneOut(eigenpairs(kernel(X)), Y, np.eye(Y.shape[1]), alphas)
    return model.predict(kernel(new, X))


# --------------------------------------------------------------------------------------- leave-one-out residuals


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("how", ["rows", "groups", "forward"])
def test_residuals_by_refitting(how, gaps, weighted):
    rng = np.random.default_rng(0)
    X, Y = wave(24, rng)
    if gaps:
        Y[[2, 9, 15], 0] = np.nan
    weight = np.linspace(0.5, 2.0, 24) if weighted else None
    groups = np.arange(24) // 3
    together = groups if how == "groups" else None
    found = ComparisonData(X, Y, weight, together, how == "forward").residuals(Gaussian(1.0)(X), PATH)
    for q in range(2):
        rows = np.flatnonzero(~np.isnan(Y[:, q]))
        G, y = Gaussian(1.0)(X[rows]), Y[rows, q : q + 1]
        w = None if weight is None else weight[rows]
        edges = np.linspace(0, len(rows), 7).round().astype(int)
        for a, alpha in enumerate(PATH):
            for i in range(len(rows)):
                if how == "rows":
                    known = np.arange(len(rows)) != i
                elif how == "groups":
                    known = groups[rows] != groups[rows[i]]
                else:
                    known = np.arange(len(rows)) < edges[np.searchsorted(edges, i, side="right") - 1]
                if not known.any():
                    assert np.isnan(found[a, rows[i], q])
                    continue
                C, b = reference.ridge(G, np.where(known[:, None], y, np.nan), alpha, w, intercept=True)
                assert_allclose(found[a, rows[i], q], y[i, 0] - G[i] @ C[:, 0] - b[0], rtol=1e-7, atol=1e-9)


def test_the_loss_is_squared_up_to_the_threshold_and_linear_beyond():
    R = np.array([[1.0, 3.0], [-5.0, np.nan]])
    assert_allclose(mean_loss(R, np.array([2.0, 10.0])), [(1 + 2 * 2 * 5 - 4) / 2, 9.0])
    assert_allclose(mean_loss(R, np.array([2.0, 10.0]), np.array([3.0, 1.0])), [(3 + 16) / 4, 9.0])


# --------------------------------------------------------------------------------------------- recovered kernels


def test_a_linear_function_is_found_linear():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 5))
    slopes, new = rng.standard_normal((5, 3)), rng.standard_normal((300, 5))
    Y = X @ slopes + 0.5 * rng.standard_normal((150, 3))
    choice = automatic_choice(X, Y, rng)
    # Very wide kernels are as good as linear.
    assert choice.names[1] == "linear"
    F, line = (fitted(X, Y, new, k, choice.alphas) for k in (choice.kernel, kernel_candidates(X)["linear"]))
    assert np.mean((F - new @ slopes) ** 2) < 1.5 * np.mean((line - new @ slopes) ** 2)


def test_a_wave_is_predicted_better_than_by_any_linear_function():
    rng = np.random.default_rng(2)
    X, Y = wave(200, rng)
    new, truth = wave(200, rng, noise=0.0)
    choice = automatic_choice(X, Y, rng)
    F = fitted(X, Y, new, choice.kernel, choice.alphas)
    assert np.mean((F - truth) ** 2) < 0.1
    best = choice.errors.min(axis=1).mean(axis=1)
    assert len(choice.names) == len(best) >= 15
    assert best[0] < 1.02 * best.min()


def candidate(name, kernel, error, alpha):
    return Candidate(name, (kernel,), {name: 1.0}, np.ones((len(ALPHAS), 1)), np.array([alpha]), error, np.ones(1))


def test_sums_have_akaike_weights_over_the_alphas():
    a, b = candidate("a", Gaussian(1.0), 0.5, 0.01), candidate("b", Gaussian(2.0), 0.6, 0.1)
    name, (kernel,), weights = averaged([a, b], 10)
    trust = np.array([1.0, (5 / 6) ** 5 / 10])
    assert name == "sum of 2"
    assert_allclose(list(weights.values()), trust / trust.sum())
    assert_allclose([w for w, _ in kernel.summands()], trust / trust.sum())
    # With many rows the same difference is significant.
    assert averaged([a, b], 100) is None
    assert averaged([candidate("a", Gaussian(1.0), np.inf, 1.0), b], 10) is None


def test_alphas_are_drawn_together_when_rows_are_few():
    errors = np.ones((len(ALPHAS), 4))
    errors[5], errors[9, 3] = 0.8, 0.75
    assert pooled(errors, 5)[:, 3].argmin() == 5
    assert pooled(errors, 2000)[:, 3].argmin() == 9
    errors[:, 0] = np.inf
    assert pooled(errors, 5)[:, 3].argmin() == 5


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 60), st.integers(1, 8), st.booleans())
def test_halves_are_halves_and_keep_groups_whole(n, size, time_order):
    groups = None if size == 1 or time_order else np.arange(n) // size
    half = halves(np.random.default_rng(n).permutation(n), groups, time_order=time_order)
    assert set(half) <= {0, 1}
    if groups is None:
        assert abs(half.sum() - n / 2) <= 0.5
    else:
        assert all(len(np.unique(half[groups == g])) == 1 for g in np.unique(groups))
    if time_order:
        assert_allclose(half, np.sort(half))


def few_inputs(n, rng):
    X = rng.standard_normal((n, 12))
    return X, np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:2] ** 2 + 0.1 * rng.standard_normal((n, 1))


def test_a_metric_pays_where_few_inputs_matter():
    rng = np.random.default_rng(30)
    (X, Y), (new, truth) = few_inputs(250, rng), few_inputs(500, rng)
    errors = []
    for metric in (False, True):
        choice = automatic_choice(X, Y, np.random.default_rng(0), metric=metric)
        errors.append(np.mean((fitted(X, Y, new, choice.kernel, choice.alphas) - truth) ** 2))
    assert errors[1] < 0.5 * errors[0]


def test_a_metric_is_judged_by_rows_that_it_has_not_seen():
    """Pure noise: a metric evaluated on its own rows would seem to explain some of it."""
    rng = np.random.default_rng(31)
    X, Y = rng.standard_normal((100, 15)), rng.standard_normal((100, 1))
    own = metric_kernels(X, Y, 0.1)["metric of few axes, Laplacian 1"]
    cheating = mean_loss(ComparisonData(X, Y).residuals(own(X), ALPHAS), np.full(1, 9.0)).min()
    choice = automatic_choice(X, Y, rng, metric=True)
    honest = choice.errors[choice.names.index("metric of few axes, Laplacian 1")].min()
    assert cheating < 0.9 * Y.var()
    assert honest > 0.97


@pytest.mark.parametrize(("p", "tried"), [(1, False), (2, True), (30, True), (31, False)])
def test_metrics_are_tried_by_default_where_they_can_pay_off(p, tried):
    rng = np.random.default_rng(33)
    X, y = rng.standard_normal((60, p)), rng.standard_normal(60)
    names = OVKRidgeCV().fit(X, y).choice_.names
    assert any("metric" in name for name in names) == tried
    if p > 30:
        assert any("metric" in name for name in OVKRidgeCV(metric=True).fit(X, y).choice_.names)


def test_only_promising_metrics_get_further_widths():
    X, Y = few_inputs(120, np.random.default_rng(34))
    choice = automatic_choice(X, Y, np.random.default_rng(0), metric=True)
    error = dict(zip(choice.names, choice.errors.min(axis=1).mean(axis=1), strict=True))
    of_metrics = {name: e for name, e in error.items() if name.startswith("metric")}
    first = {name.removesuffix(" 1"): e for name, e in of_metrics.items() if name.endswith(" 1")}
    assert len(first) == 3
    enough = 1.05 * min(min(first.values()), min(e for n, e in error.items() if not n.startswith(("metric", "sum"))))
    for family, e in first.items():
        assert sum(name.startswith(family + " ") for name in of_metrics) == (4 if e < enough else 1)


def test_only_metrics_of_named_kernels_are_learned():
    X, Y = few_inputs(60, np.random.default_rng(35))
    some = metric_kernels(X, Y, 0.1, ["metric of axes, Laplacian 2", "Gaussian 1"])
    assert list(some) == [f"metric of axes, Laplacian {f}" for f in ("0.5", "1", "2", "4")]
    every = metric_kernels(X, Y, 0.1)
    assert len(every) == 12
    for name, kernel in some.items():
        assert_allclose(kernel(X[:5]), every[name](X[:5]))


def test_fewer_than_fifty_rows_have_no_metric():
    X, Y = few_inputs(49, np.random.default_rng(32))
    assert not any("metric" in name for name in automatic_choice(X, Y, np.random.default_rng(0), metric=True).names)


def test_noise_gets_a_large_alpha_and_its_neighbour_does_not():
    rng = np.random.default_rng(3)
    X, Y = wave(150, rng, noise=0.05)
    Y[:, 1] = rng.standard_normal(150)
    alphas = automatic_choice(X, Y, rng).alphas
    assert alphas[1] > 30 * alphas[0]


def test_one_outlier_affects_neither_its_output_nor_the_others():
    rng = np.random.default_rng(4)
    X, Y = wave(150, rng)
    wild = Y.copy()
    wild[7, 1] = 31.0
    choice = automatic_choice(X, wild, np.random.default_rng(0))
    new, truth = wave(200, rng, noise=0.0)
    F = fitted(X, wild, new, choice.kernel, choice.alphas)
    errors = np.mean((F - truth) ** 2, axis=0)
    assert errors[0] < 0.02
    assert errors[1] < 0.5


def test_groups_are_not_memorised():
    """Inputs that identify a group, and a separate level for each group: new groups cannot be predicted."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(25), 8)
    X = rng.standard_normal((25, 3))[groups] + 0.01 * rng.standard_normal((200, 3))
    Y = rng.standard_normal((25, 1))[groups] + 0.05 * rng.standard_normal((200, 1))
    apart = automatic_choice(X, Y, np.random.default_rng(0))
    together = automatic_choice(X, Y, np.random.default_rng(0), groups=groups)
    assert apart.errors[0].min() < 0.1
    assert together.errors[0].min() > 0.7


def test_time_order_selects_a_kernel_that_extrapolates():
    t = np.linspace(0, 6, 120)[:, None]
    y = t + 0.3 * np.random.default_rng(6).standard_normal((120, 1))
    choice = automatic_choice(t, (y - y.mean()) / y.std(), np.random.default_rng(0), time_order=True)
    assert "linear" in choice.names[:2]


def test_related_outputs_with_missing_values_are_coupled():
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, (120, 2))
    common = np.sin(2 * X[:, :1]) * X[:, 1:]
    Y = common + 0.1 * rng.standard_normal((120, 5))
    Y[rng.random(Y.shape) < 0.7] = np.nan
    Y[np.arange(5), np.arange(5)] = 0.0
    choice = automatic_choice(X, Y, rng)
    assert choice.operator[0, 1] > 0.3
    assert_allclose(np.diagonal(choice.operator), 1.0)
    assert np.linalg.eigvalsh(choice.operator)[0] > 0


def test_gaps_in_outputs_that_do_not_are_not():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 2, (150, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.cos(3 * X[:, 1]), X[:, 0] * X[:, 1]])
    Y += 0.1 * rng.standard_normal(Y.shape)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    operator = automatic_choice(X, Y, rng).operator
    assert np.abs(operator - np.diag(np.diagonal(operator))).max() < 0.3


def test_correlations_are_those_of_rows_seen_together():
    rng = np.random.default_rng(9)
    Y = rng.standard_normal((2000, 1)) + 0.5 * rng.standard_normal((2000, 3))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    assert_allclose(correlation(Y)[0, 1], 0.8, atol=0.05)


def test_few_alphas_are_the_best_few():
    errors = np.ones((len(ALPHAS), 5))
    for output, best in enumerate((2, 2, 8, 9, 15)):
        errors[best, output] = 0.0
    errors[8, 3] = 0.1
    assert_allclose(few_alphas(errors, 3), ALPHAS[[2, 2, 8, 8, 15]])
    assert_allclose(few_alphas(errors, 4), ALPHAS[[2, 2, 8, 9, 15]])


def test_a_choice_prints_its_candidates():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    choice = automatic_choice(X, (X @ [1.0, 2.0] + 0.1 * rng.standard_normal(60))[:, None], rng)
    head, first, *_ = repr(choice).splitlines()
    assert head.startswith(f"linear, alpha {choice.alphas[0]:.2g}; leave-one-out errors")
    assert first.split()[0] == "linear"


def test_many_rows_have_few_alphas():
    rng = np.random.default_rng(10)
    X, Y = wave(1100, rng, d=6, noise=1.0)
    Y *= np.geomspace(0.01, 1, 6)
    choice = automatic_choice(X, Y, rng)
    assert len(np.unique(choice.alphas)) <= 3


# ------------------------------------------------------------------------------------------------------ invariances


@settings(max_examples=10, deadline=None)
@given(factor=st.floats(1e-2, 1e2), shift=st.floats(-5.0, 5.0))
def test_scaling_and_shifting_the_outputs(factor, shift):
    X, Y = wave(40, np.random.default_rng(11))
    one, other = (automatic_choice(X, outputs, np.random.default_rng(0)) for outputs in (Y, factor * Y + shift))
    assert one.names[0] == other.names[0]
    assert_allclose(one.alphas, other.alphas)
    assert_allclose(one.kernel(X), other.kernel(X), rtol=1e-4)


def test_permuting_the_outputs():
    X, Y = wave(60, np.random.default_rng(12), d=3)
    order = np.array([2, 0, 1])
    one, other = (automatic_choice(X, outputs, np.random.default_rng(0)) for outputs in (Y, Y[:, order]))
    assert one.names[0] == other.names[0]
    assert_allclose(one.alphas[order], other.alphas)
    assert_allclose(one.kernel(X), other.kernel(X), rtol=1e-4)


def test_constant_outputs_and_inputs():
    rng = np.random.default_rng(13)
    X, Y = wave(40, rng)
    X[:, 1], Y[:, 1] = 0.0, 0.0
    choice = automatic_choice(X, Y, rng)
    assert np.isfinite(choice.errors).all()
    assert choice.alphas[1] == choice.alphas[0]


def test_groups_and_time_order_cannot_be_combined():
    X, Y = wave(40, np.random.default_rng(14))
    with pytest.raises(ValueError, match="cannot be combined"):
        automatic_choice(X, Y, np.random.default_rng(0), groups=np.arange(40) // 2, time_order=True)


def test_two_different_rows_are_enough():
    X, Y = np.tile([[1.5], [2.5]], (20, 1)), np.tile([[2.5], [3.25]], (20, 1))
    assert np.isfinite(OVKRidgeCV().fit(X, Y).predict(X)).all()


def test_groups_of_rows_without_any_output_are_left_out():
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((40, 2)), np.arange(40) % 8
    Y = np.sin(X) + 0.1 * rng.standard_normal((40, 2))
    Y[3] = np.nan
    keep = np.arange(40) != 3
    found = OVKRidgeCV().fit(X, Y, groups=groups).predict(X)
    np.testing.assert_allclose(found, OVKRidgeCV().fit(X[keep], Y[keep], groups=groups[keep]).predict(X))
