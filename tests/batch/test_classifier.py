"""Kernel ridge classification: labels of every kind, gaps, several columns, weights, probabilities."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import ovk
from ovk import MovKLClassifier, MultiTaskSVC, OVKClassifier, OVKClassifierCV, OVKRidge
from ovk.kernels import Gaussian
from ovk.objectives.calibration import Calibration, MultinomialCalibration, ScoreCounts, two_sided
from ovk.operators import MixedEffect

RNG = np.random.default_rng(0)


def three_classes(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    F = 3 * np.column_stack([X[:, 0], X[:, 1], -X.sum(axis=1)])
    P = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
    return X, (rng.uniform(size=(n, 1)) > P.cumsum(axis=1)).sum(axis=1), P


X, NUMBERS, _ = three_classes(120, RNG)
NEW, _, _ = three_classes(50, RNG)


@pytest.mark.parametrize("kind", ["int", "float", "str", "bool", "object"])
def test_labels_of_every_kind_come_back_as_they_were(kind):
    y = {
        "int": NUMBERS * 10,
        "float": NUMBERS * 10.0,
        "str": np.array(["a", "bb", "c"])[NUMBERS],
        "bool": NUMBERS == 1,
        "object": np.array(["a", "bb", "c"], dtype=object)[NUMBERS],
    }[kind]
    model = OVKClassifier(Gaussian(1.0), 0.1).fit(X, y)
    found = model.predict(X)
    assert set(found.tolist()) <= set(y.tolist())
    assert found.dtype.kind in (y.dtype.kind, "U")
    assert model.score(X, y) > 0.6
    assert_array_equal(model.classes_[model.predict_proba(NEW).argmax(axis=1)], model.predict(NEW))


def test_missing_labels_have_no_effect_and_uncoupled_columns_are_independent():
    first, second = np.array(["no", "yes"], dtype=object)[NUMBERS % 2], NUMBERS.astype(object)
    gaps = np.column_stack([first, second])
    gaps[::4, 0], gaps[1::4, 1] = None, np.nan
    both = OVKClassifier(Gaussian(1.0), 0.1).fit(X, gaps)
    assert both.predict(NEW).shape == (50, 2)
    for q in range(2):
        seen = np.array([one is not None and one == one for one in gaps[:, q]])
        alone = OVKClassifier(Gaussian(1.0), 0.1).fit(X, gaps[:, q])
        known = OVKClassifier(Gaussian(1.0), 0.1).fit(X[seen], gaps[seen, q])
        assert_array_equal(alone.predict(NEW), known.predict(NEW))
        assert_allclose(both.decision_function(NEW)[q], known.decision_function(NEW), atol=1e-6)
        assert_allclose(both.predict_proba(NEW)[q], known.predict_proba(NEW), atol=1e-6)


def test_coupled_columns_fill_each_other_in():
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    seen = np.column_stack([y, np.where(np.arange(120) < 6, y, np.nan)])
    new = np.where(NEW[:, 0] > 0, 1.0, -1.0)
    together, apart = (OVKClassifier(Gaussian(1.0) * MixedEffect(w), 0.1).fit(X, seen) for w in (0.9, 0.0))
    assert (together.predict(NEW)[:, 1] == new).mean() > (apart.predict(NEW)[:, 1] == new).mean()


def test_class_weights_are_sample_weights_and_balanced_finds_the_rare_class():
    y = (X[:, 0] > 0.7).astype(int)
    weighted = OVKClassifier(Gaussian(1.0), 1.0, class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    by_rows = OVKClassifier(Gaussian(1.0), 1.0).fit(X, y, np.where(y == 1, 5.0, 1.0))
    assert_allclose(weighted.predict_proba(NEW), by_rows.predict_proba(NEW), atol=1e-10)
    plain, balanced = (OVKClassifier(Gaussian(1.0), 10.0, class_weight=w).fit(X, y) for w in (None, "balanced"))
    assert balanced.predict(X).sum() > plain.predict(X).sum()
    with pytest.raises(ValueError, match="class_weight must be"):
        OVKClassifier(class_weight="even").fit(X, y)


def test_class_weights_of_several_columns_are_multiplied():
    y = (X > [0.7, 0.5]).astype(int)
    each = [{0: 1.0, 1: 5.0}, {0: 1.0, 1: 3.0}]
    weighted = OVKClassifier(Gaussian(1.0), 1.0, class_weight=each).fit(X, y)
    by_rows = OVKClassifier(Gaussian(1.0), 1.0).fit(X, y, np.where(y == 1, [5.0, 3.0], 1.0).prod(axis=1))
    assert_allclose(weighted.predict_proba(NEW), by_rows.predict_proba(NEW), atol=1e-10)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_the_labels(classes):
    rng = np.random.default_rng(3)
    X, y, _ = three_classes(400, rng)
    new, _, P_new = three_classes(2000, rng)
    if classes == 2:
        y, P_new = (y == 1).astype(int), np.column_stack([1 - P_new[:, 1], P_new[:, 1]])
    model = OVKClassifierCV(Gaussian(1.0)).fit(X, y)
    found = model.predict_proba(new)
    assert_allclose(found.sum(axis=1), 1.0)
    assert np.abs(found - P_new).mean() < 0.06
    # Calibration: mean outcome in ten bins of the predicted probability.
    said, truth = found.ravel(), P_new.ravel()
    order = np.array_split(np.argsort(said), 10)
    assert max(abs(said[part].mean() - truth[part].mean()) for part in order) < 0.1


def test_loo_scores_are_those_of_refits():
    y = (NUMBERS == 1).astype(int)
    model = OVKClassifier(Gaussian(1.0), 0.1).fit(X, y)
    left_out = 2.0 * y - 1 - model.model_.loo_residuals()[:, 0]
    for i in (0, 7):
        keep = np.arange(120) != i
        again = OVKClassifier(Gaussian(1.0), 0.1).fit(X[keep], y[keep])
        assert_allclose(again.model_.predict(X[i : i + 1])[0], left_out[i], atol=1e-8)


def test_the_scores_are_ridge_regression_of_codes_and_a_given_kernel_matrix_works():
    model = OVKClassifier(Gaussian(1.0), 0.3).fit(X, NUMBERS)
    codes = 2.0 * np.eye(3)[NUMBERS] - 1.0
    assert_allclose(model.model_.predict(NEW), OVKRidge(Gaussian(1.0), 0.3).fit(X, codes).predict(NEW), atol=1e-10)
    k = Gaussian(1.0)
    given = OVKClassifier("precomputed", 0.3).fit(k(X), NUMBERS)
    assert_allclose(given.predict_proba(k(NEW, X)), model.predict_proba(NEW), atol=1e-6)


def test_saved_models_predict_the_same(tmp_path):
    y = np.array(["a", "bb", "c"])[NUMBERS]
    for model in (OVKClassifier(Gaussian(1.0), 0.1), OVKClassifierCV(Gaussian(1.0))):
        model.fit(X, y)
        ovk.save(model, tmp_path / "m.ovk")
        again = ovk.load(tmp_path / "m.ovk")
        assert_array_equal(again.predict(NEW), model.predict(NEW))
        assert_allclose(again.predict_proba(NEW), model.predict_proba(NEW), atol=1e-9)


def test_bad_labels_raise_and_do_not_change_the_model():
    model = OVKClassifier(Gaussian(1.0), 0.1).fit(X, NUMBERS)
    before = model.predict_proba(NEW)
    for y, message in (
        (np.zeros(120), "at least 2 classes"),
        (X[:, 0], "Unknown label type"),
        (np.array(["a", 1] * 60, dtype=object), "have one type"),
        (NUMBERS[:-1], "inconsistent numbers of samples"),
        (np.zeros((120, 0)), "must have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
        assert_allclose(model.predict_proba(NEW), before)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.sampled_from([1e-3, 1.0, 1e3]))
def test_calibration_does_not_mind_the_units_of_scores_and_keeps_their_order(seed, factor):
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((60, 3))
    labels = np.where(rng.uniform(size=60) < 0.7, S.argmax(axis=1), rng.integers(0, 3, 60))
    P = Calibration.fit(S, labels).probabilities(S)
    assert_allclose(Calibration.fit(factor * S, labels).probabilities(factor * S), P, atol=1e-5)
    assert_array_equal(P.argmax(axis=1), S.argmax(axis=1))
    assert_allclose(P.sum(axis=1), 1.0)


@pytest.mark.parametrize(("rare", "weighted"), [(0.5, False), (0.05, False), (0.9, True)])
def test_calibration_is_the_maximum_of_the_likelihood_with_smoothed_counts(rare, weighted):
    """Platt's targets of N+ right and N- wrong labels are (N+ + 1) / (N+ + 2) and 1 / (N- + 2)."""
    rng = np.random.default_rng(2)
    s = rng.standard_normal(80)
    weight = rng.integers(0, 4, 80).astype(float) if weighted else np.ones(80)
    right = weight * (rng.uniform(size=80) < rare * (1 + np.tanh(s)))
    found = Calibration.from_counts(s, right, weight - right)
    high, low = (right.sum() + 1) / (right.sum() + 2), 1 / ((weight - right).sum() + 2)
    assert found.slope > 0.1
    # The mean target and the mean target times the score are those of the probabilities.
    missed = weight / (1 + np.exp(-(found.slope * s + found.offset))) - high * right - low * (weight - right)
    assert_allclose([missed.sum(), missed @ s], 0.0, atol=1e-6)


def test_calibration_of_separated_and_of_useless_scores_stays_finite():
    s = np.linspace(-1, 1, 40)
    sure = Calibration.fit(two_sided(s), (s > 0).astype(int)).probabilities(two_sided(s))
    assert np.isfinite(sure).all()
    assert sure[-1, 1] > 0.9
    against = Calibration.fit(two_sided(s), (s < 0).astype(int)).probabilities(two_sided(s))
    assert_array_equal(against.argmax(axis=1), (s > 0).astype(int))


@pytest.mark.parametrize("weighted", [False, True])
def test_multinomial_calibration_is_the_maximum_of_the_penalised_likelihood(weighted):
    rng = np.random.default_rng(1)
    S = np.clip(rng.standard_normal((200, 3)), -1.3, 1.3)
    labels = np.where(rng.uniform(size=200) < 0.6, S.argmax(axis=1), rng.choice(3, 200, p=[0.1, 0.2, 0.7]))
    weight = rng.integers(1, 4, 200).astype(float) if weighted else None
    found = MultinomialCalibration.fit(S, labels, weight)
    centred = S - np.average(S, axis=0, weights=weight)
    unit = np.sqrt(np.average(centred**2, axis=0, weights=weight).mean())

    def loss(theta):
        logits = theta[0] * S + theta[1] * np.log(np.clip((1 + S) / 2, 0.01, 0.99)) + theta[2:]
        logs = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))[np.arange(200), labels]
        penalty = 0.005 * ((theta[0] * unit) ** 2 + theta[1] ** 2) + 0.25 * (theta[2:] ** 2).sum()
        return penalty - logs @ (np.ones(200) if weight is None else weight)

    theta = np.concatenate([found.slopes, found.offsets])
    assert theta[:2].min() >= 0
    assert theta[:2].max() > 0
    assert found.offsets[2] > found.offsets[0]
    for q, direction in enumerate(1e-3 * np.eye(5)):
        assert loss(theta + direction) > loss(theta)
        # Slopes may lie at their bound 0.
        assert loss(theta - direction) > loss(theta) or (q < 2 and theta[q] == 0)
    repeated = np.arange(200).repeat(1 if weight is None else weight.astype(int))
    again = MultinomialCalibration.fit(S[repeated], labels[repeated])
    assert np.abs(again.log_probabilities(S) - found.log_probabilities(S)).max() < 1e-8


def test_misleading_scores_give_the_frequencies_of_the_classes():
    s = np.linspace(-1, 1, 60)
    found = MultinomialCalibration.fit(two_sided(s), (s < 0).astype(int))
    assert_array_equal(found.slopes, 0.0)
    assert_allclose(np.exp(found.log_probabilities(two_sided(s))), 0.5, atol=1e-6)


def test_the_choosing_classifier_reads_words_gaps_and_groups():
    rng = np.random.default_rng(0)
    colour, x = rng.choice(["red", "blue"], 150), rng.standard_normal(150)
    y = np.where((colour == "red") == (x > 0), "in", "out")
    x[:5] = np.nan
    frame = pd.DataFrame({"colour": colour, "x": x})
    model = OVKClassifierCV().fit(frame[:100], y[:100])
    assert model.score(frame[100:], y[100:]) > 0.9
    site = np.arange(100) // 5
    grouped = OVKClassifierCV().fit(frame[:100], y[:100], groups=site)
    left_out = grouped.labels_.codes(grouped.label_numbers_) - grouped.model_.loo_residuals(site)
    expected = MultinomialCalibration.fit(two_sided(left_out[:, 0]), grouped.label_numbers_[:, 0])
    assert_allclose(grouped.calibrations_[0][1], expected.offsets)
    with pytest.raises(ValueError, match="groups"):
        OVKClassifierCV(Gaussian(1.0)).fit(np.nan_to_num(x)[:100, None], y[:100], groups=site)


def test_counts_along_a_stream_add_up_and_find_the_same_probabilities():
    rng = np.random.default_rng(0)
    S = two_sided(2 * rng.standard_normal(3000))
    labels = (rng.uniform(size=3000) < 1 / (1 + np.exp(-1.5 * S[:, 1]))).astype(int)
    whole, parts = ScoreCounts.empty(), ScoreCounts.empty()
    whole.add(S, labels)
    for start in range(0, 3000, 700):
        parts.add(S[start : start + 700], labels[start : start + 700])
    assert_allclose(parts.sums, whole.sums)
    exact = Calibration.fit(S, labels).probabilities(S)
    assert np.abs(parts.calibration().probabilities(S) - exact).max() < 0.02


def test_probabilities_of_curves_of_labels():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 12)
    X = rng.uniform(0, 1, (60, 1))
    labels = np.where(t > X + 0.1 * rng.standard_normal((60, 12)), "moving", "still")
    model = MovKLClassifier(alpha=0.01, grid=t).fit(X[:40], labels[:40])
    P = model.predict_proba(X[40:])
    assert P.shape == (20, 12, 2)
    assert_array_equal(model.classes_[P.argmax(axis=2)], model.predict(X[40:]))
    said = P[:, :, 1]
    truth = labels[40:] == model.classes_[1]
    assert -np.log(np.where(truth, said, 1 - said)).mean() < 0.5


@pytest.mark.parametrize("kind", ["curves", "classes", "sets"])
def test_probabilities_by_many_kernels_from_weights_are_those_from_repeated_rows(kind):
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 6)
    rows, weight = rng.uniform(0, 1, (30, 1)), rng.integers(0, 4, 30)
    noisy = rows + 0.3 * rng.standard_normal((30, 6))
    y = {
        "curves": (t > noisy).astype(int),
        "classes": np.digitize(noisy[:, 0], [0.3, 0.6]),
        "sets": [{name for name, value in zip("abc", row, strict=False) if value > 0.5} for row in noisy],
    }[kind]
    model = MovKLClassifier(alpha=0.1, grid=t if kind == "curves" else None, tol=1e-10)
    weighted = clone(model).fit(rows, y, sample_weight=weight).predict_proba(rows)
    each = np.arange(30).repeat(weight)
    labels = [y[i] for i in each] if kind == "sets" else y[each]
    repeated = clone(model).fit(rows[each], labels).predict_proba(rows)
    assert_allclose(weighted, repeated, rtol=1e-5)
    assert np.abs(weighted - clone(model).fit(rows, y).predict_proba(rows)).max() > 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([OVKClassifier(), OVKClassifierCV(alphas=[0.1, 1.0], kernel=Gaussian())])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [OVKClassifier(Gaussian(1.0)), MultiTaskSVC(Gaussian(1.0)), MovKLClassifier(alpha=0.1)],
    ids=lambda model: type(model).__name__,
)
def test_the_score_is_the_share_of_right_labels_by_the_weights_of_their_rows(model):
    Y = np.column_stack([NUMBERS, 2 - NUMBERS]) % 2
    weight = np.linspace(0.1, 2.0, len(X))
    gaps = Y.astype(np.float64)
    gaps[::3, 1] = np.nan
    right = np.asarray(model.fit(X, Y).predict(X)) == Y
    seen = ~np.isnan(gaps)
    expected = (weight[:, None] * (right & seen)).sum() / (weight[:, None] * seen).sum()
    assert_allclose(model.score(X, gaps, weight), expected, rtol=1e-12)
    assert 0.5 < expected < 1.0
    with pytest.raises(ValueError, match="y must have the shape of the prediction"):
        model.score(X, gaps[:, :1])
