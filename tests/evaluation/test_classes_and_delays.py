"""Progressive evaluation of classifiers, and delayed labels."""

import copy
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, cohen_kappa_score, roc_auc_score

import ovk
from learners import EVERY, begun
from learners import rows as learner_rows
from ovk import PKAWV, AutoStreamClassifier, PKAWVClassifier
from ovk.evaluation import (
    ACI,
    COP,
    ConformalPID,
    DelayedLabels,
    RefittedRidge,
    RollingConformal,
    StronglyAdaptive,
    WithIntervals,
    progressive,
)
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian

METHODS = [ACI(0.8, window=20), COP(0.8), ConformalPID(0.8), StronglyAdaptive(0.8), RollingConformal(0.8)]


def rows(n=400, k=3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    y = np.array(["a", "b", "c"])[np.where(X[:, 1] > 0.7, k - 1, (X[:, 0] > 0).astype(int))]
    return X, y


@pytest.mark.parametrize("k", [2, 3])
def test_scores_are_those_of_scikit_learn(k):
    X, y = rows(k=k)
    model = AutoStreamClassifier()
    P = model.predict_proba_then_learn(X, y)
    order = np.argsort(model.classes_)
    P, classes = P[:, order], model.classes_[order]
    result = progressive(AutoStreamClassifier(), X, y, chunk_size=100, untested=0)
    guesses = classes[P.argmax(axis=1)]
    assert result.model.accuracy == pytest.approx(accuracy_score(y, guesses))
    assert result.model.kappa == pytest.approx(cohen_kappa_score(y, guesses))
    clipped = np.maximum(P, 1e-15)
    assert result.model.log_loss == pytest.approx(-np.log(clipped[np.arange(400), np.searchsorted(classes, y)]).mean())
    area = (
        roc_auc_score(y == classes[1], P[:, 1])
        if k == 2
        else np.mean([roc_auc_score(y == c, P[:, i]) for i, c in enumerate(classes)])
    )
    assert result.model.auc == pytest.approx(area, abs=3e-3)
    assert_array_equal(result.predictions, guesses)
    assert result.rows[-1] <= 400
    assert len(result.model.curve) == len(result.rows)
    for rule in ("no change", "majority", "accuracy", "kappa", "AUC"):
        assert rule in result.summary()


def test_baselines():
    y = np.array(["b", "b", "a", "b", "b"])
    result = progressive(AutoStreamClassifier(), np.zeros((5, 1)), y, untested=0)
    last, majority = result.baselines
    # NoChange is wrong at both changes, and predicts the first class for the first row.
    assert last.accuracy == pytest.approx(2 / 5)
    assert majority.accuracy == pytest.approx(3 / 5)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=str)
@pytest.mark.parametrize("make", [AutoStreamClassifier, lambda: PKAWVClassifier(Gaussian(1.0)), SGDClassifier])
def test_missing_labels_are_not_counted_and_classes_may_appear_later(make, missing):
    X, y = rows()
    y = y.astype(object)
    y[:100] = np.where(y[:100] == "c", "a", y[:100])
    y[::7] = missing
    result = progressive(make(), X, y, chunk_size=64)
    assert result.n_missing == len(y[::7])
    assert result.predictions[7] in {"a", "b", "c"}
    assert result.model.confusion.sum() == 400 - result.n_missing
    assert result.model.accuracy > 0.55
    assert set(result.classes) == {"a", "b", "c"}


@pytest.mark.parametrize("delay", [0, 3])
def test_labels_of_a_nullable_column_may_be_missing(delay):
    X, y = rows()
    column = pd.Series(y, dtype="string")
    column[::7] = pd.NA
    expected = progressive(AutoStreamClassifier(), X, np.where(column.isna(), None, y), delay=delay)
    result = progressive(AutoStreamClassifier(), X, column, delay=delay)
    assert result.n_missing == len(y[::7])
    assert_array_equal(result.predictions, expected.predictions)


def test_untested_rows_are_not_counted():
    X, y = rows()
    assert progressive(AutoStreamClassifier(), X, y, untested=150).model.confusion.sum() == 250


def test_invalid_arguments_for_a_classifier():
    X, y = rows(20)
    with pytest.raises(ValueError, match="y must be one column of labels, some of them known"):
        progressive(AutoStreamClassifier(), X, [None] * 20)
    with pytest.raises(ValueError, match="AutoStreamClassifier is a classifier: pass its labels as Y"):
        progressive(AutoStreamClassifier(), X, targets=0)
    with pytest.raises(ValueError, match="intervals must be None for a classifier"):
        progressive(AutoStreamClassifier(), X, y, intervals=0.9)
    with pytest.raises(ValueError, match="baselines must be 'last', 'majority' or baselines"):
        progressive(AutoStreamClassifier(), X, y, baselines=["mean"])
    with pytest.raises(TypeError, match="model must be a classifier"):
        progressive(object(), X, y, classes=["a", "b", "c"])


def test_a_part_of_a_stream_of_classes():
    X, y = rows()
    result = progressive(AutoStreamClassifier(), X, y, keep="all")
    part = result.part(slice(100, 300))
    assert part.model.confusion.sum() == 200
    assert part.model.accuracy == np.mean(result.predictions[100:300] == y[100:300])
    own = result.probabilities[np.arange(400), np.searchsorted(result.classes, y)]
    assert part.model.log_loss == pytest.approx(-np.log(own[100:300]).mean())
    assert part.summary().startswith("rows 100 to 299 of a stream: 200 rows predicted")
    whole = result.part(400)
    assert_array_equal(whole.model.confusion, result.model.confusion)
    assert_allclose(whole.baselines[1].log_loss, result.baselines[1].log_loss)


def logistic():
    return SGDClassifier(loss="log_loss", alpha=0.1, random_state=0)


@pytest.mark.parametrize("make", [AutoStreamClassifier, lambda: PKAWVClassifier(Gaussian(1.0)), logistic])
def test_probabilities_with_delayed_labels(make):
    X, y = rows(200)
    model, plain = make(), make()
    found = progressive(model, X, y, delay=5)
    assert found.untested == 6
    assert 0.0 < found.model.log_loss < found.baselines[1].log_loss
    assert found.model.auc > 0.9
    if not isinstance(plain, AutoStreamClassifier):
        for t in range(194):
            plain.partial_fit(X[t : t + 1], y[t : t + 1], classes=["a", "b", "c"])
        assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_a_delay_equals_the_plain_loop(delay):
    X = rows(60)[0]
    y = np.sin(X[:, 0])
    expected, model = np.full(60, np.nan if delay else 0.0), SGDRegressor(random_state=0)
    for t in range(60):
        if t - delay - 1 >= 0:
            model.partial_fit(X[t - delay - 1 : t - delay], y[t - delay - 1 : t - delay])
            expected[t] = model.predict(X[t : t + 1])[0]
    found = progressive(SGDRegressor(random_state=0), X, y, delay=delay, untested=0, progress=False)
    assert_allclose(found.predictions, expected)


def test_baselines_have_the_same_delay_and_rows_before_the_first_label_are_not_tested():
    X, delay = rows(60)[0], 5
    Y = np.column_stack([100.0 + X[:, 0], 10.0 * X[:, 1]])
    baselines = ["last", "mean", "ridge"]
    found = progressive(PKAWV(Gaussian(1.0)), X, Y, delay=delay, baselines=baselines, chunk_size=17, progress=False)
    assert found.untested == delay + 1
    last = Y[: -delay - 1]
    means = np.cumsum(last, axis=0) / np.arange(1, len(last) + 1)[:, None]
    assert_allclose(found.baselines[0].mse, np.mean((last - Y[delay + 1 :]) ** 2, axis=0))
    assert_allclose(found.baselines[1].mse, np.mean((means - Y[delay + 1 :]) ** 2, axis=0))
    ridge, guesses = RefittedRidge(), []
    for t in range(60 - delay - 1):
        ridge.predict_then_learn(X[t : t + 1], Y[t : t + 1])
        guesses.append(copy.deepcopy(ridge).predict_then_learn(X[t + delay + 1 :][:1], np.full((1, 2), np.nan))[0])
    assert_allclose(found.baselines[2].mse, np.mean((np.array(guesses) - Y[delay + 1 :]) ** 2, axis=0))
    assert "labels 5 rows late" in found.summary()
    assert "6 rows before them learned, not tested" in found.summary()
    with pytest.raises(ValueError, match="rows without a test: lower untested or the delay"):
        progressive(PKAWV(Gaussian(1.0)), X[:5], Y[:5], delay=5, progress=False)


def test_delayed_labels_with_missing_outputs_need_a_learner_that_takes_them():
    X = rows(40)[0]
    y = np.where(np.arange(40) % 4, X[:, 0], np.nan)
    found = progressive(SGDRegressor(random_state=0), X, y, delay=3, progress=False)
    assert found.n_skipped == 9  # of the 36 labels that came
    assert found.untested == 5  # the very first label is one of them
    assert np.isfinite(found.mse).all()


def test_a_fitted_model_is_tested_from_the_first_row():
    X = rows(40)[0]
    model = PKAWV(Gaussian(1.0)).fit(X, X[:, 0])
    assert progressive(model, X, X[:, 0], delay=5, progress=False).untested == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("region", ["each", "box", "ellipsoid"])
def test_deployed_intervals_with_delayed_labels_equal_those_of_the_evaluation(method, region):
    X, delay = rows(90)[0], 7
    Y = np.column_stack([np.sin(X[:, 0]), 5.0 * X[:, 1]]) + np.random.default_rng(3).standard_normal((90, 2))
    Y[::4, 1] = np.nan
    method = method.replace(region=region)
    live, waiting, found = DelayedLabels(WithIntervals(PKAWV(Gaussian(1.0)), method), n_outputs=2), [], []
    for t in range(90):
        if len(waiting) > delay:
            live.learn(*waiting.pop(0))
        regions, tickets = live.predict_regions(X[t : t + 1])
        found.append(regions)
        waiting.append((tickets[0], Y[t]))
    result = progressive(PKAWV(Gaussian(1.0)), X, Y, delay=delay, intervals=method.replace(), chunk_size=17)
    expected = result.intervals.regions
    live_ends = np.vstack([regions.upper for regions in found])
    assert_allclose(live_ends, expected.upper, atol=1e-10)
    assert np.isnan(live_ends[: delay + 1]).all()
    assert np.isfinite(live_ends[-20:]).all()
    # Computed by hand: the issued regions are scored, except those of the first rows.
    plain = method.replace()
    for t in range(delay + 1, 90):
        if t - delay - 1 > delay:
            plain.learn(found[t - delay - 1], Y[t - delay - 1], delay)
        assert_allclose(plain.regions(found[t].predictions).upper, found[t].upper)
    seen = np.isfinite(Y[delay + 1 :])
    counts = seen.sum(axis=0) if region == "each" else [seen.any(axis=1).sum()]
    assert_array_equal(result.intervals.tested[-1], counts)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("region", ["each", "box", "ellipsoid"])
@pytest.mark.parametrize("d", [1, 3])
def test_learn_after_each_region_equals_regions_then_learn(method, region, d):
    Y = np.random.default_rng(0).standard_normal((120, d)).round(1)  # many ties
    Y[5::9, 0], F = np.nan, np.zeros((120, d))
    F[40] = np.inf
    together, turns = method.replace(region=region), method.replace(region=region)
    expected = together.regions_then_learn(F, Y)
    found = [turns.learn(turns.regions(F[t : t + 1]), Y[t]) for t in range(120)]
    for name in ("upper", "radius", "covered"):
        assert_allclose(np.vstack([getattr(one, name) for one in found]), getattr(expected, name), rtol=1e-12)


def test_seasons_reject_delayed_labels():
    method = ConformalPID(0.8, season=3)
    with pytest.raises(ValueError, match="season must be None with delayed labels, got 3"):
        method.learn(method.regions(np.zeros((1, 1))), [[1.0]])


# Intervals with a season reject delayed labels.
@pytest.mark.parametrize("name", sorted(set(EVERY) - {"intervals-pid"}))
def test_delayed_labels_continue_a_fitted_model(name):
    X, Y = learner_rows(name, 12, seed=1, gaps=False)
    model = begun(name)
    before = model.predict(X)
    late = DelayedLabels(model)
    predictions, tickets = late.predict(X)
    assert_array_equal(predictions, before)
    late.learn(tickets[:6], Y[:6])
    expected = begun(name)
    if hasattr(expected, "partial_fit_late"):
        # All six were predicted from the same last label.
        expected.partial_fit_late(X[:6], Y[:6], np.array([expected.last_label_] * 6))
    else:
        expected.partial_fit(X[:6], Y[:6])
    assert_array_equal(late.predict(X)[0], expected.predict(X))
    assert_array_equal(model.predict(X), before)


def test_intervals_of_a_fitted_model():
    X = rows(40)[0]
    trained = PKAWV(Gaussian(1.0)).fit(X, X[:, 0])
    model = WithIntervals(trained, 0.8)
    assert_array_equal(model.predict(X), trained.predict(X))
    assert np.isinf(model.predict_regions(X).upper).all()
    model.partial_fit(X, X[:, 0])
    assert_allclose(model.predict(X), copy.deepcopy(trained).partial_fit(X, X[:, 0]).predict(X))


def test_delayed_labels_with_intervals_are_saved_completely(tmp_path):
    X = rows(40)[0]
    learner = DelayedLabels(WithIntervals(PKAWV(Gaussian(1.0)), 0.8), max_pending=12)
    with pytest.raises(TypeError, match=r"got DelayedLabels: .* use DelayedLabels\(WithIntervals\(model\)\)"):
        WithIntervals(DelayedLabels(PKAWV())).partial_fit(X, X[:, 0])
    with pytest.raises(TypeError, match=r"use DelayedLabels\(WithIntervals\(model, 0.9\)\)"):
        DelayedLabels(PKAWV()).predict_regions(X)
    regions, tickets = learner.predict_regions(X[:10])
    assert np.isnan(regions.upper).all()
    learner.learn(tickets[2:6], X[2:6, 0])
    _, more = learner.predict_regions(X[10:30])  # ten expire, the rest of the first ones among them
    assert len(learner.regions_) == len(learner.tickets_) == 12
    ovk.save(learner, tmp_path / "late.ovk")
    again = ovk.load(tmp_path / "late.ovk")
    for one in (learner, again):
        one.learn(more[[19, 12, 15]], X[[29, 22, 25], 0])
    a, b = (one.predict_regions(X[30:])[0] for one in (learner, again))
    assert_array_equal(a.upper, b.upper)
    assert len(learner.model_.intervals_.trackers_[0].scores.recent) == 3


def test_predictions_have_the_shape_of_labels_before_the_first_one():
    X = rows(5)[0]
    assert DelayedLabels(PKAWV(Gaussian(1.0)), n_outputs=2).predict(X)[0].shape == (5, 2)
    assert DelayedLabels(PKAWV(Gaussian(1.0))).predict(X)[0].shape == (5,)


@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("delay", [0, 3, 40])
def test_a_delay_in_time_equals_the_plain_loop(delay, dates):
    """Row t is predicted from the labels of the rows s before it with time_s + delay <= time_t."""
    X = rows(60)[0]
    y, labels = np.sin(X[:, 0]), np.where(X[:, 0] > 0, "up", "down")
    time = np.sort(np.random.default_rng(2).integers(0, 90, 60))  # several rows at once, and gaps
    expected, model, guesses = np.full(60, np.nan), PKAWV(Gaussian(1.0)), []
    classifier, known, last = SGDClassifier(random_state=0), 0, []
    for t in range(60):
        while known < t and time[known] + delay <= time[t]:
            own = slice(known, known + 1)
            model.partial_fit(X[own], y[own])
            classifier.partial_fit(X[own], labels[own], classes=["down", "up"])
            known += 1
        if known:
            expected[t] = model.predict(X[t : t + 1])[0]
        guesses.append(classifier.predict(X[t : t + 1])[0] if known else None)
        last.append(labels[known - 1] if known else None)
    clock = np.datetime64("2026-01-01") + time.astype("timedelta64[h]") if dates else time
    late = timedelta(hours=delay) if dates else delay
    asked = {"delay": late, "time": clock, "chunk_size": 17, "untested": 0}
    found = progressive(PKAWV(Gaussian(1.0)), X, y, **asked, progress=False)
    assert_allclose(found.predictions, expected, atol=1e-10)
    result = progressive(SGDClassifier(random_state=0), X, labels, **asked)
    assert result.predictions.tolist() == guesses
    # Rows before the first label are not counted, and the baselines have the same delay as the model.
    counted = [t for t in range(60) if guesses[t] is not None]
    assert result.model.confusion.sum() == len(counted) < 60
    assert result.baselines[0].accuracy == np.mean([last[t] == labels[t] for t in counted])


def test_invalid_times():
    X = rows(6)[0]
    y = X[:, 0]
    time = np.arange(6.0)
    for clock, delay, message in [
        (time[::-1], 1, "time must not be missing or decrease, got 4.0 after 5.0 in row 1: sort the rows"),
        (np.where(time == 2, np.nan, time), 1, "got nan after 1.0 in row 2"),
        (time[:4], 1, "time must have an entry for each of the 6 rows, got 4"),
        (time, timedelta(1), "delay must be a number >= 0, got"),
        (time, -1, "delay must be"),
        (time.astype("datetime64[D]"), 1, "delay must be a timedelta >= 0"),
        ([["a"] * 6], 1, "time must be one column of numbers or of dates"),
    ]:
        with pytest.raises(ValueError, match=message):
            progressive(PKAWV(Gaussian(1.0)), X, y, delay=delay, time=clock, progress=False)
    pieces = iter([(X[:3], y[:3]), (X[3:], y[3:])])
    with pytest.raises(ValueError, match="time must have an entry for each row, got 4 entries and more rows"):
        progressive(PKAWV(Gaussian(1.0)), pieces, delay=1, time=time[:4], progress=False)


@pytest.mark.parametrize("delay", [0, 2])
def test_weights_reach_the_learner(delay):
    X = rows(40)[0]
    y, w = np.sin(X[:, 0]), np.linspace(0.0, 2.0, 40)
    features = Nystrom(Given(X[:8]))
    model, expected = PKAWV(Gaussian(1.0), features=features), np.zeros(40)
    for t in range(40):
        own = slice(t - delay - 1, t - delay)
        if own.start >= 0:
            model.partial_fit(X[own], y[own], w[own])
            expected[t] = model.predict(X[t : t + 1])[0]
    fresh = PKAWV(Gaussian(1.0), features=features)
    found = progressive(fresh, X, y, delay=delay, sample_weight=w, untested=5, chunk_size=9, progress=False)
    assert_allclose(found.predictions[5:], expected[5:], atol=1e-10)
    assert_allclose(found.mse, np.mean((expected - y)[5:] ** 2))
    labels = np.where(X[:, 0] > 0, "up", "down")
    weighed, plain = PKAWVClassifier(Gaussian(1.0)), PKAWVClassifier(Gaussian(1.0))
    result = progressive(weighed, X, labels, sample_weight=w, chunk_size=9)
    assert_array_equal(result.predictions, plain.predict_then_learn(X, labels, ["down", "up"], w))
    weighed, plain = AutoStreamClassifier(), AutoStreamClassifier()
    result = progressive(weighed, X, labels, sample_weight=w, chunk_size=9)
    # The first row has weight 0, so the classes are unknown until the second row.
    assert_array_equal(result.predictions[1:], plain.predict_then_learn(X[1:], labels[1:], None, w[1:]))
    assert_allclose(weighed.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    late, plain = SGDClassifier(random_state=0), SGDClassifier(random_state=0)
    progressive(late, X, labels, sample_weight=w, delay=2)
    for t in range(1, 37):
        plain.partial_fit(X[t : t + 1], labels[t : t + 1], ["down", "up"], w[t : t + 1])
    assert_allclose(late.decision_function(X), plain.decision_function(X))
    with pytest.raises(ValueError, match="sample_weight must have an entry for each of the 40 rows, got 39"):
        progressive(PKAWV(Gaussian(1.0)), X, y, sample_weight=w[:39], progress=False)
    for other in (SGDRegressor(random_state=0), PKAWV(Gaussian(1.0))):
        progressive(other, X, y, delay=delay, sample_weight=w, progress=False)


def test_delayed_labels_can_have_weights():
    X = rows(20)[0]
    y = np.sin(X[:, 0])
    late, plain = DelayedLabels(PKAWV(Gaussian(1.0))), PKAWV(Gaussian(1.0))
    _, tickets = late.predict(X)
    late.learn(tickets[:10], y[:10], np.full(10, 0.5))
    late.learn(tickets[10], y[10], 3.0)
    plain.partial_fit(X[:11], y[:11], [*[0.5] * 10, 3.0])
    assert_allclose(late.predict(X)[0], plain.predict(X), atol=1e-10)


def test_labels_in_any_order(tmp_path):
    X = rows(40)[0]
    y = np.sin(X[:, 0])
    learner, order = DelayedLabels(PKAWV(Gaussian(1.0))), np.random.default_rng(1).permutation(40)
    first, tickets = learner.predict(X)
    assert np.isnan(first).all()
    for i in order[:30]:
        learner.learn(tickets[i], y[i])
    ovk.save(learner, tmp_path / "late.ovk")
    learner = ovk.load(tmp_path / "late.ovk")
    learner.learn(tickets[order[30:]], y[order[30:]])
    plain = PKAWV(Gaussian(1.0)).fit(X[order], y[order])
    assert_allclose(learner.predict(X[:5])[0], plain.predict(X[:5]), atol=1e-10)
    with pytest.raises(KeyError, match="waits for no label"):
        learner.learn(tickets[3], 1.0)
    with pytest.raises(ValueError, match="tickets and y must have equal lengths"):
        learner.learn([40, 41], [1.0])


def test_tickets_expire():
    learner = DelayedLabels(PKAWVClassifier(Gaussian(1.0)), max_pending=5, classes=["a", "b"])
    _, tickets = learner.predict(np.arange(8.0)[:, None])
    assert learner.n_expired_ == 3
    assert_array_equal(learner.tickets_, tickets[3:])
    with pytest.raises(KeyError, match="max_pending=5"):
        learner.learn(tickets[0], "a")
    learner.learn(tickets[3:5], np.array(["a", "b"]))
    assert learner.predict([[3.0]])[0][0] == "a"
