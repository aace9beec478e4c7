"""Fields and tasks on real data, in small."""

import numpy as np
import pytest

import reproduce
from ovk.datasets import make_vector_field
from reproduce import california_gps, drug_activity, field_kernels, glad
from reproduce.data import load_california_gps, load_glad, load_pharma

pytestmark = pytest.mark.long


def test_gps_blocks_are_held_out_whole_and_the_field_is_predicted(need):
    need(load_california_gps)
    result = reproduce.run("california_gps", folds=4, tuning_size=120, only="ours, curl-free")
    assert result["ours, curl-free + divergence-free"] > 0.9


def test_sites_have_the_mean_of_their_stations():
    X, V = np.arange(8.0).reshape(4, 2), np.arange(8.0).reshape(4, 2) ** 2
    sites = california_gps.merged(X, V, np.array([1, 1, 2, 3]), np.array([5, 5, 6, 7]))
    np.testing.assert_allclose(sites.X[0], X[:2].mean(axis=0))
    np.testing.assert_allclose(sites.V[0], V[:2].mean(axis=0))
    assert sites.stations.tolist() == [2.0, 1.0, 1.0]
    assert sites.block.tolist() == [5, 6, 7]
    assert california_gps.blocks(np.array([[0.0, 1.0], [49.0, 49.0], [51.0, 0.0]])).tolist() == [0, 0, 1]


def test_drifters_are_told_apart_by_their_jumps_and_predicted(need, monkeypatch):
    bunch = need(load_glad)
    assert np.bincount(glad.drifters(np.asarray(bunch.data))).max() <= 32
    all_kernels = glad.kernels()
    chosen = ("components apart, Gaussian", "Helmholtz, Gaussian")
    monkeypatch.setattr(glad, "kernels", lambda: {name: all_kernels[name] for name in chosen})
    result = reproduce.run("glad", folds=2, tuning_size=100)
    assert result["Helmholtz, Gaussian"] < result["mean of all drifters"]


def test_actions_of_drugs_are_ranked_better_than_by_chance(need, monkeypatch):
    need(load_pharma)
    monkeypatch.setattr(drug_activity, "SHARES", (0.3,))
    result = reproduce.run("drug_activity", folds=2, actions=6, machine_actions=2)
    assert result["ridge, multi-task, 30% of labels"] > 0.65
    assert result["MultiTaskSVC, independent, 30% of labels"] > 0.6


def test_correlation_of_partly_known_labels_is_a_correlation():
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 4)) < 0.5).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    R = drug_activity.correlation(Y)
    np.testing.assert_allclose(np.diagonal(R), 1.0)
    assert np.linalg.eigvalsh(R).min() > -1e-10


def test_weights_of_kernels_find_what_a_field_is_made_of():
    shares = []
    for mixture in (1.0, 0.0):
        sample = make_vector_field(40, mixture=mixture, noise=0.05, random_state=0)
        models = field_kernels.fitted(sample.data, sample.target)
        shares.append(field_kernels.gradient_share(models["MovKL, l_1"]))
        for name, model in models.items():
            error = np.mean((field_kernels.predicted(model, sample.data) - sample.target) ** 2)
            assert error < 0.1 * np.mean(sample.target**2), name
    assert shares[0] > 0.8
    assert shares[1] < 0.2


def test_stations_are_learned_or_predicted_never_both(need):
    need(load_california_gps)
    X, V, Z, truth = field_kernels.ground(None, 50, np.random.default_rng(0))
    assert len(X) == len(V) == 50
    assert len(Z) == len(truth) > 500
    assert not {tuple(x) for x in X} & {tuple(z) for z in Z}
    np.testing.assert_allclose(V.mean(axis=0), 0.0, atol=1e-12)
