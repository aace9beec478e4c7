"""Intervals of batch regressors: agreement with refitting, invariances, coverage, groups, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from ovk import FunctionalRidge, MovKL, OutputKernelRidge, OVKRidge, OVKRidgeCV, VectorField
from ovk.base import progress_shown
from ovk.batch.ridge import ridge_system
from ovk.batch.ridge.ridge_system import repeated_spread
from ovk.kernels import Gaussian, Matern
from ovk.operators import Dense, Identity, Integral, MixedEffect
from ovk.ovkernels import CurlFree, DivFree
from ovk.plotting import IntervalDisplay
from ovk.solvers.leave_one_out import ScalarPairsLeaveOneOut

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(-2, 2, (24, 2)), RNG.uniform(-2, 2, (5, 2))
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])]) + 0.1 * RNG.standard_normal((24, 2))
HOLES = np.where(RNG.uniform(size=Y.shape) < 0.3, np.nan, Y)
HOLES[np.isnan(HOLES).all(axis=1), 0] = 0.5
WEIGHT = RNG.uniform(0.5, 2.0, 24)
COUPLED = Dense(np.array([[1.0, 0.6], [0.6, 2.0]]))

MODELS = {
    "apart": OVKRidge(Gaussian(1.0) * Identity(), alpha=0.1, fit_intercept=False),
    "coupled": OVKRidge(Matern(length_scale=1.5) * COUPLED, alpha=0.1, fit_intercept=True),
    "an alpha each": OVKRidge(Gaussian(1.0) * COUPLED, alpha=[0.1, 0.7], fit_intercept=True),
    "sum": OVKRidge(
        Gaussian(1.0) * COUPLED + Matern(length_scale=0.5) * MixedEffect(0.3), alpha=0.2, fit_intercept=True
    ),
    "field": OVKRidge(CurlFree(Gaussian(1.0)) + DivFree(Gaussian(0.7)), alpha=0.1, fit_intercept=False),
}


@pytest.mark.parametrize("share", [0.2, 0.5], ids=["few gaps", "many gaps"])
def test_both_routes_with_gaps_have_the_same_intervals(share):
    """A kernel k T uses the scalar form if its matrices are smaller than that of the pairs, as with few gaps."""
    rng = np.random.default_rng(1)
    gaps = np.where(rng.uniform(size=Y.shape) < share, np.nan, Y)
    gaps[np.isnan(gaps).all(axis=1), 0] = 0.5
    model = OVKRidge(Gaussian(1.0) * COUPLED, alpha=[0.1, 0.7]).fit(X, gaps)
    # Two terms with different operators are not a product k T, although the sum is the same kernel.
    terms = Gaussian(1.0) * Dense(0.5 * COUPLED.dense() + [[0.2, 0.0], [0.0, 0.0]])
    terms += Gaussian(1.0 + 1e-12) * Dense(0.5 * COUPLED.dense() - [[0.2, 0.0], [0.0, 0.0]])
    other = OVKRidge(terms, alpha=[0.1, 0.7]).fit(X, gaps)
    short = isinstance(model._leave_out(None, None).left_out, ScalarPairsLeaveOneOut)
    assert short == (share == 0.2)
    assert not isinstance(other._leave_out(None, None).left_out, ScalarPairsLeaveOneOut)
    for method in ("jackknife", "jackknife+", "cv+"):
        one, two = (each.predict_interval(NEW, 0.8, method=method) for each in (model, other))
        assert_allclose(one.lower, two.lower, rtol=1e-8)
        assert_allclose(one.upper, two.upper, rtol=1e-8)


def without(model, rows, values, weight, keep):
    """f and v at the new points, and leave-one-out residuals, by refitting."""
    again = clone(model).fit(rows[keep], values[keep], None if weight is None else weight[keep])
    mean, cov = again.predict(NEW, return_cov=True, of="posterior")
    return mean, np.einsum("nqq->nq", cov), values[~keep] - again.predict(rows[~keep])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("values", [Y, HOLES], ids=["complete", "gaps"])
@pytest.mark.parametrize("name", MODELS)
def test_loo_functions_are_those_of_refits(name, values, weight):
    model = MODELS[name].fit(X, values, weight)
    for groups in (None, np.arange(24) // 3):
        rows = model._leave_out(groups, None)
        left_out, (cross, prior) = rows.left_out, rows.kernels(NEW)
        block = left_out.block[4]
        keep = left_out.block != block
        mean, variance, residuals = without(model, X, values, weight, keep)
        assert_allclose(left_out.predict_without(cross)[:, block], mean, rtol=0, atol=1e-8)
        assert_allclose(left_out.variance_without(cross, prior)[:, block], variance, rtol=0, atol=1e-8)
        assert_allclose(left_out.residuals[~keep], residuals, rtol=0, atol=1e-8)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
def test_long_form_is_the_wide_one_and_repeated_rows_are_left_out_together(weight):
    wide = OVKRidge(Gaussian(1.0) * COUPLED, alpha=0.1, fit_intercept=True).fit(X, HOLES, weight)
    points, task = np.nonzero(~np.isnan(HOLES))
    long = OVKRidge(Gaussian(1.0) * COUPLED, alpha=0.1, fit_intercept=True)
    long.fit(X[points], HOLES[points, task], None if weight is None else weight[points], task=task)
    a, b = wide.predict_interval(NEW, 0.8), long.predict_interval(NEW, 0.8)
    assert_allclose(a.predictions, b.predictions, rtol=0, atol=1e-9)
    wide_rows, long_rows = (m._leave_out(None, None).left_out for m in (wide, long))
    assert long_rows.n_blocks == wide_rows.n_blocks
    assert_allclose(long_rows.residuals[np.arange(len(task)), task], wide_rows.residuals[points, task], atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(
    factor=st.sampled_from([1e-3, 100.0]),
    shift=st.sampled_from([0.0, -50.0]),
    how=st.sampled_from(
        [
            ("jackknife", "each"),
            ("jackknife", "box"),
            ("jackknife", "ellipsoid"),
            ("jackknife+", "each"),
            ("cv+", "each"),
        ]
    ),
    name=st.sampled_from(["coupled", "an alpha each", "sum"]),
)
def test_outputs_in_other_units_have_intervals_in_those_units(factor, shift, how, name):
    method, region = how
    model = MODELS[name]
    one, other = (clone(model).fit(X, values) for values in (Y, factor * Y + shift))
    found, scaled = (m.predict_interval(NEW, 0.8, method=method, region=region, folds=4) for m in (one, other))
    for ends in ("predictions", "lower", "upper"):
        assert_allclose(getattr(scaled, ends), factor * getattr(found, ends) + shift, rtol=1e-6, atol=1e-7 * factor)
    for of in ("observation", "function"):
        (_, std), (_, wide) = (m.predict(NEW, return_std=True, of=of) for m in (one, other))
        assert_allclose(wide, factor * std, rtol=1e-6)


def test_permuted_outputs_have_permuted_intervals():
    one = OVKRidge(Gaussian(1.0), alpha=0.1, fit_intercept=True).fit(X, Y).predict_interval(NEW)
    other = OVKRidge(Gaussian(1.0), alpha=0.1, fit_intercept=True).fit(X, Y[:, ::-1]).predict_interval(NEW)
    assert_allclose(other.upper, one.upper[:, ::-1], rtol=0, atol=1e-10)


def generated(n, rng, d=2):
    X = rng.uniform(-2, 2, (n, 1))
    F = np.hstack([np.sin(2 * X), np.cos(X)])[:, :d]
    return X, F + 0.3 * rng.standard_normal((n, d)) @ np.array([[1.0, 0.8], [0.0, 0.6]])[:d, :d]


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_coverage_is_nominal(scale):
    rng = np.random.default_rng(1)
    X, Y = generated(300, rng)
    new, observed = generated(3000, rng)
    model = OVKRidgeCV(Gaussian(1.0), fit_intercept=True).fit(X, scale * Y)
    for method in ("jackknife", "jackknife+", "cv+"):
        inside = model.predict_interval(new, 0.9, method=method).contains(scale * observed).mean()
        assert 0.86 < inside < 0.94, method
    for region in ("box", "ellipsoid"):
        assert 0.85 < model.predict_interval(new, 0.9, region=region).contains(scale * observed).mean() < 0.95
    mean, std = model.predict(new, return_std=True)
    assert 0.86 < (np.abs(scale * observed - mean) < 1.645 * std).mean() < 0.94
    assert (model.predict(new, return_std=True, of="function")[1] < 0.5 * std).all()


def test_groups_make_intervals_that_hold_rows_of_new_groups():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(40), 5)
    offset = rng.standard_normal(60)
    X = rng.uniform(-1, 1, (300, 1)) + 0.01 * np.repeat(np.arange(60), 5)[:, None]
    y = X[:, 0] + offset[np.repeat(np.arange(60), 5)] + 0.1 * rng.standard_normal(300)
    model = OVKRidge(Gaussian(0.3), alpha=1.0, fit_intercept=True).fit(X[:200], y[:200])
    known = model.predict_interval(X[200:], groups=groups)
    assert known.contains(y[200:, None]).mean() > 0.8
    assert model._leave_out(groups, None).left_out.n_blocks == 40
    with pytest.raises(ValueError, match="one entry for each of the 200 rows"):
        model.predict_interval(X, groups=[1, 2])


def test_groups_of_all_rows_or_of_informative_rows():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    X = rng.standard_normal((100, 2))
    Y = np.column_stack([X[:, 0], X[:, 1]]) + 0.1 * rng.standard_normal((100, 2))
    Y[::7] = np.nan
    known = ~np.isnan(Y).all(axis=1)
    model = OVKRidgeCV().fit(X, Y, groups=groups)
    every = model.predict_interval(X, groups=groups)
    np.testing.assert_array_equal(every.upper, model.predict_interval(X, groups=groups[known]).upper)
    np.testing.assert_array_equal(
        model.loo_residuals(groups),
        OVKRidgeCV().fit(X[known], Y[known], groups=groups[known]).loo_residuals(groups[known]),
    )
    # A fit without gaps uses only its own rows.
    model.fit(X[known], Y[known])
    with pytest.raises(ValueError, match=f"each of the {known.sum()} rows"):
        model.predict_interval(X, groups=groups)


def test_curves_have_bands_in_their_own_units_and_a_box_is_wider_than_points():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 9)
    X = rng.uniform(-1, 1, (40, 1))
    Y = np.sin(4 * t + 2 * X) + 0.1 * rng.standard_normal((40, 9))
    model = FunctionalRidge(Gaussian(1.0) * Integral(), alpha=1e-3, grid=t).fit(X[:30], Y[:30])
    each, band = (model.predict_interval(X[30:], region=region) for region in ("each", "box"))
    assert_allclose(each.predictions, model.predict(X[30:]), atol=1e-9)
    assert (band.width > each.width).all()
    assert each.contains(Y[30:]).mean() > 0.75
    assert band.contains(Y[30:]).shape == (10, 1)


@pytest.mark.parametrize(
    "model", [MovKL(alpha=0.1), OutputKernelRidge(Gaussian(1.0), alphas=[0.1], max_iter=20), VectorField(alpha=0.05)]
)
def test_every_regressor_that_ends_in_an_expansion_has_intervals(model):
    found = model.fit(X, Y).predict_interval(NEW, 0.8, region="ellipsoid")
    assert_allclose(found.predictions, model.predict(NEW), atol=1e-6)
    assert np.isfinite(found.width).all()


def test_errors_say_what_to_do():
    model = OVKRidge(Gaussian(1.0), alpha=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="method must be 'jackknife', 'jackknife\\+' or 'cv\\+', got 'split'"):
        model.predict_interval(NEW, method="split")
    with pytest.raises(ValueError, match="requires method='jackknife'"):
        model.predict_interval(NEW, method="cv+", region="box")
    with pytest.raises(ValueError, match="of must be"):
        model.predict(NEW, return_std=True, of="noise")
    with pytest.raises(ValueError, match="alpha must be positive for leave-one-out"):
        OVKRidge(Gaussian(1.0), alpha=0.0).fit(X, Y).predict_interval(NEW)
    with pytest.raises(ValueError, match="fit without landmarks"):
        OVKRidge(Gaussian(1.0), landmarks=5).fit(X, Y).predict_interval(NEW)
    with pytest.raises(ValueError, match=r"require k\(x, x\) of new objects"):
        OVKRidge("precomputed").fit(X @ X.T, Y).predict_interval(NEW @ X.T)


def test_the_display_shows_coverage_and_width_over_the_rows_of_a_test_set():
    rng = np.random.default_rng(1)
    X, Y = generated(80, rng)
    new, observed = generated(150, rng)
    model = OVKRidge(Gaussian(1.0), alpha=0.1).fit(X, Y)
    display = IntervalDisplay.from_estimator(model, new, observed, 0.8, window=50, names=["a", "b"], plot=False)
    inside = model.predict_interval(new, 0.8).contains(observed)
    assert display.coverage.shape == display.width.shape == (101, 2)
    assert_allclose(display.coverage[-1], inside[100:].mean(axis=0))
    joint = IntervalDisplay.from_estimator(model, new, observed, region="ellipsoid", window=50, plot=False)
    assert joint.coverage.shape == (101, 1)
    assert "ellipsoid of all outputs" in joint.title


# ----------------------------------------------------------------------------------------------------- repeated inputs


def repeated(rng, inputs=25, times=6, noise=(0.5, 0.05)):
    """New observations at known inputs (n, 2), outputs (n, 2) with different noise."""
    rows = np.repeat(rng.uniform(-2, 2, (inputs, 2)), times, axis=0)
    return rows, np.sin(rows) + np.array(noise) * rng.standard_normal((len(rows), 2))


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("region", ["each", "box", "ellipsoid"])
def test_new_observations_at_known_inputs_are_covered(region, gaps):
    """With alpha far below the noise, a band used to cover 27%: leave-one-out errors do not identify the noise."""
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, values = repeated(rng)
        later = np.sin(rows) + np.array([0.5, 0.05]) * rng.standard_normal(rows.shape)
        if gaps:
            values = np.where(rng.random(values.shape) < 0.2, np.nan, values)
        model = OVKRidge(Gaussian(1.5), 1e-4).fit(rows, values)
        inside.append(model.predict_interval(rows, region=region).contains(later).mean())
    assert 0.82 < np.mean(inside) < 0.99


def test_the_noise_of_an_observation_is_that_of_repetitions():
    rows, values = repeated(np.random.default_rng(0), inputs=40)
    model = OVKRidge(Gaussian(1.5), 1e-4).fit(rows, values)
    of_new, of_function = (model.predict(rows, return_std=True, of=of)[1] for of in ("observation", "function"))
    assert_allclose(np.sqrt(of_new**2 - of_function**2)[0], [0.5, 0.05], rtol=0.2)


def test_repetitions_that_agree_change_nothing():
    model = OVKRidge(Gaussian(1.5), 0.1).fit(X, Y)
    left_out = model._leave_out(None, None).left_out
    assert np.array_equal(left_out.noise, left_out.alpha)
    copies = OVKRidge(Gaussian(1.5), 0.1).fit(np.concatenate([X, X]), np.concatenate([Y, Y]))
    left_out = copies._leave_out(None, None).left_out
    assert np.array_equal(left_out.noise, left_out.alpha)


def test_the_spread_of_repeated_inputs_by_definition():
    same = np.array([0, 1, 0, 2, 1, 0, *[3] * 12])
    rng = np.random.default_rng(1)
    values, weight = rng.standard_normal((18, 2)), rng.uniform(0.5, 2.0, 18)
    values[[0, 7], 0] = np.nan
    values[6:, 1] = np.nan
    squares, freedom = 0.0, 0
    for group in range(4):
        rows = np.flatnonzero((same == group) & ~np.isnan(values[:, 0]))
        mean = np.average(values[rows, 0], weights=weight[rows])
        squares, freedom = squares + weight[rows] @ (values[rows, 0] - mean) ** 2, freedom + len(rows) - 1
    found = repeated_spread(same, values, weight)
    assert_allclose(found[0], squares / freedom)
    assert found[1] == 0.0
    assert repeated_spread(np.arange(18) // 2, values, None) is None


def test_an_output_that_never_varies_is_in_its_interval():
    values = np.column_stack([Y[:, 0], np.full(24, 3.1), np.zeros(24)])
    model = OVKRidge(Gaussian(1.0), 0.1).fit(X, values)
    known = np.tile([0.0, 3.1, 0.0], (5, 1))
    assert model.predict_interval(NEW).contains(known)[:, 1:].all()
    wide = np.where(np.arange(3) == 0, model.predict(NEW), known)
    assert model.predict_interval(NEW, region="box").contains(wide).all()
    assert model.predict_interval(NEW, region="ellipsoid").contains(wide).all()


@pytest.mark.parametrize("values", [Y, HOLES], ids=["complete", "gaps"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("of", ["observation", "function"])
def test_standard_deviations_are_the_roots_of_the_covariances_diagonal(name, values, of):
    """The first come from leave-one-out functions, the second from a factored system."""
    model = MODELS[name].fit(X, values)
    covariance = model.predict(NEW, return_cov=True, of=of)[1]
    std = model.predict(NEW, return_std=True, of=of)[1]
    assert_allclose(std, np.sqrt(np.einsum("nqq->nq", covariance)), rtol=1e-6)


def test_the_scale_of_the_noise_is_learned_from_some_rows(monkeypatch):
    """With gaps, eigenvectors of all rows would take longer than the fit."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (400, 1))
    outputs = inputs @ [[1.0, -1.0]] + np.exp(2 * inputs) * rng.standard_normal((400, 2))
    outputs[rng.uniform(size=outputs.shape) < 0.2] = np.nan
    model = OVKRidgeCV(Gaussian(1.0) * COUPLED, landmarks=None).fit(inputs, outputs)
    new = np.array([[-0.9], [0.9]])
    every = model.predict_interval(new)
    monkeypatch.setattr(ridge_system, "MAX_NOISE_ROWS", 150)
    again = clone(model).fit(inputs, outputs)
    some = again.predict_interval(new)
    scale = again._noise_scale(None)
    assert len(scale.logs.residuals) == len(scale.rows) == 126
    G = again.kernel_.as_separable().scalar(again.X_fit_)
    others = np.setdiff1d(np.arange(len(G)), scale.rows)
    assert_allclose(scale.left_out[others], scale.at(G[others]))
    width, ratio = some.upper - some.lower, (some.upper - some.lower) / (every.upper - every.lower)
    assert (width[1] > 2 * width[0]).all()
    assert (np.abs(np.log(ratio)) < 0.25).all()


def test_slow_intervals_show_progress(capsys):
    gaps = Y.copy()
    gaps[::3, 0] = np.nan
    model = OVKRidge(Gaussian(1.0) * COUPLED, alpha=0.1).fit(X, gaps)
    with progress_shown(True):
        model.predict_interval(NEW)
    assert "leave-one-out of pairs  33%" in capsys.readouterr().err
