"""Intervals of bounded outputs are clipped, with the same coverage."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ovk
from ovk import OLOK, AutoStream, progressive
from ovk.evaluation import ACI, COP, ConformalPID, DelayedLabels, RollingConformal, StronglyAdaptive, WithIntervals

METHODS = [ACI, COP, ConformalPID, StronglyAdaptive, RollingConformal]
REGIONS = ["each", "box", "ellipsoid"]


def skewed(n, d=2, seed=0):
    """Nonnegative outputs, and predictions that are sometimes negative."""
    rng = np.random.default_rng(seed)
    F = rng.normal(1.0, 1.0, (n, d))
    return F, np.maximum(F, 0.0) * rng.exponential(size=(n, d)) + (rng.uniform(size=(n, d)) < 0.2)


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("Method", METHODS)
def test_regions_are_clipped_and_coverage_is_that_of_clipped_predictions(Method, region):
    F, Y = skewed(800)
    bounds = [(0, None), (0.0, 50.0)]
    found = Method(0.8, region, bounds=bounds).regions_then_learn(F, Y)
    plain = Method(0.8, region).regions_then_learn(np.clip(F, 0, [np.inf, 50]), Y)
    assert (found.lower >= 0).all()
    assert (found.upper[:, 1] <= 50).all()
    assert ((found.lower <= found.predictions) & (found.predictions <= found.upper)).all()
    assert_array_equal(found.covered, plain.covered)
    assert_array_equal(found.radius, plain.radius)
    assert found.lower.min() == 0 > plain.lower.min()
    assert_array_equal(found.covered, found.contains(Y) * (found.radius >= 0))


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("Method", METHODS)
def test_regions_and_learn_equal_regions_then_learn(Method, region):
    F, Y = skewed(150)
    Y[[20, 90], [0, 1]] = -3.0, np.nan
    one, two = (Method(0.8, region, bounds=(0, 40)) for _ in range(2))
    with pytest.warns(RuntimeWarning, match="outside their bounds: 1, the first -3 of output 0 with bounds 0 and 40"):
        found = one.regions_then_learn(F, Y)
    for t in range(len(F)):
        row = slice(t, t + 1)
        with warnings.catch_warnings(action="ignore" if t == 20 else "error"):
            regions = two.learn(two.regions(F[row]), Y[row])
        for name in ("lower", "upper", "radius", "covered"):
            np.testing.assert_allclose(getattr(regions, name)[0], getattr(found, name)[t], rtol=1e-12)


@pytest.mark.parametrize("region", REGIONS)
def test_an_outcome_outside_its_bounds_is_missed_and_does_not_widen_the_region(region):
    F, Y = skewed(400)
    wrong = Y.copy()
    wrong[100:200, 0] = -1e6
    at_the_bound = Y.copy()
    at_the_bound[100:200, 0] = 0.0
    method = ACI(0.8, region, bounds=(0, None))
    with pytest.warns(RuntimeWarning, match=r"100, the first -1e\+06 of output 0 with bounds 0 and inf.*widen"):
        found = method.regions_then_learn(F, wrong)
    assert not found.covered[100:200, 0].any()
    other = ACI(0.8, region, bounds=(0, None)).regions_then_learn(F, at_the_bound)
    assert_array_equal(found.upper, other.upper)
    # The same holds for a region that is learned later.
    assert not found.contains(wrong)[100:200, 0].any()


def test_bounds_of_one_output_do_not_change_the_others():
    F, Y = skewed(300)
    found = ACI(0.8, bounds=[(0, None), None]).regions_then_learn(F, Y)
    plain = ACI(0.8).regions_then_learn(F, Y)
    assert_array_equal(found.lower[:, 1], plain.lower[:, 1])
    assert (found.lower[:, 0] >= 0).all()


def test_bounded_regions_are_finite():
    found = ACI(0.9, bounds=(0, 5)).regions(np.array([[1.0], [9.0]]))
    assert_array_equal(found.lower, [[0.0], [0.0]])
    assert_array_equal(found.upper, [[5.0], [5.0]])
    assert_array_equal(found.predictions, [[1.0], [5.0]])


@pytest.mark.parametrize(
    "bounds", [5, "ab", (1, 0), (0, 0), (np.nan, 1), [(0, 1)], [(0, 1)] * 3, (0, 1, 2), [(0, "a"), None]]
)
def test_wrong_bounds_are_named(bounds):
    with pytest.raises(ValueError, match=r"bounds must be a pair \(low, high\).*each of the 2 outputs, got"):
        ACI(0.9, bounds=bounds).regions_then_learn(*skewed(5))


def test_saved_and_loaded(tmp_path):
    F, Y = skewed(300)
    method = ACI(0.8, bounds=[(0, None), (None, 40.0)])
    method.regions_then_learn(F, Y)
    ovk.save(method, tmp_path / "method.ovk")
    again = ovk.load(tmp_path / "method.ovk")
    assert_array_equal(again.regions(F).lower, method.regions(F).lower)


def test_with_a_learner_and_delayed_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 1))
    y = np.maximum(X[:, 0], 0.0) * rng.exponential(size=300)
    model = WithIntervals(OLOK(), ACI(0.8, bounds=(0, None))).partial_fit(X[:200], y[:200])
    assert model.predict(X).min() == 0 > model.learner_.predict(X).min()
    regions = model.predict_regions(X)
    assert regions.lower.min() == 0
    assert_array_equal(regions.predictions[:, 0], model.predict(X))
    late, held = DelayedLabels(WithIntervals(OLOK(), ACI(0.8, bounds=(0, None)))), []
    for start in range(0, 300, 20):
        rows = slice(start, start + 20)
        given, tickets = late.predict_regions(X[rows])
        held.append(given)
        late.learn(tickets, y[rows])
    assert np.nanmin(np.concatenate([one.lower for one in held])) == 0


@pytest.mark.parametrize("delay", [0, pytest.param(3, marks=pytest.mark.long)])
def test_in_progressive(delay):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 1))
    Y = np.column_stack([np.maximum(X[:, 0], 0.0) * rng.exponential(size=600), rng.standard_normal(600)])
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bounds in ([(0, None), None], None):
            method = ACI(0.8, bounds=bounds)
            results.append(progressive(AutoStream(), X, Y, intervals=method, delay=delay, progress=False))
    found, plain = (result.intervals for result in results)
    assert np.nanmin(found.regions.lower[:, 0]) == 0
    assert found.width[0] < 0.9 * plain.width[0]
    np.testing.assert_allclose(found.coverage, 0.8, atol=0.03)
    assert found.width[1] == plain.width[1]
