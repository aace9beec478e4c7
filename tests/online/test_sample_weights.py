"""Sample weights against their definitions, and what they must not affect."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
import reference
from online.streams import KERNELS, LOSSES, blocks_of, in_chunks, stream
from ovk import KAWV, OLOK, PKAWV, OLOKClassifier, OnlineOperator, PKAWVClassifier
from ovk.features import Given, Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.objectives import Constant, InverseSqrt, NuInsensitive
from ovk.online import Tolerance
from ovk.operators import Dense, MixedEffect

N = 20
K = Gaussian(1.0)


def weighted(n=N, seed=5):
    """Weights from a hundredth to five."""
    return np.exp(np.random.default_rng(seed).uniform(np.log(0.01), np.log(5.0), n))


def gaps(Y):
    """At least one output of every row is observed, so that every row ages the sums."""
    Y = Y.copy()
    Y[np.random.default_rng(1).random(Y.shape) < [0.0, 0.5, 0.5]] = np.nan
    return Y


@pytest.mark.parametrize("forecaster", ["awv", "ridge"])
@pytest.mark.parametrize("kernel", ["separable", "gaps", "curl-free"])
def test_the_exact_forecaster_minimises_the_weighted_errors(kernel, forecaster):
    X, Y = stream(N)
    Y, kernel = (gaps(Y), "separable") if kernel == "gaps" else (Y, kernel)
    w, operator_kernel = weighted(), KERNELS[kernel]
    model = KAWV(operator_kernel, 0.3, forecaster=forecaster)
    with blocks_of(7):
        Z = model.predict_then_learn(X, Y, w)
    gram = operator_kernel.gram(X).dense()
    expected = reference.forecasts(gram, Y, 0.3, forecaster == "awv", weight=lambda t, s: w[s])
    assert_allclose(Z, expected, rtol=0, atol=1e-9)
    known = ~np.isnan(Y)
    assert_allclose(model.cumulative_loss_, np.sum((w[:, None] * (Y - Z) ** 2)[known]))
    # The learned function, and the prediction of the next row.
    if forecaster == "ridge":
        assert_allclose(model.expansion_(X[:5]), model.predict(X[:5]), rtol=0, atol=1e-9)
    again = np.vstack([X, X[3:4]]), np.vstack([Y, np.full((1, 3), np.nan)])
    last = reference.forecasts(
        operator_kernel.gram(again[0]).dense(), again[1], 0.3, forecaster == "awv", weight=lambda t, s: w[s]
    )[-1]
    assert_allclose(model.predict(X[3:4])[0], last, rtol=0, atol=1e-9)


FORGET = {
    "all": ({}, lambda t, s: 1.0, None),
    # Blocks of six rows, in which the ridge decays as well.
    "discount": ({"discount": 0.9}, lambda t, s: 0.9 ** (t - s), lambda t: 0.9 ** (t % 6 + 1 - 3.5)),
    "window": ({"window": 16}, lambda t, s: float(s // 2 > t // 2 - 8), None),
}


@pytest.mark.parametrize("forget", FORGET)
@pytest.mark.parametrize("kernel", ["separable", "gaps", "diagonal with gaps", "curl-free"])
def test_the_projected_forecaster_minimises_the_weighted_errors(kernel, forget):
    X, Y = stream(N)
    Y = gaps(Y) if "gaps" in kernel else Y
    operator_kernel = {
        "diagonal with gaps": K * Dense(np.diag([1.0, 2.0, 0.5])),
        "curl-free": KERNELS["curl-free"],
    }.get(kernel, KERNELS["separable"])
    (params, age, ridge), w = FORGET[forget], weighted()
    model = PKAWV(operator_kernel, 0.3, Nystrom(Given(X[:8])), **params)
    Z = model.predict_then_learn(X, Y, sample_weight=w)
    gram, dictionaries = operator_kernel.gram(X).dense(), [list(range(8))] * N
    expected = reference.forecasts(gram, Y, 0.3, True, dictionaries, False, lambda t, s: age(t, s) * w[s], ridge)
    assert_allclose(Z, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon", "logistic", "simplex"])
@pytest.mark.parametrize("kernel", ["separable", "curl-free"])
def test_gradient_steps_of_weighted_losses(kernel, loss):
    X, Y = stream(N, LOSSES[loss])
    operator_kernel, w, size = KERNELS[kernel], weighted(), 12
    model = OLOK(operator_kernel, 0.1, InverseSqrt(0.2), LOSSES[loss], truncation=size, discount=0.95)
    with blocks_of(7):
        Z = model.predict_then_learn(X, Y, w)
    expected, kept = reference.olok(
        operator_kernel,
        X,
        Y,
        lambda y, z: LOSSES[loss].gradient(y[None], z[None])[0],
        0.1,
        lambda t, *_: 0.2 / np.sqrt(min(t, size)),
        size=lambda t: size,
        discount=0.95,
        weights=w,
    )
    assert_allclose(Z, expected, rtol=0, atol=1e-10)
    moved = np.array([a for _, a, _, _ in kept if np.any(a)])
    assert_allclose(model.support_.A[:, 0], moved, rtol=0, atol=1e-10)
    assert_allclose(model.cumulative_loss_, w @ LOSSES[loss].value(Y, Z))


def test_the_bound_on_truncation_counts_weights():
    X, Y = stream(150)
    w = weighted(150)
    params = {"kernel": Gaussian(1.0) * MixedEffect(0.5), "alpha": 0.3, "schedule": Constant(0.15)}
    with blocks_of(32):
        short, whole = OLOK(truncation=Tolerance(1e-2), **params), OLOK(**params)
        Z, Z_whole = short.predict_then_learn(X, Y, w), whole.predict_then_learn(X, Y, w)
    assert short.truncation_error_ > 0
    assert len(short.support_) < 150
    points = np.vstack([short.support_.X, whole.support_.X])
    coefficients = np.vstack([short.support_.A[:, 0], -whole.support_.A[:, 0]])
    assert ovk.ovkernels.Expansion(short.kernel_, points, coefficients).norm() <= short.truncation_error_
    assert np.abs(Z - Z_whole).max() < 0.05


LEARNERS = {
    "kawv": KAWV(warm_up=16),
    "kawv given width": KAWV(K * MixedEffect(0.5), 0.1),
    "pkawv": PKAWV(features=Nystrom(Uniform(size=9)), warm_up=16),
    "pkawv coupled": PKAWV(K * MixedEffect(0.5), 0.1, Nystrom(Uniform(size=9)), discount=0.95),
    "pkawv huber": PKAWV(K, 0.1, Nystrom(Uniform(size=9)), loss="huber"),
    "olok": OLOK(warm_up=16, truncation=15),
    "olok auto": OLOK(K * MixedEffect(0.5), 0.1, "auto", truncation=15),
    "olok average": OLOK(K, 0.1, 0.2, average=True),
    "olok intercept": OLOK(K, 0.1, 0.2, fit_intercept=True, truncation=15),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_what_weights_of_zero_and_one_mean_and_that_chunks_do_not_matter(name, tmp_path):
    X, Y = stream(70)
    Y, w = Y[:, :2] + 5.0, weighted(70)
    w[[3, 40, 41]] = 0.0
    fresh = LEARNERS[name]
    whole = copy.deepcopy(fresh)
    Z = whole.predict_then_learn(X, Y, w)
    # A weight of 0 is equivalent to a missing label.
    missing = np.where(w[:, None] > 0, Y, np.nan)
    assert_allclose(copy.deepcopy(fresh).predict_then_learn(X, missing, np.where(w > 0, w, 7.0)), Z, atol=1e-9)
    # In chunks, by rows, saved in between, and without weights where they are 1.
    w[50:] = 1.0
    whole = copy.deepcopy(fresh)
    Z = whole.predict_then_learn(X, Y, w)
    parts, found = copy.deepcopy(fresh), []
    for rows in np.split(np.arange(50), [1, 2, 9, 20, 33]):
        found.append(parts.predict_then_learn(X[rows], Y[rows], w[rows]))
        if rows[0] == 9:
            ovk.save(parts, tmp_path / "model")
            parts = ovk.load(tmp_path / "model")
    found += [parts.predict_then_learn(X[i : i + 1], Y[i : i + 1]) for i in range(50, 70)]
    assert_allclose(np.concatenate(found), Z, rtol=0, atol=1e-8)
    assert_allclose(parts.predict(X), whole.predict(X), rtol=0, atol=1e-8)
    ones = copy.deepcopy(fresh).predict_then_learn(X, Y, np.ones(70))
    assert_allclose(ones, in_chunks(copy.deepcopy(fresh), X, Y, [30]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_prediction_does_not_depend_on_the_weight_of_its_row(name):
    """Weights may come from labels, as those that balance classes do."""
    X, Y = stream(40)
    model = copy.deepcopy(LEARNERS[name]).partial_fit(X[:30], Y[:30], weighted(30))
    first = [copy.deepcopy(model).predict_then_learn(X[30:31], Y[30:31], [w])[0] for w in (1e-9, 1.0, 0.3, 0.0)]
    assert_allclose(first[1:], [first[0]] * 3, rtol=0, atol=1e-9)
    assert_allclose(model.predict(X[30:31])[0], first[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [PKAWVClassifier(K, 0.1, Nystrom(Uniform(size=12))), OLOKClassifier(K, 0.1, 0.1)])
def test_classes_that_weigh_more_are_guessed_more_often(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 1))
    y = np.where(X[:, 0] + 1.5 * rng.standard_normal(400) > 1.5, "rare", "often")
    plain = copy.deepcopy(model).partial_fit(X, y, classes=["often", "rare"])
    model.partial_fit(X[:200], y[:200], classes=["often", "rare"], sample_weight=np.where(y[:200] == "rare", 4.0, 1.0))
    labels = model.predict_then_learn(X[200:], y[200:], sample_weight=np.where(y[200:] == "rare", 4.0, 1.0))
    assert set(labels) <= {"often", "rare"}
    grid = np.linspace(-1, 3, 50)[:, None]
    assert np.mean(model.predict(grid) == "rare") > np.mean(plain.predict(grid) == "rare") + 0.1
    # A label of weight 0 changes nothing.
    before = model.decision_function(grid)
    model.partial_fit(X[:1], y[:1], sample_weight=[0.0])
    assert_array_equal(model.decision_function(grid), before)


@pytest.mark.parametrize("name", ["kawv given width", "pkawv coupled", "olok"])
def test_weights_that_are_refused_leave_the_model_as_it_was(name):
    X, Y = stream(40)
    model = copy.deepcopy(LEARNERS[name]).partial_fit(X[:30], Y[:30])
    before = model.predict(X)
    for wrong in ([-1.0, 1.0], [np.nan, 1.0], [1.0, 1.0, 1.0], [[1.0], [1.0]], ["a", "b"]):
        with pytest.raises(ValueError, match=r"sample_weight|weights|string"):
            model.partial_fit(X[30:32], Y[30:32], wrong)
        assert_array_equal(model.predict(X), before)


def test_learners_without_weights_raise():
    X, Y = stream(30)
    w = np.ones(30)
    with pytest.raises(ValueError, match="OnlineOperator does not support sample_weight; AutoStream, OLOK, KAWV"):
        OnlineOperator().partial_fit(X, Y, w)
    with pytest.raises(ValueError, match="sample_weight and past='exact' cannot be combined"):
        PKAWV(K, features=Nystrom(Uniform(size=5), past="exact")).partial_fit(X, Y, w)
    with pytest.raises(ValueError, match="sample_weight and loss=NuInsensitive"):
        OLOK(K, loss=NuInsensitive()).partial_fit(X, Y, w)
