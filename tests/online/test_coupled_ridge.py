"""Ridge regression of coupled outputs with missing labels, against the full normal matrix; rows equal chunks."""

from copy import deepcopy

import numpy as np
import pytest

from ovk.online.second_order.block_ridge import AllRowsSums, DecayingSums, RidgeRows, SumsOfEachOutput
from ovk.online.second_order.coupled_ridge import FIRST_BLOCKS, CoupledRidge
from ovk.online.second_order.growing_cholesky import RidgeForecast
from ovk.operators import Dense, LowRank, MixedEffect


def slow(Phi, Y, T, alpha, shrink, g=1.0, b=1):
    """One row at a time with the (m d) x (m d) normal matrix, with a ridge that decays in blocks of b learned rows."""
    values, vectors = np.linalg.eigh(T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    m, d = Phi.shape[1], len(T)
    S, B, Z, n = np.zeros((m * d, m * d)), np.zeros(m * d), [], 0
    for phi, y in zip(Phi, Y, strict=True):
        rows = np.stack([np.kron(root[q], phi) for q in range(d)])
        A = g * S + alpha * g ** (n % b + 1 - (b + 1) / 2) * np.eye(m * d)
        solved = np.linalg.solve(A, np.column_stack([g * B, rows.T]))
        ridge, H = rows @ solved[:, 0], rows @ solved[:, 1:]
        Z.append(np.linalg.solve(np.eye(d) + H, ridge) if shrink else ridge)
        seen = ~np.isnan(y)
        if seen.any():
            S, B, n = g * S + rows[seen].T @ rows[seen], g * B + rows[seen].T @ y[seen], n + 1
    return np.array(Z)


def operators(d=4):
    rng = np.random.default_rng(3)
    L = rng.standard_normal((d, 2))
    B = rng.standard_normal((d, d))
    return {
        "mixed effect": MixedEffect(0.7, d),
        "low rank": LowRank(L),
        "low rank plus diagonal": LowRank(L, [0.5, 0.0, 0.1, 2.0]),
        "dense": Dense(B @ B.T / d),
        "independent": Dense(np.eye(d)),
    }


def learner(name, alpha, g=1.0, m=6):
    operator = operators()[name]
    zeros = SumsOfEachOutput.zeros(m, 4)
    ridge = CoupledRidge(
        AllRowsSums(zeros, zeros * 1.0) if g == 1.0 else DecayingSums(g, zeros), *operator.factors(), alpha
    )
    ridge.start_block(1)
    return ridge


def learn(ridge, Phi, Y, shrink):
    """Predictions in pieces of up to five rows; a block ends with its last row."""
    Z, start, observed = [], 0, ~np.isnan(Y)
    while start < len(Phi):
        left = ridge.block_size(6) if ridge.sums.points_left() is None else ridge.sums.points_left()
        stop = start + 1 if left - ridge.points < 5 else start + 5
        seen = observed[start:stop]
        found = ridge.predict_and_update(RidgeRows(Phi[start:stop], Y[start:stop], seen, seen.any(axis=1)), last=False)
        Z.append(RidgeForecast(*found).predictions(shrink=shrink))
        start = stop
        if ridge.points >= left:
            ridge.commit(6)
            ridge.start_block(1)
    return np.concatenate(Z)


def stream(n=150, m=6, d=4, missing=0.5):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((n, m))
    Y = Phi @ rng.standard_normal((m, d)) + 0.2 * rng.standard_normal((n, d))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    Y[20:30] = np.nan
    return Phi, Y


@pytest.mark.pairwise
@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("name", operators())
@pytest.mark.parametrize(("missing", "g"), [(0.0, 1.0), (0.5, 1.0), (0.9, 1.0), (0.5, 0.97)])
def test_equals_the_full_normal_matrix(name, alpha, shrink, missing, g):
    Phi, Y = stream(missing=missing)
    Z = learn(learner(name, alpha, g), Phi, Y, shrink)
    b = 1 if g == 1.0 else DecayingSums(g, None).block
    np.testing.assert_allclose(Z, slow(Phi, Y, operators()[name].dense(), alpha, shrink, g, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["mixed effect", "dense"])
def test_equals_the_full_normal_matrix_where_its_inverse_is_corrected(name):
    """It is recomputed in the first blocks and updated later."""
    Phi, Y = stream(n=600, missing=0.1)
    ridge = learner(name, 0.1)
    Z = learn(ridge, Phi, Y, shrink=True)
    assert ridge.blocks > FIRST_BLOCKS + 2
    expected = slow(Phi, Y, operators()[name].dense(), 0.1, shrink=True)
    np.testing.assert_allclose(Z, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("name", ["mixed effect", "low rank"])
@pytest.mark.parametrize("g", [1.0, 0.97])
def test_states_resume_and_predictions_are_pure(name, shrink, g):
    Phi, Y = stream(n=600)
    whole, ridge, parts = learn(learner(name, 0.1, g), Phi, Y, shrink), learner(name, 0.1, g), []
    for start in range(0, len(Phi), 35):
        ridge = CoupledRidge.from_state(deepcopy(ridge.state()))
        pure = RidgeForecast(*ridge.predict(Phi[start : start + 1])).predictions(shrink=shrink)
        parts.append(learn(ridge, Phi[start : start + 35], Y[start : start + 35], shrink))
        if g == 1.0:
            np.testing.assert_allclose(pure, parts[-1][:1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-9, atol=1e-9)


def test_labels_of_a_row_do_not_reach_its_prediction():
    Phi, Y = stream(n=50)
    outliers = Y.copy()
    outliers[40, ~np.isnan(Y[40])] = 1e10
    assert (outliers[40] == 1e10).any()
    one, other = (learn(learner("mixed effect", 0.1), Phi, labels, True) for labels in (Y, outliers))
    np.testing.assert_allclose(one[:41], other[:41], rtol=1e-12)


@pytest.mark.parametrize("name", operators())
def test_factors_of_operators(name):
    F, delta = operators()[name].factors()
    np.testing.assert_allclose(F @ F.T + np.diag(delta), operators()[name].dense(), atol=1e-12)
