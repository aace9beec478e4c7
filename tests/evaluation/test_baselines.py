"""Baselines equal their definition for any chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ovk import OVKRidge
from ovk.evaluation import REGRESSION, LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


def data(seed=0, n=70, missing=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = np.column_stack([5 + np.sin(X[:, 0]), X[:, 1] ** 2 - 2])
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return X, Y


def last_value(X, Y, t, q):
    past = [y for y in Y[:t, q] if np.isfinite(y)]
    return past[-1] if past else 0.0


def running_mean(X, Y, t, q):
    past = [y for y in Y[:t, q] if np.isfinite(y)]
    return sum(past) / len(past) if past else 0.0


@pytest.mark.parametrize(("baseline", "definition"), [(LastValue, last_value), (RunningMean, running_mean)])
@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 70), max_size=5), seed=st.integers(0, 5))
def test_definition_in_chunks_of_any_sizes(baseline, definition, cuts, seed):
    X, Y = data(seed)
    Y[11, 0] = np.inf
    learner = baseline()
    parts = zip(np.split(X, sorted(cuts)), np.split(Y, sorted(cuts)), strict=True)
    found = np.concatenate([learner.predict_then_learn(A, B) for A, B in parts])
    expected = [[definition(X, Y, t, q) for q in range(2)] for t in range(70)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def refitted(X, Y, ridge, most):
    """Standardised fits to the last useful rows, after 8, 16, 32, ... rows."""
    F = np.zeros(Y.shape)
    fit = None
    for t in range(len(X)):
        if fit is not None:
            model, (mx, sx), (my, sy) = fit
            F[t] = my + sy * (model.predict((X[t : t + 1] - mx) / sx)[0] if np.isfinite(X[t]).all() else 0.0)
        if t + 1 in (8, 16, 32, 64, 128):
            useful = [i for i in range(t + 1) if np.isfinite(X[i]).all() and np.isfinite(Y[i]).any()][-most:]
            A, B = X[useful], Y[useful]
            mx, sx, my, sy = A.mean(0), A.std(0), np.nanmean(B, 0), np.nanstd(B, 0)
            fit = OVKRidge(**ridge).fit((A - mx) / sx, (B - my) / sy), (mx, sx), (my, sy)
    return F


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 70), max_size=5), seed=st.integers(0, 5))
def test_refitted_ridge_is_its_definition(cuts, seed):
    X, Y = data(seed)
    X[30, 1] = np.nan
    ridge = {"kernel": Gaussian(1.0) * MixedEffect(0.3), "alpha": 0.05}
    learner = RefittedRidge(OVKRidge(**ridge), max_rows=20)
    parts = zip(np.split(X, sorted(cuts)), np.split(Y, sorted(cuts)), strict=True)
    found = np.concatenate([learner.predict_then_learn(A, B) for A, B in parts])
    np.testing.assert_allclose(found, refitted(X, Y, ridge, 20), rtol=1e-8, atol=1e-10)
    assert len(learner.ridge_.X_fit_) == 20
    assert sum(len(part) for part, _ in learner._recent) < 20 + 70


def test_refitted_ridge_keeps_no_more_rows_than_it_needs():
    X, Y = data(n=2000, missing=0.0)
    learner = RefittedRidge(max_rows=50)
    for t in range(0, 2000, 10):
        learner.predict_then_learn(X[t : t + 10], Y[t : t + 10])
        assert sum(len(part) for part, _ in learner._recent) < 60
    assert learner.n_fits_ == 8


def test_refitted_ridge_waits_for_the_first_value_of_each_output():
    X, Y = data(missing=0.0)
    Y[:20, 1] = np.nan
    learner = RefittedRidge()
    F = learner.predict_then_learn(X, Y)
    assert learner.n_fits_ == 2
    np.testing.assert_array_equal(F[:32], 0.0)
    assert F[32:].all()


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.zeros((40, 2)), np.ones((40, 1))),
        (np.full((40, 2), np.nan), np.ones((40, 1))),
        (np.zeros((40, 2)), np.full((40, 1), np.nan)),
        (np.ones((1, 1)), np.ones((1, 1))),
    ],
)
def test_refitted_ridge_with_rows_without_information(X, Y):
    assert np.isfinite(RefittedRidge().predict_then_learn(X, Y)).all()


def test_names_and_unfitted_copies():
    assert isinstance(REGRESSION.baseline("ridge"), RefittedRidge)
    used = LastValue()
    used.predict_then_learn(np.zeros((2, 1)), np.ones((2, 1)))
    assert REGRESSION.baseline(used).predict_then_learn(np.zeros((1, 1)), np.ones((1, 1))) == 0.0
    with pytest.raises(ValueError, match=r"baselines must be 'last', 'mean', 'ridge' or .* got 'median'"):
        REGRESSION.baseline("median")
    with pytest.raises(ValueError, match="max_rows must be an integer"):
        RefittedRidge(max_rows=0).predict_then_learn(np.zeros((2, 1)), np.ones((2, 1)))


def test_probabilities_from_earlier_labels():
    X, Y = np.zeros((3, 1)), np.eye(2)[[1, 1, 0]]
    assert NoChange().predict_then_learn(X, Y).argmax(axis=1).tolist() == [0, 1, 1]
    np.testing.assert_allclose(Majority().predict_then_learn(X, Y), [[1, 1], [1 / 3, 2 / 3], [1 / 4, 3 / 4]])
