"""Coupling pays where outputs are missing, and does no harm where they are not."""

import numpy as np
import pytest
from reproduce.multitask_gp import multitask_gp

import reproduce
from ovk import OVKRidge, tune
from ovk.kernels import Gaussian, Matern
from ovk.operators import MixedEffect
from ovk.ovkernels import Separable
from reproduce import hospitals, jura, mtr
from reproduce.data import load_jura, load_mtr, load_parkinsons

pytestmark = pytest.mark.long


@pytest.mark.parametrize("logarithms", [False, True])
def test_jura_coupling_beats_cadmium_alone_by_15_percent(need, monkeypatch, logarithms):
    bunch = need(load_jura)
    # Fewer lengths than the reproduction itself, to be quick; they include those that it chooses.
    monkeypatch.setattr(jura, "LENGTHS", (0.05, 0.1, 1.6) if not logarithms else (0.05, 0.1, 0.4))
    monkeypatch.setattr(jura, "SHARES", (0.25, 0.75))
    monkeypatch.setattr(jura, "SHRINKAGE", (0.0,))
    truth = bunch.target_validation[:, list(bunch.target_names).index("Cd")]

    def error(coupled):
        prediction, _ = jura.predict_cadmium(bunch, logarithms=logarithms, coupled=coupled)
        return float(np.abs(prediction - truth).mean())

    assert error(coupled=True) <= 0.85 * error(coupled=False)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_jura_tuned_by_evidence(need):
    bunch = need(load_jura)
    truth = bunch.target_validation[:, list(bunch.target_names).index("Cd")]
    # A single start and few steps, to be quick.
    X, Y, n, back = jura.places(bunch, logarithms=True)
    model = tune(OVKRidge(Matern(0.5, 0.3)), X, Y, rank=1, restarts=1, max_iter=15)
    alone = tune(OVKRidge(Matern(0.5, 0.3)), X[:n], Y[:n, 2:], rank=1, restarts=1, max_iter=15)
    error, apart = (np.abs(back(m.predict(X[n:])[:, -1]) - truth).mean() for m in (model, alone))
    assert error <= 0.42
    assert error <= 0.8 * apart


def test_mtr_complete_and_partly_observed(need):
    need(load_mtr, "andro")
    result = reproduce.run("mtr", sets=("andro",), folds=3, observed=(1.0, 0.3), peers=False)
    names = [mtr.APART, mtr.COUPLED, mtr.LEARNED, mtr.TUNED, mtr.STACKED]
    errors = [result[f"andro, {name}"] for name in names]
    assert max(errors) < 0.8
    ranks = [result[f"average rank, {name}"] for name in names]
    assert sorted(ranks) == [1, 2, 3, 4, 5]
    assert np.argmin(errors) == np.argmin(ranks)
    assert result[f"andro, {mtr.APART}"] < result[f"andro, {mtr.APART}, 30% observed"]


def test_loo_predictions_of_partly_observed_outputs():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    kernel = Separable(Gaussian(1.0), MixedEffect(0.5, 2))
    whole = mtr.left_out(kernel, np.array([0.3, 0.5]), X, Y)
    holes = np.where(np.arange(24).reshape(12, 2) == 23, np.nan, Y)
    partly = mtr.left_out(kernel, np.array([0.3, 0.5]), X, holes)
    assert np.isnan(partly[-1, 1])
    for i in (0, 5):
        keep = np.arange(12) != i
        model = OVKRidge(kernel, [0.3, 0.5], fit_intercept=False)
        np.testing.assert_allclose(model.fit(X[keep], Y[keep]).predict(X[[i]])[0], whole[i], rtol=1e-8)
        np.testing.assert_allclose(model.fit(X[keep], holes[keep]).predict(X[[i]])[0], partly[i], rtol=1e-8)
    # A copy of a row that stays in would give the answer away.
    twice = mtr.left_out(kernel, np.array([0.3, 0.5]), np.vstack([X, X[:1]]), np.vstack([Y, Y[:1] + 1.0]))
    np.testing.assert_allclose(twice[0], whole[0], rtol=1e-8)
    np.testing.assert_allclose(twice[-1], whole[0], rtol=1e-8)


def test_the_peer_learns_what_ours_learns():
    pytest.importorskip("gpytorch", reason="this peer comes with the group peers")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (40, 1))
    task = np.arange(40) % 2
    y = np.where(task == 0, 1.0, -1.0) * np.sin(2 * X[:, 0]) + 0.05 * rng.standard_normal(40)
    new = np.linspace(-1.5, 1.5, 9)[:, None]
    found = multitask_gp(X, task, y, new, np.ones(9, dtype=int), d=2, rank=1, nu=1.5, ard=False)
    np.testing.assert_allclose(found, -np.sin(2 * new[:, 0]), atol=0.3)


def test_parkinsons_reports_shuffled_and_grouped(need):
    need(load_parkinsons)
    result = reproduce.run("parkinsons", repeats=1, n_train=800)
    # People that were not seen are another question than recordings that were not seen.
    assert result["shuffled, outputs apart"] < 0.7
    assert result["grouped by person, outputs apart"] > 0.8


def test_hospitals_that_differ_gain_by_coupling(monkeypatch):
    monkeypatch.setattr(hospitals, "CS", (3.0,))
    monkeypatch.setattr(hospitals, "SHARED", (0.7,))
    found = []
    for seed in range(2):
        X, y, hospital = hospitals.make_patients(4, 130, np.random.default_rng(seed))
        first = np.arange(len(y)) % 130 < 30
        parts = [(X[rows], y[rows], hospital[rows]) for rows in (first, ~first)]
        found.append(hospitals.compared(*parts, hospitals.Tree(hospitals.GROUPS)))
    means = {way: np.mean([one[way] for one in found]) for way in found[0]}
    assert len(means) == 6
    apart = max(value for way, value in means.items() if "apart" in way or "each hospital" in way)
    assert means["MultiTaskSVC, hospitals coupled"] > apart
    assert means["MultiTaskSVC, hospitals and classes coupled"] > apart


def test_every_patient_has_the_machine_of_his_hospital():
    X, _, hospital = hospitals.turned_digits(3, 40, np.random.default_rng(0))
    assert X.shape == (120, 64)
    np.testing.assert_array_equal(np.bincount(hospital), 40)
    machines = [hospitals.machine(X[hospital == t], np.full(40, t) + (np.arange(40) < 20) * 10, 1.0) for t in range(3)]
    assert set(hospitals.each_by_its_own(machines, X, hospital) % 10 - hospital) == {0}
