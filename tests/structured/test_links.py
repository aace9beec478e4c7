"""Link prediction: scores, thresholds, graphs, and unusual new nodes."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

import ovk
from ovk import IOKR, LinkPredictor
from ovk.kernels import Gaussian, Linear, Precomputed
from ovk.structured import Diffusion, link_aucs
from ovk.structured.link_prediction import best_threshold

rng = np.random.default_rng(0)
X = np.concatenate([rng.standard_normal((12, 2)) * 0.4 + centre for centre in ([0, 0], [3, 0], [0, 3])])
GROUP = np.repeat([0, 1, 2], 12)
A = np.triu((GROUP[:, None] == GROUP) & (rng.random((36, 36)) < 0.5), 1)
A = (A | A.T).astype(float)
NEW = np.arange(36) % 4 == 0
KNOWN = np.flatnonzero(~NEW)
K = Gaussian(1.0)


@pytest.mark.parametrize("centre", [False, True])
def test_scores_are_inner_products_in_the_feature_space(centre):
    model = LinkPredictor(K, beta=0.5, alpha=0.1, centre=centre).fit(X[KNOWN], A[np.ix_(KNOWN, KNOWN)])
    KY = Diffusion(A[np.ix_(KNOWN, KNOWN)], 0.5)(range(len(KNOWN)))
    if centre:
        H = np.eye(len(KNOWN)) - 1 / len(KNOWN)
        KY = H @ KY @ H
        inner = K(X) - K(X, X[KNOWN]).mean(axis=1) - K(X, X[KNOWN]).mean(axis=1)[:, None] + K(X[KNOWN]).mean()
    else:
        inner = K(X)
    W = np.linalg.solve(inner[np.ix_(KNOWN, KNOWN)] + 0.1 * np.eye(len(KNOWN)), inner[KNOWN]).T
    np.testing.assert_allclose(model.score_pairs(X), W @ KY @ W.T, atol=1e-9)
    np.testing.assert_allclose(model.score_pairs(X[NEW], X[KNOWN]), (W @ KY @ W.T)[np.ix_(NEW, KNOWN)], atol=1e-9)


def test_plain_scores_are_those_of_iokr_on_nodes():
    inner = A[np.ix_(KNOWN, KNOWN)]
    nodes = IOKR(K, Diffusion(inner, 0.5), 0.1).fit(X[KNOWN], range(len(KNOWN)))
    W = nodes.weights(X)
    model = LinkPredictor(K, beta=0.5, alpha=0.1, centre=False).fit(X, A, known=KNOWN)
    np.testing.assert_allclose(model.score_pairs(X), W @ nodes.output_kernel_(nodes.anchors_) @ W.T, atol=1e-9)


def test_cosines_lie_between_minus_one_and_one():
    model = LinkPredictor(K, alpha=0.1, cosine=True).fit(X, A, known=KNOWN)
    scores = model.score_pairs(X)
    assert (np.abs(scores) <= 1 + 1e-12).all()
    np.testing.assert_allclose(np.diagonal(scores), 1.0)


def test_links_of_new_nodes_are_found_for_three_forms_of_the_graph():
    named = nx.relabel_nodes(nx.from_numpy_array(A[np.ix_(KNOWN, KNOWN)]), lambda i: f"n{i}")
    models = [
        LinkPredictor(K, alpha=0.1).fit(X, A, known=KNOWN),
        LinkPredictor(K, alpha=0.1).fit(X, sparse.csr_matrix(A), known=~NEW),
        LinkPredictor(K, alpha=0.1).fit(X[KNOWN], named),
    ]
    aucs = [model.evaluate(X, A, NEW) for model in models]
    assert aucs[0] == aucs[1] == aucs[2]
    assert aucs[0]["roc new-known"] > 0.8
    assert aucs[0]["roc new-new"] > 0.8
    graph = models[2].predict_graph(X[NEW], names=list("abcdefghi"), with_known=True)
    assert set(graph) == set("abcdefghi") | {f"n{i}" for i in range(27)}
    truth = A[NEW][:, NEW]
    alone = models[0].predict_graph(X[NEW])
    assert sorted(alone) == list(range(9))
    scores = models[0].score_pairs(X[NEW])
    expected = {(i, j) for i in range(9) for j in range(i) if scores[i, j] > models[0].threshold_}
    assert {(max(e), min(e)) for e in alone.edges} == expected
    assert all(alone.edges[e]["weight"] > models[0].threshold_ for e in alone.edges)
    found = nx.to_numpy_array(alone, nodelist=range(9), weight=None)
    assert (found[truth > 0].mean()) > (found[truth == 0].mean())


def test_the_threshold_maximises_f1_of_leave_one_out_embeddings():
    model = LinkPredictor(K, alpha=0.1, centre=False).fit(X[KNOWN], A[np.ix_(KNOWN, KNOWN)])
    F, G = model.embedding_, K(X[KNOWN])
    left = np.array(
        [
            G[i, np.arange(27) != i]
            @ np.linalg.solve(np.delete(np.delete(G, i, 0), i, 1) + 0.1 * np.eye(26), np.delete(F, i, 0))
            for i in range(27)
        ]
    )
    i, j = np.triu_indices(27, 1)
    there, scores = A[np.ix_(KNOWN, KNOWN)][i, j] > 0, (left @ left.T)[i, j]

    def f1(t):
        called = scores > t
        return 2 * (called & there).sum() / (called.sum() + there.sum())

    assert f1(model.threshold_) == pytest.approx(max(f1(t) for t in scores - 1e-9))


def test_no_link_at_all():
    model = LinkPredictor(K).fit(X, np.zeros((36, 36)))
    assert model.threshold_ == np.inf
    assert model.predict_graph(X[:4]).number_of_edges() == 0
    assert best_threshold(np.array([True, True]), np.array([0.5, 0.5])) == 0.0


def test_inputs_of_unknown_nodes_improve_the_prediction():
    few = np.arange(0, 36, 4)
    alone = LinkPredictor(K, alpha=0.1).fit(X, A, known=few)
    helped = LinkPredictor(K, alpha=0.1, alpha_graph=0.1, n_neighbors=3).fit(X, A, known=few)
    assert helped.model_.X_fit_.shape[0] == 36
    assert not np.allclose(alone.score_pairs(X), helped.score_pairs(X))
    assert LinkPredictor(K, alpha=0.1, alpha_graph=0.0).fit(X, A, known=few).score_pairs(X) == pytest.approx(
        alone.score_pairs(X)
    )


def test_several_kernels_are_averaged():
    both = Precomputed(0.5 * (K(X) + Linear()(X)))
    every = np.arange(36)[:, None]
    one = LinkPredictor(both, alpha=0.1).fit(every, A, known=KNOWN)
    two = LinkPredictor([Precomputed(K(X)), Precomputed(Linear()(X))], alpha=0.1).fit(every, A, known=KNOWN)
    np.testing.assert_allclose(one.score_pairs(every), two.score_pairs(every), atol=1e-9)


def test_known_nodes_may_use_observed_features():
    model = LinkPredictor(K, "adjacency", alpha=0.1, centre=False, observed=True).fit(X, A, known=KNOWN)
    e, V = np.linalg.eigh(A[np.ix_(KNOWN, KNOWN)])
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, (V * np.maximum(e, 0)) @ V.T, atol=1e-9)
    expected = model.embed(X[NEW]) @ model.embedding_.T
    np.testing.assert_allclose(model.score_known(X[NEW]), expected)
    scores = np.zeros((36, 36))
    scores[np.ix_(NEW, KNOWN)] = expected
    scores[np.ix_(NEW, NEW)] = model.score_pairs(X[NEW])
    assert model.evaluate(X, A, NEW) == link_aucs(A, scores, NEW)
    assert model.evaluate(X.tolist(), A, NEW) == link_aucs(A, scores, NEW)
    assert model.evaluate(sparse.csr_array(X), A, NEW) == pytest.approx(link_aucs(A, scores, NEW))
    plain = model.set_params(observed=False)
    np.testing.assert_allclose(plain.score_known(X[NEW]), plain.score_pairs(X[NEW], X[KNOWN]), atol=1e-12)
    between = model.set_params(observed="both").score_known(X[NEW])
    np.testing.assert_allclose(between, 0.5 * (expected + model.score_pairs(X[NEW], X[KNOWN])), atol=1e-12)
    with pytest.raises(ValueError, match="'both'"):
        model.set_params(observed="graph").score_known(X[NEW])
    with pytest.raises(ValueError, match="27 training nodes"):
        model.evaluate(X, A, ~NEW)


def test_alpha_by_leave_one_out_and_a_kernel_matrix_of_the_graph():
    KY = Diffusion(A[np.ix_(KNOWN, KNOWN)], 1.0)(range(27))
    ready = LinkPredictor(K, KY, alpha=[0.01, 0.1, 1.0, 10.0]).fit(X, A, known=KNOWN)
    named = LinkPredictor(K, alpha=ready.alpha_).fit(X, A, known=KNOWN)
    assert ready.loo_errors_.shape == (4,)
    np.testing.assert_allclose(ready.score_pairs(X), named.score_pairs(X), atol=1e-9)


def test_a_node_without_features_and_isolated_nodes():
    """A row of zeros has no information under a linear kernel: all its pairs have the same score."""
    inner = A.copy()
    inner[5] = inner[:, 5] = 0.0
    model = LinkPredictor("linear", alpha=0.1, centre=False).fit(X, inner)
    np.testing.assert_array_equal(model.score_pairs(np.zeros((1, 2)), X), 0.0)
    with pytest.raises(ValueError, match="NaN"):
        model.score_pairs(np.full((1, 2), np.nan))


def test_self_loops_and_parts_of_a_graph():
    plain = LinkPredictor(K, alpha=0.1).fit(X, A)
    loops = LinkPredictor(K, alpha=0.1).fit(X, A + np.diag(np.arange(36.0)))
    np.testing.assert_array_equal(loops.score_pairs(X), plain.score_pairs(X))
    apart = A.copy()
    apart[:18, 18:] = apart[18:, :18] = 0.0
    model = LinkPredictor(K, alpha=0.1, centre=False, observed=True).fit(X, apart)
    features = model.embedding_ @ model.embedding_.T
    np.testing.assert_allclose(features[:18, 18:], 0.0, atol=1e-10)
    assert np.isfinite(model.score_known(X)).all()


def test_aucs_are_split_by_pair():
    S = rng.random((36, 36))
    S = S + S.T
    found = link_aucs(A, S, NEW)
    from sklearn.metrics import roc_auc_score

    assert found["roc new-known"] == roc_auc_score(A[NEW][:, ~NEW].ravel(), S[NEW][:, ~NEW].ravel())
    with pytest.raises(ValueError, match="must have shapes"):
        link_aucs(A, S[:5], NEW)
    with pytest.raises(ValueError, match="boolean"):
        link_aucs(A, S, NEW.astype(int))


@pytest.mark.parametrize("settings", [{}, {"cosine": True, "alpha": [0.1, 1.0]}, {"alpha_graph": 0.1}])
def test_saved_and_loaded(settings, tmp_path):
    model = (
        LinkPredictor(K, **settings).fit(X, A, known=KNOWN)
        if "alpha" not in settings
        else (LinkPredictor(K, **settings).fit(X, A))
    )
    ovk.save(model, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    np.testing.assert_array_equal(loaded.score_pairs(X), model.score_pairs(X))
    assert loaded.threshold_ == model.threshold_


@pytest.mark.parametrize(
    ("settings", "graph", "known", "message"),
    [
        ({}, np.triu(A), None, "symmetric"),
        ({}, A[:5, :5], None, "5 nodes but X has 36"),
        ({}, A, [1, 1], "once"),
        ({}, A, [40], "known must contain"),
        ({"graph_kernel": "heat"}, A, None, "adjacency.*diffusion"),
        ({"graph_kernel": np.eye(5)}, A, None, "symmetric matrix of shape"),
        ({"graph_kernel": -np.eye(36)}, A, None, "positive semi-definite"),
        ({"kernel": []}, A, None, "at least one kernel"),
        ({"beta": -1.0}, A, None, "beta"),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(settings, graph, known, message):
    model = LinkPredictor(K).fit(X, A)
    before = model.score_pairs(X)
    model.set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, graph, known=known)
    np.testing.assert_array_equal(model.score_pairs(X), before)


def test_bad_names_raise():
    model = LinkPredictor(K).fit(X, A)
    with pytest.raises(ValueError, match="different names"):
        model.predict_graph(X[:2], names=["a", "a"])
    with pytest.raises(ValueError, match="differ from"):
        model.predict_graph(X[:2], names=[0, 1], with_known=True)


def test_an_input_graph_is_passed_to_iokr():
    known = np.flatnonzero(np.arange(len(X)) % 3 > 0)
    others = np.setdiff1d(np.arange(len(X)), known)
    W = (np.linalg.norm(X[:, None] - X, axis=2) < 1.0).astype(float)
    np.fill_diagonal(W, 0.0)
    model = LinkPredictor(K, alpha=0.1, alpha_graph=0.5).fit(X, A, known=known, input_graph=W)
    order = np.concatenate([known, others])
    plain = IOKR(K, alpha=0.1, alpha_graph=0.5, fit_intercept=True)
    plain.fit(X[known], model.embedding_, unlabelled=X[others], graph=W[np.ix_(order, order)])
    np.testing.assert_allclose(model.embed(X), plain.predict(X), atol=1e-10)
    default = LinkPredictor(K, alpha=0.1, alpha_graph=0.5).fit(X, A, known=known)
    assert np.abs(default.embed(X) - model.embed(X)).max() > 1e-6
    with pytest.raises(ValueError, match="input_graph must have a row for each of the 36 nodes, got 3"):
        LinkPredictor(K, alpha_graph=0.5).fit(X, A, known=known, input_graph=np.ones((3, 3)) - np.eye(3))


@pytest.mark.parametrize("centre", [False, True])
def test_leave_one_out_embeddings_equal_refits(centre):
    model = LinkPredictor(K, beta=0.5, alpha=0.1, centre=centre).fit(X, A)
    found = model._leave_one_out(X)
    for i in (0, 7, 35):
        others = np.arange(36) != i
        without = IOKR(K, alpha=0.1, fit_intercept=centre).fit(X[others], model.embedding_[others])
        np.testing.assert_allclose(found[i], np.asarray(without.predict(X[i : i + 1])).ravel(), atol=1e-9)


def test_beta_is_the_candidate_that_ranks_known_links_best():
    """As leave-one-out embeddings rank them; alpha is chosen for each."""
    inner = A[np.ix_(KNOWN, KNOWN)]
    betas, alphas = [1e-3, 0.5, 50.0], [0.01, 0.1, 1.0]
    there = inner[np.triu_indices(len(KNOWN), 1)] > 0
    areas = []
    for beta in betas:
        single = LinkPredictor(K, beta=beta, alpha=alphas).fit(X[KNOWN], inner)
        H = single._leave_one_out(X[KNOWN])
        areas.append(roc_auc_score(there, (H @ H.T)[np.triu_indices(len(KNOWN), 1)]))
    for order in (1, -1):
        model = LinkPredictor(K, beta=betas[::order], alpha=alphas).fit(X[KNOWN], inner)
        assert model.beta_ == betas[int(np.argmax(areas))]
    best = LinkPredictor(K, beta=model.beta_, alpha=alphas).fit(X[KNOWN], inner)
    np.testing.assert_array_equal(model.score_pairs(X), best.score_pairs(X))
    assert model.alpha_ == best.alpha_
    assert model.threshold_ == best.threshold_
    with pytest.raises(ValueError, match="beta must be a number or a sequence of numbers"):
        model.replace(beta=[]).fit(X[KNOWN], inner)
