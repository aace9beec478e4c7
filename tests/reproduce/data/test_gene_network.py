"""The simulator of gene networks keeps to its equations, its layout and its seed."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from reproduce.data import GeneNetwork, make_gene_network


def test_layout_is_that_of_the_challenge():
    made = make_gene_network(random_state=0)
    assert [one.shape for one in made.series] == [(21, 10)] * 4
    assert made.times[[0, -1]].tolist() == [0.0, 200.0]
    assert made.data.shape == made.target.shape == (80, 10)
    np.testing.assert_array_equal(made.data[:20], made.series[0][:-1])
    np.testing.assert_array_equal(np.bincount(made.groups), [20] * 4)
    assert (made.adjacency != abs(made.signs)).nnz == 0
    assert min(one.min() for one in made.series) >= 0
    assert max(one.max() for one in made.series) <= 1


def test_the_same_seed_gives_the_same_network_whatever_the_series():
    a, b = make_gene_network(random_state=3), make_gene_network(n_series=2, n_points=5, noise=0.0, random_state=3)
    np.testing.assert_array_equal(a.network.effects, b.network.effects)
    np.testing.assert_array_equal(a.series[0], make_gene_network(random_state=3).series[0])


def test_curves_solve_the_equations():
    made = make_gene_network(5, 1, 9, noise=0.0, random_state=1)
    network, start = made.network, made.series[0][0]

    def velocity(_, state):
        m, p = state[:5], state[5:]
        return np.concatenate([network.decay * (network.activation(p[None])[0] - m), network.turnover * (m - p)])

    exact = solve_ivp(velocity, (0, 200), np.concatenate([start, start]), t_eval=made.times, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(made.series[0], exact.y[:5].T, atol=1e-5)


def test_activation_averages_over_who_sits_there():
    effects = np.array([[0.0, 0.0, 0.8], [0.0, 0.0, -0.6], [0.0, 0.0, 0.0]])
    one = np.ones((3, 3))
    network = GeneNetwork(effects, np.array([0.5, 0.5, 0.4]), 0.5 * one, 2 * one, one[0], one[0])
    p = np.array([0.3, 0.9, 0.0])
    s = p[:2] ** 2 / (0.25 + p[:2] ** 2)
    levels = {(0, 0): 0.4, (1, 0): 1.0, (0, 1): 0.0, (1, 1): 0.6}
    expected = sum(level * (s[0] if a else 1 - s[0]) * (s[1] if b else 1 - s[1]) for (a, b), level in levels.items())
    np.testing.assert_allclose(network.activation(p[None]), [[0.5, 0.5, expected]])


def test_a_gene_depends_on_its_regulators_alone():
    network = make_gene_network(8, random_state=2).network
    p = np.random.default_rng(0).uniform(size=(1, 8))
    for i in range(8):
        moved = p.copy()
        moved[0, i] += 0.1
        changed = network.activation(moved)[0] != network.activation(p)[0]
        assert not (changed & (network.effects[i] == 0)).any()


@pytest.mark.parametrize("edges", [0, 3, 12])
def test_the_number_of_edges(edges):
    signs = make_gene_network(4, n_edges=edges, random_state=0).signs.toarray()
    assert np.count_nonzero(signs) == edges
    assert not np.diagonal(signs).any()


def test_a_given_network_is_kept():
    signs = np.array([[0, 1, -1], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(make_gene_network(3, adjacency=signs, random_state=0).signs.toarray(), signs)
    made = make_gene_network(3, adjacency=abs(signs), random_state=0)
    np.testing.assert_array_equal(made.adjacency.toarray(), abs(signs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_points": 1}, "n_points must be an integer >= 2"),
        ({"n_edges": 1000}, "n_edges must be at most 90"),
        ({"adjacency": np.eye(10)}, "empty diagonal"),
        ({"adjacency": np.ones((2, 2))}, "adjacency must be a finite"),
        ({"adjacency": np.zeros((10, 10)), "n_edges": 3}, "not both"),
        ({"half_life": (5.0, 1.0)}, "half_life must be"),
        ({"protein_half_life": (5.0, 1.0)}, "protein_half_life must be"),
        ({"initial_proteins": "none"}, "initial_proteins must be"),
        ({"noise": -1.0}, "noise must be"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_gene_network(**options)


def test_too_many_regulators_of_one_gene():
    adjacency = np.zeros((12, 12))
    adjacency[1:, 0] = 1
    with pytest.raises(ValueError, match="at most 10 regulators, but adjacency gives one 11"):
        make_gene_network(12, adjacency=adjacency)
