"""Online classifiers with missing labels, and probabilities before a row is learned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ovk import AutoStreamClassifier, OLOKClassifier, PKAWVClassifier
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian
from ovk.objectives.calibration import Calibration

CLASSES = ["a", "b", "c"]
POINTS = np.random.default_rng(1).standard_normal((30, 2))
CODED = {
    "pkawv": lambda: PKAWVClassifier(Gaussian(1.0), features=Nystrom(Given(POINTS))),
    "olok": lambda: OLOKClassifier(Gaussian(1.0), truncation=50),
    "olok one against the rest": lambda: OLOKClassifier(Gaussian(1.0), loss="logistic"),
}
ALL = {**CODED, "auto": AutoStreamClassifier}


def rows(n=240, k=3):
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.array(CLASSES, dtype=object)[np.where(X[:, 1] > 0.7, k - 1, (X[:, 0] > 0).astype(int))]
    return X, y


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", CODED)
def test_a_row_without_a_label_is_predicted_and_not_learned(name, k):
    X, y = rows(k=k)
    missing = np.arange(len(y)) % 3 == 1
    holes = np.where(missing, None, y)
    ours, plain = CODED[name](), CODED[name]()
    P = ours.predict_proba_then_learn(X, holes, CLASSES[:k])
    Q = plain.predict_proba_then_learn(X[~missing], y[~missing], CLASSES[:k])
    assert_allclose(P[~missing], Q, atol=1e-9)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1.0)
    assert_allclose(ours.decision_function(X), plain.decision_function(X), atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(0, 60), max_size=8), gap=st.integers(2, 5), name=st.sampled_from(sorted(ALL)))
def test_rows_equal_chunks_with_gaps(sizes, gap, name):
    X, y = rows()
    y = np.where(np.arange(len(y)) % gap == 1, None, y)
    whole = ALL[name]().predict_proba_then_learn(X, y, CLASSES)
    learner, parts, start = ALL[name](), [], 0
    for size in [1, *sizes, len(X)]:
        part = slice(start, start + size)
        if size and len(X[part]):
            parts.append(learner.predict_proba_then_learn(X[part], y[part], CLASSES if start == 0 else None))
        start += size
    assert_allclose(np.vstack(parts), whole, atol=1e-8)


def test_scores_become_probabilities_by_the_labels_up_to_the_last_power_of_two():
    X, y = rows(100)
    P = CODED["pkawv"]().predict_proba_then_learn(X, y, CLASSES)
    Z = CODED["pkawv"]()
    Z.partial_fit(X[:64], y[:64], CLASSES)
    scores = Z.decision_function(X[64:65])
    assert_allclose(Calibration(*Z.calibration_).probabilities(scores), P[64:65], rtol=0.2, atol=0.1)
    found = Z.counts_.calibration()
    assert_allclose(Z.calibration_, (found.slope, found.offset))
    Z.partial_fit(X[64:100], y[64:100])
    assert_allclose(Z.calibration_, (found.slope, found.offset))


@pytest.mark.long
@pytest.mark.parametrize("hole", [None, np.nan])
def test_gaps_cost_the_learner_without_settings_little(hole):
    X, y = rows(900)
    missing = np.arange(len(y)) % 2 == 1
    learner = AutoStreamClassifier()
    guesses = learner.predict_then_learn(X, np.where(missing, hole, y))
    assert (guesses == y)[450:].mean() > 0.85
    assert set(learner.classes_) == set(CLASSES)


def test_labels_that_are_numbers_and_a_first_call_without_any():
    X = rows(60)[0]
    y = np.where(np.arange(60) % 4 == 1, np.nan, X[:, 0] > 0)
    assert_array_equal(np.sort(AutoStreamClassifier().fit(X, y).classes_), [0.0, 1.0])
    with pytest.raises(ValueError, match="y contains no label in the first call"):
        AutoStreamClassifier().partial_fit(X, np.full(60, np.nan))
    learner = AutoStreamClassifier().partial_fit(X, np.full(60, np.nan), classes=[0, 1])
    assert learner.predict_proba(X[:1]).shape == (1, 2)
    with pytest.raises(ValueError, match="infinity"):
        learner.partial_fit(X, np.full(60, np.inf))
