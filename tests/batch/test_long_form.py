"""Long form: one task per row, without computing the other tasks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from batch.reference import long_form
from memory import peak_memory
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Expansion

KERNELS = {
    "separable": Gaussian(0.8) * MixedEffect(0.6),
    "sum": Gaussian(0.8) * MixedEffect(0.6) + Linear() * Identity(),
}


@pytest.mark.parametrize("form", ["wide", "long", "landmarks", "long, landmarks"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("intercept", [False, True])
def test_one_task_a_row_is_a_column_of_the_whole(name, form, intercept, data):
    model = OVKRidge(
        KERNELS[name],
        alpha=[0.1, 0.2, 0.3],
        fit_intercept=intercept,
        landmarks=data.X[::3] if "landmarks" in form else None,
    )
    if "long" in form:
        X, y, task, weight = long_form(data.X, data.holes, data.weight)
        model.fit(X, y, weight, task=task)
    else:
        model.fit(data.X, data.holes, data.weight)
    task = np.array([2, 0, 1, 1, 0, 2, 0])
    mean, std = model.predict(data.X_new, return_std=True)
    found = model.predict(data.X_new, return_std=True, task=task)
    each = np.arange(7)
    assert_allclose(found[0], mean[each, task], rtol=1e-9, atol=1e-12)
    assert_allclose(found[1], std[each, task], rtol=1e-6, atol=1e-9)
    assert_allclose(model.predict(data.X_new, task=task), found[0], rtol=0, atol=0)


def test_fields_have_tasks_too(data):
    model = OVKRidge(CurlFree(Gaussian(0.8)), 0.1).fit(data.X, data.holes[:, :2])
    assert_allclose(model.predict(data.X_new, task=np.ones(7, int)), model.predict(data.X_new)[:, 1], rtol=1e-12)


def test_score_of_observations(data):
    X, y, task = long_form(data.X, data.holes)
    model = OVKRidgeCV(Gaussian(0.8), [0.01, 0.1], omegas=[0.0, 0.5]).fit(X, y, task=task)
    residual = y - model.predict(X, task=task)
    assert model.score(X, y, task=task) == pytest.approx(1 - residual.var() / y.var(), abs=1e-2)
    with pytest.raises(ValueError, match="one value per row"):
        model.score(X, np.column_stack([y, y]), task=task)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ([0, 1], r"one entry for each of the 7 rows, got shape \(2,\)"),
        ([0, 1, 2, 3, 0, 0, 0], "below 3, got 3"),
        ([0, 1, 2, -1, 0, 0, 0], "0..d-1, got -1"),
        ([0.5] * 7, "0..d-1, got dtype float64"),
    ],
)
def test_bad_tasks(task, message, data):
    model = OVKRidge(KERNELS["separable"]).fit(data.X, data.Y)
    with pytest.raises(ValueError, match=message):
        model.predict(data.X_new, task=task)


def test_no_covariance_between_tasks_that_were_not_asked_for(data):
    model = OVKRidge(KERNELS["separable"]).fit(data.X, data.Y)
    with pytest.raises(ValueError, match="use return_std"):
        model.predict(data.X_new, return_cov=True, task=np.zeros(7, int))


def test_memory_does_not_grow_with_rows_times_tasks():
    rng = np.random.default_rng(0)
    n, d, m = 20_000, 400, 10
    f = Expansion(Gaussian(1.0) * Dense(np.eye(d)), rng.standard_normal((m, 2)), rng.standard_normal((m, d)))
    X, task = rng.standard_normal((n, 2)), rng.integers(d, size=n)
    limit = 0.25 * 8 * n * d
    assert peak_memory(lambda: f.at(X, task), limit) < limit
    assert_allclose(f.at(X[:50], task[:50]), f(X[:50])[np.arange(50), task[:50]], rtol=1e-10)


def test_many_tasks_on_landmarks():
    """50 tasks with 40 observations each share a common part."""
    rng = np.random.default_rng(0)
    n, d = 2000, 50
    X, task = rng.uniform(-2, 2, (n, 1)), np.repeat(np.arange(d), n // d)
    own = rng.standard_normal(d)
    y = np.sin(2 * X[:, 0]) + 0.3 * own[task] + 0.3 * rng.standard_normal(n)
    model = OVKRidge(Gaussian(1.0) * MixedEffect(0.8, d), 0.5, landmarks=25, random_state=0, chunk_size=300)
    new, which = rng.uniform(-2, 2, (500, 1)), rng.integers(d, size=500)
    truth = np.sin(2 * new[:, 0]) + 0.3 * own[which]
    coupled = model.fit(X, y, task=task).score(new, truth, task=which)
    apart = model.set_params(kernel=Gaussian(1.0) * Identity(d)).fit(X, y, task=task).score(new, truth, task=which)
    assert coupled > 0.95
    assert 1 - coupled < 0.5 * (1 - apart)


def test_chunks_in_long_form(data):
    X, y, task, weight = long_form(data.X, data.holes, data.weight)
    kernel = Gaussian(0.8) * MixedEffect(0.6, output_dim=3)
    model = OVKRidge(kernel, 0.1, landmarks=data.X[::3], fit_intercept=True)
    expected = model.fit(X, y, weight, task=task).predict(data.X_new)
    parts = [slice(i, i + 9) for i in range(0, len(y), 9)]
    found = model.fit((X[p], y[p], weight[p], task[p]) for p in parts).predict(data.X_new)
    assert_allclose(found, expected, rtol=1e-8)
    plain = model.fit(X, y, task=task).predict(data.X_new)
    assert_allclose(model.fit((X[p], y[p], None, task[p]) for p in parts).predict(data.X_new), plain, rtol=1e-8)
    with pytest.raises(ValueError, match="set output_dim of the operator"):
        model.set_params(kernel=Gaussian(0.8)).fit((X[p], y[p], None, task[p]) for p in parts)
