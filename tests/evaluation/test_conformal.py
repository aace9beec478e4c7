"""Intervals of a stream: coverage for any scores, no use of later rows, independence of the chunks."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDRegressor

import ovk
import reference
from ovk import OLOK, progressive
from ovk.evaluation import ACI, COP, ConformalPID, RollingConformal, StronglyAdaptive, WithIntervals
from ovk.evaluation.conformal import JointScore
from ovk.plotting import IntervalDisplay, RecentDisplay

ADAPTIVE = [ACI, ConformalPID, StronglyAdaptive]
METHODS = [*ADAPTIVE, RollingConformal]
REGIONS = ["each", "box", "ellipsoid"]


def residuals(n, d=1, seed=0):
    """Correlated noise whose scale changes every 200 rows."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(n) // 200 % 2 == 0, 1.0, 6.0)[:, None]
    mixed = rng.standard_normal((n, d)) @ (np.eye(d) + 0.7 * np.eye(d, k=1))
    return spread * mixed


def radii(method, scores):
    scores = np.asarray(scores, dtype=float)
    return method.regions_then_learn(np.zeros(len(scores)), scores).radius[:, 0]


# ---------------------------------------------------------------------------------- reference implementations


@pytest.mark.parametrize("window", [5, 50])
def test_aci_equals_its_reference(window):
    scores = np.abs(residuals(500))[:, 0]
    scores[[3, 40, 41, 200]] = np.nan
    for widest in (None, 2.0):
        found = radii(ACI(0.8, rate=0.1, window=window, widest=widest), scores)
        assert_array_equal(found, reference.aci_radii(scores, 1 - 0.8, 0.1, window, widest))


@pytest.mark.parametrize("gain", [0.0, 1.0])
@pytest.mark.parametrize("saturation", [0.1, 1.0])
def test_pid_equals_its_reference(gain, saturation):
    scores = np.abs(residuals(300))[:, 0]
    scores[[3, 40, 41, 200]] = np.nan
    method = ConformalPID(0.8, rate=0.1, gain=gain, saturation=saturation, window=20)
    assert_allclose(radii(method, scores), reference.pid_radii(scores, 1 - 0.8, 0.1, gain, saturation, 20), rtol=1e-9)


@pytest.mark.parametrize("lifetime", [1, 8])
def test_strongly_adaptive_equals_its_reference(lifetime):
    scores = np.abs(residuals(300))[:, 0]
    found = StronglyAdaptive(0.8, lifetime=lifetime)
    assert_allclose(radii(found, scores), reference.strongly_adaptive_radii(scores, 1 - 0.8, lifetime), rtol=1e-7)
    assert found.trackers_[0].restarts > 0


@pytest.mark.parametrize("window", [5, 50, 1000])
@pytest.mark.parametrize("step", [1, 20, 256])
@pytest.mark.parametrize("rate", [0.0, 0.003, 0.1])
def test_rolling_quantiles_equal_their_reference(window, step, rate):
    scores = np.abs(residuals(700))[:, 0]
    scores[[3, 40, 41, 200]] = np.nan
    method = RollingConformal(0.8, window=window, step=step, rate=rate)
    assert_array_equal(radii(method, scores), reference.rolling_radii(scores, 1 - 0.8, window, step, rate))
    past = np.sort(scores[~np.isnan(scores)][-window:])
    assert rate or method.at(0.5).regions(np.zeros(1)).upper == past[int(np.ceil((len(past) + 1) * 0.5)) - 1]
    for coverage in (0.5, 0.8, 0.9995):
        assert_array_equal(method.half_widths(coverage, 1), method.at(coverage).regions(np.zeros(1)).upper[0])
    assert_array_equal(RollingConformal(0.8).half_widths(0.5, 2), [np.inf, np.inf])
    with pytest.raises(ValueError, match="region must be 'each' for half widths, got 'box'"):
        RollingConformal(0.8, region="box").half_widths(0.5, 2)


@pytest.mark.parametrize("calm", [False, True], ids=["growing", "shrinking"])
def test_a_clipped_level_moves_back_immediately(calm):
    """After rows without a miss, or with misses only, the level is clipped to 1 or 0."""
    rng = np.random.default_rng(0)
    stretch = np.linspace(1, 9, 400)[:: -1 if calm else 1]
    scores = np.concatenate([stretch, 5 + np.abs(rng.standard_normal(300))])
    method = RollingConformal(0.8, window=50, step=5, rate=0.03)
    assert_array_equal(radii(method, scores[:400]), reference.rolling_radii(scores[:400], 1 - 0.8, 50, 5, 0.03))
    [tracker] = method.trackers_
    assert tracker.miss + tracker.shift == pytest.approx(float(calm))
    whole = RollingConformal(0.8, window=50, step=5, rate=0.03)
    assert_array_equal(radii(whole, scores), reference.rolling_radii(scores, 1 - 0.8, 50, 5, 0.03))


def test_rolling_quantiles_adapt_to_misses():
    """Periodic, growing or jumping noise: too many misses without a rate, the correct share with one."""
    rng, t = np.random.default_rng(0), np.arange(20_000)
    for spread in (1 + 2 * (t % 5000 >= 2500), 1 + t / 5000, 1 + 3 * (t > 10_000)):
        scores = spread * np.abs(rng.standard_normal(len(t)))
        still, moving = (np.mean(scores > radii(RollingConformal(0.9, rate=rate), scores)) for rate in (0.0, 0.001))
        assert still > 0.115
        assert abs(moving - 0.1) < 0.006


def test_another_coverage_adapts_to_misses():
    """Growing noise: intervals of level 0.8 from a method for 0.9."""
    scores = np.abs(np.random.default_rng(1).standard_normal(12_000)) * (1 + np.arange(12_000) / 4000)
    covered = {0.0: [], 0.001: []}
    for rate, found in covered.items():
        method = RollingConformal(0.9, rate=rate)
        for start in range(0, 12_000, 200):
            found.append(scores[start : start + 200] <= method.half_widths(0.8, 1)[0])
            radii(method, scores[start : start + 200])
    still, moving = (np.mean(found[10:]) for found in covered.values())
    assert still < 0.775
    assert abs(moving - 0.8) < abs(still - 0.8) / 2


def test_delayed_labels_are_compared_with_their_own_interval():
    method = RollingConformal(0.9, step=16, rate=0.01)
    radii(method, np.ones(64))
    [tracker] = method.trackers_
    tracker.update(0.5, missed=True)
    tracker.update(2.0, missed=False)
    tracker.update(0.5)
    assert (tracker.tested, tracker.missed) == (3, 1)


def test_rolling_quantiles_cover_exchangeable_rows():
    scores = np.random.default_rng(0).exponential(size=20_000)
    for coverage in (0.5, 0.9, 0.99):
        assert abs((scores <= radii(RollingConformal(coverage), scores)).mean() - coverage) < 0.01


@pytest.mark.parametrize("form", ["box", "ellipsoid"])
@pytest.mark.parametrize("memory", [None, 20])
def test_joint_scores_equal_their_reference(form, memory):
    R = residuals(80, d=3)
    decay = 1.0 if memory is None else 1 - 1 / memory
    score = ACI(region=form, memory=memory)._joint_score(3)
    found = []
    for r in R:
        found.append(score.score(r, np.ones(3, dtype=bool)))
        score.add(r, np.ones(3, dtype=bool))
    assert_allclose(found, reference.joint_scores(R, form, decay), rtol=1e-9)


# --------------------------------------------------------------------------------------------------- coverage


def adversary(method, n, rng):
    """Adversarial scores: just outside the radius if it is finite."""
    scores = np.zeros(n)
    for t in range(n):
        radius = method.regions(np.zeros((1, 1))).radius[0, 0]
        scores[t] = 1.01 * abs(radius) + 1e-3 if np.isfinite(radius) and rng.random() < 0.7 else rng.exponential()
        method.regions_then_learn(np.zeros(1), scores[t : t + 1])
    return scores


STREAMS = {
    "shift": lambda n: np.abs(residuals(n))[:, 0],
    "ever larger": lambda n: np.arange(n) ** 2.0,
    "ever smaller": lambda n: 1.0 / (1.0 + np.arange(n)),
    "all the same": np.ones,
    "heavy tails": lambda n: np.abs(np.random.default_rng(0).standard_cauchy(n)),
    "infinite": lambda n: np.where(np.arange(n) % 7 == 0, np.inf, 1.0),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("coverage", "rate"), [(0.9, 0.05), (0.5, 0.2)])
def test_aci_stays_within_its_bound_at_all_times(name, coverage, rate):
    """| mean miss - a | <= (max(a, 1 - a) + rate) / (rate T), where an empty region misses by definition."""
    n = 800
    scores = STREAMS[name](n)
    found = radii(ACI(coverage, rate=rate, window=100, widest=None), np.where(np.isinf(scores), np.nan, scores))
    misses = np.cumsum((scores > found)[np.isfinite(scores)])
    T = np.arange(1, len(misses) + 1)
    limit = (max(coverage, 1 - coverage) + rate) / (rate * T)
    assert (np.abs(misses / T - (1 - coverage)) <= limit + 1e-9).all()


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("coverage", "saturation"), [(0.9, 0.1), (0.5, 1.0)])
def test_pid_stays_within_its_bound_at_all_times(name, coverage, saturation):
    n = 800
    scores = STREAMS[name](n)
    found = radii(ConformalPID(coverage, saturation=saturation), np.where(np.isinf(scores), np.nan, scores))
    misses = np.cumsum((scores > found)[np.isfinite(scores)][10:])
    T = np.arange(1, len(misses) + 1)
    h = np.pi / 2 * saturation * (T + 1) / np.log(T + 1)
    assert (np.abs(misses - (1 - coverage) * T) <= h + 1 + 1e-9).all()


@pytest.mark.parametrize("method", [ACI(0.9, rate=0.05, widest=None), ConformalPID(0.9, saturation=0.1)])
def test_an_adversary_cannot_break_the_bound(method):
    n = 600
    method = method.replace()
    scores = adversary(method, n, np.random.default_rng(1))
    found = radii(method.replace(), scores)
    miss = np.mean((scores > found)[10:])
    assert miss > 0.02  # it tries
    T = n - 10
    limit = (0.9 + 0.05) / 0.05 if isinstance(method, ACI) else np.pi / 2 * 0.1 * (T + 1) / np.log(T + 1) + 1
    assert abs(miss - 0.1) <= (limit + 10) / T


@pytest.mark.parametrize("block", [pytest.param(1, marks=pytest.mark.long), 100])
@pytest.mark.parametrize("noise", [(1.0, 1.0), (1.0, 5.0), (5.0, 1.0)])
def test_delayed_outcomes_cause_no_oscillation_and_no_infinite_intervals(noise, block):
    """Outcomes are delayed by 50 rows, or arrive in blocks; the noise changes halfway."""
    n, delay = 8000, 50 if block == 1 else 0
    y = np.where(np.arange(n) < n // 2, *noise) * np.random.default_rng(0).standard_normal(n)
    method, regions, known = ACI(0.9), [], 0
    for t in range(n):
        while known < t // block * block - delay:
            method.learn(regions[known], y[known : known + 1], t - 1 - known)
            known += 1
        regions.append(method.regions(np.zeros(1)))
    upper = np.concatenate([one.upper[:, 0] for one in regions])
    settled = slice(delay + block + 10, None)
    assert np.isfinite(upper[settled]).all()
    assert abs(np.mean(np.abs(y) <= upper) - 0.9) < 0.01
    # Where the noise is constant, as wide as without delay.
    at_once = ACI(0.9).regions_then_learn(np.zeros(n), y).upper[:, 0]
    still = slice(1000, n // 2)
    assert np.mean(upper[still]) < 1.05 * np.mean(at_once[still])


@pytest.mark.parametrize("name", ["shift", "ever smaller", "all the same", "heavy tails"])
def test_strongly_adaptive_regret_on_every_segment(name):
    """On segments of all lengths since the last restart, the loss is near that of the best fixed radius."""
    n, miss = 700, 0.1
    scores = STREAMS[name](n)
    method = StronglyAdaptive(1 - miss)
    found = radii(method, scores)
    tracker = method.trackers_[0]
    since = n - tracker.t
    played = np.array([reference.pinball(r, s, miss) for r, s in zip(found[since:], scores[since:], strict=True)])
    for k in (8, 32, 128, tracker.t):
        limit = 15 * tracker.D * np.sqrt(k * (np.log(n) + 1))
        for start in range(0, tracker.t - k + 1, max(k // 2, 1)):
            part = scores[since:][start : start + k]
            best = min(sum(reference.pinball(r, s, miss) for s in part) for r in np.unique(part))
            assert played[start : start + k].sum() - best <= limit


@pytest.mark.long
@pytest.mark.parametrize("Method", ADAPTIVE)
@pytest.mark.parametrize("region", REGIONS)
def test_coverage_after_abrupt_shifts(Method, region):
    """Six times the noise in every other 200 rows: the coverage is correct overall and acceptable in each segment."""
    R = residuals(1600, d=2)
    covered = Method(0.9, region=region, memory=100).regions_then_learn(np.zeros_like(R), R).covered
    assert abs(covered.mean() - 0.9) < 0.03
    stretches = covered[200:].reshape(7, 200, -1).mean(axis=1)
    assert (stretches > 0.74).all()


def test_the_ellipsoid_of_coupled_outputs_is_smaller_than_the_box():
    rng = np.random.default_rng(0)
    R = rng.multivariate_normal([0, 0], [[1.0, 0.95], [0.95, 1.0]], size=2000)
    box, ellipsoid = (ACI(0.9, region=r).regions_then_learn(np.zeros_like(R), R) for r in ("box", "ellipsoid"))
    area = np.prod(box.width[1000:], axis=1)
    det = np.sqrt(np.linalg.det(ellipsoid.scatter[1000:]))
    finite = np.isfinite(area)
    assert np.mean((np.pi * ellipsoid.radius[1000:, 0] ** 2 * det)[finite]) < 0.6 * np.mean(area[finite])


def test_a_missing_label_does_not_shift_the_season():
    r = np.where(np.arange(300) % 2, 10.0, 1.0)
    r[101] = np.nan
    width = ConformalPID(0.8, season=2).regions_then_learn(np.zeros(300), r).width[102:112, 0]
    assert width[1::2].min() > 5.0 * width[::2].max()


def test_seasons_are_forecast():
    """Ten times the noise in every fourth row: with season=4 the other rows get narrow intervals."""
    rng = np.random.default_rng(0)
    n = 2000
    loud = np.arange(n) % 4 == 0
    r = np.where(loud, 10.0, 1.0) * rng.standard_normal(n)
    plain, seasonal = (ConformalPID(0.9, season=s).regions_then_learn(np.zeros(n), r) for s in (None, 4))
    assert abs(seasonal.covered[200:].mean() - 0.9) < 0.02
    calm = [np.median(regions.width[500:][~loud[500:]]) for regions in (plain, seasonal)]
    assert calm[1] < 0.5 * calm[0]
    assert abs(seasonal.covered[500:][~loud[500:]].mean() - 0.9) < 0.05


# ------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_rows_equal_chunks(Method, region):
    R = residuals(400, d=3)
    R[np.random.default_rng(0).random(R.shape) < 0.2] = np.nan
    F = np.ones_like(R)
    whole = Method(region=region).regions_then_learn(F, R + F)
    rows = Method(region=region)
    parts = [rows.regions_then_learn(F[a:b], (R + F)[a:b]) for a, b in [(0, 1), (1, 30), (30, 31), (31, 400)]]
    for name in ("lower", "upper", "radius", "covered"):
        assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(METHODS), st.sampled_from(REGIONS), st.integers(0, 59), st.integers(0, 10**6))
def test_regions_do_not_depend_on_later_rows(Method, region, t, seed):
    """Rows from t on do not change any region up to that of row t."""
    R = residuals(60, d=2, seed=seed)
    other = R.copy()
    other[t:] = 1e3 * np.random.default_rng(seed).standard_cauchy((60 - t, 2))
    one, two = (Method(region=region).regions_then_learn(np.zeros_like(A), A) for A in (R, other))
    assert_array_equal(one.upper[: t + 1], two.upper[: t + 1])
    assert_array_equal(one.radius[: t + 1], two.radius[: t + 1])


@pytest.mark.parametrize("Method", METHODS)
def test_units_make_no_difference(Method):
    """Coverage does not depend on the units of the scores, nor joint regions on those of the outputs."""
    R = residuals(300, d=2)
    scale = np.array([1e-100, 1e100])
    for region in REGIONS:
        plain, scaled = (Method(region=region).regions_then_learn(np.zeros_like(A), A) for A in (R, R * scale))
        assert_array_equal(plain.covered, scaled.covered)
        assert_allclose(scaled.width / scale, plain.width, rtol=1e-6)


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_missing_labels(Method, region):
    R = residuals(300, d=2)
    gaps = R.copy()
    gaps[100:150] = np.nan
    F = np.zeros_like(R)
    a = Method(region=region).regions_then_learn(np.delete(F, range(100, 150), 0), np.delete(R, range(100, 150), 0))
    b = Method(region=region).regions_then_learn(F, gaps)
    assert_array_equal(np.delete(b.upper, range(100, 150), 0), a.upper)
    assert np.isnan(b.covered[100:150]).all()
    # One output is missing: the other is still learned.
    gaps = R.copy()
    gaps[::2, 0] = np.nan
    found = Method(region=region).regions_then_learn(F, gaps)
    if Method in ADAPTIVE:
        assert abs(np.nanmean(found.covered) - 0.9) < 0.07
    if region == "each":
        assert np.isnan(found.covered[::2, 0]).all()
        assert_array_equal(found.upper[:, 1], Method().regions_then_learn(F[:, 1], R[:, 1]).upper[:, 0])
    else:
        assert not np.isnan(found.covered).any()


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_covered_is_what_the_region_contains(Method, region):
    R = residuals(300, d=3)
    R[np.random.default_rng(0).random(R.shape) < 0.2] = np.nan
    F = np.full_like(R, 5.0)
    found = Method(region=region).regions_then_learn(F, R + F)
    assert_array_equal(found.contains(R + F), found.covered)


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_save_load_and_continue(Method, region, tmp_path):
    R = residuals(300, d=2)
    method = Method(region=region, memory=50)
    method.regions_then_learn(np.zeros((150, 2)), R[:150])
    ovk.save(method, tmp_path / "method")
    again = ovk.load(tmp_path / "method")
    a, b = (m.regions_then_learn(np.zeros((150, 2)), R[150:]) for m in (method, again))
    assert_array_equal(a.upper, b.upper)
    assert_array_equal(a.covered, b.covered)


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_bad_numbers(Method, region):
    """Infinite and missing predictions, labels of 1e300, perfect predictions: no warning, no nan, and it recovers."""
    R = residuals(400, d=2)
    F = np.zeros_like(R)
    Y = R.copy()
    F[50], F[51], Y[52], Y[53] = np.nan, np.inf, 1e300, -1e300
    Y[60:100] = F[60:100] = 3.0
    found = Method(region=region, memory=50).regions_then_learn(F, Y)
    assert (found.covered[50:52] == 0).all()
    assert not np.isnan(found.radius).any()
    if Method in ADAPTIVE:
        assert abs(found.covered[200:].mean() - 0.9) < 0.1


@pytest.mark.parametrize("Method", METHODS)
def test_regions_does_not_change_the_method(Method):
    R = residuals(100)
    method = Method()
    assert np.isinf(method.regions(np.zeros((1, 1))).upper).all()
    a = method.regions_then_learn(np.zeros((50, 1)), R[:50])
    now = method.regions(np.zeros((3, 1)))
    again = method.regions(np.zeros((3, 1)))
    assert_array_equal(now.upper, again.upper)
    b = method.regions_then_learn(np.zeros((50, 1)), R[50:])
    assert now.upper[0, 0] == b.upper[0, 0]
    assert a.upper.shape == b.upper.shape


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="coverage must be a number in"):
        ACI(1.5).regions_then_learn(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="region must be 'each', 'box' or 'ellipsoid', got 'ball'"):
        ACI(region="ball").regions_then_learn(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="same shape"):
        ACI().regions_then_learn(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="rate must be"):
        ACI(rate=0.0).regions_then_learn(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="season must be an integer >= 2"):
        ConformalPID(season=1).regions_then_learn(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="lifetime must be"):
        StronglyAdaptive(lifetime=0).regions_then_learn(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="memory must be an integer >= 2"):
        ACI(memory=1).regions_then_learn(np.zeros(3), np.zeros(3))
    method = ACI()
    method.regions_then_learn(np.zeros(3), np.ones(3))
    before = method.trackers_[0].level
    with pytest.raises(ValueError, match="has learned from 1 outputs, got 2"):
        method.regions_then_learn(np.zeros((3, 2)), np.ones((3, 2)))
    assert method.trackers_[0].level == before
    with pytest.raises(ValueError, match="intervals must be a method"):
        progressive(OLOK(), np.zeros((3, 1)), np.zeros(3), intervals=90)


def test_correlations_over_different_rows_stay_positive_definite():
    moments = JointScore(1.0, True, *np.zeros((2, 3, 3)))
    for seen, r in (([1, 1, 0], [1.0, 1.0, 0.0]), ([0, 1, 1], [0.0, 1.0, 1.0]), ([1, 0, 1], [1.0, 0.0, -1.0])):
        for _ in range(1000):
            moments.add(np.array(r), np.array(seen, dtype=bool))
    _, C = moments.correlation()
    assert np.linalg.eigvalsh(C)[0] > 0
    assert_allclose(np.diag(C), 1.0)


# ----------------------------------------------------------------------------------------------- around a learner


def stream(n=400, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(3 * X @ rng.standard_normal((2, d))) + 0.3 * residuals(n, d)


@pytest.mark.parametrize("Method", METHODS)
@pytest.mark.parametrize("region", REGIONS)
def test_progressive_with_intervals(Method, region):
    X, Y = stream()
    plain = progressive(OLOK(), X, Y, scale="running")
    result = progressive(OLOK(), X, Y, scale="running", intervals=Method(0.8, region=region))
    assert_array_equal(result.predictions, plain.predictions)
    found = result.intervals
    expected = Method(0.8, region=region).regions_then_learn(result.predictions[100:], Y[100:])
    assert_array_equal(found.regions.upper[100:], expected.upper)
    assert np.isnan(found.regions.upper[:100]).all()
    assert_allclose(found.coverage, expected.covered.mean(axis=0))
    assert_allclose(found.width, np.nanmean(np.where(np.isinf(expected.width), np.nan, expected.width), axis=0))
    assert f"80% intervals by {Method.__name__}" in result.summary()
    in_chunks = progressive(OLOK(), X, Y, scale="running", intervals=Method(0.8, region=region), chunk_size=37)
    assert_allclose(in_chunks.intervals.coverage, found.coverage, atol=0.02)
    nothing = progressive(OLOK(), X, Y, scale="running", intervals=Method(0.8, region=region), keep="none")
    assert nothing.intervals.regions is None
    assert_array_equal(nothing.intervals.coverage, found.coverage)


def test_progressive_with_missing_and_invalid_rows():
    X, Y = stream()
    Y[::3, 0] = np.nan
    X[10] = np.nan
    found = progressive(OLOK(on_invalid="skip"), X, Y, intervals=0.8).intervals
    assert found.tested[-1].tolist() == [265, 398]  # the first row is not tested
    assert np.isnan(found.regions.upper[10]).all()


def test_regions_without_bounds_are_counted_within_each_output():
    X, Y = stream(1000)
    Y[np.arange(1000) % 9 > 0, 1] = np.nan
    found = progressive(OLOK(), X, Y, intervals=ACI(0.9)).intervals
    unbounded = np.isinf(found.regions.upper) & np.isfinite(Y)
    assert found.n_unbounded == unbounded.sum(axis=0).max() < 50


def test_an_empty_stream():
    found = progressive(OLOK(), np.zeros((0, 2)), np.zeros((0, 1)), intervals=0.9).intervals
    assert np.isnan(found.coverage).all()
    assert found.n_unbounded == 0


def test_with_a_learner():
    X, Y = stream()
    model = WithIntervals(OLOK(), ACI(0.8, region="ellipsoid"))
    regions = model.regions_then_learn(X[:300], Y[:300])
    assert_array_equal(regions.predictions, OLOK().predict_then_learn(X[:300], Y[:300]))
    ahead = model.predict_regions(X[300:301])
    assert_array_equal(ahead.predictions, model.predict(X[300:301]))
    F = model.predict_then_learn(X[300:], Y[300:])
    assert F.shape == (100, 2)
    result = progressive(WithIntervals(OLOK()), X, Y, untested=0)
    assert_allclose(result.predictions, OLOK().predict_then_learn(X, Y))


def test_with_a_learner_of_scikit_learn():
    X, Y = stream(d=1)
    model = WithIntervals(SGDRegressor(random_state=0), StronglyAdaptive(0.8)).partial_fit(X, Y[:, 0])
    regions = model.predict_regions(X[:5])
    assert regions.lower.shape == (5, 1)
    assert (regions.lower[:, 0] < model.predict(X[:5])).all()


def test_a_learner_with_intervals_is_saved_completely(tmp_path):
    X, Y = stream()
    model = WithIntervals(OLOK(), 0.8).partial_fit(X[:300], Y[:300])
    ovk.save(model, tmp_path / "model")
    again = ovk.load(tmp_path / "model")
    a, b = (m.regions_then_learn(X[300:], Y[300:]) for m in (model, again))
    assert_array_equal(a.upper, b.upper)


def test_before_learning():
    with pytest.raises(ValueError, match="WithIntervals is not fitted"):
        WithIntervals(OLOK()).predict(np.zeros((1, 2)))


# ---------------------------------------------------------------------------------------------------- display


@pytest.mark.parametrize(
    ("region", "keep", "d"),
    [("each", "predictions", 1), ("each", "none", 7), ("ellipsoid", "predictions", 3), ("box", "none", 3)],
)
def test_display(region, keep, d):
    X, Y = stream(300, d=d)
    result = progressive(OLOK(), X, Y, intervals=ACI(0.8, region=region), keep=keep)
    display = IntervalDisplay.from_result(result, window=100 if keep != "none" else None)
    assert len(display.axes_) == (2 if region != "each" or d not in range(2, 6) else d + 1)
    assert display.width.shape[1] == d
    assert display.coverage.shape[1] == (d if region == "each" else 1)
    if keep != "none":
        covered = result.intervals.regions.covered
        assert_allclose(display.coverage[50], covered[50:150].mean(axis=0))
    shares = display.coverage[np.isfinite(display.coverage)]
    assert ((shares >= 0) & (shares <= 1)).all()
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(2, 1)
    assert display.plot(axes).figure_ is axes[0].figure
    plt.close("all")


def test_widths_of_outputs_in_several_units_can_be_compared():
    X, Y = stream(400, d=2)
    result = progressive(OLOK(), X, Y * [1.0, 1000.0], intervals=0.8)
    display = IntervalDisplay.from_result(result)
    assert display.rows[0] == 100
    assert display.title == "80% intervals (ACI)"
    curves = np.array([line.get_ydata() for line in display.axes_[-1].lines])
    assert_allclose(np.median(curves, axis=1), 1.0, rtol=0.01)
    assert display.axes_[-1].get_ylabel() == "width /\nmedian width"
    median = f"{np.median(display.width[:, 1]):,.0f}"
    assert f"y1 (median width {median})" in [text.get_text() for text in display.figure_.legends[0].get_texts()]


def test_a_band_around_the_last_predictions():
    X, Y = stream(300, d=2)
    result = progressive(OLOK(), X, Y, intervals=0.8, keep="all")
    display = RecentDisplay.from_result(result, "y1", rows=50)
    assert_array_equal(display.outcomes, Y[-50:, 1])
    assert_allclose(display.predictions + display.half, result.intervals.regions.upper[-50:, 1])
    assert "80% interval" in [text.get_text() for text in display.ax_.get_legend().get_texts()]
    plain = progressive(OLOK(), X, Y, intervals=0.8)
    assert_array_equal(RecentDisplay.from_result(plain, 1, Y=Y, plot=False).outcomes[-50:], display.outcomes)
    with pytest.raises(ValueError, match="keep='all', or pass them as Y"):
        RecentDisplay.from_result(plain)
    with pytest.raises(ValueError, match=r"run progressive with intervals=0\.9 and keep='all'"):
        RecentDisplay.from_result(progressive(OLOK(), X, Y))
    with pytest.raises(ValueError, match="output must be the name or index of one of y0, y1, got 'y7'"):
        RecentDisplay.from_result(result, "y7")


def test_regions_are_printed_in_one_line():
    regions = progressive(OLOK(), *stream(300, d=2), intervals=0.8).intervals.regions
    assert repr(regions.chosen([299])).startswith("Regions(1 row of 2 outputs; first: [")
    assert len(repr(regions)) < 100
    assert repr(regions.chosen([])) == "Regions(0 rows of 2 outputs)"


def test_rows_without_bounds_are_counted_of_the_outcomes():
    X, Y = stream(300, d=2)
    Y[::2, 1] = np.nan
    text = progressive(OLOK(), X, Y, intervals=0.8).summary()
    line = next(line for line in text.splitlines() if "had infinite intervals" in line)
    assert re.fullmatch(r"\d of 299 outcomes of y0, \d of 150 outcomes of y1 had infinite intervals: too few.*", line)
    text = progressive(OLOK(), *stream(300, d=2), intervals=0.8).summary()
    assert re.search(r"\d of 299 outcomes of each output had infinite intervals", text)
    assert "mean of outputs" in text


def test_display_needs_intervals():
    X, Y = stream(50)
    with pytest.raises(ValueError, match="has no intervals"):
        IntervalDisplay.from_result(progressive(OLOK(), X, Y))
    with pytest.raises(ValueError, match="no rows to draw"):
        IntervalDisplay.from_result(progressive(OLOK(), X[:0], Y[:0], intervals=0.9))


def test_pid_stays_within_its_bound_when_every_score_is_zero():
    found = radii(ConformalPID(0.9, saturation=0.1), np.zeros(500))[10:]
    assert np.isneginf(found).any()
    T = np.arange(1.0, len(found) + 1)
    h = np.pi / 2 * 0.1 * (T + 1) / np.log(T + 1)
    assert (np.abs(np.cumsum(found < 0.0) / T - 0.1) <= (h + 1) / T + 1e-12).all()


@pytest.mark.parametrize(("sharpness", "trust"), [(1.0, 0.0), (0.0, 0.5), (2.0, 1.0)])
def test_optimistic_and_error_quantified_radii_agree_with_their_equations(sharpness, trust):
    scores, a, rate, window = np.random.default_rng(0).exponential(size=300), 0.2, 0.05, 30
    method = COP(1 - a, rate=rate, window=window, trust=trust, sharpness=sharpness)
    regions = method.regions_then_learn(np.zeros(300), scores)
    assert np.isinf(regions.radius[:10]).all()
    q, distance = np.sort(scores[:10])[8], 0.0  # ceil(11 * 0.8) = 9
    for t in range(10, 300):
        last = scores[max(t - window, 0) : t]
        B = last.max() - last.min()
        radius = q + rate * B * (distance - trust * (np.mean(last <= q) - (1 - a)))
        np.testing.assert_allclose(regions.radius[t, 0], radius)
        u = sharpness * (scores[t] - radius) / B
        distance = u * np.exp(u) / (1 + np.exp(u)) ** 2
        q += rate * B * ((scores[t] > radius) - a)


@pytest.mark.parametrize("sharpness", [0.0, 1.0])
def test_optimistic_intervals_cover_and_do_not_depend_on_units(sharpness):
    t = np.arange(4000)
    y = np.where(t < 2000, 1.0, 5.0) * np.random.default_rng(0).standard_normal(4000)
    found = COP(0.9, sharpness=sharpness).regions_then_learn(np.zeros(4000), y)
    assert 0.87 < np.nanmean(found.covered) < 0.93
    scaled = COP(0.9, sharpness=sharpness).regions_then_learn(np.zeros(4000), 1e6 * y)
    np.testing.assert_allclose(scaled.radius, 1e6 * found.radius, rtol=1e-9)
    infinite = COP(0.9, sharpness=sharpness).regions_then_learn(np.zeros(40), np.r_[y[:20], np.inf, y[21:40]])
    assert np.isfinite(infinite.radius[10:]).all()
