"""Progressive evaluation of classifiers, and labels that come late."""

from datetime import timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, cohen_kappa_score, roc_auc_score

import ovk
from ovk import PKAWV, AutoStreamClassifier, PKAWVClassifier
from ovk.evaluation import DelayedLabels, progressive, progressive_classes
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian


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
    result = progressive_classes(AutoStreamClassifier(), X, y, chunk_size=100, untested=0)
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
    assert result.model.auc == pytest.approx(area, abs=2e-3)
    assert_array_equal(result.predictions, guesses)
    assert result.rows[-1] <= 400
    assert len(result.model.curve) == len(result.rows)
    for rule in ("no change", "majority", "accuracy", "kappa", "AUC"):
        assert rule in result.summary()


def test_baselines():
    y = np.array(["b", "b", "a", "b", "b"])
    result = progressive_classes(AutoStreamClassifier(), np.zeros((5, 1)), y, untested=0)
    last, majority = result.baselines
    # No change is wrong at the change and back; before the first row the first class is the guess.
    assert last.accuracy == pytest.approx(2 / 5)
    assert majority.accuracy == pytest.approx(3 / 5)


@pytest.mark.parametrize("make", [AutoStreamClassifier, lambda: PKAWVClassifier(Gaussian(1.0)), SGDClassifier])
def test_missing_labels_are_not_counted_and_classes_may_come_late(make):
    X, y = rows()
    y = y.astype(object)
    y[:100] = np.where(y[:100] == "c", "a", y[:100])
    y[::7] = None
    result = progressive_classes(make(), X, y, chunk_size=64)
    assert result.n_missing == len(y[::7])
    assert result.predictions[7] in {"a", "b", "c"}
    assert result.model.confusion.sum() == 400 - result.n_missing
    assert result.model.accuracy > 0.55
    assert set(result.classes) == {"a", "b", "c"}


def test_untested_rows_are_not_counted():
    X, y = rows()
    assert progressive_classes(AutoStreamClassifier(), X, y, untested=150).model.confusion.sum() == 250


def test_a_classifier_in_progressive_is_told_where_to_go():
    X, y = rows(20)
    with pytest.raises(TypeError, match="use progressive_classes"):
        progressive(AutoStreamClassifier(), X, y)
    with pytest.raises(ValueError, match="holds no label"):
        progressive_classes(AutoStreamClassifier(), X, [None] * 20)
    with pytest.raises(TypeError, match="model must be a classifier"):
        progressive_classes(object(), X, y)


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_a_delay_is_the_plain_loop(delay):
    X = rows(60)[0]
    y = np.sin(X[:, 0])
    expected, model = np.zeros(60), SGDRegressor(random_state=0)
    for t in range(60):
        if t - delay - 1 >= 0:
            model.partial_fit(X[t - delay - 1 : t - delay], y[t - delay - 1 : t - delay])
            expected[t] = model.predict(X[t : t + 1])[0]
    found = progressive(SGDRegressor(random_state=0), X, y, delay=delay, untested=0, progress=False)
    assert_allclose(found.predictions, expected)


@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("delay", [0, 3, 40])
def test_a_delay_by_the_clock_is_the_plain_loop(delay, dates):
    """Row t is predicted from the labels of the rows s before it with time_s + delay <= time_t."""
    X = rows(60)[0]
    y, labels = np.sin(X[:, 0]), np.where(X[:, 0] > 0, "up", "down")
    time = np.sort(np.random.default_rng(2).integers(0, 90, 60))  # several rows at once, and gaps
    expected, model, guesses = np.zeros(60), PKAWV(Gaussian(1.0)), []
    classifier, known = SGDClassifier(random_state=0), 0
    for t in range(60):
        while known < t and time[known] + delay <= time[t]:
            own = slice(known, known + 1)
            model.partial_fit(X[own], y[own])
            classifier.partial_fit(X[own], labels[own], classes=["down", "up"])
            known += 1
        expected[t] = model.predict(X[t : t + 1])[0] if known else 0.0
        guesses.append(classifier.predict(X[t : t + 1])[0] if known else "down")
    clock = np.datetime64("2026-01-01") + time.astype("timedelta64[h]") if dates else time
    late = timedelta(hours=delay) if dates else delay
    asked = {"delay": late, "time": clock, "chunk_size": 17, "untested": 0}
    found = progressive(PKAWV(Gaussian(1.0)), X, y, **asked, progress=False)
    assert_allclose(found.predictions, expected, atol=1e-10)
    result = progressive_classes(SGDClassifier(random_state=0), X, labels, **asked)
    assert_array_equal(result.predictions, guesses)


def test_clocks_that_are_refused():
    X = rows(6)[0]
    y = X[:, 0]
    time = np.arange(6.0)
    for clock, delay, message in [
        (time[::-1], 1, "time must not be missing or decrease, but row 1 holds 4.0 after 5.0: sort the rows"),
        (np.where(time == 2, np.nan, time), 1, "row 2 holds nan"),
        (time[:4], 1, "time must have an entry for each of the 6 rows, got 4"),
        (time, timedelta(1), "delay must be a number >= 0, as time holds numbers"),
        (time, -1, "delay must be"),
        (time.astype("datetime64[D]"), 1, "delay must be a timedelta >= 0"),
        ([["a"] * 6], 1, "time must be one column of numbers or of dates"),
    ]:
        with pytest.raises(ValueError, match=message):
            progressive(PKAWV(Gaussian(1.0)), X, y, delay=delay, time=clock, progress=False)
    pieces = iter([(X[:3], y[:3]), (X[3:], y[3:])])
    with pytest.raises(ValueError, match="time must have an entry for each row, but has 4 and more rows come"):
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
    result = progressive_classes(weighed, X, labels, sample_weight=w, chunk_size=9)
    assert_array_equal(result.predictions, plain.predict_then_learn(X, labels, ["down", "up"], w))
    weighed, plain = AutoStreamClassifier(), AutoStreamClassifier()
    result = progressive_classes(weighed, X, labels, sample_weight=w, chunk_size=9)
    # The first row has weight 0: until the second one nothing is known of the classes.
    assert_array_equal(result.predictions[1:], plain.predict_then_learn(X[1:], labels[1:], None, w[1:]))
    assert_allclose(weighed.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match="AutoStreamClassifier cannot take sample_weight here"):
        progressive_classes(AutoStreamClassifier(), X, labels, sample_weight=w, delay=2)
    with pytest.raises(ValueError, match="sample_weight must have an entry for each of the 40 rows, got 39"):
        progressive(PKAWV(Gaussian(1.0)), X, y, sample_weight=w[:39], progress=False)
    for other in (SGDRegressor(random_state=0), PKAWV(Gaussian(1.0))):
        progressive(other, X, y, delay=delay, sample_weight=w, progress=False)


def test_labels_that_come_late_can_have_weights():
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
    with pytest.raises(ValueError, match="every ticket needs one label"):
        learner.learn([40, 41], [1.0])


def test_tickets_expire():
    learner = DelayedLabels(PKAWVClassifier(Gaussian(1.0)), most=5, classes=["a", "b"])
    _, tickets = learner.predict(np.arange(8.0)[:, None])
    assert learner.n_expired_ == 3
    assert_array_equal(learner.tickets_, tickets[3:])
    with pytest.raises(KeyError, match="most=5"):
        learner.learn(tickets[0], "a")
    learner.learn(tickets[3:5], np.array(["a", "b"]))
    assert learner.predict([[3.0]])[0][0] == "a"
