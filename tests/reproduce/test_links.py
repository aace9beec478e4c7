"""The compared link predictors match their definitions, and all of them find links."""

from dataclasses import replace

import numpy as np
import pytest
from reproduce.drug_retrieval import ranks, windows
from reproduce.few_labels import accuracies, split
from reproduce.few_links import PUBLISHED, one_split, pairs
from reproduce.few_links import published_rows as few_published
from reproduce.label_ranking import by_iokr, by_scores, ranked, tau
from reproduce.label_sets import best_of, measures
from reproduce.link_methods import (
    EM,
    METHODS,
    PKMR,
    LinkProblem,
    cosines,
    iokr,
    local,
    metric_learning,
    pairwise,
    spectral_em,
)
from reproduce.links import KINDS, InputsAndGraph, borrowed, cross_validated, gaussian, kegg, rare, standing
from reproduce.links import published_rows as links_published

from ovk.kernels import Precomputed
from ovk.structured import LinkPredictor
from reproduce import entry
from reproduce.data import load_pharma, load_yeast_kegg

pytestmark = pytest.mark.long

rng = np.random.default_rng(0)
X = np.concatenate([rng.standard_normal((14, 3)) * 0.5 + centre for centre in np.eye(3) * 3])
GROUP = np.repeat(np.arange(3), 14)
A = np.triu((GROUP[:, None] == GROUP) & (rng.random((42, 42)) < 0.5), 1).astype(float)
A = A + A.T
KNOWN = np.flatnonzero(np.arange(42) % 4 > 0)


#: With fewer settings to choose from.
FEWER = replace(
    METHODS[0],
    grid={"alpha": [3.0], "graph": ["diffusion, beta 2, centred"], "cosine": [True], "observed": [True, "both"]},
)


def problem():
    return LinkProblem(gaussian(X), X, A, KNOWN)


@pytest.mark.parametrize("method", [*METHODS, PKMR, EM], ids=lambda method: method.name)
def test_every_method_finds_links(method):
    toy = problem()
    found = toy.aucs(method.scores(toy, **method.choose(toy), **method.quick))
    assert found["roc new-known"] > 0.65
    assert found["roc new-new"] > 0.65


def test_pairwise_ridge_is_ridge_on_pairs():
    p = problem()
    inner = p.K[np.ix_(KNOWN, KNOWN)]
    c = np.linalg.solve(np.kron(inner, inner) + 0.5 * np.eye(len(KNOWN) ** 2), p.links.ravel())
    expected = np.einsum("ia,ab,jb->ij", p.K[:, KNOWN], c.reshape(len(KNOWN), -1), p.K[:, KNOWN])
    np.testing.assert_allclose(pairwise(p, 0.5), expected, atol=1e-8)


def test_the_local_method_has_a_model_for_each_known_node():
    p = problem()
    inner = p.K[np.ix_(KNOWN, KNOWN)]
    target = p.links[:, 3] - p.links.mean()
    expected = p.K[:, KNOWN] @ np.linalg.solve(inner + np.eye(len(KNOWN)), target)
    new = p.new
    np.testing.assert_allclose(local(p, 1.0)[new, KNOWN[3]], expected[new], atol=1e-9)


def test_metric_learning_puts_linked_nodes_near():
    scores = metric_learning(problem(), 0.1, 20)
    assert np.allclose(np.diagonal(scores), 0.0, atol=1e-8)
    assert scores[A > 0].mean() > scores[A == 0].mean()


def test_kernel_matrix_regression_is_the_minimiser():
    p = LinkProblem(gaussian(X[:8]) + np.eye(8), X[:8], A[:8, :8], np.arange(6))
    K, G, ridge = p.K[:6, :6], p.graph_kernel(1.0, False), 0.01
    found = PKMR.scores(p, ridge=ridge, diffusion=(1.0, False))[:6, :6]
    np.testing.assert_allclose(found, G - ridge * np.linalg.inv(K), atol=1e-8)


def em_by_steps(V, mu, known, G, steps):
    """Completion, model and divergence after each e- and m-step, as the paper writes them, with dense matrices."""
    new = np.setdiff1d(np.arange(len(V)), known)
    divergences = []
    for _ in range(steps):
        M = (V * mu) @ V.T
        D = np.empty_like(M)
        W = M[np.ix_(new, known)] @ np.linalg.inv(M[np.ix_(known, known)])
        D[np.ix_(known, known)] = G
        D[np.ix_(new, known)] = W @ G
        D[np.ix_(known, new)] = (W @ G).T
        D[np.ix_(new, new)] = M[np.ix_(new, new)] - W @ M[np.ix_(known, new)] + W @ G @ W.T
        ratio = np.linalg.solve(M, D)
        divergences.append(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(M))
        mu = np.array([v @ D @ v for v in V.T])
    return D, mu, divergences


def test_em_is_what_the_paper_does_in_turn():
    K = gaussian(X[:12]) + 0.1 * np.eye(12)
    p, known = LinkProblem(K, X[:12], A[:12, :12], np.arange(7)), np.arange(7)
    G = p.graph_kernel(1.0, False)
    e, V = np.linalg.eigh(K)
    _, mu, divergences = em_by_steps(V, e, known, G, 6)
    np.testing.assert_allclose(spectral_em(V, e, known, G, 6), mu, rtol=1e-8)
    assert (np.diff(divergences) < 1e-10).all()
    start = e * np.trace(G) / np.trace(K[:7, :7])
    D = em_by_steps(V, start, known, G, 7)[0]
    found = EM.scores(p, diffusion=(1.0, False), steps=6)
    np.testing.assert_allclose(found, D, atol=1e-8)
    np.testing.assert_allclose(found[:7, :7], G, atol=1e-8)


def test_all_published_numbers_are_quoted():
    assert len(links_published()) == 48
    assert len(few_published()) == 24


def test_a_setting_is_chosen_on_known_nodes_alone():
    p = problem()
    hidden = LinkProblem(p.K, p.X, np.where(p.new[:, None] | p.new, 7.0, A), KNOWN)
    for method in (FEWER, *METHODS[2:5]):
        assert method.choose(p) == method.choose(hidden)


def test_folds_and_kinds():
    found = cross_validated(InputsAndGraph("toy", {"Gaussian": gaussian(X)}, X, A), [FEWER, METHODS[1]], folds=3)
    assert {name: part.values.shape for name, part in found.items()} == dict.fromkeys(
        ("IOKR-ridge", "naive similarity"), (3, len(KINDS))
    )
    assert found["IOKR-ridge"].values[:, 0].mean() > 0.75
    assert found["IOKR-ridge"].described().startswith("Gaussian, alpha ")


def test_the_kernel_is_one_of_the_settings():
    noise = gaussian(np.random.default_rng(3).standard_normal((42, 3)))
    network = InputsAndGraph("toy", {"noise": noise, "inputs": gaussian(X)}, X, A)
    found = cross_validated(network, [FEWER, *METHODS[1:]], folds=3)
    chosen = {name: part.kernel for name, part in found.items()}
    # Trees look at inputs and not at kernels.
    assert chosen == dict.fromkeys(chosen, "inputs") | {"OK3 + extra-trees": "noise"}


def test_standing_says_who_is_ahead():
    ours, theirs = np.array([[0.9, 0.8], [0.92, 0.7]]), np.array([[0.8, 0.8], [0.83, 0.71]])
    text = standing("toy", {"IOKR-ridge": ours, "a": theirs, "b": theirs - 0.1})
    assert text.startswith("toy, IOKR-ridge: roc new-known ahead of a by 0.095")
    assert "roc new-new level with a by 0.005" in text
    assert "behind b" in standing("toy", {"IOKR-ridge": theirs, "b": ours})


def test_scores_are_those_of_the_estimator():
    p = problem()
    for setting in ({"cosine": True, "observed": "both"}, {"cosine": False, "observed": True}):
        found = iokr(p, 3.0, "diffusion, beta 2, centred", **setting)
        model = LinkPredictor(Precomputed(p.K), beta=2.0, alpha=3.0, **setting).fit(KNOWN[:, None], p.links)
        every = np.arange(42)[:, None]
        np.testing.assert_allclose(found[p.new][:, KNOWN], model.score_known(every[p.new]), atol=1e-9)
        np.testing.assert_allclose(found[p.new][:, p.new], model.score_pairs(every[p.new]), atol=1e-9)


def test_few_labelled_nodes():
    found = one_split(InputsAndGraph("toy", {"Gaussian": gaussian(X)}, X, A), 0.5, seed=0)
    assert set(found) == {*PUBLISHED, "supervised, IOKR"}
    assert all(pairs(areas, "roc") > 0.6 for areas in found.values())


def test_helpers():
    np.testing.assert_allclose(cosines(np.array([[2.0, 0.0], [0.0, 0.0]])), [[1, 0], [0, 0]])
    np.testing.assert_allclose(rare(np.array([[1, 1], [1, 0]])), [[0, np.log(2)], [0, 0]])
    assert best_of(np.array([[0.3, 0.12]]), np.array([[1, 0]])) == pytest.approx(0.15)
    assert measures(np.array([[1, 0]]), np.array([[1, 0]])) == dict.fromkeys(
        ("micro F1", "Jaccard", "whole set right"), 1.0
    )
    pools = [np.array([4, 7, 9])]
    assert ranks([np.array([0.5, 0.9, 0.5])], pools, [7]) == [1.0]
    assert ranks([np.array([0.5, 0.9, 0.5])], pools, [9]) == [2.5]


def test_words_are_borrowed_from_the_most_similar():
    U = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    found = borrowed(U, U @ U.T, lenders=1, weight=0.5)
    np.testing.assert_allclose(found, U + 0.5 * U[[1, 0, 1]])
    both = borrowed(U, U @ U.T, lenders=2, weight=1.0)
    np.testing.assert_allclose(both[1], U[1] + np.array([1.0, 1.0]) / np.sqrt(2.0))


def test_rankings_are_learned():
    places = rng.standard_normal((60, 2))
    truth = ranked(np.column_stack([places[:, 0], places[:, 1], -places[:, 0], np.zeros(60)]))
    for method in (by_iokr, by_scores):
        assert tau(truth[40:], method(places[:40], truth[:40], places[40:])) > 0.6


def test_they_are_registered():
    for name in ("links", "few_links", "drug_retrieval", "label_sets", "label_ranking"):
        assert entry(name).name == name


def test_the_real_data_have_the_form_that_is_expected(need):
    need(load_yeast_kegg)
    [network] = kegg(None)
    np.testing.assert_allclose(network.X @ network.X.T, network.K, atol=1e-8)
    drugs = need(load_pharma)
    pools = windows(drugs.data, [0, 5])
    assert all(query in pool for query, pool in zip([0, 5], pools, strict=True))


def test_inputs_without_labels_help():
    X, y, known = split(2, 300, np.random.default_rng(0))
    assert np.bincount(y[known]).tolist() == [2] * 10
    found = accuracies(X, y, known)
    for classes in ("", ", classes coupled"):
        assert found["OVKRidge, unlabelled inputs too" + classes] > found["OVKRidge" + classes] + 3.0
