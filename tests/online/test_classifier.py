"""Online classifiers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import OLOK, OLOKClassifier, PKAWVClassifier, load, save
from ovk.evaluation import progressive
from ovk.kernels import Gaussian
from ovk.objectives import SimplexHinge, simplex_code


@parametrize_with_checks([OLOKClassifier(), OLOKClassifier(loss="logistic", truncation=50)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def three_classes(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0])
    return X, np.array(["a", "b", "c"])[np.digitize(angle, [-1.0, 1.0])]


def model(**options):
    return OLOKClassifier(Gaussian(0.7), alpha=1e-4, schedule=1.0, **options)


def test_two_classes_are_signs_of_one_output():
    X, y = three_classes()
    y = np.where(y == "a", "a", "other")
    ours = model().fit(X, y)
    plain = OLOK(Gaussian(0.7), alpha=1e-4, schedule=1.0, loss="hinge").fit(X, np.where(y == "a", -1.0, 1.0))
    np.testing.assert_allclose(ours.decision_function(X), plain.predict(X))
    assert ours.score(X, y) > 0.9


def test_three_classes_are_corners_of_a_triangle():
    X, y = three_classes()
    fitted = model(loss=SimplexHinge()).fit(X, y)
    assert fitted.score(X, y) > 0.9
    scores = fitted.decision_function(X)
    assert scores.shape == (len(X), 3)
    np.testing.assert_allclose(scores, fitted.learner_.predict(X) @ simplex_code(3).T)
    assert_array_equal(fitted.predict(X), fitted.classes_[scores.argmax(axis=1)])


@pytest.mark.parametrize("loss", [None, "hinge", "logistic"])
def test_losses_of_signs_set_one_class_against_the_rest(loss):
    X, y = three_classes()
    fitted = model(loss=loss).fit(X, y)
    assert fitted.score(X, y) > 0.9
    plain = OLOK(Gaussian(0.7), alpha=1e-4, schedule=1.0, loss=loss or "hinge")
    plain.fit(X, np.where(y[:, None] == fitted.classes_, 1.0, -1.0))
    np.testing.assert_allclose(fitted.decision_function(X), plain.predict(X))


def test_one_against_the_rest_learns_many_classes_faster():
    rng = np.random.default_rng(0)
    centres, y = 1.5 * rng.standard_normal((12, 4)), rng.integers(0, 12, 1500)
    X = centres[y] + rng.standard_normal((1500, 4))
    known = np.arange(12)
    right = [
        np.mean(OLOKClassifier(loss=loss).predict_then_learn(X, y, classes=known) == y)
        for loss in (None, SimplexHinge())
    ]
    assert right[0] > right[1] + 0.05


def test_rows_equal_chunks_and_progressive_labels_come_before_learning():
    X, y = three_classes(300)
    whole = model().predict_then_learn(X, y, classes=["a", "b", "c"])
    parts, learner = [], model()
    for start in range(0, 300, 70):
        rows = slice(start, start + 70)
        parts.append(learner.predict_then_learn(X[rows], y[rows], classes=["a", "b", "c"]))
    assert_array_equal(whole, np.concatenate(parts))
    one = model()
    for i in range(40):
        assert one.predict_then_learn(X[i : i + 1], y[i : i + 1], classes=["a", "b", "c"])[0] == whole[i]


def test_save_load_and_resume(tmp_path):
    X, y = three_classes(400)
    first = model().partial_fit(X[:200], y[:200], classes=["a", "b", "c"])
    save(first, tmp_path / "m.ovk")
    again = load(tmp_path / "m.ovk")
    first.partial_fit(X[200:], y[200:])
    again.partial_fit(X[200:], y[200:])
    assert_array_equal(first.decision_function(X), again.decision_function(X))


def test_a_failed_first_call_leaves_the_model_new():
    X, y = three_classes(30)
    fresh = model()
    with pytest.raises(ValueError, match="'z'"):
        fresh.partial_fit(X[:1], ["z"], classes=["a", "b", "c"])
    assert not hasattr(fresh, "n_features_in_")
    assert not hasattr(fresh, "classes_")
    fresh.partial_fit(X[:, :1], y, classes=["a", "b", "c"])


def test_messages():
    X, y = three_classes(30)
    with pytest.raises(ValueError, match="classes must name all labels"):
        model().partial_fit(X, y)
    with pytest.raises(ValueError, match="at least 2 labels"):
        model().partial_fit(X, y, classes=["a"])
    begun = model().partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="those of the first call"):
        begun.partial_fit(X, y, classes=["a", "z"])
    with pytest.raises(ValueError, match="'z', which is not one of the classes"):
        begun.partial_fit(X[:1], ["z"])
    before = begun.decision_function(X)
    with pytest.raises(ValueError):
        begun.partial_fit(X[:, :1], y)
    assert_array_equal(begun.decision_function(X), before)


def test_probabilities_come_from_scores_made_before_learning_and_do_not_depend_on_chunks(tmp_path):
    X, y = three_classes(400)
    for fresh in (model, lambda: OLOKClassifier(Gaussian(0.5), schedule=1.0)):
        whole, parts = fresh().fit(X, y), fresh()
        for start in range(0, 400, 130):
            parts.partial_fit(X[start : start + 130], y[start : start + 130], classes=["a", "b", "c"])
        P = whole.predict_proba(X)
        assert_allclose(P, parts.predict_proba(X), atol=1e-8)
        assert_allclose(P.sum(axis=1), 1.0)
        assert_array_equal(whole.classes_[P.argmax(axis=1)], whole.predict(X))
        save(whole, tmp_path / "m.ovk")
        assert_allclose(load(tmp_path / "m.ovk").predict_proba(X), P)
    binary = model().fit(X, np.where(y == "a", "a", "b"))
    assert_array_equal(binary.classes_[binary.predict_proba(X).argmax(axis=1)], binary.predict(X))


@pytest.mark.parametrize("labels", [["a", "b"], [0, 1, 2], [False, True]], ids=str)
@pytest.mark.parametrize("kind", [OLOKClassifier, PKAWVClassifier])
def test_a_row_that_is_skipped_has_no_label(kind, labels):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = np.array(labels)[rng.integers(0, len(labels), 60)]
    holes = X.copy()
    holes[[3, 40], 1] = np.nan, np.inf
    fine = np.delete(np.arange(60), [3, 40])
    model = kind(Gaussian(1.0), on_invalid="skip")
    found = model.predict_then_learn(holes, y, labels)
    assert found[3] is None
    assert found[40] is None
    expected = kind(Gaussian(1.0)).predict_then_learn(X[fine], y[fine], labels)
    assert found[fine].tolist() == expected.tolist()
    assert model.learner_.n_skipped_ == 2
    # Without skipped rows, labels have the type of the classes.
    assert model.predict_then_learn(X, y).dtype == np.asarray(labels).dtype
    assert np.isnan(model.predict_proba_then_learn(holes, y)[[3, 40]]).all()


def test_rows_that_are_skipped_do_not_count_in_the_evaluation():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = np.where(X[:, 0] > 0, "a", "b")
    X[::10] = np.nan
    result = progressive(OLOKClassifier(Gaussian(1.0), on_invalid="skip"), X, y)
    assert all(label is None for label in result.predictions[::10])
    assert result.model.confusion.sum() == 180
