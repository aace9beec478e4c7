"""Closed-form leave-one-out agrees with refitting, and selects the best candidate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from batch.reference import leave_out_errors, long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.batch.tuning import error_surface
from ovk.kernels import Gaussian, Laplacian, Linear, Matern
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, Separable

B = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
ALPHAS = [0.01, 0.3]
KERNELS = {
    "dense": Gaussian(0.8) * Dense(B),
    "mixed": Matern(1.5, 0.8) * MixedEffect(0.4),
    "sum": Gaussian(0.8) * Dense(B) + Laplacian(1.5) * Dense(np.diag([1.0, 2.0, 0.5])),
    "commuting sum": Gaussian(0.8) * MixedEffect(0.4)
    + Laplacian(1.5) * Identity()
    + 0.5 * (Linear() * MixedEffect(1.0)),
    "diagonal": Diagonal([Gaussian(0.5), Laplacian(1.0), Gaussian(0.5)]),
}


@pytest.fixture
def small(data):
    """13 rows; the last three repeat the inputs of the first three."""
    data.X = data.X[:13].copy()
    data.X[10:] = data.X[:3]
    data.Y, data.holes, data.weight = data.Y[:13], data.holes[:13], data.weight[:13]
    return data


def brute_force(kernel, alpha, X, Y, weight, intercept, entry):
    def fit(X, Y, weight):
        return OVKRidge(kernel, alpha=alpha, fit_intercept=intercept).fit(X, Y, weight)

    return leave_out_errors(fit, X, Y, weight, entry=entry)


@pytest.mark.pairwise
@pytest.mark.parametrize("entry", [False, True], ids=["rows", "entries"])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("form", ["complete", "holes"])
@pytest.mark.parametrize("name", KERNELS)
def test_errors_equal_refitting(name, form, intercept, entry, small):
    Y = small.Y if form == "complete" else small.holes
    for weight in (None, small.weight):
        model = OVKRidgeCV(KERNELS[name], ALPHAS, fit_intercept=intercept, leave_out="entry" if entry else "row").fit(
            small.X, Y, weight
        )
        for a, alpha in enumerate(ALPHAS):
            expected = brute_force(KERNELS[name], alpha, small.X, Y, weight, intercept, entry)
            assert_allclose(model.output_errors_[0, 0, a], expected, rtol=1e-7)
        assert_allclose(model.errors_, model.output_errors_.mean(axis=-1), rtol=1e-14)
        assert model.alpha_ == ALPHAS[int(model.errors_[0, 0].argmin())]
        assert model.best_error_ == model.errors_.min()


@pytest.mark.parametrize("name", ["commuting sum", "diagonal"])
def test_decoupled_kernels_never_form_the_gram_of_all_pairs(name, data, monkeypatch):
    monkeypatch.setattr(error_surface, "pairwise_path", None)
    OVKRidgeCV(KERNELS[name], ALPHAS).fit(data.X, data.Y)
    with pytest.raises(TypeError):
        OVKRidgeCV(KERNELS["sum"], ALPHAS).fit(data.X, data.Y)


@pytest.mark.parametrize("form", ["complete", "holes", "long"])
def test_chosen_model_is_the_ridge_regression_with_those_parameters(form, data):
    X, Y, task = data.X, data.Y if form == "complete" else data.holes, None
    if form == "long":
        X, Y, task = long_form(X, Y)
    model = OVKRidgeCV(Gaussian(), omegas=[0.0, 0.3, 0.8], fit_intercept=True).fit(X, Y, task=task)
    k, o, a = np.unravel_index(model.errors_.argmin(), model.errors_.shape)
    assert model.errors_.shape == (1, 3, 25)
    assert (k, model.omega_) == (0, [0.0, 0.3, 0.8][o])
    assert model.alpha_ == np.logspace(-6, 2, 25)[a]
    ridge = OVKRidge(Gaussian() * MixedEffect(model.omega_), alpha=model.alpha_, fit_intercept=True)
    ridge.fit(X, Y, task=task)
    # Complete outputs are solved by the eigenvectors that leave-one-out needed, the others by Cholesky.
    assert model.solver_info_.route == ("Eigen" if form == "complete" else "Cholesky")
    assert_allclose(model.predict(data.X_new), ridge.predict(data.X_new), rtol=1e-9)
    spread, expected = (one.predict(data.X_new, return_std=True)[1] for one in (model, ridge))
    assert_allclose(spread, expected, rtol=1e-12)
    assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-9)


@pytest.mark.parametrize("form", ["complete", "holes"])
def test_list_of_kernels_and_of_operators(form, small):
    Y = small.Y if form == "complete" else small.holes
    kernels, operators = [Gaussian(0.5), Laplacian(1.0), Linear()], [Identity(), Dense(B), MixedEffect(0.9)]
    model = OVKRidgeCV(kernels, ALPHAS, operators=operators, fit_intercept=False).fit(small.X, Y)
    assert model.errors_.shape == (3, 3, 2)
    assert model.omega_ is None
    for k, kernel in enumerate(kernels):
        for o, operator in enumerate(operators):
            expected = brute_force(kernel * operator, ALPHAS[1], small.X, Y, None, False, False)
            assert_allclose(model.output_errors_[k, o, 1], expected, rtol=1e-7)
    k, o, _ = np.unravel_index(model.errors_.argmin(), model.errors_.shape)
    ridge = OVKRidge(Separable(kernels[k], operators[o]), alpha=model.alpha_, fit_intercept=False).fit(small.X, Y)
    assert_allclose(model.predict(small.X_new), ridge.predict(small.X_new), rtol=1e-12)


def test_list_of_kernels_of_different_kinds(data):
    kernels = [Gaussian(0.8) * Identity(), CurlFree(Gaussian(0.8))]
    model = OVKRidgeCV(kernels, ALPHAS).fit(data.X, data.Y[:, :2])
    alone = [OVKRidgeCV(kernel, ALPHAS).fit(data.X, data.Y[:, :2]) for kernel in kernels]
    assert_allclose(model.errors_, np.concatenate([one.errors_ for one in alone]), rtol=1e-12)
    best = alone[int(np.argmin([one.best_error_ for one in alone]))]
    assert_allclose(model.predict(data.X_new), best.predict(data.X_new), rtol=1e-12)


def test_scored_outputs(data):
    everything = OVKRidgeCV(Gaussian(0.8) * Dense(B)).fit(data.X, data.holes)
    for scored in ([1], [0, 2], np.array([2])):
        model = OVKRidgeCV(Gaussian(0.8) * Dense(B), scored_outputs=scored).fit(data.X, data.holes)
        assert_allclose(model.output_errors_, everything.output_errors_, rtol=1e-12)
        assert_allclose(model.errors_, everything.output_errors_[..., list(scored)].mean(axis=-1), rtol=1e-12)
        assert model.best_error_ == model.errors_.min()


@pytest.mark.parametrize("scored", [0, 1])
def test_the_final_fit_has_the_kernel_that_is_best_for_the_scored_output(scored):
    """Each output has its own best kernel; the mean over all outputs would always select the last one."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(-2, 2, (40, 1)), rng.uniform(-2, 2, (6, 1))
    Y = np.column_stack([np.sin(8 * X[:, 0]), 20 * X[:, 0]])
    kernels = [Gaussian(0.15), Gaussian(5.0)]
    model = OVKRidgeCV(kernels, [1e-3, 1e-1], scored_outputs=[scored], fit_intercept=False, tol=0.0).fit(X, Y)
    k = int(model.errors_.min(axis=(1, 2)).argmin())
    assert k == scored
    alone = OVKRidge(kernels[k], model.alpha_, fit_intercept=False).fit(X, Y)
    assert_allclose(model.predict(X_new), alone.predict(X_new), rtol=1e-9)


@pytest.mark.parametrize("form", ["complete", "holes"])
def test_an_alpha_for_each_output_is_that_of_separate_choices(form, data):
    Y = data.Y if form == "complete" else data.holes
    model = OVKRidgeCV(Gaussian(0.8), alpha_per_target=True, fit_intercept=True).fit(data.X, Y)
    assert model.alpha_.shape == (3,)
    assert len(np.unique(model.alpha_)) > 1
    for q in range(3):
        seen = ~np.isnan(Y[:, q])
        alone = OVKRidgeCV(Gaussian(0.8), fit_intercept=True).fit(data.X[seen], Y[seen, q])
        assert model.alpha_[q] == alone.alpha_
        assert_allclose(model.predict(data.X_new)[:, q], alone.predict(data.X_new), rtol=1e-8)


@pytest.mark.parametrize("form", ["complete", "holes", "long"])
def test_alphas_of_coupled_outputs_have_the_ratios_of_uncoupled_ones(form, data):
    X, Y, task = data.X, data.Y if form == "complete" else data.holes, None
    if form == "long":
        X, Y, task = long_form(X, Y)
    kernel = Gaussian(0.8) * Dense(B)
    model = OVKRidgeCV(kernel, alpha_per_target=True).fit(X, Y, task=task)
    apart = OVKRidgeCV(Gaussian(0.8) * Dense(np.diag(np.diagonal(B))), alpha_per_target=True).fit(X, Y, task=task)
    assert_allclose(model.alpha_ / model.alpha_[0], apart.alpha_ / apart.alpha_[0])
    # Refitting confirms that the common factor is the best.
    if form == "complete":
        errors = [
            np.mean(leave_out_errors(lambda X, Y, w, f=f: OVKRidge(kernel, f * model.alpha_).fit(X, Y, w), X, Y))
            for f in (0.1, 1.0, 10.0)
        ]
        assert np.argmin(errors) == 1


@pytest.mark.parametrize("intercept", [False, True])
def test_low_rank_route_equals_the_full_one(intercept):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 1))
    Y = np.column_stack([np.sin(3 * X[:, 0]), np.cos(X[:, 0])]) + 0.1 * rng.standard_normal((60, 2))
    # A smooth kernel in one dimension: rank about 15 of 60.
    low, full = (
        OVKRidgeCV(Gaussian(1.0) * MixedEffect(0.5), [1e-3, 0.1], fit_intercept=intercept, tol=tol).fit(X, Y)
        for tol in (1e-8, 0.0)
    )
    assert_allclose(low.errors_, full.errors_, rtol=1e-6)
    assert not np.array_equal(low.errors_, full.errors_)  # the two routes are two


def test_the_order_of_alphas_does_not_matter(data):
    up = OVKRidgeCV(Gaussian(0.8), [0.01, 0.1, 1.0]).fit(data.X, data.Y)
    down = OVKRidgeCV(Gaussian(0.8), [1.0, 0.1, 0.01]).fit(data.X, data.Y)
    assert up.alpha_ == down.alpha_
    assert_allclose(up.errors_[..., ::-1], down.errors_, rtol=1e-12)


def test_an_intercept_cannot_be_left_out_with_its_only_observation(data):
    Y = data.holes.copy()
    Y[1:, 2] = np.nan
    with pytest.raises(ValueError, match="output 2 has only 1 sample"):
        OVKRidgeCV(Gaussian(0.8), fit_intercept=True).fit(data.X, Y)
    with pytest.raises(ValueError, match="fit_intercept"):
        OVKRidgeCV(Gaussian(0.8), fit_intercept=True).fit(np.repeat(data.X[:1], 4, axis=0), data.Y[:4])
    assert np.isfinite(OVKRidgeCV(Gaussian(0.8), fit_intercept=False).fit(data.X, Y).errors_).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alphas": []}, r"alphas must be a sequence of positive numbers, got \[\]"),
        ({"alphas": 1.0}, "alphas must be a sequence of positive numbers, got 1.0"),
        ({"alphas": ["a"]}, "alphas must be a sequence of positive numbers"),
        ({"alphas": [0.1, -1.0]}, "each of alphas must be positive and finite, got -1.0"),
        ({"alphas": [0.1, 0.0]}, "each of alphas must be positive and finite, got 0.0"),
        ({"omegas": [0.5, 1.5]}, r"each of omegas must be a number in \[0, 1\], got 1.5"),
        ({"omegas": [None]}, r"each of omegas must be a number in \[0, 1\], got None"),
        ({"omegas": []}, "at least one"),
        ({"operators": []}, "at least one"),
        ({"operators": [np.eye(3)]}, "operators must contain operators of ovk.operators"),
        ({"operators": [Dense(np.eye(2))]}, "2 outputs but Y has 3"),
        ({"omegas": [0.5], "operators": [Identity()]}, "omegas and operators cannot be combined"),
        ({"omegas": [0.5], "kernel": KERNELS["sum"]}, "k \\* T, got WeightedSum"),
        (
            {"operators": [Identity()], "kernel": KERNELS["diagonal"]},
            "k \\* T, got Diagonal",
        ),
        ({"alpha_per_target": True, "kernel": KERNELS["sum"]}, "alpha_per_target requires a kernel"),
        ({"leave_out": "column"}, "leave_out must be 'row' or 'entry', got 'column'"),
        ({"scored_outputs": [3]}, "scored_outputs must be integers from 0 to 2"),
        ({"scored_outputs": []}, "scored_outputs must be integers from 0 to 2"),
        ({"scored_outputs": [0.5]}, "scored_outputs must be integers from 0 to 2"),
        ({"kernel": []}, "at least one candidate"),
        ({"kernel": [Gaussian(1.0), 3]}, "kernel must be a kernel"),
        ({"tol": -1.0}, "tol must be non-negative and finite"),
    ],
)
def test_bad_parameters_leave_the_model_as_it_was(params, message, data):
    model = OVKRidgeCV(Gaussian(0.8), ALPHAS).fit(data.X[:, :1], data.Y[:, :2])
    before = model.predict(data.X_new[:, :1])
    model.set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.Y)
    assert_allclose(model.predict(data.X_new[:, :1]), before, rtol=0, atol=0)


@pytest.mark.parametrize("kernel", [Linear(), [Gaussian(1.0), Linear()], None], ids=str)
def test_rows_centred_beforehand_fool_leave_one_out_and_are_told(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 30)), rng.standard_normal((12, 2))
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    with pytest.warns(UserWarning, match=r"sum to zero.*fit_intercept=True"):
        fooled = OVKRidgeCV(kernel, fit_intercept=False).fit(X, Y)
    assert fooled.best_error_ < 1e-3
    # None of these is affected, and there is no warning (warnings are errors here).
    if kernel is not None:
        assert OVKRidgeCV(kernel, fit_intercept=True).fit(X, Y).best_error_ > 0.3
        assert OVKRidgeCV(kernel, fit_intercept=False).fit(X + 0.1, Y).best_error_ > 1e-3
        assert OVKRidgeCV(kernel, fit_intercept=False).fit(X[:, :6], Y).best_error_ > 0.1
    OVKRidgeCV(Gaussian(5.0), fit_intercept=False).fit(X, Y)


def test_smaller_alphas_are_tried_for_a_given_kernel_if_the_error_still_falls():
    X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    y = np.exp(X[:, 0]) * X[:, 1]
    model = OVKRidgeCV(Gaussian(2.0)).fit(X, y)
    assert model.alpha_ < 1e-7
    assert len(model.alphas_) == model.errors_.shape[2] == 29
    assert len(OVKRidgeCV(Gaussian(2.0)).fit(X, y + 0.1 * np.sin(1e4 * y)).alphas_) == 25
