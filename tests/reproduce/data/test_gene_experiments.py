"""Experiments on simulated genes: what is done to them shows in their series."""

from functools import cache

import numpy as np
import pytest

from reproduce.data import make_gene_network


@cache
def made(experiment, **given):
    """Time constants that differ little need few steps until everything rests."""
    return make_gene_network(
        6, 6, 21, noise=0.0, duration=400.0, half_life=(10.0, 30.0), experiment=experiment, random_state=3, **given
    )


@pytest.mark.long
@pytest.mark.parametrize("experiment", ["release", "knock-out", "fluctuate"])
def test_series_begin_at_rest_and_share_the_network(experiment):
    found, plain = made(experiment), made("relax")
    assert (found.adjacency != plain.adjacency).nnz == 0
    first = np.stack([one[0] for one in found.series])
    rest = found.network.steady(first)
    np.testing.assert_allclose(first, rest, atol=1e-6)


def test_a_silenced_gene_dies_out_and_genes_that_it_does_not_reach_stay():
    found = made("knock-out")
    reached = np.linalg.matrix_power(np.eye(6) + (found.adjacency.toarray() != 0), 6) > 0
    for one in found.series:
        gone = int(np.argmin(np.where(one[0] > 1e-3, one[-1] / np.maximum(one[0], 1e-3), np.inf)))
        assert one[-1, gone] < 0.05 * one[0, gone]
        np.testing.assert_allclose(one[:, ~reached[gone]], np.tile(one[0, ~reached[gone]], (21, 1)), atol=1e-6)


def test_released_genes_move_and_come_back():
    found = made("release")
    first, middle, last = (np.stack([one[k] for one in found.series]) for k in (0, 10, 20))
    assert np.abs(middle - first).max() > 0.3
    assert np.abs(last - first).mean() < 0.3 * np.abs(middle - first).mean()


def test_fluctuations_do_not_end_and_follow_the_seed():
    found, again = made("fluctuate"), made.__wrapped__("fluctuate")
    assert np.array_equal(found.series, again.series)
    assert np.std([one[10:] for one in found.series], axis=1).mean() > 0.01


def test_an_unknown_experiment_is_named():
    with pytest.raises(
        ValueError, match="experiment must be 'relax', 'release', 'knock-out' or 'fluctuate', got 'freeze'"
    ):
        made("freeze")
