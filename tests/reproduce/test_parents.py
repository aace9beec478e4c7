"""Probabilities of parents against the evidence of all sets one by one, on planted networks, and in bounded memory."""

from itertools import combinations

import numpy as np
import pytest
from reproduce.parents import KEPT, parent_probabilities
from sklearn.metrics import roc_auc_score

import reference
from memory import peak_memory
from ovk import OKVAR
from ovk.kernels import Gaussian, Linear
from ovk.ovkernels import Transformable
from reproduce.data import make_gene_network


@pytest.fixture(scope="module")
def made():
    return make_gene_network(3, 3, 8, random_state=0)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Linear()])
def test_evidence_is_that_of_all_sets_one_by_one(kernel):
    made = make_gene_network(4, 2, 6, random_state=0)
    model = OKVAR(kernel, 0.5, target="integral", memory=1.0)
    found = parent_probabilities(model, made.series, max_parents=2, temperature=3.0, prior_odds=0.5)
    regression = model.regression(made.series)
    W = regression.W.toarray()
    for target in range(4):
        columns = np.column_stack([regression.E, regression.decaying[:, target]])
        others = [j for j in range(4) if j != target]
        sets = [S for k in range(3) for S in combinations(others, k)]
        logs = []
        for S in sets:
            Z = regression.Z[:, list(S)]
            K = W @ reference.scalar_gram(kernel, Z) @ W.T / 0.5 if S else np.zeros((12, 12))
            logs.append((reference.log_evidence(K, regression.Y[:, target], columns) + len(S) * np.log(0.5)) / 3.0)
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        expected = [sum(w for w, S in zip(weights, sets, strict=True) if j in S) for j in range(4)]
        np.testing.assert_allclose(found[:, target], expected, atol=1e-8)


def test_the_evidence_of_many_sets_needs_no_more_memory_than_that_of_a_few():
    x = np.random.default_rng(0).standard_normal((80, 24)).cumsum(axis=0)
    limit = 1.5 * KEPT
    peak = peak_memory(lambda: parent_probabilities(OKVAR(Gaussian(5.0)), x, max_candidates=8), limit)
    assert peak < limit


def test_a_linear_kernel_weighs_the_parents_of_a_hundred_variables():
    rng = np.random.default_rng(0)
    x = np.zeros((150, 100))
    for t in range(149):
        x[t + 1] = 0.5 * x[t] + rng.standard_normal(100)
        x[t + 1, 1::2] += 0.8 * x[t, ::2]
    found = parent_probabilities(OKVAR("linear", target="increment"), x, max_candidates=6)
    assert found[np.arange(0, 100, 2), np.arange(1, 100, 2)].min() > 0.9


def test_a_sparse_linear_autoregression():
    rng = np.random.default_rng(0)
    d = 8
    A = 0.5 * np.eye(d)
    A[rng.integers(0, d, 10), rng.integers(0, d, 10)] += 0.4
    A *= 0.9 / max(0.9, np.abs(np.linalg.eigvals(A)).max())
    x = np.zeros((300, d))
    for t in range(299):
        x[t + 1] = A @ x[t] + rng.standard_normal(d)
    off = ~np.eye(d, dtype=bool)
    found = parent_probabilities(OKVAR("linear", 1.0), x, max_parents=2)
    assert roc_auc_score(A.T[off] != 0, found[off]) > 0.95


def test_parents_say_what_they_need(made):
    with pytest.raises(ValueError, match="scalar kernel"):
        parent_probabilities(OKVAR(Transformable(Gaussian(1.0))), made.series)
    with pytest.raises(ValueError, match="lag=1"):
        parent_probabilities(OKVAR(lag=2), made.series)
    holes = [one.copy() for one in made.series]
    holes[0][3, 1] = np.nan
    with pytest.raises(ValueError, match="without holes"):
        parent_probabilities(OKVAR(), holes)
    few = parent_probabilities(OKVAR("linear"), made.series, max_candidates=1, max_parents=1)
    assert ((few > 0).sum(axis=0) <= 1).all()
