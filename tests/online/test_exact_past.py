"""`past="exact"`: every row is predicted as if the dictionary of its time had been known from the start."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import KAWV, PKAWV
from ovk.features import ALD, KORS, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, Identity

T = np.array([[1.0, 0.5], [0.5, 1.0]])


def _rows(n=150, p=2, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])[:, :d] + 0.1 * rng.standard_normal((n, d))


def _reference(X, y, alpha, joins):
    """Row by row, from scratch: (K~ + alpha I) c = y over all rows before, K~ projected on the points so far."""
    k, Z = Gaussian(1.0), []
    for t in range(len(X)):
        D = X[[s for s in range(t + 1) if joins[s]]]
        W = np.linalg.lstsq(k(D, D), k(D, X[: t + 1]), rcond=1e-12)[0]
        K = k(X[: t + 1], D) @ W
        # The forecaster shrinks the ridge prediction by 1 + h, which is a further row with the label 0.
        c = np.linalg.solve(K + alpha * np.eye(t + 1), np.append(y[:t], 0.0))
        Z.append(K[t] @ c)
    return np.array(Z)


def test_blocks_with_growth_equal_the_definition():
    X, Y = _rows(80, d=1)
    model = PKAWV(Gaussian(1.0), 0.3, Nystrom(KORS(0.1), past="exact"), random_state=0)
    Z = model.predict_then_learn(X, Y[:, 0])
    chosen = {tuple(point) for point in model.support_}
    joins = [tuple(x) in chosen for x in X]
    assert 10 < sum(joins) < 70
    assert_allclose(Z, _reference(X, Y[:, 0], 0.3, joins), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"discount": 0.99},
        {"loss": "huber"},
        {"kernel": Gaussian(1.0) * Dense(T)},
        {"kernel": Gaussian(1.0) * Identity(2) + Linear() * Dense(T)},
    ],
    ids=["plain", "discount", "huber", "operator", "sum"],
)
@pytest.mark.parametrize("selection", [ALD(0.05), Uniform(rate=0.3)], ids=["ald", "uniform"])
def test_blocks_with_growth_equal_single_rows(parameters, selection):
    X, Y = _rows()
    Y[100] = 50.0
    build = {"kernel": Gaussian(1.0), "alpha": 0.3, "warm_up": 0, "random_state": 0} | parameters
    whole, single = (PKAWV(features=Nystrom(selection, past="exact"), **build) for _ in range(2))
    Z = whole.predict_then_learn(X, Y)
    rows = [single.predict_then_learn(X[i : i + 1], Y[i : i + 1])[0] for i in range(len(X))]
    assert_allclose(Z, rows, rtol=1e-7, atol=1e-8)
    assert_allclose(whole.predict(X[:5]), single.predict(X[:5]), rtol=1e-7, atol=1e-8)


@pytest.mark.long
def test_time_relative_to_the_exact_forecaster():
    """A dictionary of a sixth of 2,000 rows takes about as long as the exact forecaster; 3 times is the limit."""
    X, Y = _rows(2000, d=1)
    projected = PKAWV(Gaussian(1.0), 0.1, Nystrom(Uniform(rate=0.15), past="exact"), warm_up=0, random_state=0)
    taken = {"exact": [], "projected": []}
    for _ in range(3):
        for name, model in (("exact", KAWV(Gaussian(1.0), 0.1, warm_up=0)), ("projected", projected)):
            start = time.process_time()
            model.fit(X, Y)
            taken[name].append(time.process_time() - start)
    assert min(taken["projected"]) < 3 * min(taken["exact"])
