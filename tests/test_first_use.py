"""Mistakes and questions of a first-time user: each is answered by a message."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import ovk
from ovk import FunctionalRidge, OVKRidge
from ovk.batch import Network
from ovk.batch.tuning import tune as tuning
from ovk.kernels import Gaussian, ScalarKernel
from ovk.objectives import Loss
from ovk.operators import Identity, MixedEffect, OutputOperator
from ovk.persistence import NotSavableError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * RNG.standard_normal((40, 2))


def test_curves_that_share_no_time_have_a_score():
    """Each grid point has one value, which has no R^2 of its own."""
    t = np.linspace(0, 1, 6)
    curves = np.sin(3 * X[:, :1] + t)
    model = FunctionalRidge(alpha=1e-3).fit(X, curves)
    some = np.full((6, 6), np.nan)
    some[np.arange(6), np.arange(6)] = np.diagonal(curves[:6])
    assert model.score(X[:6], some) > 0.9
    # Two values at one time suffice for that time alone.
    some[1, 0] = curves[1, 0]
    assert np.isfinite(model.score(X[:6], some))
    with pytest.raises(ValueError, match="at least one observed value"):
        model.score(X[:6], np.full((6, 6), np.nan))


@pytest.mark.parametrize("make", [np.array, list], ids=["arrays", "lists"])
def test_curves_of_different_lengths_are_sent_to_common_grid(make):
    ragged = [make(np.zeros(k)) for k in (3, 4, 5)]
    with pytest.raises(ValueError, match=r"ovk\.curves\.common_grid"):
        FunctionalRidge().fit(X[:3], ragged)


def test_a_search_is_saved_by_its_best_estimator(tmp_path):
    search = GridSearchCV(OVKRidge(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, Y)
    with pytest.raises(NotSavableError, match=r"ovk\.save\(search\.best_estimator_, path\)"):
        ovk.save(search, tmp_path / "m.ovk")
    ovk.save(search.best_estimator_, tmp_path / "m.ovk")
    assert (ovk.load(tmp_path / "m.ovk").predict(X) == search.predict(X)).all()


@dataclass(eq=False, repr=False)
class Rows(ScalarKernel):
    """One value for each row instead of a matrix."""

    def __call__(self, X, Z=None):
        return np.exp(-((X - X[0]) ** 2).sum(axis=1))

    def diag(self, X):
        return np.ones(len(X))


@dataclass(eq=False, repr=False)
class Columns(ScalarKernel):
    """A column instead of a vector as the diagonal."""

    def __call__(self, X, Z=None):
        return Gaussian(1.0)(X, Z)

    def diag(self, X):
        return np.ones((len(X), 1))


@dataclass(eq=False, repr=False)
class Own(ScalarKernel):
    width: float = 1.0

    def __call__(self, X, Z=None):
        return Gaussian(self.width)(X, Z)

    def diag(self, X):
        return np.ones(len(X))


@pytest.mark.parametrize("landmarks", [None, 5])
@pytest.mark.parametrize(("kernel", "call"), [(Rows(), r"k\(X\)"), (Columns(), r"k\.diag\(X\)")], ids=["k", "diag"])
def test_a_kernel_of_the_wrong_shape(kernel, call, landmarks):
    model = OVKRidge(kernel * MixedEffect(0.5), landmarks=landmarks)
    with pytest.raises(ValueError, match=rf"{type(kernel).__name__}: {call} must have shape"):
        model.fit(X, Y)


def test_tune_says_what_it_leaves_alone():
    with pytest.warns(UserWarning, match=r"the parameters of Own are not tuned.*gradient"):
        ovk.tune(OVKRidge(Own(0.5) * Identity()), X, Y, restarts=1, criterion="loo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ovk.tune(OVKRidge(Gaussian(0.5) * Identity()), X, Y, restarts=1, criterion="loo")


def test_tune_keeps_what_it_found_despite_small_changes_of_the_left_out_error(monkeypatch):
    errors = [np.array([0.1, 0.1]), np.array([0.1001, 0.1002])]
    monkeypatch.setattr(tuning, "loo_errors", lambda model: errors.pop(0))
    found = ovk.tune(OVKRidge(Gaussian(3.0) * Identity()), X, Y, restarts=1)
    assert found.tuning_.kept == "tuned"
    errors[:] = [np.array([0.1, 0.1]), np.array([0.1101, 0.1102])]
    with pytest.warns(UserWarning, match=r"from 0\.\d{4,5} to 0\.\d{4,5} of the variance"):
        found = ovk.tune(OVKRidge(Gaussian(3.0) * Identity()), X, Y, restarts=1)
    assert found.tuning_.kept == "start"


def test_versions_for_bug_reports(capsys):
    ovk.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ovk {ovk.__version__}"
    assert f"numpy {np.__version__}" in lines
    assert len({line.split()[0] for line in lines}) == len(lines) > 15


def test_networks_have_short_representations():
    scores = RNG.uniform(size=(30, 30))
    network = Network(scores, scores > 0.5, np.sign(scores), tuple(map(str, range(30))))
    assert repr(network) == f"Network(variables=30, edges={(scores > 0.5).sum()})"


@pytest.mark.parametrize("base", [ScalarKernel, OutputOperator, Loss], ids=lambda c: c.__name__)
def test_base_classes_list_the_methods_to_implement(base):
    for name in base.__abstractmethods__:
        assert f"``{name}(" in base.__doc__
