"""The measured regret of the forecasters is below the bounds for any labels."""

import re
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk.online.theory
from ovk import KAWV, PKAWV
from ovk.features import KORS, Fourier, Given, Nystrom, NystromMap, Taylor, TaylorMap
from ovk.kernels import Gaussian, Linear
from ovk.online.theory import (
    kors_beta,
    kors_gap,
    kors_size_bound,
    projected_regret_bound,
    regret_bound,
    spilled_regret_bound,
)
from ovk.operators import Dense
from ovk.ovkernels import CurlFree

KINDS = ["random", "smooth", "adversarial"]
KERNEL = Gaussian(0.4)


def played(model, X, kind, d=1, seed=0):
    """Labels of norm at most 1, and the predictions made before each of them."""
    rng = np.random.default_rng(seed)
    if kind != "adversarial":
        Y = rng.choice([-1.0, 1.0], size=(len(X), d)) if kind == "random" else np.sin(3 * X[:, :1]) * np.ones((1, d))
        Y = Y / np.sqrt(d)
        return Y, np.asarray(model.predict_then_learn(X, Y)).reshape(Y.shape)
    Y, F = np.zeros((len(X), d)), np.zeros((len(X), d))
    for t in range(len(X)):
        # The adversary computes the prediction with a copy, including its random state, and chooses the opposite.
        seen = np.asarray(deepcopy(model).predict_then_learn(X[t : t + 1], np.zeros((1, d)))).reshape(d)
        Y[t] = np.where(seen >= 0, -1.0, 1.0) / np.sqrt(d)
        F[t] = np.asarray(model.predict_then_learn(X[t : t + 1], Y[t : t + 1])).reshape(d)
        assert np.array_equal(F[t], seen)
    return Y, F


def comparator(G, Y, alpha):
    """Loss and norm of the best function in hindsight."""
    c = np.linalg.solve(G + alpha * np.eye(len(G)), Y.reshape(-1))
    return float(np.sum((Y.reshape(-1) - G @ c) ** 2)), float(np.sqrt(max(c @ G @ c, 0.0)))


def inputs(n, p=2, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, p))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_exact(kind, alpha):
    X = inputs(150)
    Y, F = played(KAWV(KERNEL, alpha=alpha), X, kind)
    for ridge in (alpha, 0.1 * alpha):
        loss, norm = comparator(KERNEL(X), Y, ridge)
        assert np.sum((F - Y) ** 2) - loss <= regret_bound(KERNEL, X, alpha, norm=norm, largest=1.0)


@pytest.mark.parametrize("K", [Gaussian(0.4) * Dense([[1.0, 0.6], [0.6, 2.0]]), CurlFree(Gaussian(0.6), 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_several_outputs(K, kind):
    X = inputs(80)
    Y, F = played(KAWV(K, alpha=0.3), X, kind, d=2)
    loss, norm = comparator(K.gram(X).dense(), Y, 0.3)
    assert np.sum((F - Y) ** 2) - loss <= regret_bound(K, X, 0.3, norm=norm, largest=1.0)


def own_time(X, support):
    """(n, m) features of each row when it was predicted, 0 for later points; and when each point was added."""
    joined = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in support]
    assert joined == sorted(joined)
    phi = NystromMap.from_points(KERNEL, support).transform(X)
    for j, t in enumerate(joined):
        phi[:t, j] = 0.0
    return phi, joined


def documented():
    """The bound of `PKAWV` for each value of `past`, and the text of its docstring."""
    items = re.findall(r'- ``Nystrom\(past="(\w+)"\)``(.*?)(?=\n    - )', PKAWV.__doc__, flags=re.DOTALL)
    return {past: (getattr(ovk.online.theory, re.search(r"`(\w+_bound)`", text)[1]), text) for past, text in items}


def test_the_docstring_says_which_bound_goes_with_which_past():
    found = documented()
    assert set(found) == {"exact", "projected"}
    for past, (bound, text) in found.items():
        # The docstring of the bound states its `past`, and that of the learner the default.
        assert f'``past="{past}"``' in bound.__doc__
        assert (", the default" in text) == (Nystrom().past == past)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [0.02, 0.5])
def test_projected_anew_at_each_growth(kind, mu):
    X, alpha = inputs(120), 0.5
    model = PKAWV(KERNEL, alpha, Nystrom(KORS(mu=mu, beta=1.0), past="exact"), random_state=0)
    Y, F = played(model, X, kind)
    K = KERNEL(X)
    phi = NystromMap.from_points(KERNEL, model.support_).transform(X)
    _, joined = own_time(X, model.support_)
    gap = 0.0
    for t in range(len(X)):
        m = sum(j <= t for j in joined)
        left = K[: t + 1, : t + 1] - phi[: t + 1, :m] @ phi[: t + 1, :m].T
        gap = max(gap, float(np.linalg.eigvalsh(left)[-1]))
    loss, norm = comparator(K, Y, alpha)
    named, _ = documented()["exact"]
    bound = named(KERNEL, X, alpha, norm=norm, largest=1.0, gap=gap, growths=len(joined))
    assert 3 < len(joined) < len(X)
    assert np.sum((F - Y) ** 2) - loss <= bound
    # As in the docstring, m n mu / alpha more than the exact forecaster, with the measured gap as mu.
    most = (1 + len(joined)) * len(X) * gap / alpha
    assert bound - regret_bound(KERNEL, X, alpha, norm=norm, largest=1.0) <= most


@pytest.mark.parametrize("kind", KINDS)
def test_the_past_left_as_it_was_projected(kind):
    X, alpha = inputs(150), 0.5
    model = PKAWV(KERNEL, alpha, Nystrom(KORS(mu=0.3, beta=1.0), past="projected"), random_state=0)
    Y, F = played(model, X, kind)
    phi, _ = own_time(X, model.support_)
    spill = float(np.sum(1.0 - np.sum(phi**2, axis=1)))
    loss, norm = comparator(KERNEL(X), Y, alpha)
    named, text = documented()["projected"]
    bound = named(phi, alpha, norm=norm, largest=1.0, spill=spill, loss=loss)
    assert np.sum((F - Y) ** 2) - loss <= bound
    assert "2 |f| sqrt(L spill) + |f|^2 spill" in text
    base = regret_bound(Linear(), phi, alpha, norm=norm, largest=1.0)
    assert_allclose(bound - base, 2 * norm * np.sqrt(loss * spill) + norm**2 * spill)


@pytest.mark.parametrize("kind", KINDS)
def test_features_known_beforehand(kind):
    X, alpha = inputs(150), 0.5
    Y, F = played(PKAWV(KERNEL, alpha, Nystrom(Given(X[::6]))), X, kind)
    phi = NystromMap.from_points(KERNEL, X[::6]).transform(X)
    gap = float(np.linalg.eigvalsh(KERNEL(X) - phi @ phi.T)[-1])
    loss, norm = comparator(KERNEL(X), Y, alpha)
    bound = projected_regret_bound(KERNEL, X, alpha, norm=norm, largest=1.0, gap=gap, growths=0)
    assert np.sum((F - Y) ** 2) - loss <= bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", [Taylor(8), Fourier(200)])
def test_fixed_features(kind, plan):
    """Against functions in the span of the features, spill is 0."""
    X, alpha = inputs(120), 0.5
    model = PKAWV(KERNEL, alpha, plan, random_state=0)
    Y, F = played(model, X, kind)
    phi = model.features_.transform(X)
    loss, norm = comparator(phi @ phi.T, Y, alpha)
    bound = spilled_regret_bound(phi, alpha, norm=norm, largest=1.0, spill=0.0, loss=loss)
    assert np.sum((F - Y) ** 2) - loss <= bound
    if isinstance(plan, Taylor):
        spill = float(TaylorMap.from_kernel(KERNEL, 8, model.features_.centre).residual(X).sum())
        assert_allclose(spill, np.sum(1.0 - np.sum(phi**2, axis=1)), atol=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_the_regret_of_a_gaussian_kernel_grows_like_a_power_of_the_logarithm(p):
    """Random labels: the slope of log regret against log log n is at most p + 1 (it is about p on a bounded domain)."""
    kernel, ns = Gaussian(0.5), np.array([100, 200, 400, 800])
    X = inputs(800, p, seed=p)
    means = []
    for n in ns:
        regrets = []
        for seed in range(3):
            Y, F = played(KAWV(kernel, alpha=1.0), X[:n], "random", seed=seed)
            loss, norm = comparator(kernel(X[:n]), Y, 1.0)
            regrets.append(np.sum((F - Y) ** 2) - loss - norm**2)
            assert regrets[-1] <= regret_bound(kernel, X[:n], 1.0, norm=0.0, largest=1.0)
        means.append(np.mean(regrets))
    slope = np.polyfit(np.log(np.log(ns)), np.log(means), 1)[0]
    assert 0 < slope <= p + 1


@pytest.mark.parametrize("beta", [1.0, None])
def test_the_size_and_the_gap_of_kors(beta):
    X, mu, eps = inputs(300, 1), 1.0, 0.5
    used = kors_beta(300, eps=eps) if beta is None else beta
    limit = kors_size_bound(KERNEL, X, mu, beta=used, eps=eps)
    for seed in range(3):
        plan = Nystrom(KORS(mu=mu, beta=used, eps=eps))
        model = PKAWV(KERNEL, 1.0, plan, random_state=seed).fit(X, X[:, 0])
        assert model.n_features_ <= limit
        if beta is None:
            phi = NystromMap.from_points(KERNEL, model.support_).transform(X)
            assert np.linalg.eigvalsh(KERNEL(X) - phi @ phi.T)[-1] <= kors_gap(mu, eps)
