"""Forms of autoregression on simulated experiments, at a small size."""

import numpy as np
import pytest
from reproduce.gene_forms import TARGETS, areas

import reproduce
from reproduce.data import make_gene_network

pytestmark = pytest.mark.long


def test_the_consensus_is_better_than_a_form_at_random():
    found = []
    for seed in range(6):
        made = make_gene_network(8, 6, 16, noise=0.02, half_life=(15.0, 30.0), random_state=seed)
        found.append(areas(made.series, made.adjacency.toarray() != 0, criteria=()))
    forms = np.mean([[one[target] for target in TARGETS] for one in found], axis=0)
    both = np.mean([one["consensus over targets"] for one in found])
    assert both > forms.mean()
    assert both > forms.max() - 2.0


def test_the_table_has_all_rows():
    result = reproduce.run("gene_forms", repeats=1, genes=4)
    assert len(result.rows) == 5 * 7 + 2
    assert all(0 <= row.ours <= 100 for row in result.rows)
    assert result["mean: the best form of each network"] >= result["mean: next"]
