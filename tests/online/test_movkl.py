"""Online learning with several kernels: rows equal chunks, the guarantee, and convergence to the batch learner."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import ovk
from ovk import OLOK, MovKL, OnlineMovKL
from ovk.kernels import Gaussian, Linear
from ovk.operators import Identity, Integral, MixedEffect, Multiplication
from ovk.ovkernels import Expansion
from reference import betting_sum

RNG = np.random.default_rng(0)
T = np.linspace(0, 1, 6)
X = RNG.uniform(-1, 1, (300, 2))
Y = np.sin(3 * T + 2 * X[:, :1]) * X[:, 1:] + 0.1 * RNG.standard_normal((300, 6))
NEW = RNG.uniform(-1, 1, (100, 2))
TRUTH = np.sin(3 * T + 2 * NEW[:, :1]) * NEW[:, 1:]
KERNELS = [k * T_ for k in (Gaussian(0.8), Linear()) for T_ in (Identity(), Multiplication(np.cos(T)), Integral())]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        OnlineMovKL([Gaussian(1.0) * Identity(), Linear() * Identity()]),
        OnlineMovKL([Gaussian(1.0) * Identity(), Linear() * Identity()], against="sums"),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


def in_chunks(model, sizes, y=Y):
    start, parts = 0, []
    while start < len(y):
        size = sizes[len(parts) % len(sizes)]
        stop = min(start + size, len(y))
        parts.append(model.predict_then_learn(X[start:stop], y[start:stop]))
        start += size
    return np.concatenate(parts)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("bound", [None, 3.0])
def test_rows_equal_chunks(bound, holes):
    y = Y.copy()
    if holes:
        y[RNG.random(Y.shape) < 0.2] = np.nan
    models = [OnlineMovKL(KERNELS, OLOK(alpha=1e-3, truncation=60), bound=bound, grid=T) for _ in range(3)]
    found = [in_chunks(model, sizes, y[:120]) for model, sizes in zip(models, ([1], [7, 50], [120]), strict=True)]
    assert_allclose(found[1], found[0], atol=1e-11)
    assert_allclose(found[2], found[0], atol=1e-11)
    assert_allclose(models[1].weights_, models[0].weights_, atol=1e-11)
    assert_allclose(models[2].predict(NEW), models[0].predict(NEW), atol=1e-10)


def test_written_out():
    """The forecaster row by row, on separate learners."""
    B = 3.0
    model = OnlineMovKL(KERNELS, bound=B, grid=T, even=False)
    found = in_chunks(model, [40])
    from ovk.batch.curves import bind_grid

    roots = model.grid_.roots()
    learners = [OLOK(bind_grid(k, model.grid_), alpha=1e-3, schedule="auto") for k in KERNELS]
    each = np.stack([learner.predict_then_learn(X, Y * roots) for learner in learners])
    L = np.zeros(len(KERNELS))
    for t in range(len(X)):
        z = [row * min(1.0, B / max(np.linalg.norm(row), 1e-300)) for row in each[:, t]]
        p = np.exp(-L / (8 * B**2))
        p /= p.sum()
        assert_allclose(found[t], sum(w * row for w, row in zip(p, z, strict=True)) / roots, atol=1e-9)
        L += [float(((row - Y[t] * roots) ** 2).sum()) for row in z]
    assert_allclose(model.losses_, L)


@pytest.mark.parametrize("seed", range(5))
def test_the_guarantee_holds_on_any_stream(seed):
    """Also for adversarial outputs, whose sign depends on the best learner's prediction."""
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((200, 3))
    y /= np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1.0)
    y[100:] = -y[:100] if seed % 2 else np.sign(y[100:]) / 2
    model = OnlineMovKL([Gaussian(s) * Identity() for s in (0.05, 0.5, 5.0)], bound=1.0)
    found = model.predict_then_learn(X[:200], y)
    assert ((found - y) ** 2).sum() <= model.losses_.min() + 8 * np.log(4) + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_guarantee_against_combinations(seed):
    """The definition of exponentiated gradient, and its bound against the best combination in hindsight."""
    rng = np.random.default_rng(seed)
    y = (
        0.5 * np.sin(9 * X[:200, :1])
        + 0.4 * X[:200, :1] / np.abs(X[:200, :1]).max()
        + 0.05 * rng.standard_normal((200, 1))
    )
    given, B = [Gaussian(0.1) * Identity(), Linear() * Identity(), Gaussian(5.0) * Identity()], 1.2
    y = np.clip(y, -B, B)
    model = OnlineMovKL(given, bound=B, even=False, against="combinations")
    found = model.predict_then_learn(X[:200], y)
    pattern = OLOK(alpha=1e-3, schedule="auto")
    each = np.stack([clone(pattern).set_params(kernel=k).predict_then_learn(X[:200], y)[:, 0] for k in given])
    each = np.clip(each, -B, B)
    slopes = np.zeros(3)
    for t in range(200):
        p = np.exp(-np.sqrt(4 * np.log(3) / (t + 1)) / (8 * B**2) * slopes)
        z = p @ each[:, t] / p.sum()
        assert_allclose(found[t, 0], z, atol=1e-9)
        slopes += 2 * (z - y[t, 0]) * each[:, t]
    best = min(
        float(((np.array([a, b, 1 - a - b]) @ each - y[:, 0]) ** 2).sum())
        for a in np.linspace(0, 1, 21)
        for b in np.linspace(0, 1 - a, 21)
    )
    assert best < model.losses_.min()
    assert ((found - y) ** 2).sum() <= best + 8 * B**2 * np.sqrt(200 * np.log(3))
    parts = OnlineMovKL(given, bound=B, even=False, against="combinations")
    rows = np.concatenate([parts.predict_then_learn(X[k : k + 40], y[k : k + 40]) for k in range(0, 200, 40)])
    assert_allclose(rows, found, atol=1e-9)
    assert_allclose(parts.weights_.sum(), 1.0)


def test_the_weights_find_the_kernel_that_the_data_need():
    y = np.sin(2 * X[:, :1]) * np.ones(6)
    model = OnlineMovKL([Gaussian(s) * Identity() for s in (0.01, 1.0, 100.0)], even=False).fit(X, y)
    assert model.weights_.argmax() == 1
    assert_allclose(model.weights_.sum(), 1.0)


def test_memory_stays_with_truncation():
    model = OnlineMovKL(KERNELS, OLOK(alpha=1e-3, truncation=50), grid=T).fit(X, Y)
    assert all(len(learner.support_.X) <= 50 for learner in model.learners_)


def test_comes_close_to_the_batch_learner():
    """After several passes the error is within a factor of two of that of the batch fit."""
    batch = MovKL(KERNELS, alpha=0.1, grid=T).fit(X, Y)
    target = float(((batch.predict(NEW) - TRUTH) ** 2).mean())
    model = OnlineMovKL(KERNELS, OLOK(alpha=1e-5, schedule="auto", max_support=10_000), grid=T)
    errors = []
    for _ in range(4):
        model.partial_fit(X, Y)
        errors.append(float(((model.predict(NEW) - TRUTH) ** 2).mean()))
    zero = float((TRUTH**2).mean())
    assert errors[-1] < errors[0]
    assert errors[-1] - target < 0.1 * (zero - target)


@pytest.mark.parametrize("against", ["learners", "sums"])
def test_saving_and_resuming(against, tmp_path):
    model = OnlineMovKL(KERNELS, grid=T, against=against).partial_fit(X[:100], Y[:100])
    ovk.save(model, tmp_path / "model")
    again = ovk.load(tmp_path / "model")
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert np.array_equal(again.predict_then_learn(X[100:], Y[100:]), model.predict_then_learn(X[100:], Y[100:]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OnlineMovKL([]), "sequence of at least one kernel"),
        (OnlineMovKL(against="all"), "against must be 'learners', 'combinations' or 'sums', got 'all'"),
        (OnlineMovKL(learner=OLOK(), against="sums"), "learner must be None with against='sums'"),
        (OnlineMovKL(bound=0.0), "bound must be positive and finite"),
        (OnlineMovKL(grid=[0.0, 1.0]), "grid must have one point for each of the 6 columns of y, got 2"),
        (OnlineMovKL(grid=T[::-1]), "points of a grid must increase"),
    ],
)
def test_bad_input(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "learners_")


def test_a_singular_operator_says_nothing_where_it_is_zero():
    half = np.where(np.arange(6) < 3, 1.0, 0.0)
    model = OnlineMovKL([Gaussian(1.0) * Multiplication(half)], grid=T).fit(X, Y)
    found = model.predict(NEW)
    assert np.array_equal(found[:, 3:], np.zeros_like(found[:, 3:]))
    assert np.isfinite(found).all()
    assert found[:, :3].any()


def test_later_chunks_are_checked():
    model = OnlineMovKL(KERNELS, grid=T).partial_fit(X[:50], Y[:50])
    before = model.predict(NEW)
    with pytest.raises(ValueError, match="y has 3 outputs but the model has learned 6"):
        model.partial_fit(X[50:60], Y[50:60, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((2, 2), np.nan), Y[:2])
    assert np.array_equal(model.predict(NEW), before)


def test_the_default_kernels():
    assert len(OnlineMovKL().fit(X, Y).learners_) == 9
    assert len(OnlineMovKL(grid=T).fit(X[:40], Y[:40]).learners_) == 25


def test_invalid_rows_are_skipped_and_weights_refused():
    bad = X.copy()
    bad[[3, 40], 1] = np.nan
    good = np.setdiff1d(np.arange(len(X)), [3, 40])
    skipping, clean = OnlineMovKL(KERNELS, grid=T, on_invalid="skip"), OnlineMovKL(KERNELS, grid=T)
    Z = skipping.predict_then_learn(bad, Y)
    assert skipping.n_skipped_ == 2
    assert np.isnan(Z[[3, 40]]).all()
    assert_allclose(Z[good], clean.predict_then_learn(X[good], Y[good]), atol=1e-12)
    with pytest.raises(ValueError, match="row 3 contains NaN"):
        clean.partial_fit(bad, Y)
    with pytest.raises(ValueError, match="OnlineMovKL does not support sample_weight"):
        clean.partial_fit(X, Y, sample_weight=np.ones(len(X)))


# One function with all kernels ----------------------------------------------------------------------------------------


def one_function(kernels=KERNELS, **settings):
    return OnlineMovKL(kernels, against="sums", **settings)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("bound", [None, 1.0])
def test_one_function_agrees_with_the_reference_in_any_chunks(bound, holes):
    x, y = X[:30], Y[:30, :3].copy()
    if holes:
        y[np.random.default_rng(1).random(y.shape) < 0.3] = np.nan
        y[[0, 17]] = np.nan
    kernels = [Gaussian(0.8) * Identity(3), Linear() * MixedEffect(0.5, 3), Gaussian(3.0) * MixedEffect(0.9, 3)]
    expected = betting_sum(kernels, x, y, bound)
    for sizes in ([30], [1], [7, 20]):
        model, parts, start = one_function(kernels, bound=bound), [], 0
        while start < len(x):
            some = slice(start, start + sizes[len(parts) % len(sizes)])
            parts.append(model.predict_then_learn(x[some], y[some]))
            start = some.stop
        assert_allclose(np.concatenate(parts), expected, atol=1e-11)


def test_one_function_is_the_expansion():
    model = one_function(bound=2.0, grid=T).fit(X, Y)
    values = model.expansion_(NEW) / model.grid_.roots()
    assert_allclose(model.predict(NEW), values, atol=1e-12)
    assert_allclose(model.weights_.sum(), 1.0)
    with pytest.raises(AttributeError, match="use against='sums'"):
        _ = OnlineMovKL(KERNELS, grid=T).fit(X, Y).expansion_


@pytest.mark.parametrize("seed", range(4))
def test_the_wealth_is_at_least_its_bound(seed):
    """W >= epsilon F, whatever the outputs: here they turn against the prediction half of the time."""
    rng = np.random.default_rng(seed)
    model = one_function([Gaussian(s) * Identity() for s in (0.05, 0.5, 5.0)], bound=1.0)
    first = None
    for x in X[:150]:
        z = 0.0 if first is None else float(model.predict(x[None])[0])
        y = (-1.0 if z > 0 else 1.0) if rng.random() < 0.5 else np.sin(4 * x[0])
        model.partial_fit(x[None], [y])
        f = model.sum_
        first = f.largest if first is None else first
        L = f.reach * f.largest
        F = np.sqrt(first / (L + f.lengths)) * np.exp(f.squares / (2 * L * (L + f.lengths)))
        assert (f.wealth >= first**2 * np.exp(-0.25) * F * (1 - 1e-9)).all()


def test_the_guarantee_against_sums():
    """The bound of the module, for the sum of functions that made the outputs."""
    rng = np.random.default_rng(0)
    kernels, B = [Gaussian(np.array([0.5, 1e4])) * Identity(1), Gaussian(np.array([1e4, 0.5])) * Identity(1)], 1.0
    u = [Expansion(kernel, X[:5], 0.2 * rng.standard_normal((5, 1))) for kernel in kernels]
    y = sum(one(X) for one in u)
    assert np.abs(y).max() <= B
    model = one_function(kernels, bound=B, even=False)
    found = model.predict_then_learn(X, y)
    L, S = model.sum_.reach * model.sum_.largest, model.sum_.lengths
    norms, first = np.array([one.norm() for one in u]), float(np.linalg.norm(y[0]))
    Q, b = L * (L + S), first**2 * np.exp(-0.25) * np.sqrt(first / (L + S))
    regret = model.sum_.largest**2 + norms * np.sqrt(Q * np.log1p(Q * norms**2 / b**2))
    assert ((found - y) ** 2).sum() <= 8 * B**2 + 2 * regret.sum()
    # Two thirds of the sum of squares would be no evidence of learning.
    assert ((found - y) ** 2).sum() < 0.1 * (y**2).sum()


def sum_of_two(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    y = (np.sin(2 * x[:, :1]) + np.cos(2 * x[:, 1:])) / 2 * [0.6, -0.4]
    return x, y + 0.1 * rng.standard_normal((n, 2))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_one_function_is_as_good_as_the_right_kernels(seed):
    """On g(x1) + h(x2): at most 1.15 times the error of OLOK with the two kernels that are right."""
    x, y = sum_of_two(1000, seed)
    kernels = [Gaussian(np.array(w)) * Identity(2) for w in ((0.3, 1e4), (1.0, 1e4), (1e4, 0.3), (1e4, 1.0))]

    def error(model):
        return float(((model.predict_then_learn(x, y) - y) ** 2).sum(axis=1).mean())

    right = min(
        error(OLOK(one + other, alpha=1e-3, schedule="auto", warm_up=0)) for one in kernels[:2] for other in kernels[2:]
    )
    found = error(one_function(kernels, bound=1.5))
    assert found <= 1.15 * right
    assert found < 0.75 * error(OnlineMovKL(kernels, bound=1.5, against="combinations"))


def test_one_function_follows_units_and_growing_outputs():
    x, y = sum_of_two(150, 0)
    kernels = [Gaussian(s) * Identity(2) for s in (0.3, 1.0)]
    found = one_function(kernels).predict_then_learn(x, y)
    assert_allclose(one_function(kernels).predict_then_learn(x, 1e60 * y), 1e60 * found, rtol=1e-8)
    # Errors of one sign in every row: the wealth must not grow exponentially.
    n = 1500
    grows = one_function([Gaussian(1.0)]).predict_then_learn(np.zeros((n, 1)), np.arange(1.0, n + 1))
    assert np.isfinite(grows).all()
    assert_allclose(grows[-1], n - 1.0)


def test_the_kind_of_competitors_cannot_change_later():
    model = OnlineMovKL(KERNELS, grid=T).partial_fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="against cannot change to 'sums' after the first rows"):
        model.set_params(against="sums").partial_fit(X[50:60], Y[50:60])
    assert model.fit(X[:50], Y[:50]).sum_ is not None
