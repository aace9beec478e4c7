"""Vector fields: parts, derivatives, choice of length scales, outliers, and unusual points."""

from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

import ovk
import reference
from batch.reference import long_form
from ovk import OVKRidge, VectorField
from ovk.base import check_targets
from ovk.batch.fields.comparison import estimate_outliers, field_search, near_rows
from ovk.batch.tuning.tune import Search, TuningCriterion
from ovk.datasets import make_vector_field
from ovk.kernels import Gaussian, Matern
from ovk.operators import Identity
from ovk.ovkernels import CurlFree, DivFree


def fixed(**options):
    """Without a choice, which is fast."""
    kernel = CurlFree(Gaussian(0.5)) + 0.7 * DivFree(Gaussian(0.6))
    return VectorField(kernel, alpha=0.01, criterion=None, **options)


@pytest.fixture(scope="module")
def plane():
    return make_vector_field(70, noise=0.05, random_state=0)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"landmarks": 25, "random_state": 0}])
def test_parts_add_up_and_have_no_curl_and_no_divergence(dims, options):
    sample = make_vector_field(60, n_dims=dims, random_state=1)
    model = fixed(**options).fit(sample.data, sample.target)
    X = np.random.default_rng(0).uniform(-1.5, 1.5, (6, dims))
    np.testing.assert_allclose(sum(model.decompose(X)), model.predict(X), atol=1e-10)
    gradient, flow = model.part("curl-free"), model.part("div-free")
    for J in (gradient.jacobian(X), reference.jacobian(gradient, X)):
        np.testing.assert_allclose(reference.curl(J), 0.0, atol=1e-5)
    for J in (flow.jacobian(X), reference.jacobian(flow, X)):
        np.testing.assert_allclose(reference.divergence(J), 0.0, atol=1e-5)
    slow = reference.jacobian(model.predict, X)
    np.testing.assert_allclose(model.jacobian(X), slow, atol=1e-4)
    turned = reference.curl(slow)
    expected = -turned[:, 0] if dims == 2 else turned[:, [2, 1, 0]] * [-1.0, 1.0, -1.0]
    np.testing.assert_allclose(model.curl(X), expected, atol=1e-4)
    np.testing.assert_allclose(model.divergence(X), reference.divergence(slow), atol=1e-4)
    assert model.curl(X).shape == ((6,) if dims == 2 else (6, 3))


def test_with_nothing_to_choose_it_is_ridge_regression(plane):
    model = fixed().fit(plane.data, plane.target)
    kernel = CurlFree(Gaussian(0.5)) + 0.7 * DivFree(Gaussian(0.6))
    ridge = OVKRidge(kernel, 0.01, fit_intercept=False).fit(plane.data, plane.target)
    np.testing.assert_allclose(model.predict(plane.data), ridge.predict(plane.data), rtol=1e-12)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize("options", [{}, {"intercept": True}, {"weight": True}, {"holes": True}, {"groups": True}])
def test_the_gradients_of_the_criteria_agree_with_finite_differences(plane, criterion, options):
    n = 20
    X, Y = plane.data[:n], plane.target[:n].copy()
    if "holes" in options:
        Y[::4, 0] = np.nan
    weight = np.linspace(0.3, 2.0, n) if "weight" in options else None
    groups = np.arange(n) // 3 if "groups" in options else None
    targets = check_targets(Y, n, weight, None, X)
    kernel = 0.8 * CurlFree(Gaussian(0.6), 2) + DivFree(Matern(2.5, 0.9), 2) + 0.3 * Gaussian(0.4) * Identity(2)
    search = field_search(kernel, X, targets, groups, None, criterion, intercept="intercept" in options)
    objective, theta = search.objective, search.start + np.linspace(-0.2, 0.2, len(search.start))
    value, slope = objective(theta)
    names = ["weights", *[f"kernels[{k}]__kernel__length_scale" for k in (0, 1)]]
    assert [one.name for one in search.tuned[:3]] == names
    for k in range(len(theta)):
        moved = [objective(theta + step * np.eye(len(theta))[k])[0] for step in (-1e-5, 1e-5)]
        np.testing.assert_allclose(slope[k], (moved[1] - moved[0]) / 2e-5, rtol=1e-4, atol=1e-7)
    assert np.isfinite(value)


def test_the_criteria_are_their_definitions(plane):
    n, alpha = 15, 0.1
    X, Y = plane.data[:n], plane.target[:n]
    kernel = CurlFree(Gaussian(0.6), 2) + DivFree(Gaussian(0.8), 2)
    K = reference.gram(kernel, X)
    targets = check_targets(Y, n, None, None, X)
    theta = np.log([1.0, 1.0, 0.6, 0.8, alpha])
    left_out = reference.leave_one_out(K, Y, alpha)
    value, _ = field_search(kernel, X, targets, None, None, "loo", intercept=False).objective(theta)
    np.testing.assert_allclose(value, (left_out**2).sum() / (2 * n), rtol=1e-9)
    A = K + alpha * np.eye(2 * n)
    y = Y.reshape(-1)
    expected = 0.5 * y @ np.linalg.solve(A, y) + 0.5 * np.linalg.slogdet(A)[1] + n * np.log(2 * np.pi)
    value, _ = field_search(kernel, X, targets, None, None, "evidence", intercept=False).objective(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_merged_repeated_rows_have_the_evidence_of_separate_rows(plane):
    X, Y = np.repeat(plane.data[:6], 2, axis=0), plane.target[:12]
    targets = check_targets(Y, 12, None, None, X)
    kernel = CurlFree(Gaussian(0.6), 2) + DivFree(Gaussian(0.8), 2)
    search = field_search(kernel, X, targets, None, None, "evidence", intercept=False)
    assert search.criterion.n == 6
    apart = Search(TuningCriterion(X, targets, "evidence"), search.kernel, 0.1, shared=True)
    for vector in (search.start, search.start + 0.3):
        merged, slope = search.objective(vector)
        value, expected = apart.objective(vector)
        # The factor of the weights, 2 for each of 12 numbers, is not part of the density.
        np.testing.assert_allclose(merged - value, 0.0, atol=1e-9)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


def test_the_evidence_finds_the_kind_of_a_field():
    rng = np.random.default_rng(0)
    for kind, name in (("curl_free", "curl_free"), ("div_free", "div_free")):
        sample = make_vector_field(60, kind=kind, noise=0.02, random_state=3)
        model = VectorField(restarts=1).fit(sample.data, sample.target)
        X = rng.uniform(-0.8, 0.8, (50, 2))
        parts = model.decompose(X)
        power = {"curl_free": (parts.curl_free**2).mean(), "div_free": (parts.div_free**2).mean()}
        assert power[name] > 20 * power["div_free" if name == "curl_free" else "curl_free"]


def test_tuned_values_are_at_least_as_good_from_more_starts(plane):
    kernel = CurlFree(Gaussian(1.0), 2) + DivFree(Gaussian(1.0), 2)
    one, two = (VectorField(kernel, restarts=count).fit(plane.data[:40], plane.target[:40]) for count in (1, 2))
    assert min(two.criterion_values_) <= one.criterion_values_[0] + 1e-12


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"landmarks": 50, "random_state": 0}])
@pytest.mark.parametrize("seed", [0, 1])
def test_sixty_percent_outliers_are_detected(seed, options):
    sample = make_vector_field(300, noise=0.03, outliers=0.6, random_state=seed)
    model = VectorField(robust=True, restarts=1, **options).fit(sample.data, sample.target)
    found, true = model.inliers_, sample.inlier
    precision, recall = (found & true).sum() / found.sum(), (found & true).sum() / true.sum()
    assert precision > 0.95
    assert recall > 0.95
    X = np.random.default_rng(0).uniform(-0.9, 0.9, (100, 2))
    error = np.sqrt(((model.predict(X) - sample.field(X)) ** 2).mean())
    plain = VectorField(restarts=1, **options).fit(sample.data, sample.target)
    assert error < 0.15
    assert error < 0.3 * np.sqrt(((plain.predict(X) - sample.field(X)) ** 2).mean())
    assert model.inlier_probability_.shape == (300,)


def test_without_outliers_robust_fitting_keeps_nearly_all(plane):
    model = VectorField(robust=True, restarts=1).fit(plane.data, plane.target)
    assert model.inliers_.mean() > 0.97


@pytest.mark.pairwise
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("options", [{}, {"landmarks": 5, "random_state": 0}, {"fit_intercept": True}])
@pytest.mark.parametrize(
    "X",
    [
        np.column_stack([np.linspace(0, 1, 12), np.linspace(0, 1, 12)]),
        np.zeros((12, 2)),
        np.repeat(np.random.default_rng(0).standard_normal((4, 2)), 3, axis=0),
        np.column_stack([np.linspace(0, 1, 12), np.zeros(12), np.ones(12)]),
    ],
    ids=["collinear", "one point", "repeated", "collinear in space"],
)
def test_unusual_points(X, options, robust):
    V = np.random.default_rng(1).standard_normal(X.shape)
    model = VectorField(robust=robust, restarts=1, **options).fit(X, V)
    far = np.vstack([X, X + 1e3, X - 1e6])
    assert np.isfinite(model.predict(far)).all()
    assert np.isfinite(model.curl(far)).all()
    assert np.isfinite(model.divergence(far)).all()


def test_constant_and_zero_fields():
    X = np.random.default_rng(0).standard_normal((10, 2))
    for robust in (False, True):
        np.testing.assert_allclose(VectorField(robust=robust).fit(X, np.zeros((10, 2))).predict(X), 0.0, atol=1e-12)
    steady = VectorField(fit_intercept=True).fit(X, np.tile([1.0, 2.0], (10, 1)))
    np.testing.assert_allclose(steady.decompose(X).rest, np.tile([1.0, 2.0], (10, 1)), atol=1e-6)


def test_long_form_and_gaps_agree(plane):
    Y = plane.target[:30].copy()
    Y[::3, 1] = np.nan
    X = plane.data[:30]
    wide = VectorField(restarts=1).fit(X, Y)
    rows, y, task = long_form(X, Y)
    long = VectorField("helmholtz", restarts=1).fit(rows, y, task=task)
    np.testing.assert_allclose(long.alpha_, wide.alpha_, rtol=1e-2)
    np.testing.assert_allclose(long.predict(X), wide.predict(X), atol=1e-2)


def test_a_large_sample_is_tuned_on_a_part(plane):
    model = VectorField(restarts=1, tuning_size=30, random_state=0).fit(plane.data, plane.target)
    assert len(model.X_fit_) == 70
    assert model.score(plane.data, plane.target) > 0.9


def test_components_are_independent_without_a_square_field():
    X = np.random.default_rng(0).standard_normal((30, 3))
    model = VectorField(restarts=1).fit(X, X[:, :2] ** 2)
    assert model.predict(X).shape == (30, 2)
    with pytest.raises(ValueError, match="as many components as coordinates"):
        model.divergence(X)
    assert model.part("curl-free") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "aic"}, "criterion must be 'evidence', 'loo' or None, got 'aic'"),
        ({"criterion": None}, "alpha must be given"),
        ({"alpha": 0.0}, "alpha must be positive and finite"),
        ({"restarts": 9}, "restarts must be between 1 and 4"),
        ({"kernel": "solenoid"}, "solenoid"),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(plane, options, message):
    model = fixed().fit(plane.data, plane.target)
    before = model.predict(plane.data)
    model.set_params(**{"alpha": None, "criterion": "evidence", **options})
    with pytest.raises(ValueError, match=message):
        model.fit(plane.data[:20], plane.target[:20])
    np.testing.assert_array_equal(model.predict(plane.data), before)


def test_other_errors(plane):
    with pytest.raises(ValueError, match="groups must have one entry for each of the 70 rows"):
        VectorField(criterion="loo").fit(plane.data, plane.target, groups=[1, 2])
    with pytest.raises(ValueError, match="requires complete vectors"):
        VectorField(robust=True).fit(plane.data, np.where(np.arange(140).reshape(70, 2) == 3, np.nan, plane.target))
    with pytest.raises(ValueError, match="name must be"):
        fixed().fit(plane.data, plane.target).part("curl")


def test_saved_fields_predict_the_same(plane, tmp_path):
    models = {
        "plain": VectorField(restarts=1).fit(plane.data, plane.target),
        "robust": VectorField(robust=True, restarts=1, landmarks=20, random_state=0).fit(plane.data, plane.target),
    }
    ovk.save(models, tmp_path / "fields.ovk")
    for name, loaded in ovk.load(tmp_path / "fields.ovk").items():
        np.testing.assert_array_equal(loaded.predict(plane.data), models[name].predict(plane.data))
        np.testing.assert_array_equal(loaded.curl(plane.data), models[name].curl(plane.data))


def rough_field(n, rng):
    """Independent components of a Matern 1/2 kernel."""
    X = rng.uniform(size=(n, 2))
    K = Matern(0.5, 0.4)(X) + 1e-10 * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.standard_normal((n, 2)) + 0.05 * rng.standard_normal((n, 2))


@pytest.mark.long
def test_the_evidence_distinguishes_smooth_and_rough_fields(plane):
    smooth = VectorField(restarts=1).fit(plane.data, plane.target)
    assert min(smooth.compared_, key=smooth.compared_.get) == "helmholtz, Gaussian()"
    assert len(smooth.compared_) == 7
    X, V = rough_field(240, np.random.default_rng(0))
    model, given = VectorField(restarts=1), VectorField("helmholtz", profile=Gaussian(), restarts=1)
    model.fit(X[:160], V[:160]), given.fit(X[:160], V[:160])
    assert model.compared_["independent, Matern(0.5)"] < model.compared_["independent, Gaussian()"] - 0.05
    assert "Gaussian" not in repr(model.kernel_)
    assert list(given.compared_) == ["helmholtz, Gaussian()"]
    errors = [np.mean((one.predict(X[160:]) - V[160:]) ** 2) for one in (model, given)]
    assert errors[0] < 0.95 * errors[1]


def test_compared_criteria_are_those_of_single_kernels(plane):
    X, V = plane.data[:50], plane.target[:50]
    model = VectorField("independent", profile=[Gaussian(), Matern(1.5)], restarts=1).fit(X, V)
    alone = VectorField(Gaussian() * Identity(), restarts=1).fit(X, V)
    assert model.compared_["independent, Gaussian()"] == pytest.approx(float(alone.criterion_values_[0]), abs=1e-9)
    A = reference.gram(model.kernel_, X) + model.alpha_ * np.eye(100)
    y = V.reshape(-1)
    evidence = 0.5 * y @ np.linalg.solve(A, y) + 0.5 * np.linalg.slogdet(A)[1] + 50 * np.log(2 * np.pi)
    np.testing.assert_allclose(min(model.criterion_values_), evidence / 100, rtol=1e-6)
    assert min(model.compared_.values()) == pytest.approx(min(model.criterion_values_))


def test_many_rows_are_compared_on_a_few_and_learned_on_all(plane):
    sample = make_vector_field(230, noise=0.1, random_state=2)
    model = VectorField("helmholtz", profile=Gaussian(), restarts=1, random_state=0).fit(sample.data, sample.target)
    search = field_search(model.kernel_, sample.data, check_targets(sample.target, 230, None, None, sample.data), None,
                          None, "evidence", intercept=False)  # fmt: skip
    there = np.log([*model.kernel_.weights, *(k.kernel.length_scale for k in model.kernel_.kernels), model.alpha_])
    value, slope = search.objective(there)
    assert value / 460 == pytest.approx(float(model.criterion_values_[0]))
    assert np.abs(slope).max() < 5.0  # nats for a factor of e: a search on all rows would gain next to nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "rough"}, "profile must be 'auto', a stationary kernel"),
        ({"profile": []}, "profile must be"),
        ({"kernel": "helmholtz", "profile": Matern(0.5)}, "profile must be smooth"),
        ({"kernel": Gaussian() * Identity(), "profile": Gaussian()}, "profile is only for the kernels"),
    ],
)
def test_bad_profiles_raise(plane, options, message):
    with pytest.raises(ValueError, match=message):
        VectorField(**options).fit(plane.data, plane.target)


@pytest.mark.parametrize("robust", [False, True], ids=["", "robust"])
@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
def test_weights_are_repeated_rows_where_the_profile_is_chosen(check, robust):
    """Searches depend on the order of rows in their last bits; with sparse rows, copies differed by 1e-8."""
    check("VectorField", VectorField(restarts=1, robust=robust))


def test_robust_weights_are_repeated_rows_where_nothing_is_chosen():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30, 2))
    V = np.column_stack([-X[:, 1], X[:, 0]]) + 0.1 * rng.standard_normal((30, 2))
    V[:3] += 4.0
    weight = rng.integers(0, 4, 30)
    kernel = CurlFree(Gaussian(1.0)) + DivFree(Gaussian(1.0))
    model = VectorField(kernel, alpha=0.01, criterion=None, robust=True)
    weighted = model.fit(X, V, weight).predict(X)
    repeated = model.fit(X.repeat(weight, axis=0), V.repeat(weight, axis=0)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)
    assert np.abs(weighted - model.fit(X, V).predict(X)).max() > 0.01


def test_the_noise_of_the_inliers_is_the_one_of_each_component():
    rng = np.random.default_rng(0)
    V = np.array([1.0, 2.0]) + 0.1 * rng.standard_normal((400, 2))
    V[:20] = rng.uniform(-9.0, 9.0, (20, 2))

    def mean(weights, variance):
        return np.tile(weights @ V / weights.sum(), (len(V), 1))

    found = estimate_outliers(mean, V)
    assert 0.08 < np.sqrt(found.variance) < 0.12


def test_kernels_are_compared_on_pairs_of_near_rows():
    X = np.repeat(np.arange(50.0), 2)[:, None] + np.tile([0.0, 0.1], 50)[:, None]
    rows = near_rows(X, 10, np.random.default_rng(0))
    assert len(rows) == 10
    assert (np.diff(X[rows, 0]) < 0.2).sum() >= 4
    np.testing.assert_array_equal(near_rows(X, 100, np.random.default_rng(0)), np.arange(100))


def test_parts_of_a_field_share_no_memory(plane):
    parts = (
        VectorField(CurlFree(Gaussian(1.0), 2), alpha=0.1)
        .fit(plane.data[:20], plane.target[:20])
        .decompose(plane.data[:5])
    )
    assert not any(np.shares_memory(one, other) for one, other in combinations(parts, 2))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize("data", ["two rows", "four rows", "constant inputs", "equal outputs"])
def test_fields_follow_the_unit_of_the_outputs(data, criterion, intercept):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    n = {"two rows": 2, "four rows": 4}.get(data, 12)
    X = np.zeros((12, 2)) if data == "constant inputs" else X[:n]
    Y = np.ones((12, 2)) if data == "equal outputs" else Y[:n]
    options = {"criterion": criterion, "fit_intercept": intercept, "profile": [Gaussian("median"), Matern(1.5)]}
    if data in ("constant inputs", "two rows") and criterion == "loo" and intercept:
        with pytest.raises(ValueError, match="requires at least 2 groups and 3 distinct inputs"):
            VectorField(**options).fit(X, Y)
        return
    at_one = VectorField(**options).fit(X, Y)
    for unit in (1e-6, 3.0, 1e6):
        model = VectorField(**options).fit(X, unit * Y)
        np.testing.assert_allclose(model.predict(X + 0.1) / unit, at_one.predict(X + 0.1), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.alpha_, unit**2 * at_one.alpha_, rtol=1e-6)
        if criterion == "loo":
            expected = unit**2 * at_one.criterion_values_
        else:
            # Repeated rows are counted in the evidence, but not in the number by which it is divided.
            count = (2 * n - 2 * intercept) / (2 if data == "constant inputs" else 2 * n)
            expected = at_one.criterion_values_ + count * np.log(unit)
        np.testing.assert_allclose(model.criterion_values_, expected, rtol=1e-6, atol=1e-12 * unit**2)


@pytest.mark.parametrize("alpha", [1e-6, 1e-8, 1e-10])
def test_intervals_keep_their_digits_at_small_alphas(alpha):
    # The residuals that intervals are made of, against A^-1 y / diag(A^-1) in 50 digits.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (16, 2))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1]) * X[:, 0]])
    exact = np.vectorize(Decimal, otypes=[object])
    with localcontext() as context:
        context.prec = 50
        squares = ((exact(X)[:, None] - exact(X)) ** 2).sum(axis=2) / -2
        A = np.hstack([np.vectorize(Decimal.exp)(squares) + exact(alpha * np.eye(16)), exact(np.eye(16))])
        for i in range(16):
            A[i] /= A[i, i]
            others = np.arange(16) != i
            A[others] -= A[others, i : i + 1] * A[i]
        residuals = (A[:, 16:] @ exact(Y) / np.diagonal(A[:, 16:])[:, None]).astype(float)
    model = VectorField("independent", alpha, profile=Gaussian(1.0), criterion=None).fit(X, Y)
    # Rounding in A is magnified by its condition.
    tolerance = 1e-14 / alpha * np.abs(residuals).max()
    np.testing.assert_allclose(model.loo_residuals(), residuals, rtol=0, atol=tolerance)
    assert np.isfinite(model.predict_interval(X[:1]).upper).all()
