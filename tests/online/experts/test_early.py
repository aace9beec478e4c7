"""The first 200 labels: an early mixture, and probabilities as certain as the labels suggest."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import AutoStream, AutoStreamClassifier, progressive
from ovk.online.experts.tempering import EXPONENTS, SHARES, Tempering


def test_few_labels_suffice_for_a_linear_function():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = X @ [1.0, 2.0]
    z = AutoStream().predict_then_learn(X, y)
    assert np.mean((z - y)[10:] ** 2) < 0.3 * np.var(y)


def test_the_early_mixture_ends_after_200_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((210, 1))
    model = AutoStream().partial_fit(X[:199], X[:199, 0])
    assert model.mixture_.candidate.early
    assert model.partial_fit(X[199:], X[199:, 0]).mixture_.candidate is None


def stream(n=400, noise=0.4):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 3))
    y = (X[:, 0] > 0) ^ (rng.uniform(size=n) < noise)
    certain = np.where(X[:, :1] > 0, [[0.001, 0.999]], [[0.999, 0.001]])
    return X, y.astype(int), certain


def log_loss(P, y):
    return -np.mean(np.log(P[np.arange(len(y)), y]))


@pytest.mark.parametrize("size", [1, 7, 400])
def test_tempering_lowers_certainty_and_keeps_the_order(size):
    _, y, certain = stream()
    one = Tempering()
    P = np.vstack(
        [one.learn(certain[i : i + size], y[i : i + size], np.ones(size)[: 400 - i]) for i in range(0, 400, size)]
    )
    assert log_loss(P[50:], y[50:]) < 0.75 < 2.0 < log_loss(certain[50:], y[50:])
    assert (P.argmax(axis=1) == certain.argmax(axis=1)).all()
    assert_allclose(P.sum(axis=1), 1.0)
    assert_allclose(P, Tempering().learn(certain, y, np.ones(400)), rtol=1e-9)


def test_tempering_is_its_definition():
    rng = np.random.default_rng(3)
    P, labels = rng.dirichlet(np.ones(3), 30), rng.integers(-1, 3, 30)
    found, sums = Tempering().learn(P, labels, np.ones(30)), np.zeros((4, 4))
    prior = np.full((4, 4), 0.2 / 15.0)
    prior[1, 0] = 0.8
    for p, label, q in zip(np.maximum(P, 1e-3 / 3), labels, found, strict=True):
        powers = p ** EXPONENTS[:, None] / (p ** EXPONENTS[:, None]).sum(axis=1, keepdims=True)
        each = (1 - SHARES)[None, :, None] * powers[:, None] + SHARES[None, :, None] / 3
        weights = prior * np.exp(sums)
        assert_allclose(q, np.tensordot(weights / weights.sum(), each, 2))
        if label >= 0:
            sums = 0.995 * sums + np.log(each[:, :, label])


def test_delayed_scores_lower_the_certainty_of_stale_predictions():
    # Blocks of one class: fresh labels say everything about the next rows, and stale ones nothing.
    rng = np.random.default_rng(4)
    X = np.repeat(rng.standard_normal((12, 2)), 50, axis=0) + 0.3 * rng.standard_normal((600, 2))
    y = np.repeat(rng.integers(0, 2, 12), 50)
    model, raw = AutoStreamClassifier(), np.full((600, 2), np.nan)
    P = raw.copy()
    for start in range(0, 600, 20):
        rows, old = slice(start, start + 20), slice(start - 100, start - 80)
        if old.start >= 0:
            none = np.full(20, None, dtype=object)
            model.partial_fit_late(X[old], y[old], none, classes=[0, 1], predicted=raw[old])
            raw[rows] = model.predict_proba(X[rows], tempered=False)
            P[rows] = model.temper(raw[rows])
            assert_allclose(P[rows], model.predict_proba(X[rows]))
    assert log_loss(P[300:], y[300:]) < 0.9 * log_loss(np.maximum(raw, 1e-6)[300:], y[300:])


def test_an_evaluation_with_delay_passes_what_was_predicted():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((90, 2)), rng.integers(0, 2, 90)
    found = progressive(AutoStreamClassifier(), X, y, classes=[0, 1], delay=30, untested=31).model
    model, waiting, P = AutoStreamClassifier(), [], np.full((90, 2), np.nan)
    for i in range(90):
        if i > 30:
            j, last, raw = waiting.pop(0)
            model.partial_fit_late(X[[j]], y[[j]], np.array([last], dtype=object), classes=[0, 1], predicted=raw)
            P[i] = model.predict_proba(X[[i]])
        known = i > 30
        raw = model.predict_proba(X[[i]], tempered=False) if known else np.full((1, 2), np.nan)
        waiting.append((i, model.last_label_ if known else None, raw))
    assert_allclose(found.log_loss, log_loss(P[31:], y[31:]), rtol=1e-9)


def test_predicted_has_a_row_for_each_row():
    X, y, _ = stream(20)
    with pytest.raises(ValueError, match=r"predicted must have shape \(20, k\)"):
        AutoStreamClassifier().partial_fit_late(X, y, np.full(20, None), [0, 1], predicted=np.ones((19, 2)))
