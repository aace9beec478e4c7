"""Prediction changes nothing, refitting forgets, saving keeps, and later changes do not reach the model."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import ovk
from batch.reference import long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Matern
from ovk.operators import Dense, MixedEffect

B = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
KERNEL = Gaussian(0.8) * Dense(B)
SUM = KERNEL + Matern(2.5, 1.5) * MixedEffect(0.4)


def complete(data):
    return OVKRidge(KERNEL, alpha=[0.1, 0.2, 0.3], fit_intercept=True).fit(data.X, data.Y, data.weight)


def holes(data):
    return OVKRidge(SUM, alpha=0.1, fit_intercept=True).fit(data.X, data.holes, data.weight)


def long(data):
    X, y, task, weight = long_form(data.X, data.holes, data.weight)
    return OVKRidge(KERNEL, alpha=0.1).fit(X, y, weight, task=task)


def single(data):
    return OVKRidge(Gaussian(), alpha=0.1).fit(data.X, data.Y[:, 0])


def landmarks(data):
    return OVKRidge(KERNEL, alpha=0.1, landmarks=9, random_state=0, fit_intercept=True).fit(data.X, data.holes)


def pair_landmarks(data):
    return OVKRidge(SUM, alpha=0.1, landmarks=data.X[::4]).fit(data.X, data.holes)


def not_commuting(data):
    return OVKRidge(SUM, alpha=0.1).fit(data.X, data.Y)


def cv(data):
    return OVKRidgeCV(Gaussian(), omegas=[0.0, 0.5], fit_intercept=True).fit(data.X, data.holes)


every_fit = pytest.mark.parametrize(
    "fit", [complete, holes, long, single, landmarks, pair_landmarks, not_commuting, cv]
)


def everything(model, data):
    """All that a model can be asked, as arrays."""
    return [
        *model.predict(data.X_new, return_std=True),
        model.predict(data.X_new, return_cov=True)[1],
        model.expansion_.norm(),
        model.jacobian(data.X_new),
    ]


def assert_identical(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=0, atol=0)


@every_fit
def test_prediction_is_pure(fit, data):
    model = fit(data)
    X_new, before = data.X_new.copy(), {name: value for name, value in vars(model).items() if name != "_memo"}
    stored = pickle.dumps(before)
    first = everything(model, data)
    assert_identical(everything(model, data), first)
    after = {name: value for name, value in vars(model).items() if name != "_memo"}
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    assert pickle.dumps(after) == stored
    assert_allclose(data.X_new, X_new, rtol=0, atol=0)


@every_fit
def test_one_row_at_a_time_equals_all_at_once(fit, data):
    model = fit(data)
    mean, std = model.predict(data.X_new, return_std=True)
    rows = [model.predict(data.X_new[i : i + 1], return_std=True) for i in range(7)]
    assert_allclose(np.concatenate([row[0] for row in rows]), mean, rtol=0, atol=1e-10)
    assert_allclose(np.concatenate([row[1] for row in rows]), std, rtol=0, atol=1e-7)


@every_fit
def test_save_and_load_give_the_same_model(fit, data, tmp_path):
    model = fit(data)
    expected = everything(model, data)
    ovk.save(model, tmp_path / "model.ovk")  # after the posterior was asked for: its cache stays behind
    loaded = ovk.load(tmp_path / "model.ovk")
    assert_identical(everything(loaded, data), expected)
    assert set(vars(loaded)) - {"_memo"} == set(vars(model)) - {"_memo"}
    assert repr(loaded.solver_info_) == repr(model.solver_info_)


@every_fit
def test_pickle_and_clone(fit, data):
    model = fit(data)
    expected = everything(model, data)
    size = len(pickle.dumps(fit(data)))
    assert len(pickle.dumps(model)) == size  # without the cache of the posterior
    assert_identical(everything(pickle.loads(pickle.dumps(model)), data), expected)
    fresh = clone(model)
    assert not hasattr(fresh, "X_fit_")
    assert_identical(everything(fit(data), data), expected)


@every_fit
def test_fit_changes_neither_its_arguments_nor_its_parameters(fit, data):
    before = {name: getattr(data, name).copy() for name in vars(data)}
    model = fit(data)
    everything(model, data)
    for name, value in before.items():
        assert_allclose(getattr(data, name), value, rtol=0, atol=0)
    assert repr(KERNEL) == repr(Gaussian(0.8) * Dense(B))
    assert model.get_params(deep=False).keys() == type(model)().get_params(deep=False).keys()


@pytest.mark.parametrize("landmarks", [None, 9])
def test_changing_a_parameter_does_not_change_the_fitted_model(landmarks, data):
    model = OVKRidge(Gaussian(0.8) * Dense(B), alpha=0.1, landmarks=landmarks, random_state=0).fit(data.X, data.Y)
    before = everything(model, data)
    model.set_params(kernel__kernel__length_scale=3.0, kernel__operator__B=np.eye(3), alpha=5.0, fit_intercept=True)
    assert_identical(everything(model, data), before)
    changed = everything(model.fit(data.X, data.Y), data)
    assert not np.allclose(changed[0], before[0])


def test_changing_a_parameter_of_the_chosen_operator_does_not_change_the_model(data):
    operator = MixedEffect(0.5, output_dim=3)
    model = OVKRidgeCV(Gaussian(0.8), [0.1], operators=[operator]).fit(data.X, data.Y)
    before = everything(model, data)
    operator.set_params(omega=0.0)
    assert_identical(everything(model, data), before)


def test_refitting_forgets(data):
    model = OVKRidge(KERNEL, alpha=0.1, fit_intercept=True).fit(data.X, data.holes, data.weight)
    model.predict(data.X_new, return_std=True)
    model.set_params(kernel=Gaussian(0.8), fit_intercept=False).fit(data.X[:, :1], data.Y[:, 0])
    fresh = OVKRidge(Gaussian(0.8), alpha=0.1, fit_intercept=False).fit(data.X[:, :1], data.Y[:, 0])
    assert set(vars(model)) == set(vars(fresh))
    found, expected = (m.predict(data.X_new[:, :1], return_std=True) for m in (model, fresh))
    assert_allclose(found, expected, rtol=0, atol=0)


def test_prediction_in_many_chunks(data, monkeypatch):
    model = holes(data)
    X_new = np.random.default_rng(0).uniform(-1, 1, (70, 2))
    whole = model.predict(X_new, return_cov=True)
    # Chunks have 32 rows at least.
    monkeypatch.setattr("ovk.ovkernels.base.row_slices.__defaults__", (1,))
    parts = model.predict(X_new, return_cov=True)
    assert_allclose(parts[0], whole[0], rtol=0, atol=1e-12)
    assert_allclose(parts[1], whole[1], rtol=0, atol=1e-12)
