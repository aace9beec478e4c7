"""Aggregation rules: their definition, rows equal chunks, regret below the bound on any sequence."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import ovk
from ovk.online import BOA, MLPoly

RULES = [MLPoly(), MLPoly(discount=0.97), BOA()]


def slow_ml_poly(F, y, g, weights=None):
    """The definition, with one output and plain loops."""
    k = F.shape[1]
    R, V, b, Z = [0.0] * k, [0.0] * k, 0.0, []
    weights = np.ones(len(y)) if weights is None else weights
    for f, label, v in zip(F, y, weights, strict=True):
        positive = [max(R[j], 0.0) / (b * b + V[j]) if R[j] > 0 else 0.0 for j in range(k)]
        total = sum(positive)
        w = [p / total for p in positive] if total > 0 else [1.0 / k] * k
        z = sum(a * c for a, c in zip(w, f, strict=True))
        Z.append(z)
        if v == 0.0:
            continue
        r = [2 * v * (z - label) * (z - c) for c in f]
        top = max(abs(a) for a in r)
        shrink = b / top if top > b else 1.0
        R = [g * R[j] + shrink * r[j] for j in range(k)]
        V = [g * V[j] + (shrink * r[j]) ** 2 for j in range(k)]
        b = max(g**0.5 * b, min(top, 2 * b)) if b > 0 else top
    return np.array(Z)


def slow_boa(F, y):
    k = F.shape[1]
    Q, V, b, Z, eta = [0.0] * k, [0.0] * k, 0.0, [], [0.0] * k
    w = [1.0 / k] * k
    for f, label in zip(F, y, strict=True):
        z = sum(a * c for a, c in zip(w, f, strict=True))
        Z.append(z)
        r = [2 * (z - label) * (z - c) for c in f]
        top = max(abs(a) for a in r)
        shrink = b / top if top > b else 1.0
        r = [shrink * a for a in r]
        Q = [Q[j] + r[j] - eta[j] * r[j] ** 2 for j in range(k)]
        V = [V[j] + r[j] ** 2 for j in range(k)]
        b = max(b, min(top, 2 * b)) if b > 0 else top
        if b > 0:
            eta = [min(0.5 / b, np.sqrt(np.log(max(k, 2)) / V[j]) if V[j] > 0 else np.inf) for j in range(k)]
            raw = np.array(eta) * np.exp(np.array(eta) * np.array(Q))
            w = list(raw / raw.sum())
    return np.array(Z)


def stream(seed, n=120, k=4, d=2):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, d))
    scales = rng.uniform(0.1, 2.0, (1, k, d))
    return Y[:, None] + scales * rng.standard_normal((n, k, d)), Y


@pytest.mark.parametrize("g", [1.0, 0.98])
def test_ml_poly_is_its_definition(g):
    F, Y = stream(0)
    v = np.random.default_rng(2).choice([0.0, 0.2, 1.0, 5.0], len(Y))
    for weights in (None, v):
        Z = MLPoly(discount=g).predict_then_learn(F, Y, weights)
        for j in range(Y.shape[1]):
            np.testing.assert_allclose(Z[:, j], slow_ml_poly(F[..., j], Y[:, j], g, weights), rtol=0, atol=1e-12)


def test_boa_is_its_definition():
    F, Y = stream(1)
    Z = BOA().predict_then_learn(F, Y)
    for j in range(Y.shape[1]):
        np.testing.assert_allclose(Z[:, j], slow_boa(F[..., j], Y[:, j]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rows_equal_chunks_and_states_resume(rule):
    F, Y = stream(2)
    Y[::7, 0] = np.nan
    F[5:40, 1] = np.nan
    whole = rule.replace().predict_then_learn(F, Y)
    one = rule.replace()
    parts = []
    for i in range(len(Y)):
        copy = rule.replace()
        if i:
            copy.load_state(one.state())
        one = copy
        before = one.predict(F[i : i + 1]) if i else None
        parts.append(one.predict_then_learn(F[i : i + 1], Y[i : i + 1]))
        if i:
            np.testing.assert_array_equal(before, parts[-1])
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 8),
    n=st.integers(1, 150),
    kind=st.sampled_from(["random", "growing", "one outliers row", "best expert changes", "against the weights"]),
)
@settings(max_examples=50, deadline=None)
def test_regret_is_below_its_bound_on_any_losses(rule, seed, k, n, kind):
    rng = np.random.default_rng(seed)
    rule = rule.replace()
    rule.start(k, 1)
    total = np.zeros((k, 1))
    g = getattr(rule, "discount", 1.0)
    for t in range(n):
        losses = rng.uniform(0.0, 1.0, (k, 1))
        if kind == "growing":
            losses *= 1.1**t
        elif kind == "one outliers row" and t == n // 2:
            losses *= 1e6
        elif kind == "best expert changes":
            losses = 0.2 * losses + 0.8 * ((np.arange(k) + t * 3 // n) % k != 0)[:, None]
        elif kind == "against the weights":
            # The expert with the largest weight is wrong, the others are right.
            losses = (np.arange(k)[:, None] == rule.weights_.argmax()) * rng.uniform(0.5, 1.0)
        regrets = (rule.weights_ * losses).sum(axis=0) - losses
        rule.update(regrets)
        total = g * total + regrets
        np.testing.assert_allclose(rule.weights_.sum(axis=0), 1.0)
        assert (rule.weights_ >= 0).all()
        np.testing.assert_allclose(rule.regret_, total, rtol=1e-9, atol=1e-9)
        assert (total <= rule.regret_bound() * (1 + 1e-9) + 1e-9).all()


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), n=st.integers(10, 400))
@settings(max_examples=50, deadline=None)
def test_the_bound_that_ml_poly_keeps_is_below_the_closed_one(seed, k, n):
    rng = np.random.default_rng(seed)
    rule, first, largest = MLPoly(), None, 0.0
    rule.start(k, 1)
    for t in range(n):
        # The first losses are small, so that the size has to grow.
        losses = rng.uniform(0.0, 1.0, (k, 1)) * (1.0 if t else 10.0 ** -rng.integers(0, 6))
        regrets = (rule.weights_ * losses).sum(axis=0) - losses
        rule.update(regrets)
        first = rule.size_.copy() if first is None else first
        largest = max(largest, float(np.abs(regrets).max()))
    top = rule.size_**2 + rule.squares_
    assert (rule.cut_ <= largest * (1 + np.log2(largest / first)) * (1 + 1e-12)).all()
    closed = rule.cut_ + np.sqrt(top * np.log2(top / first**2).sum(axis=0))
    assert (rule.regret_bound() <= closed * (1 + 1e-9)).all()


@pytest.mark.parametrize("change", [False, True])
def test_the_bound_of_boa_is_that_of_its_rates(change):
    """The terms of the theorem, from the learning rates of each row."""
    rng, rule, k = np.random.default_rng(3), BOA(), 4
    rule.start(k, 1)
    corrections, growth, cut, size = np.zeros((k, 1)), 1.0, 0.0, 0.0
    for t in range(80):
        rates = np.where(np.isfinite(rule.rates_), rule.rates_, 0.0)
        losses = rng.uniform(0.0, 1.0, (k, 1)) * (100.0 if change and t > 40 else 1.0)
        regrets = (rule.weights_ * losses).sum(axis=0) - losses
        largest = float(np.abs(regrets).max())
        # A row with a new largest regret is scaled down to the size so far.
        factor = min(1.0, size / largest)
        cut += (1.0 - factor) * largest
        corrections += rates * (factor * regrets) ** 2
        rule.update(regrets)
        size = float(rule.size_[0])
        growth += np.where(rates > 0.0, rates / rule.rates_ - 1.0, 0.0).sum() / (np.e * k)
    bound = cut + corrections + (np.log(k) + np.log(growth)) / rule.rates_
    np.testing.assert_allclose(rule.regret_bound(), bound, rtol=1e-12)
    assert growth > 1.2


@pytest.mark.parametrize("rule", [MLPoly(), BOA()], ids=repr)
def test_the_bound_grows_like_a_square_root(rule):
    bounds = {}
    for n in (500, 8000):
        rng = np.random.default_rng(0)
        rule = rule.replace()
        rule.start(5, 1)
        for _ in range(n):
            losses = rng.uniform(0.0, 1.0, (5, 1))
            rule.update((rule.weights_ * losses).sum(axis=0) - losses)
        bounds[n] = rule.regret_bound().max()
    assert bounds[8000] < 1.5 * 4 * bounds[500]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_best_expert_of_each_output_is_found(rule):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((3000, 2))
    F = Y[:, None] + np.array([[0.1, 2.0], [2.0, 0.1], [1.0, 1.0]]) * rng.standard_normal((3000, 3, 2))
    Z = rule.replace().predict_then_learn(F, Y)
    # The best expert has .01; with a discount of .97 only about 33 rows distinguish the experts.
    allowed = 0.012 if rule.get_params().get("discount", 1.0) == 1.0 else 0.035
    assert (np.mean((Z - Y)[1000:] ** 2, axis=0) < allowed).all()


def test_a_discount_follows_a_change():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((4000, 1))
    good = np.arange(4000)[:, None] < 2000
    noisy = y + 0.1 * rng.standard_normal(y.shape)
    F = np.stack([np.where(good, noisy, -y), np.where(good, -y, noisy)], axis=1)
    fixed, follows = MLPoly().predict_then_learn(F, y), MLPoly(discount=0.99).predict_then_learn(F, y)
    # The errors of these experts are independent, so a mixture of both is best and neither has a large regret: the
    # change matters for about 10 rows only, and later rows show only noise.
    assert np.mean((follows - y)[2000:2020] ** 2) < 0.3 * np.mean((fixed - y)[2000:2020] ** 2)


@pytest.mark.long
@pytest.mark.parametrize("g", [0.99, 0.995])
def test_a_discount_follows_a_change_in_the_time_derived(g):
    # Both experts err in the same direction, one twice as far: no mixture is better than the good one. The other loses
    # 2 u^2 a row, and gains 4 u^2 a row after the change while the weights are still wrong: rho = 1/2.
    rng = np.random.default_rng(0)
    u = rng.standard_normal((6000, 1))
    y = rng.standard_normal((6000, 1))
    good = np.arange(6000)[:, None] < 3000
    F = y[:, None] + u[:, None] * np.stack([np.where(good, 1.0, 2.0), np.where(good, 2.0, 1.0)], axis=1)
    wait = np.log(1.5) / np.log(1.0 / g)
    rule, crossed = MLPoly(discount=g), []
    for i in range(6000):
        rule.predict_then_learn(F[i : i + 1], y[i : i + 1])
        crossed.append(rule.weights_[1, 0] > 0.5)
    assert not any(crossed[2000:3000])
    assert all(crossed[3000 + int(2 * wait) : 3000 + int(2 * wait) + 1000])
    assert 3000 + 0.5 * wait < np.flatnonzero(crossed[3000:])[0] + 3000
    slow = MLPoly()
    Z = slow.predict_then_learn(F, y)
    follows = MLPoly(discount=g).predict_then_learn(F, y)
    assert np.mean((follows - y)[3000:4500] ** 2) < 0.5 * np.mean((Z - y)[3000:4500] ** 2)


@pytest.mark.pairwise
@pytest.mark.parametrize("rule", [MLPoly(), MLPoly(discount=0.999), BOA()], ids=repr)
@pytest.mark.parametrize("seed", [3, 4, 5, 6])
@pytest.mark.parametrize("label", [1e9, -1e30, 1e300])
def test_an_outlier_costs_its_own_row(rule, seed, label):
    F, Y = stream(seed, n=600)
    plain = rule.replace().predict_then_learn(F, Y)
    outliers = Y.copy()
    outliers[300] = label
    Z = rule.replace().predict_then_learn(F, outliers)
    after = slice(301, None)
    assert np.mean((Z - Y)[after] ** 2) < 1.2 * np.mean((plain - Y)[after] ** 2)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_new_scale_is_reached_in_a_few_rows(rule):
    F, Y = stream(7, n=400)
    scale = np.where(np.arange(400) < 200, 1.0, 1e4)
    Z = rule.replace().predict_then_learn(F * scale[:, None, None], Y * scale[:, None])
    best = np.mean((F - Y[:, None])[220:] ** 2, axis=0).min(axis=0)
    assert (np.mean((Z / scale[:, None] - Y)[220:] ** 2, axis=0) < 1.5 * best + 0.05).all()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_save_then_load_goes_on_as_if_uninterrupted(rule, tmp_path):
    F, Y = stream(8)
    one = rule.replace()
    one.predict_then_learn(F[:60], Y[:60])
    ovk.save(one, tmp_path / "rule.ovk")
    other = ovk.load(tmp_path / "rule.ovk")
    np.testing.assert_array_equal(one.predict_then_learn(F[60:], Y[60:]), other.predict_then_learn(F[60:], Y[60:]))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_single_outputs_can_be_restarted(rule):
    F, Y = stream(9)
    one, other = rule.replace(), rule.replace()
    one.predict_then_learn(F[:60], Y[:60])
    one.restart(np.array([False, True]))
    whole = rule.replace().predict_then_learn(F, Y)
    Z = one.predict_then_learn(F[60:], Y[60:])
    np.testing.assert_array_equal(Z[:, 0], whole[60:, 0])
    np.testing.assert_array_equal(Z[:, 1], other.predict_then_learn(F[60:], Y[60:])[:, 1])


def test_experts_who_abstain_share_nothing():
    F = np.full((3, 2, 1), np.nan)
    F[:, 1] = [[1.0], [2.0], [np.nan]]
    np.testing.assert_array_equal(MLPoly().predict_then_learn(F, np.zeros((3, 1))), [[1.0], [2.0], [0.0]])


def test_shapes_are_checked():
    rule = MLPoly()
    with pytest.raises(NotFittedError, match="no weights yet"):
        rule.predict(np.zeros((1, 2, 1)))
    with pytest.raises(ValueError, match="shape \\(rows, experts, outputs\\)"):
        rule.predict_then_learn(np.zeros((1, 2)), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="Y must have shape"):
        rule.predict_then_learn(np.zeros((1, 2, 1)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"sample_weight must contain 1 non-negative numbers, got \[-1.0\]"):
        rule.predict_then_learn(np.zeros((1, 2, 1)), np.zeros((1, 1)), [-1.0])
    rule.predict_then_learn(np.zeros((1, 2, 1)), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="2 experts and 1 outputs as before"):
        rule.predict(np.zeros((1, 3, 1)))


def test_bad_discount_is_refused():
    with pytest.raises(ValueError, match="discount must be in"):
        MLPoly(discount=0.0).predict_then_learn(np.zeros((1, 2, 1)), np.zeros((1, 1)))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    discount=st.sampled_from([1.0, 0.999, 0.9]),
    size=st.sampled_from([0.0, 1e-150, 1.0, 1e75]),
    cut=st.integers(2, 39),
)
@example(seed=36, discount=1.0, size=1e75, cut=23)  # experts who agree on 1e75
def test_many_rows_at_once_are_the_rows_one_by_one(seed, discount, size, cut):
    """Experts that always abstain, outliers, regrets that overflow, rows of weight 0."""
    rng = np.random.default_rng(seed)
    F, Y = rng.standard_normal((40, 5, 2)), rng.standard_normal((40, 2))
    Y[rng.integers(40), 0] *= size
    F[rng.integers(40)] = Y[rng.integers(40)]
    asleep = rng.uniform(size=5) < 0.3
    F[:cut, asleep] = np.nan
    weights = rng.integers(0, 3, 40).astype(float)
    rows, blocks = MLPoly(discount), MLPoly(discount)
    plain = [rows.predict_then_learn(F[i : i + 1], Y[i : i + 1], weights[i : i + 1]) for i in range(40)]
    quick = [blocks.predict_then_learn(F[s], Y[s], weights[s]) for s in (slice(0, cut), slice(cut, 40))]
    np.testing.assert_allclose(np.concatenate(quick), np.concatenate(plain), rtol=1e-9, atol=1e-12)
    for name, value in rows.state().items():
        scale = np.max(np.abs(value))
        np.testing.assert_allclose(getattr(blocks, name), value, rtol=1e-9, atol=1e-12 * scale, err_msg=name)
