"""Progressive evaluation of classifiers, and labels that come late."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, cohen_kappa_score, roc_auc_score

import ovk
from ovk import PKAWV, AutoStreamClassifier, PKAWVClassifier
from ovk.evaluation import DelayedLabels, progressive, progressive_classes
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
    result = progressive_classes(AutoStreamClassifier(), X, y, chunk_size=100)
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
    result = progressive_classes(AutoStreamClassifier(), np.zeros((5, 1)), y)
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
    found = progressive(SGDRegressor(random_state=0), X, y, delay=delay, progress=False)
    assert_allclose(found.predictions, expected)


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
