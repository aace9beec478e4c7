"""AutoStream: rows equal chunks, predictions do not change the state, resuming, outliers and missing labels."""

import pickle
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import ovk
from ovk import AutoStream, AutoStreamClassifier
from ovk.online.experts.expert_set import score


def regression(n=700, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.column_stack([50.0 + np.sin(2.0 * X[:, 0]), 1e6 + 1e3 * X[:, 1]]) + 0.1 * rng.standard_normal((n, 2))


def portions(learner, X, Y, sizes, method="predict_then_learn"):
    parts, start, k = [], 0, 0
    while start < len(X):
        stop = start + sizes[k % len(sizes)]
        parts.append(getattr(learner, method)(X[start:stop], Y[start:stop]))
        start, k = stop, k + 1
    return parts


@cache
def whole_with_gaps():
    """A stream with missing labels, and its predictions in one chunk."""
    X, Y = regression(640)  # a little beyond the stage of 600 rows, the first to learn a metric
    Y[::13, 0] = np.nan
    return X, Y, AutoStream().predict_then_learn(X, Y)


@pytest.mark.parametrize("sizes", [[1], [7], [300, 1, 45]])
def test_rows_equal_chunks(sizes):
    X, Y, whole = whole_with_gaps()
    parts = np.concatenate(portions(AutoStream(), X, Y, sizes))
    np.testing.assert_allclose(parts, whole, rtol=1e-8, atol=0)


@pytest.mark.parametrize("labels", [2, 4])
def test_rows_equal_chunks_for_classes(labels):
    X, _ = regression()
    y = (np.digitize(X[:, 0], [-0.5, 0.5]) + (X[:, 1] > 1.5)) % labels
    whole = AutoStreamClassifier().predict_proba_then_learn(X, y)
    parts = portions(AutoStreamClassifier(), X, y, [50, 3], "predict_proba_then_learn")
    wide = np.vstack([np.pad(P, ((0, 0), (0, whole.shape[1] - P.shape[1]))) for P in parts])
    np.testing.assert_allclose(wide, whole, rtol=0, atol=1e-8)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)


def test_prediction_is_pure_and_states_resume():
    X, Y = regression()
    learner = AutoStream().fit(X[:650], Y[:650])
    copy = AutoStream()
    copy.load_state(deepcopy(learner.state()))
    one = learner.predict(X[650:])
    np.testing.assert_array_equal(one, learner.predict(X[650:]))
    Z, other = learner.predict_then_learn(X[650:], Y[650:]), copy.predict_then_learn(X[650:], Y[650:])
    np.testing.assert_allclose(Z, other, rtol=1e-12)
    np.testing.assert_allclose(one[0], Z[0], rtol=1e-9)


def test_outputs_far_from_zero_are_below_the_running_mean():
    _, Y = regression()
    Z = clean_predictions()
    means = np.cumsum(Y, axis=0)[:-1] / np.arange(1, len(Y))[:, None]
    assert (((Z - Y)[200:] ** 2).mean(axis=0) < 0.2 * ((means - Y[1:])[199:] ** 2).mean(axis=0)).all()


@cache
def clean_predictions():
    return AutoStream().predict_then_learn(*regression())


@pytest.mark.long
@pytest.mark.parametrize(("row", "label"), [(400, 1e9), (400, -1e30), (400, 1e300), (450, 1e9)])
def test_one_outlier_has_little_effect(row, label):
    X, Y = regression()
    outliers = Y.copy()
    outliers[row] = label
    found = clean_predictions(), AutoStream().predict_then_learn(X, outliers)
    errors = [np.mean((Z - Y)[501:, 0] ** 2) for Z in found]
    assert errors[1] < 1.05 * errors[0]


def test_unusual_inputs():
    X, Y = regression(300)
    X[:, 2] = 5.0
    X[40, 0], X[41, 1] = np.nan, np.inf
    Z = AutoStream().predict_then_learn(X, Y)
    assert np.isfinite(Z).all()


def test_classes_that_appear_late():
    X, _ = regression(900)
    y = np.where(X[:, 0] > 0, "b", "a").astype(object)
    y[600:][X[600:, 1] > 0] = "c"
    model = AutoStreamClassifier()
    guesses = model.predict_then_learn(X, y)
    assert list(model.classes_) == list(dict.fromkeys(y))
    assert np.mean(guesses[750:] != y[750:]) < 0.15
    assert model.predict_proba(X[:5]).shape == (5, 3)


def test_numbers_do_not_become_text():
    X, _ = regression(40)
    for first, then in (["a", "b"], [3, 4]), ([3, 4], ["a", "b"]):
        model = AutoStreamClassifier().partial_fit(X[:20], 10 * first)
        with pytest.raises(
            ValueError, match=rf"y contains the label {then[0]!r}, and the classes so far are .* as text"
        ):
            model.partial_fit(X[20:22], then)
        model.partial_fit(X[20:22], [None, None])
        model.partial_fit(X[20:23], [first[0], None, first[1]])
        assert model.classes_.tolist() == first


@pytest.mark.parametrize("sticky", [False, True])
def test_a_refit_tests_whether_the_last_label_helps(sticky):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((700, 3)), np.zeros(700, dtype=int)
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 2, (X[:, 2] > 0.0).astype(int))
    if sticky:
        y = np.repeat(y[::5], 5)
    model = AutoStreamClassifier().partial_fit(X[:620], y[:620])
    assert model.mixture_.experts[0].choice.lag == sticky
    by_last = [name for name in model.expert_weights_ if name in ("last label, window 1", "transitions, window 2048")]
    assert len(by_last) == 2
    assert sum(model.expert_weights_[name].sum() for name in by_last) > 0.0 or not sticky
    if not sticky:
        assert all((model.expert_weights_[name] == 0.0).all() for name in by_last)
        other = deepcopy(model)
        # Linear experts with the last label still use it, with weights according to their errors.
        other.mixture_.last = np.roll(other.mixture_.last, 1)
        assert np.abs(model.predict_proba(X[620:]) - other.predict_proba(X[620:])).mean() < 0.02
    np.testing.assert_allclose(sum(model.expert_weights_.values()), 1.0)
    assert (model.effective_window_ >= 1.0).all()


def test_save_then_load_and_clone(tmp_path):
    X, Y = regression(300)
    y = np.where(X[:, 0] > 0, "b", "a")
    for learner, labels in ((AutoStream(lag=False), Y), (AutoStreamClassifier(), y)):
        learner.partial_fit(X[:250], labels[:250])
        ovk.save(learner, tmp_path / "learner.ovk")
        other = ovk.load(tmp_path / "learner.ovk")
        one, two = (model.predict_then_learn(X[250:], labels[250:]) for model in (learner, other))
        if labels is Y:
            np.testing.assert_allclose(one, two, rtol=1e-9)
        else:
            np.testing.assert_array_equal(one, two)
        assert clone(learner).get_params() == learner.get_params()
        assert "mixture_" not in vars(clone(learner))


@pytest.mark.parametrize("rows", [20, 61, 250, 700])
@pytest.mark.parametrize("classes", [False, True])
def test_copies_go_on_bit_by_bit(rows, classes, tmp_path):
    X, Y = regression(rows + 40)
    labels = np.where(X[:, 0] > 0, "b", np.where(X[:, 1] > 0, "c", "a")) if classes else Y
    learner = (AutoStreamClassifier() if classes else AutoStream()).partial_fit(X[:rows], labels[:rows])
    ovk.save(learner, tmp_path / "learner.ovk")
    copies = [pickle.loads(pickle.dumps(learner)), deepcopy(learner), ovk.load(tmp_path / "learner.ovk")]
    method = "predict_proba_then_learn" if classes else "predict_then_learn"
    for some in (slice(rows, rows + 1), slice(rows + 1, rows + 40)):
        expected = getattr(learner, method)(X[some], labels[some])
        for other in copies:
            np.testing.assert_array_equal(getattr(other, method)(X[some], labels[some]), expected)


def test_copies_store_nothing_twice(tmp_path):
    """Only triangles and used rows, and nothing that can be recomputed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 5))
    learner = AutoStream().partial_fit(X, X[:, 0])
    (stage,), (before,) = learner.mixture_.experts, learner.mixture_.previous
    sizes = [len(ridge.B) for ridge in (*stage.ridges, *before.ridges)]
    triangles = sum(size * (size + 1) // 2 for size in sizes)
    rest = sum(2 * size * ridge.count + ridge.count**2 for size, ridge in zip(sizes, stage.ridges, strict=False))
    ovk.save(learner, tmp_path / "learner.ovk")
    for size in (len(pickle.dumps(learner)), (tmp_path / "learner.ovk").stat().st_size):
        assert 8 * triangles < size < 1.1 * 8 * (triangles + rest) + 250_000


def test_one_output_and_classes_known_at_the_start():
    X, Y = regression(100)
    assert AutoStream().partial_fit(X, Y[:, 0]).predict(X[:3]).shape == (3,)
    model = AutoStreamClassifier().partial_fit(X[:1], ["a"], classes=["c", "a", "b"])
    assert list(model.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict_proba(X[:4]).sum(axis=1), 1.0)


def test_bad_arguments_are_refused():
    X, Y = regression(30)
    with pytest.raises(ValueError, match="lag must be True or False"):
        AutoStream(lag=3).fit(X, Y)
    with pytest.raises(ValueError, match="outputs but the model has learned"):
        AutoStream().fit(X, Y).partial_fit(X, Y[:, 0])


def test_an_output_may_be_seen_late():
    X, Y = regression(260)
    Y[:150, 1] = np.nan
    Z = AutoStream().predict_then_learn(X, Y)
    assert np.isfinite(Z).all()
    assert np.mean((Z - Y)[220:, 1] ** 2) < np.nanvar(Y[:, 1])


@pytest.mark.parametrize("row", [0, 10, 25])
@pytest.mark.parametrize("label", [1e9, -1e300])
def test_an_outlier_among_the_first_rows(row, label):
    X, Y = regression(300)
    outliers = Y[:, 0].copy()
    outliers[row] = label
    Z = AutoStream().predict_then_learn(X, outliers)
    assert np.mean((Z - Y[:, 0])[200:] ** 2) < 0.2 * np.var(Y[:, 0])


def weights(n, seed=4):
    """A third are 0, the others from a tenth to ten."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 1 / 3, 0.0, np.exp(rng.uniform(-2.3, 2.3, n)))


def test_rows_of_weight_0_leave_no_trace():
    X, Y = regression(320)
    Y[::13, 0] = np.nan
    w = weights(len(X))
    model, without = AutoStream(), AutoStream()
    Z = model.predict_then_learn(X, Y, w)
    counts = w > 0
    np.testing.assert_allclose(without.predict_then_learn(X[counts], Y[counts], w[counts]), Z[counts], rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), without.predict(X), rtol=1e-8)
    assert model.mixture_.count == counts.sum()
    np.testing.assert_array_equal(model.mixture_.recent.weights, w[counts])
    # Each equals the result of `predict` at its position.
    again = AutoStream()
    for i in range(120):
        if w[i] == 0 and i > 0:
            np.testing.assert_allclose(again.predict(X[i : i + 1])[0], Z[i], rtol=1e-8)
        again.partial_fit(X[i : i + 1], Y[i : i + 1], w[i : i + 1])
    np.testing.assert_array_equal(again.mixture_.last, Y[:120][counts[:120]][-1])


@pytest.mark.parametrize("model", [AutoStream(), AutoStreamClassifier()], ids=repr)
def test_weighted_rows_equal_chunks_and_ones_change_nothing(model):
    X, Y = regression(260)
    y = Y[:, 0] if isinstance(model, AutoStream) else np.digitize(X[:, 0], [-0.5, 0.5])
    w = weights(len(X))
    w[0] = 1.0
    whole = clone(model).predict_then_learn(X, y, sample_weight=w)
    learner, parts = clone(model), []
    for start in range(0, len(X), 7):
        rows = slice(start, start + 7)
        parts.append(learner.predict_then_learn(X[rows], y[rows], sample_weight=w[rows]))
    if isinstance(model, AutoStream):
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-8)
        ones = clone(model).predict_then_learn(X, y, sample_weight=np.ones(len(X)))
        np.testing.assert_allclose(ones, clone(model).predict_then_learn(X, y), rtol=1e-8)
    else:
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_the_learner_follows_the_larger_weights():
    """Rows alternate between two functions of the same inputs; the learner follows the one with larger weights."""
    X, _ = regression(900)
    which = np.arange(len(X)) % 2
    y = np.where(which, X[:, 0], -X[:, 0])
    for heavy in (0, 1):
        w = np.where(which == heavy, 20.0, 1.0)
        Z = AutoStream(lag=False).predict_then_learn(X, y, w)[450:]
        target = X[450:, 0] if heavy else -X[450:, 0]
        assert np.corrcoef(Z, target)[0, 1] > 0.9
        guesses = AutoStreamClassifier(lag=False).predict_then_learn(X, y > 0, sample_weight=w)[450:]
        assert np.mean(guesses == (target > 0)) > 0.85


def test_a_class_appears_with_its_first_row_that_counts():
    X, _ = regression(60)
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[30], w = "c", np.ones(60)
    w[30] = 0.0
    assert sorted(AutoStreamClassifier().partial_fit(X, y, sample_weight=w).classes_) == ["a", "b"]
    with pytest.raises(ValueError, match="y contains no label in the first call"):
        AutoStreamClassifier().partial_fit(X, y, sample_weight=0.0 * w)


def test_candidates_are_compared_by_weighted_progressive_errors():
    """The score of weighted rows, one system for each row."""
    rng = np.random.default_rng(0)
    U, Y, w = rng.standard_normal((40, 2)), rng.standard_normal((40, 2)), np.exp(rng.uniform(-3.0, 3.0, 40))
    Y[30] *= 50.0  # an outlier: squared errors are at most 25
    K, alpha = 1.0 + U @ U.T, 0.3
    expected = [
        np.minimum((Y[i] - K[i, :i] @ np.linalg.solve(K[:i, :i] + alpha * np.diag(1 / w[:i]), Y[:i])) ** 2, 25.0)
        for i in range(20, 40)
    ]
    found = score(K, Y, alpha, w, classes=False)
    np.testing.assert_allclose(found, np.average(np.mean(expected, axis=1), weights=w[20:]), rtol=1e-9)


def test_the_error_message_explains_how_to_get_intervals():
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = AutoStream().partial_fit(X, X[:, 0])
    assert not hasattr(model, "predict_interval")
    with pytest.raises(AttributeError, match=r"use WithIntervals\(AutoStream\(\), 0.9\)"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match=r"return_std must be False.*use WithIntervals\(AutoStream\(\), 0.9\)"):
        model.predict(X, return_std=True)


@pytest.mark.parametrize("weight", [1e10, 1e14])
def test_weights_of_any_size(weight):
    X, Y = regression(260)
    Z = AutoStream().predict_then_learn(X, Y, np.full(len(X), weight))
    assert np.mean((Z - Y)[200:, 0] ** 2) < np.var(Y[:, 0])
    one = np.ones(len(X))
    one[100] = weight
    classifier = AutoStreamClassifier().partial_fit(X, X[:, 0] > 0, sample_weight=one)
    assert np.isfinite(classifier.predict_proba(X)).all()
