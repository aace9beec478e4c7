"""Online logistic regression, and stacking of experts."""

from copy import deepcopy

import numpy as np
import pytest

from ovk.online import MLPoly
from ovk.online.experts.logistic import LogisticStacking, OnlineLogistic, logit, sigmoid


def labelled(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    p = sigmoid(X @ [[1.0, 0.0], [-2.0, 0.5], [0.5, 1.0]])
    return X, (rng.uniform(size=p.shape) < p).astype(float), p


def slow_logistic(X, y, alpha, g, weights):
    """The definition, with the inverse computed for each row."""
    A, w, Z = alpha * np.eye(X.shape[1]), np.zeros(X.shape[1]), []
    for x, label, v in zip(X, y, weights, strict=True):
        p = 1.0 / (1.0 + np.exp(-(x @ w)))
        Z.append(p)
        A = A + v * p * (1.0 - p) * np.outer(x, x)
        w = w + np.linalg.solve(A, x) * v * (label - p)
        A = g * A
    return np.array(Z)


def weighted(n):
    return np.exp(np.random.default_rng(1).uniform(-2.0, 1.0, n))


@pytest.mark.parametrize("v", [None, weighted(300)], ids=["alike", "weighted"])
@pytest.mark.parametrize("g", [1.0, 0.99])
def test_logistic_is_its_definition(g, v):
    X, Y, _ = labelled(300)
    Z = OnlineLogistic(np.zeros((3, 2)), 0.1, discount=g).predict_and_update(X, Y, v)
    for j in range(2):
        expected = slow_logistic(X, Y[:, j], 0.1, g, np.ones(300) if v is None else v)
        np.testing.assert_allclose(Z[:, j], expected, rtol=1e-8)


def test_logistic_finds_the_probabilities():
    X, Y, p = labelled()
    Z = OnlineLogistic(np.zeros((3, 2)), 0.1).predict_and_update(X, Y)
    assert np.mean((Z - p)[500:] ** 2) < 0.002


@pytest.mark.parametrize("g", [1.0, 0.99])
def test_replay_is_the_penalised_maximum_likelihood(g):
    X, Y, _ = labelled(400)
    v = weighted(400)
    model = OnlineLogistic(np.zeros((3, 2)), 0.5, discount=g)
    list(model.replay(X, Y, v))
    # The last row has the age 0.
    discounted = v * g ** np.arange(400)[::-1]
    gradient = X.T @ (discounted[:, None] * (Y - sigmoid(X @ model.weights))) - 0.5 * model.weights
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)


def test_logit_inverts_sigmoid():
    x = np.linspace(-6.0, 6.0, 13)
    np.testing.assert_allclose(logit(sigmoid(x)), x)


def voters(n=1500, k=5):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (n, 1)).astype(float)
    votes = np.where(rng.uniform(size=(n, k, 1)) < 0.7, y[:, None], 1.0 - y[:, None])
    return 0.2 + 0.6 * votes, y


def run(F, y, sizes):
    rule, stacking, parts, start, k = MLPoly(0.999), LogisticStacking(F.shape[1], 1), [], 0, 0
    while start < len(y):
        rows = slice(start, start + sizes[k % len(sizes)])
        mixed = rule.predict_then_learn(F[rows], y[rows])
        stacking = LogisticStacking.from_state(deepcopy(stacking.state()))
        pure = stacking.predict(F[rows][:1], mixed[:1])
        parts.append(stacking.predict_and_update(F[rows], mixed, y[rows]))
        np.testing.assert_allclose(pure, parts[-1][:1], rtol=1e-12)
        start, k = rows.stop, k + 1
    return np.concatenate(parts)


def test_stacking_is_better_than_the_best_expert():
    F, y = voters()
    P = run(F, y, [len(y)])
    assert np.mean((P[300:] > 0.5) != y[300:]) < 0.2
    assert np.mean((P - y)[300:] ** 2) < 0.8 * np.mean((F[300:].mean(axis=1) - y[300:]) ** 2)


def test_stacking_in_chunks_and_with_gaps():
    F, y = voters(400)
    F[50:90, 2] = np.nan
    y[::9] = np.nan
    np.testing.assert_allclose(run(F, y, [1, 7, 40]), run(F, y, [400]), rtol=1e-10)


def test_forgetting_without_informative_rows_stays_bounded():
    """Rows of zeros have no effect, and forgetting never increases the uncertainty beyond its initial value."""
    X, Y, _ = labelled(200)
    model = OnlineLogistic(np.zeros((3, 2)), 0.1, discount=0.9)
    model.predict_and_update(X, Y)
    model.predict_and_update(np.zeros((2000, 3)), np.ones((2000, 2)))
    traces = np.trace(model.inverse, axis1=1, axis2=2)
    assert (traces >= 3 / 0.1).all()
    assert (traces <= 3 / 0.1 / 0.9).all()
