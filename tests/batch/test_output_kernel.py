"""OutputKernelRidge recovers a known structure, and equals ridge regression for a fixed T."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from batch.reference import leave_out_errors, long_form
from ovk import OutputKernelRidge, OVKRidge, OVKRidgeCV, load, save
from ovk.batch.tuning import output_kernel
from ovk.kernels import Gaussian, Linear
from ovk.objectives import L1, Trace
from ovk.operators import Dense, Identity, MixedEffect
from ovk.solvers.output_kernel import learn_operator


def planted(T, n=500, noise=0.3, seed=0):
    """Outputs drawn from the Gaussian process with covariance k T."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    L = np.linalg.cholesky(Gaussian(0.5)(X) + 1e-9 * np.eye(n))
    values, vectors = np.linalg.eigh(T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    F = L @ rng.standard_normal((n, len(T))) @ root.T
    return X, F + noise * np.sqrt(np.trace(T) / len(T)) * rng.standard_normal(F.shape)


def correlation(A, B):
    return np.corrcoef(A.ravel(), B.ravel())[0, 1]


def low_rank():
    W = np.random.default_rng(1).standard_normal((10, 2))
    return W @ W.T


def sparse():
    T = np.diag(np.linspace(1.0, 2.0, 10))
    for i, j, value in ((0, 1, 0.9), (2, 3, -1.0), (4, 5, 1.1), (1, 6, 0.5)):
        T[i, j] = T[j, i] = value
    return T


@pytest.mark.parametrize(("penalty", "least"), [("frobenius", 0.93), ("trace", 0.98)])
def test_a_low_rank_operator_is_recovered(penalty, least):
    T = low_rank()
    model = OutputKernelRidge(Gaussian(0.5), penalty=penalty).fit(*planted(T))
    assert correlation(model.T_, T) > least
    assert (np.diff(model.objective_log_) <= 1e-9 * model.objective_log_[0]).all()
    assert np.linalg.eigvalsh(model.T_)[0] >= -1e-9 * np.trace(model.T_)


def test_a_low_rank_operator_of_given_rank():
    T = low_rank()
    model = OutputKernelRidge(Gaussian(0.5), penalty="trace", rank=2).fit(*planted(T))
    assert correlation(model.T_, T) > 0.95
    assert np.linalg.matrix_rank(model.T_, tol=1e-8 * np.trace(model.T_)) == 2
    assert (np.diff(model.objective_log_) <= 0).all()


def test_a_sparse_operator_is_recovered():
    T = sparse()
    model = OutputKernelRidge(Gaussian(0.5), penalty="sparse").fit(*planted(T))
    assert correlation(model.T_, T) > 0.95
    # Entries of unrelated pairs are smaller than those of related pairs.
    off = ~np.eye(10, dtype=bool)
    found = np.abs(model.T_ / np.sqrt(np.outer(np.diagonal(model.T_), np.diagonal(model.T_))))
    assert found[off & (T == 0)].max() < found[off & (T != 0)].min()


def test_sparsity_means_zeros():
    X, Y = planted(sparse(), n=200)
    counts = [
        (np.abs(OutputKernelRidge(Gaussian(0.5), 20.0, penalty=penalty).fit(X, Y).T_) < 1e-6).sum()
        for penalty in ("trace", L1(1.0))
    ]
    assert counts[0] < 10
    assert counts[1] > 40


@pytest.mark.long
def test_missing_outputs_are_learned_through_the_structure():
    T = low_rank()[:5, :5]
    X, Y = planted(T, n=120, noise=0.2)
    holes = np.where(np.random.default_rng(0).random(Y.shape) < 0.4, np.nan, Y)
    model = OutputKernelRidge(Gaussian(0.5), penalty="trace", leave_out="entry").fit(X, holes)
    assert correlation(model.T_, T) > 0.9
    apart = OVKRidgeCV(Gaussian(0.5), leave_out="entry").fit(X, holes)
    missing = np.isnan(holes)

    def error(model):
        return ((model.predict(X) - Y)[missing] ** 2).mean()

    assert error(model) < 0.75 * error(apart)


FORMS = {
    "plain": {},
    "weights and intercept": {"weighted": True, "intercept": True},
    "holes": {"holes": True},
    "holes, weights and intercept": {"holes": True, "weighted": True, "intercept": True},
}


@pytest.mark.parametrize("form", FORMS)
def test_with_the_operator_fixed_it_is_ridge_regression(form, data):
    options = FORMS[form]
    Y = data.holes if options.get("holes") else data.Y
    weight = data.weight if options.get("weighted") else None
    intercept = options.get("intercept", False)
    T = MixedEffect(0.6)
    model = OutputKernelRidge(Gaussian(0.8) * T, 0.1, fit_intercept=intercept, max_iter=0).fit(data.X, Y, weight)
    ridge = OVKRidge(Gaussian(0.8) * T, 0.1, fit_intercept=intercept).fit(data.X, Y, weight)
    assert_allclose(model.T_, T.resolve(3).dense())
    assert_allclose(model.predict(data.X_new), ridge.predict(data.X_new), rtol=1e-9, atol=1e-11)
    # The function is ridge regression with the learned T.
    model.set_params(max_iter=1000).fit(data.X, Y, weight)
    again = OVKRidge(Gaussian(0.8) * Dense(model.T_), 0.1, fit_intercept=intercept).fit(data.X, Y, weight)
    for found, expected in zip(*(m.predict(data.X_new, return_cov=True) for m in (model, again)), strict=True):
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    # The objective is that of the class's docstring.
    f = model.predict(data.X)
    squares = np.nansum((np.ones(25) if weight is None else weight)[:, None] * (Y - f) ** 2)
    total = squares + 0.1 * (model.expansion_.norm() ** 2 + np.trace(model.T_))
    assert_allclose(model.objective_log_[-1], total, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_long_form_weights_and_repeats(form, data):
    options = FORMS[form]
    Y = data.holes if options.get("holes") else data.Y
    weight = np.arange(25) % 3 + 1.0
    model = OutputKernelRidge(Gaussian(0.8), [0.03, 0.3], fit_intercept=options.get("intercept", False), tol=1e-6)
    expected, errors = model.fit(data.X, Y, weight).predict(data.X_new), model.errors_
    repeat = np.repeat(np.arange(25), weight.astype(int))
    assert_allclose(model.fit(data.X[repeat], Y[repeat]).predict(data.X_new), expected, rtol=1e-3, atol=1e-4)
    assert_allclose(model.errors_, errors, rtol=1e-4)
    X, y, task, w = long_form(data.X, Y, weight)
    assert_allclose(model.fit(X, y, w, task=task).predict(data.X_new), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("entry", [False, True])
def test_loo_errors(holes, entry, data):
    Y = data.holes if holes else data.Y
    leave_out = "entry" if entry else "row"
    model = OutputKernelRidge(Gaussian(0.8) * MixedEffect(0.5), [0.1, 1.0], max_iter=0, leave_out=leave_out)
    model.fit(data.X, Y)
    kernel = Gaussian(0.8) * MixedEffect(0.5)
    slow = leave_out_errors(lambda X, Y, w: OVKRidge(kernel, 1.0).fit(X, Y, w), data.X, Y, entry=entry)
    assert_allclose(model.alphas_, [1.0, 0.1])
    assert_allclose(model.errors_[0], slow.mean(), rtol=1e-7)


def test_the_path_from_the_data(data):
    model = OutputKernelRidge(Gaussian(0.8)).fit(data.X, data.Y)
    assert len(model.alphas_) == len(model.errors_) == 12
    assert model.alpha_ == model.alphas_[model.errors_.argmin()]
    assert OutputKernelRidge(Gaussian(0.8), model.alpha_).fit(data.X, data.Y).errors_ is None


def test_along_the_path_each_operator_starts_from_its_neighbour(data, monkeypatch):
    starts, learned = [], []

    def spy(profile, penalty, alpha, start, **options):
        starts.append(start)
        learned.append(learn_operator(profile, penalty, alpha, start, **options))
        return learned[-1]

    monkeypatch.setattr(output_kernel, "learn_operator", spy)
    model = OutputKernelRidge(Gaussian(0.8), [0.01, 1.0, 0.1], tol=1e-7).fit(data.X, data.Y)
    assert_allclose(model.alphas_, [1.0, 0.1, 0.01])
    for before, start in zip(learned, starts[1:], strict=False):
        assert_allclose(start, before.T)
    # The result does not depend on the start.
    cold = OutputKernelRidge(Gaussian(0.8), 0.01, tol=1e-7).fit(data.X, data.Y)
    assert_allclose(learned[2].T, cold.T_, atol=1e-4 * np.trace(cold.T_))


def test_one_output(data):
    model = OutputKernelRidge(Gaussian(0.8)).fit(data.X, data.Y[:, 0])
    assert model.predict(data.X_new).shape == (7,)
    assert model.T_.shape == (1, 1)


def test_saved_and_loaded(data, tmp_path):
    model = OutputKernelRidge(Gaussian(0.8), penalty=Trace(2.0)).fit(data.X, data.holes)
    save(model, tmp_path / "model.ovk")
    loaded = load(tmp_path / "model.ovk")
    assert_allclose(loaded.predict(data.X_new), model.predict(data.X_new), rtol=0, atol=0)
    assert_allclose(loaded.T_, model.T_, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"penalty": "nuclear"}, "penalty must be one of .*'trace'.* got 'nuclear'"),
        ({"penalty": 3.0}, "penalty must be one of"),
        ({"rank": 4}, "rank must be at most the number of outputs 3"),
        ({"rank": 0}, "rank must be an integer >= 1"),
        ({"rank": 2, "penalty": "sparse"}, "with penalty 'frobenius' or 'trace'"),
        ({"alphas": 0.0}, "each of alphas must be positive and finite"),
        ({"alphas": []}, "alphas must be a sequence of positive numbers"),
        ({"leave_out": "all"}, "leave_out must be 'row' or 'entry', got 'all'"),
        ({"tol": 0.0}, "tol must be positive and finite"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0"),
        ({"kernel": Gaussian(1.0) * Identity() + Linear() * MixedEffect(0.5)}, "must be a scalar kernel or k"),
    ],
)
def test_bad_parameters(params, message, data):
    model = OutputKernelRidge(Gaussian(0.8)).fit(data.X, data.Y)
    before = model.predict(data.X_new)
    with pytest.raises(ValueError, match=message):
        model.set_params(**params).fit(data.X, data.Y)
    assert_allclose(model.predict(data.X_new), before, rtol=0, atol=0)


def test_missing_convergence_warns(data):
    with pytest.warns(ConvergenceWarning, match="within max_iter=2 steps"):
        OutputKernelRidge(Gaussian(0.8), 0.1, penalty="sparse", max_iter=2).fit(data.X, data.Y)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("level", [1e6, 1e10])
def test_the_level_of_the_outputs_does_not_matter(gaps, level):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((30, 2))
    outputs = np.column_stack([inputs[:, 0] * inputs[:, 1], inputs[:, 0]])
    if gaps:
        outputs[::3, 0] = np.nan
    model = OutputKernelRidge(Gaussian(1.0), 0.1)
    expected = model.fit(inputs, outputs).predict(inputs)
    # Adding the level rounds the outputs to eps times the level.
    assert_allclose(model.fit(inputs, outputs + level).predict(inputs) - level, expected, atol=1e-14 * level)
