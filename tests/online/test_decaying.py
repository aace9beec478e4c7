"""Ridge regression that forgets, against its definition; rows equal chunks."""

import numpy as np
import pytest

from ovk.online.second_order.decaying_ridge import DecayingRidge, block_length


def slow(Phi, Y, alpha, g, b, weights):
    """The definition, one system for each row."""
    m, d = Phi.shape[1], Y.shape[1]
    S, B, Z = np.zeros((m, m)), np.zeros((m, d)), []
    for start in range(0, len(Phi), b):
        A, V = S + alpha * g ** (-(b + 1) / 2) * np.eye(m), B.copy()
        for i in range(start, min(start + b, len(Phi))):
            Z.append(Phi[i] @ np.linalg.solve(A, V))
            new, label = weights[i] * np.outer(Phi[i], Phi[i]), weights[i] * np.outer(Phi[i], Y[i])
            A, V, S, B = g * A + new, g * V + label, g * S + new, g * B + label
    return np.array(Z)


@pytest.fixture
def stream():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((300, 7))
    return Phi, Phi @ rng.standard_normal((7, 2)) + 0.3 * rng.standard_normal((300, 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("g", "b"), [(1.0, 64), (0.999, 128), (0.99, 64), (0.9, 6)])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_equals_its_definition(stream, g, b, alpha, weighted):
    Phi, Y = stream
    weights = np.exp(np.random.default_rng(2).uniform(-4.0, 4.0, len(Y))) if weighted else np.ones(len(Y))
    learner = DecayingRidge(7, 2, alpha, discount=g, block=b)
    Z = learner.predict_and_update(Phi, Y, weights if weighted else None)
    np.testing.assert_allclose(Z, slow(Phi, Y, alpha, g, b, weights), rtol=1e-9, atol=1e-9)


def test_a_whole_weight_is_as_many_repetitions(stream):
    Phi, Y = stream
    weights = np.random.default_rng(3).integers(1, 5, len(Y))
    one, other = DecayingRidge(7, 2, 0.1), DecayingRidge(7, 2, 0.1)
    Z = one.predict_and_update(Phi, Y, weights.astype(float))
    again = other.predict_and_update(np.repeat(Phi, weights, axis=0), np.repeat(Y, weights, axis=0))
    np.testing.assert_allclose(Z, again[np.cumsum(weights) - weights], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.predict(Phi), other.predict(Phi), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("robust", [np.inf, 4.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("g", [1.0, 0.98])
def test_rows_equal_chunks_and_states_resume(stream, g, weighted, robust):
    Phi, Y = stream
    Y = Y.copy()
    Y[::11, 0] = np.nan
    Y[50] = 1e6
    make = {"discount": g, "limit": 3.0, "robust": robust}
    weights = np.random.default_rng(2).uniform(0.1, 3.0, len(Y)) if weighted else None
    whole = DecayingRidge(7, 2, 0.1, **make).predict_and_update(Phi, Y, weights)
    learner, parts, start = DecayingRidge(7, 2, 0.1, **make), [], 0
    rng = np.random.default_rng(1)
    while start < len(Phi):
        stop = start + rng.integers(1, 20)
        learner = DecayingRidge.from_state(learner.state())
        pure = learner.predict(Phi[start : start + 1])
        some = None if weights is None else weights[start:stop]
        parts.append(learner.predict_and_update(Phi[start:stop], Y[start:stop], some))
        np.testing.assert_allclose(pure, parts[-1][:1], rtol=1e-10, atol=1e-10)
        start = stop
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_replayed_rows_leave_the_same_sums(stream, weighted):
    Phi, Y = stream
    weights = np.random.default_rng(2).uniform(0.1, 3.0, len(Y)) if weighted else None
    one, other = (DecayingRidge(7, 2, 0.1, discount=0.99, block=60) for _ in range(2))
    one.predict_and_update(Phi, Y, weights)
    list(other.replay(Phi, Y, weights))
    np.testing.assert_allclose(one.S, other.S, rtol=1e-10)
    np.testing.assert_allclose(one.B, other.B, rtol=1e-10)


def test_replayed_rows_age_what_was_learned_before(stream):
    Phi, Y = stream
    one, other = (DecayingRidge(7, 2, 0.1, discount=0.9, block=60) for _ in range(2))
    one.predict_and_update(Phi, Y)
    other.predict_and_update(Phi[:285], Y[:285])
    list(other.replay(Phi[285:], Y[285:]))
    np.testing.assert_allclose(one.S, other.S, rtol=1e-10)
    np.testing.assert_allclose(one.B, other.B, rtol=1e-10)


def test_a_limited_label_changes_nothing_more(stream):
    Phi, Y = stream
    outliers = Y.copy()
    outliers[100, 0] = 1e9
    Z = [DecayingRidge(7, 2, 0.1, limit=3.0).predict_and_update(Phi, labels) for labels in (Y, outliers)]
    errors = [np.mean((z - Y)[101:, 0] ** 2) for z in Z]
    assert errors[1] < 1.2 * errors[0]


def test_a_missing_label_counts_as_predicted(stream):
    Phi, Y = stream
    gaps = Y.copy()
    gaps[100, 1] = np.nan
    Z = DecayingRidge(7, 2, 0.1).predict_and_update(Phi, gaps)
    filled = gaps.copy()
    filled[100, 1] = Z[100, 1]
    np.testing.assert_allclose(DecayingRidge(7, 2, 0.1).predict_and_update(Phi, filled), Z, rtol=1e-10, atol=1e-10)


def test_blocks_halve_the_sums_at_most():
    for g in (0.5, 0.9, 0.99, 0.999, 1.0):
        assert 1 <= block_length(g) <= 128
        assert g ** block_length(g) >= 0.5


def test_leading_features_give_a_separate_learner(stream):
    Phi, Y = stream
    one, other = DecayingRidge(7, 2, 0.1, block=50), DecayingRidge(4, 2, 0.1, block=50)
    one.predict_and_update(Phi[:200], Y[:200])
    other.predict_and_update(Phi[:200, :4], Y[:200])
    Z = one.leading(4).predict_and_update(Phi[200:, :4], Y[200:])
    np.testing.assert_allclose(Z, other.predict_and_update(Phi[200:, :4], Y[200:]), rtol=1e-9, atol=1e-9)


def test_replayed_rows_with_gaps_leave_what_learning_them_does(stream):
    Phi, Y = stream
    gaps = Y.copy()
    gaps[::2, 0] = np.nan
    one, other = (DecayingRidge(7, 2, 0.1, block=60) for _ in range(2))
    one.predict_and_update(Phi, gaps)
    list(other.replay(Phi, gaps))
    np.testing.assert_allclose(one.predict(Phi), other.predict(Phi), rtol=1e-10, atol=1e-10)
    assert np.mean((other.predict(Phi) - Y)[:, 0] ** 2) < 0.12


@pytest.mark.parametrize("level", [1e-4, 1.0])
def test_the_limit_follows_the_residuals(stream, level):
    Phi, _ = stream
    rng = np.random.default_rng(2)
    Y = Phi @ rng.standard_normal((7, 2)) + level * rng.standard_normal((300, 2))
    outliers = Y.copy()
    outliers[200] = 1e9
    Z = [DecayingRidge(7, 2, 1e-6, robust=2.0).predict_and_update(Phi, labels) for labels in (Y, outliers)]
    errors = [np.mean((z - Y)[201:] ** 2, axis=0) for z in Z]
    assert (errors[1] < 1.2 * errors[0]).all()


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("g", [1.0, 0.98])
def test_a_common_factor_of_weights_and_ridge_changes_nothing(stream, g, replayed):
    """In particular the limits are those of residuals without weights, which large weights do not raise."""
    Phi, Y = stream
    Y = Y.copy()
    Y[150] = 1e3
    weights, found = np.random.default_rng(2).uniform(0.1, 3.0, len(Y)), []
    for factor in (1.0, 400.0):
        learner = DecayingRidge(7, 2, 0.1 * factor, discount=g, robust=2.0)
        first = 60 if replayed else 0
        if replayed:
            learner.replay(Phi[:first], Y[:first], factor * weights[:first])
        Z = learner.predict_and_update(Phi[first:], Y[first:], factor * weights[first:])
        found.append((Z, learner.reach))
        assert np.isfinite(learner.reach).all()
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-9)


def test_replayed_rows_set_the_limits(stream):
    Phi, Y = stream
    learner = DecayingRidge(7, 2, 0.1, robust=2.0)
    list(learner.replay(Phi[:200], Y[:200]))
    assert ((learner.reach > 0.9) & (learner.reach < 2.5)).all()


def test_a_change_of_level_is_followed(stream):
    Phi, Y = stream
    R = np.hstack([Phi, np.ones((300, 1))])
    Y = Y + np.where(np.arange(300) < 150, 0.0, 1e4)[:, None]
    errors = {}
    for robust in (2.0, np.inf):
        Z = DecayingRidge(8, 2, 1e-6, discount=0.95, robust=robust).predict_and_update(R, Y)
        errors[robust] = (Z - Y) ** 2
    # The limit doubles about 13 times; after as many rows the error is that without an outlier.
    assert np.mean(errors[2.0][265:]) < np.mean(errors[np.inf][250:285])


@pytest.mark.parametrize("limit", [np.inf, 3.0])
@pytest.mark.parametrize("g", [1.0, 0.98])
def test_blocks_with_many_outliers_equal_single_rows(stream, g, limit):
    Phi, Y = stream
    Y = Y + np.exp(np.arange(300) / 15.0)[:, None] * np.random.default_rng(5).standard_t(1.5, Y.shape)
    rows, blocks = (DecayingRidge(7, 2, 0.1, discount=g, limit=limit, robust=1.01) for _ in range(2))
    reached, outliers, Z = [], 0, np.empty(Y.shape)
    for i in range(len(Y)):
        before = rows.reach
        Z[i] = rows.predict_and_update(Phi[i : i + 1], Y[i : i + 1])[0]
        outliers += bool((np.abs(Y[i] - Z[i]) > np.minimum(before, limit)).any())
        reached.append(rows.reach)
    assert outliers > 15
    np.testing.assert_allclose(blocks.predict_and_update(Phi[:40], Y[:40]), Z[:40], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(blocks.reach, reached[39])
    np.testing.assert_allclose(blocks.predict_and_update(Phi[40:], Y[40:]), Z[40:], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(blocks.reach, rows.reach)


def test_a_constant_output_that_starts_to_vary_is_learned_after_a_few_rows():
    rng = np.random.default_rng(6)
    Phi = np.column_stack([np.ones(3000), rng.standard_normal(3000)])
    Y = np.where(np.arange(3000) < 2500, 0.0, 3.0 + Phi[:, 1])[:, None]
    ridge = DecayingRidge(2, 1, 1e-3, discount=0.95, limit=1.5, robust=2.0)
    Z = ridge.predict_and_update(Phi, Y)
    assert np.abs((Z - Y)[:2500]).max() == 0.0
    # Labels 3 standard deviations away exceed the given limit, which no longer applies.
    assert np.mean((Z - Y)[2560:] ** 2) < 1e-3
    assert np.mean((Z - Y)[2515:] ** 2) < 0.1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("g", [1.0, 0.97])
def test_rows_without_labels_are_predicted_in_their_place_and_leave_no_trace(stream, g, weighted):
    Phi, Y = stream
    known = np.random.default_rng(5).random(len(Y)) < 0.5
    gaps = np.where(known[:, None], Y, np.nan)
    weights = np.random.default_rng(2).uniform(0.1, 3.0, len(Y)) if weighted else None
    one, other, rows = (DecayingRidge(7, 2, 0.1, discount=g, robust=3.0) for _ in range(3))
    Z = one.predict_and_update(Phi, gaps, weights)
    some = None if weights is None else weights[known]
    np.testing.assert_array_equal(Z[known], other.predict_and_update(Phi[known], Y[known], some))
    np.testing.assert_array_equal(one.predict(Phi), other.predict(Phi))
    for i in range(len(Y)):
        np.testing.assert_allclose(rows.predict(Phi[i : i + 1])[0], Z[i], rtol=1e-9, atol=1e-9)
        rows.predict_and_update(Phi[i : i + 1], gaps[i : i + 1], None if weights is None else weights[i : i + 1])


def test_leading_features_keep_the_limits_of_residuals(stream):
    Phi, Y = stream
    learner = DecayingRidge(7, 2, 0.1, robust=2.0)
    learner.predict_and_update(Phi, Y)
    leading = learner.leading(4)
    assert np.isfinite(learner.reach).all()
    np.testing.assert_array_equal(leading.reach, learner.reach)
