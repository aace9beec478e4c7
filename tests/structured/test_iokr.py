"""IOKR: against ridge, classification, direct minimisation and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge

import ovk
import reference
from ovk import IOKR, OVKRidge
from ovk.base import laplacian
from ovk.batch import neighbour_graph
from ovk.kernels import Gaussian, Linear, Polynomial, Precomputed, Tanimoto
from ovk.operators import Dense, MixedEffect
from ovk.ovkernels import CurlFree
from ovk.structured import (
    Delta,
    Diffusion,
    GaussianPreimage,
    Generated,
    Hierarchy,
    Jaccard,
    KSpectrum,
    LabelThresholds,
    PerExample,
    preimage,
)
from ovk.structured.preimage import top_k

rng = np.random.default_rng(0)
X, X_new = rng.standard_normal((30, 2)), rng.standard_normal((9, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 1]])
LABELS = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
WORDS = ["ab" * (1 + int(3 * abs(a))) + "c" * (1 + int(3 * abs(b))) for a, b in X]
K = Gaussian(1.0)
PATH = np.eye(30, k=1) + np.eye(30, k=-1)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("operator", [None, MixedEffect(0.5), Dense(np.diag([1.0, 2.0, 3.0]))])
@pytest.mark.parametrize("landmarks", [None, X[:12]])
def test_a_linear_output_kernel_is_ridge_regression(operator, intercept, landmarks):
    kernel = K if operator is None else K * operator
    ridge = OVKRidge(kernel, 0.1, fit_intercept=intercept, landmarks=landmarks).fit(X, Y)
    settings = {"fit_intercept": intercept, "landmarks": landmarks, "alpha": 0.1}
    np.testing.assert_allclose(IOKR(kernel, **settings).fit(X, Y).predict(X_new), ridge.predict(X_new), atol=1e-9)
    apart = IOKR(K, operator=operator, **settings).fit(X, Y)
    np.testing.assert_allclose(apart.predict(X_new), ridge.predict(X_new), atol=1e-9)


def test_more_outputs_than_rows_is_ridge_regression_too():
    wide = rng.standard_normal((30, 40))
    model = IOKR(K, Linear(), 0.1).fit(X, wide)
    assert len(model.anchors_) == 30
    ridge = OVKRidge(K, 0.1, fit_intercept=False).fit(X, wide)
    np.testing.assert_allclose(model.predict(X_new), ridge.predict(X_new), atol=1e-10)


def test_a_delta_kernel_is_kernel_ridge_classification():
    model = IOKR(K, Delta(), 0.1).fit(X, LABELS)
    classes = model.candidates_
    indicators = (LABELS[:, None] == classes).astype(float)
    ridge = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X, indicators).predict(X_new)
    np.testing.assert_allclose(model.decision_function(X_new), ridge - 0.5, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X_new), classes[ridge.argmax(axis=1)])


def test_one_class_is_predicted():
    model = IOKR(K, Delta()).fit(X, ["only"] * 30)
    assert model.predict(X_new) == ["only"] * 9
    assert model.score(X, ["only"] * 30) == 1.0


TREE = {"low": "not high", "middle": "not high", "not high": "all", "high": "all"}
STRUCTURED = [
    ("polynomial", Polynomial(2), Y.round(1), Y.round(1)),
    ("strings", KSpectrum(2), WORDS, sorted(set(WORDS))),
    ("hierarchy", Hierarchy(TREE), LABELS, ["low", "middle", "high", "not high", "all"]),
]


@pytest.mark.parametrize(("kernel", "y", "candidates"), [pytest.param(*rest, id=name) for name, *rest in STRUCTURED])
@pytest.mark.parametrize("kept", [1 << 26, 1])
def test_pre_images_are_those_of_brute_force_with_norms_that_vary(kernel, y, candidates, kept, monkeypatch):
    """The published code omits -k(y, y) / 2; this test fails without it."""
    monkeypatch.setattr(preimage, "MAX_KERNEL_VALUES", kept)
    model = IOKR(K, kernel, 0.1).fit(X, y)
    new = X_new[4:]
    W = model.weights(new)
    assert np.ptp(kernel.diag(candidates)) > 0.5
    orders = [reference.nearest(kernel, model.anchors_, w, candidates) for w in W]
    best = [candidates[order[0]] for order in orders]
    without = (model.decision_function(new, candidates) + 0.5 * kernel.diag(candidates)).argmax(axis=1)
    assert [order[0] for order in orders] != without.tolist()
    found = model.predict(new, candidates=candidates)
    three = model.predict(new, candidates=candidates, return_top_k=3)
    for i, order in enumerate(orders):
        assert np.array_equal(found[i], best[i])
        assert np.array_equal(np.array(three[i]), np.array([candidates[j] for j in order[:3]]))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_top_k_is_a_stable_sort(seed, k):
    scores = np.random.default_rng(seed).integers(0, 5, (4, 9)).astype(float)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(top_k(scores, k), expected)


def test_candidates_of_each_example():
    model = IOKR(K, KSpectrum(2), 0.1).fit(X, WORDS)
    pools = [WORDS[i : i + 4] + WORDS[i : i + 2] for i in range(9)]
    found = model.predict(X_new, candidates=PerExample(pools), return_top_k=2)
    scores = model.decision_function(X_new, PerExample(pools))
    for i, pool in enumerate(pools):
        alone = model.predict(X_new[i : i + 1], candidates=pool, return_top_k=2)[0]
        assert found[i] == alone
        np.testing.assert_allclose(scores[i], model.decision_function(X_new[i : i + 1], pool)[0], atol=1e-12)
    vectors = IOKR(K, Polynomial(2), 0.1).fit(X, Y)
    pool = PerExample([Y[i : i + 3] for i in range(9)])
    assert vectors.predict(X_new, pool).shape == (9, 3)
    assert vectors.predict(X_new, pool, return_top_k=5)[0].shape == (3, 3)


@pytest.mark.parametrize("k", [1, 4])
def test_generated_candidates_are_listed_ones(k):
    model = IOKR(K, KSpectrum(2), 0.1).fit(X, WORDS)
    pool = sorted(set(WORDS))
    shared = Generated(lambda: (pool[i : i + 3] for i in range(0, len(pool), 3)))
    listed = model.predict(X_new, pool, k)
    assert model.predict(X_new, shared, k) == listed
    own = Generated(lambda row: (pool[i : i + 3] for i in range(0, len(pool), 3)), shared=False)
    assert model.predict(X_new, own, k) == listed


def test_equal_candidates_count_once():
    model = IOKR(K, Delta(), 0.1).fit(X, LABELS)
    doubled = ["low", "low", "high", "middle", "high"]
    assert sorted(model.predict(X_new[:1], doubled, return_top_k=5)[0]) == ["high", "low", "middle"]
    assert model.decision_function(X_new[:1], doubled).shape == (1, 5)


@pytest.mark.parametrize("alpha_graph", [0.3, 5.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_semi_supervised_is_the_minimiser(alpha_graph, intercept):
    """Values at labelled and unlabelled inputs against L-BFGS on the criterion, over coefficients and intercept."""
    more, alpha, labelled = X_new, 0.5, 12
    every = np.concatenate([X[:labelled], more])
    G, T = K(every), Y[:labelled, :1]
    n = len(every)
    L = laplacian(neighbour_graph(K, every, 3), normalised=False).toarray()
    W = neighbour_graph(K, every, 3).toarray()

    def criterion(z):
        c, b = z[:n], z[n] if intercept else 0.0
        h = G @ c + b
        spread = np.sum(W * (h[:, None] - h) ** 2)
        residual = h[:labelled] - T[:, 0]
        slope = 2 * np.concatenate([residual, np.zeros(n - labelled)]) + 4 * alpha_graph * L @ h
        gradient = np.append(G @ slope + 2 * alpha * G @ c, slope.sum() if intercept else 0.0)
        return residual @ residual + alpha * c @ G @ c + alpha_graph * spread, gradient

    found = minimize(
        criterion, np.zeros(n + 1), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-11}
    )
    values = G @ found.x[:n] + (found.x[n] if intercept else 0.0)
    model = IOKR(K, alpha=alpha, alpha_graph=alpha_graph, n_neighbors=3, fit_intercept=intercept)
    model.fit(X[:labelled], T, unlabelled=more)
    np.testing.assert_allclose(model.predict(every)[:, 0], values, atol=1e-6)
    sketched = model.set_params(landmarks=every).fit(X[:labelled], T, unlabelled=more, graph=W)
    np.testing.assert_allclose(sketched.predict(every)[:, 0], values, atol=1e-5)


@pytest.mark.parametrize("operator", [MixedEffect(0.6), Dense(np.diag([2.0, 1.0, 0.0]))])
@pytest.mark.parametrize("intercept", [False, True])
def test_semi_supervised_with_an_operator_is_the_minimiser(operator, intercept):
    """The normal equations of the criterion, written with Kronecker products and all coefficients as unknowns."""
    labelled, alpha, alpha_graph = 12, 0.5, 0.7
    every = np.concatenate([X[:labelled], X_new])
    n, G, B = len(every), K(every), operator.resolve(3).dense()
    L = laplacian(neighbour_graph(K, every, 3), normalised=False).toarray()
    J = np.diag((np.arange(n) < labelled).astype(float))
    A, E = np.kron(G, B), np.kron(np.ones((n, 1)), np.eye(3)) if intercept else np.zeros((3 * n, 0))
    M, J3 = np.kron(J + 2 * alpha_graph * L, np.eye(3)), np.kron(J, np.eye(3))
    T = np.zeros((n, 3))
    T[:labelled] = Y[:labelled]
    # |J(A c + E b - t)|^2 + alpha c'A c + 2 alpha_graph h'L h; L is zero on constants.
    both = np.hstack([A, E])
    penalty = np.zeros((both.shape[1],) * 2)
    penalty[: 3 * n, : 3 * n] = alpha * A
    found = np.linalg.lstsq(both.T @ M @ both + penalty, both.T @ J3 @ T.ravel(), rcond=1e-13)[0]
    values = (both @ found).reshape(n, 3)
    model = IOKR(K, alpha=alpha, alpha_graph=alpha_graph, n_neighbors=3, operator=operator, fit_intercept=intercept)
    model.fit(X[:labelled], Y[:labelled], unlabelled=X_new)
    np.testing.assert_allclose(model.predict(every), values, atol=1e-7)
    sketched = model.set_params(landmarks=every).fit(X[:labelled], Y[:labelled], unlabelled=X_new)
    np.testing.assert_allclose(sketched.predict(every), values, atol=1e-5)


def test_a_list_of_kernels_is_weighed_by_what_the_outputs_say(tmp_path):
    kernels = [Gaussian(0.05), Gaussian(1.0), Linear()]
    model = IOKR(kernels, alpha=0.1).fit(X, Y)
    weights, C, *_ = reference.movkl([np.kron(k(X), np.eye(3)) for k in kernels], Y, 0.1, 2.0, 400)
    np.testing.assert_allclose(model.kernel_weights_, weights, atol=1e-3)
    K_new = sum(w * k(X_new, X) for w, k in zip(weights, kernels, strict=True))
    np.testing.assert_allclose(model.predict(X_new), K_new @ C, atol=2e-3)
    chosen = IOKR(kernels, KSpectrum(2), [0.01, 1.0, 100.0]).fit(X, WORDS)
    assert chosen.loo_errors_.shape == (3,)
    alone = IOKR(chosen.kernel_, KSpectrum(2), chosen.alpha_).fit(X, WORDS)
    np.testing.assert_allclose(chosen.decision_function(X_new), alone.decision_function(X_new), atol=1e-8)
    ovk.save(chosen, tmp_path / "m.ovk")
    assert ovk.load(tmp_path / "m.ovk").predict(X_new) == chosen.predict(X_new)
    with pytest.raises(ValueError, match="at least one kernel"):
        IOKR([]).fit(X, Y)


def test_no_graph_penalty_is_supervised():
    alone = IOKR(K, KSpectrum(2), 0.1).fit(X, WORDS)
    beside = IOKR(K, KSpectrum(2), 0.1, alpha_graph=0.0).fit(X, WORDS, unlabelled=X_new)
    np.testing.assert_array_equal(alone.dual_coef_, beside.dual_coef_)
    nearly = IOKR(K, KSpectrum(2), 0.1, alpha_graph=1e-13).fit(X, WORDS, unlabelled=X_new)
    np.testing.assert_allclose(nearly.weights(X_new), alone.weights(X_new), atol=1e-8)


@pytest.mark.parametrize(
    "kernel", [KSpectrum(2), Diffusion(np.eye(30, k=1) + np.eye(30, k=-1))], ids=["words", "nodes"]
)
def test_a_sketch_of_full_rank_is_exact(kernel):
    y = WORDS if isinstance(kernel, KSpectrum) else list(range(30))
    exact = IOKR(K, kernel, 0.1).fit(X, y)
    for sketch in ({"landmarks": 30}, {"output_landmarks": 30}, {"landmarks": 30, "output_landmarks": 30}):
        model = IOKR(K, kernel, 0.1, **sketch, chunk_size=7).fit(X, y)
        np.testing.assert_allclose(
            model.decision_function(X_new), exact.decision_function(X_new), atol=1e-5, err_msg=str(sketch)
        )


def test_fewer_landmarks_are_smaller_models_drawn_by_the_seed():
    model = IOKR(K, KSpectrum(2), 0.1, landmarks=10, output_landmarks=5, random_state=0).fit(X, WORDS)
    assert model.dual_coef_.shape[0] <= 10
    assert model.dual_coef_.shape[1] == len(model.anchors_) <= 5
    again = IOKR(K, KSpectrum(2), 0.1, landmarks=10, output_landmarks=5, random_state=0).fit(X, WORDS)
    np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)
    given = IOKR(K, KSpectrum(2), 0.1, output_landmarks=["abab", "cc"]).fit(X, WORDS)
    assert given.anchors_ == ["abab", "cc"]


def test_an_operator_on_the_features_shrinks_directions_in_which_outputs_vary_little():
    identity = IOKR(K, KSpectrum(2), 0.1).fit(X, WORDS)
    same = IOKR(K, KSpectrum(2), 0.1, operator=Dense(np.eye(len(set(WORDS)))), output_landmarks=sorted(set(WORDS)))
    rank = np.linalg.matrix_rank(KSpectrum(2)(sorted(set(WORDS))))
    same.set_params(operator=Dense(np.eye(rank))).fit(X, WORDS)
    np.testing.assert_allclose(same.decision_function(X_new), identity.decision_function(X_new), atol=1e-6)
    coupled = IOKR(K, alpha=0.1, operator="covariance").fit(X, Y)
    moments = Y.T @ Y
    ridge = OVKRidge(K * Dense(moments / np.linalg.norm(moments, 2)), 0.1, fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(coupled.predict(X_new), ridge.predict(X_new), atol=1e-9)


ALPHAS = [0.01, 0.1, 1.0]


@pytest.mark.parametrize(
    "settings", [{}, {"fit_intercept": True}, {"landmarks": X[::3]}, {"alpha_graph": 0.2}], ids=str
)
def test_leave_one_out_errors_equal_refits(settings):
    model = IOKR(K, alpha=ALPHAS, n_neighbors=3, **settings).fit(X, Y)
    if "alpha_graph" in settings:
        graph = neighbour_graph(K, X, 3).toarray()

        def without(i, alpha):
            order = np.append(np.delete(np.arange(30), i), i)
            part = IOKR(K, alpha=alpha, **settings)
            return part.fit(X[order[:-1]], Y[order[:-1]], unlabelled=X[i : i + 1], graph=graph[np.ix_(order, order)])
    else:

        def without(i, alpha):
            return IOKR(K, alpha=alpha, **settings).fit(np.delete(X, i, 0), np.delete(Y, i, 0))

    for alpha, error in zip(ALPHAS, model.loo_errors_, strict=True):
        left = [np.sum((Y[i] - without(i, alpha).predict(X[i : i + 1])[0]) ** 2) for i in range(30)]
        assert error == pytest.approx(np.mean(left), rel=1e-6)
    assert model.alpha_ == ALPHAS[int(model.loo_errors_.argmin())]


@pytest.mark.parametrize("landmarks", [None, X[::2]], ids=["exact", "landmarks"])
def test_leave_one_out_with_unlabelled_inputs(landmarks):
    graph, labelled = neighbour_graph(K, X, 3).toarray(), 15
    how = {"alpha_graph": 0.2, "landmarks": landmarks}
    model = IOKR(K, alpha=ALPHAS, **how).fit(X[:labelled], Y[:labelled], unlabelled=X[labelled:], graph=graph)
    for alpha, error in zip(ALPHAS, model.loo_errors_, strict=True):
        left = []
        for i in range(labelled):
            order = np.append(np.delete(np.arange(30), i), i)
            known, others = order[: labelled - 1], order[labelled - 1 :]
            part = IOKR(K, alpha=alpha, **how)
            part.fit(X[known], Y[known], unlabelled=X[others], graph=graph[np.ix_(order, order)])
            left.append(np.sum((Y[i] - part.predict(X[i : i + 1])[0]) ** 2))
        assert error == pytest.approx(np.mean(left), rel=1e-6)


def test_leave_one_out_in_the_feature_space_of_words():
    model = IOKR(K, KSpectrum(2), ALPHAS).fit(X, WORDS)
    k = KSpectrum(2)
    for alpha, error in zip(ALPHAS, model.loo_errors_, strict=True):
        total = 0.0
        for i in range(30):
            rest = [w for j, w in enumerate(WORDS) if j != i]
            w = np.linalg.solve(K(np.delete(X, i, 0)) + alpha * np.eye(29), K(np.delete(X, i, 0), X[i : i + 1]))[:, 0]
            total += w @ k(rest) @ w - 2 * w @ k(rest, [WORDS[i]])[:, 0] + k.diag([WORDS[i]])[0]
        assert error == pytest.approx(total / 30, rel=1e-8)


def test_precomputed_kernels_on_both_sides():
    objects, k = np.arange(30)[:, None], KSpectrum(2)
    by_name = IOKR(K, k, 0.1).fit(X, WORDS)
    every = np.concatenate([X, X_new])
    model = IOKR(Precomputed(K(every)), Precomputed(k(WORDS)), 0.1).fit(objects, np.arange(30))
    assert [WORDS[i] for i in model.predict(np.arange(30, 39)[:, None])] == by_name.predict(X_new)
    gram = IOKR("precomputed", k, 0.1).fit(K(X), WORDS)
    assert gram.predict(K(X_new, X)) == by_name.predict(X_new)


def test_gaussian_pre_images_score_above_the_best_training_output():
    kernel = Gaussian(0.7)
    model = IOKR(K, kernel, 0.01, decoder="gaussian").fit(X, Y)
    found = model.predict(X_new)

    def score(y):
        return np.diagonal(model.decision_function(X_new, y))

    assert (score(found) >= score(model.predict(X_new, Y)) - 1e-12).all()
    for i in range(9):
        here = minimize(lambda y, i=i: -model.decision_function(X_new[i : i + 1], y[None])[0, 0], found[i], tol=1e-12)
        assert -here.fun == pytest.approx(score(found)[i], abs=1e-7)


def test_thresholds_are_the_pre_image_among_all_label_sets():
    sets = (Y > 0).astype(int)
    model = IOKR(K, alpha=0.1, decoder="labels").fit(X, sets)
    every = (np.arange(8)[:, None] >> np.arange(3)) & 1
    np.testing.assert_array_equal(model.predict(X_new), model.predict(X_new, candidates=every))
    strict = model.set_params(decoder=LabelThresholds([0.9, 0.5, 0.1])).predict(X_new)
    assert (strict[:, 0] <= model.set_params(decoder="labels").predict(X_new)[:, 0]).all()


def test_score_is_r2_for_vectors_and_one_for_right_answers():
    model = IOKR(K, alpha=1e-6).fit(X, Y[:, 0])
    ridge = OVKRidge(K, 1e-6, fit_intercept=False).fit(X, Y[:, 0])
    truth = np.sin(X_new[:, 0])
    assert model.score(X_new, truth) == pytest.approx(ridge.score(X_new, truth))
    weights = np.arange(9) % 4
    weighted = ridge.score(X_new, truth, weights)
    assert model.score(X_new, truth, weights) == pytest.approx(weighted)
    assert weighted != pytest.approx(ridge.score(X_new, truth))
    labels = IOKR(K, Delta(), 1e-6).fit(X, LABELS)
    assert labels.score(X, LABELS) == pytest.approx(1.0)
    mixed, whole = LABELS[5:14], labels.score(np.repeat(X_new, weights, axis=0), np.repeat(LABELS[5:14], weights))
    assert labels.score(X_new, mixed, weights) == pytest.approx(whole)


@pytest.mark.parametrize("kernel", [KSpectrum(2), Tanimoto(), Linear()])
def test_saved_and_loaded(kernel, tmp_path):
    y = WORDS if isinstance(kernel, KSpectrum) else (Y > 0).astype(float)
    model = IOKR(K, kernel, 0.1).fit(X, y)
    ovk.save(model, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    assert np.array_equal(loaded.predict(X_new), model.predict(X_new))
    np.testing.assert_array_equal(loaded.decision_function(X_new), model.decision_function(X_new))


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({}, None, "requires y"),
        ({}, LABELS, "Delta"),
        ({}, Y[:5], "inconsistent numbers of samples"),
        ({}, np.where(Y > 1, np.nan, Y), "NaN"),
        ({"alpha": 0.0}, Y, "alpha"),
        ({"alpha": [0.1, -1.0]}, Y, "alpha"),
        ({"alpha": "big"}, Y, "alpha"),
        ({"kernel": CurlFree(Gaussian(1.0))}, Y, "scalar kernel or k"),
        ({"kernel": K * MixedEffect(0.5), "operator": MixedEffect(0.5)}, Y, "operator cannot be combined"),
        ({"operator": "both"}, Y, "operator must be"),
        ({"operator": MixedEffect(0.5), "alpha_graph": 1.0, "alpha": [1.0, 2.0]}, Y, "one alpha"),
        ({"operator": MixedEffect(0.5), "alpha": [1.0, 2.0], "landmarks": 5}, Y, "one alpha"),
        ({"fit_intercept": True, "alpha": [1.0, 2.0], "landmarks": 5}, Y, "one alpha"),
        ({"decoder": "best"}, Y, "decoder must be"),
        ({"decoder": GaussianPreimage()}, Y, "requires output_kernel=Gaussian"),
        ({"decoder": "labels", "output_kernel": Tanimoto()}, Y, "requires output_kernel=Linear"),
        ({"landmarks": np.ones((3, 5))}, Y, "landmarks"),
        ({"output_landmarks": 0, "output_kernel": Tanimoto()}, Y, "output_landmarks"),
        ({"alpha_graph": -1.0}, Y, "alpha_graph"),
        ({"output_kernel": Precomputed()}, np.arange(30.0), "Precomputed"),
        ({"kernel": "precomputed", "alpha_graph": 1.0}, Y, "Precomputed"),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(settings, y, message):
    model = IOKR(K).fit(X, Y)
    before = model.predict(X_new)
    model.set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X @ X.T if settings.get("kernel") == "precomputed" else X, y)
    model.set_params(**IOKR(K).get_params(deep=False))
    np.testing.assert_array_equal(model.predict(X_new), before)


@pytest.mark.parametrize(
    ("candidates", "k", "message"),
    [
        ([], 1, "empty"),
        (PerExample([["a"]] * 8), 1, "each of the 9 inputs"),
        (PerExample([["ab"]] * 8 + [[]]), 1, "input 8 are empty"),
        (Generated(lambda: [[], []]), 1, "empty"),
        (None, 0, "return_top_k"),
        (5, 1, "collection"),
    ],
)
def test_bad_candidates_raise(candidates, k, message):
    model = IOKR(K, KSpectrum(2)).fit(X, WORDS)
    with pytest.raises(ValueError, match=message):
        model.predict(X_new, candidates, k)


def test_unsupported_candidates_raise():
    with pytest.raises(ValueError, match="must be 1 without candidates"):
        IOKR(K).fit(X, Y).predict(X_new, return_top_k=2)
    with pytest.raises(ValueError, match="one block at a time"):
        IOKR(K, Jaccard()).fit(X, [{w} for w in WORDS]).decision_function(X_new, Generated(list))


def test_too_many_distinct_outputs_require_landmarks(monkeypatch):
    monkeypatch.setattr("ovk.structured.feature_ridge.MAX_DISTINCT_OUTPUTS", 10)
    with pytest.raises(ValueError, match="output_landmarks"):
        IOKR(K, KSpectrum(2)).fit(X, WORDS)


def test_scores_per_example_do_not_depend_on_the_block_size(monkeypatch):
    W, sets = rng.standard_normal((7, 30)), [rng.standard_normal((1 + i % 3, 3)) for i in range(7)]
    expected = [W[i] @ K(Y, Z) - 0.5 for i, Z in enumerate(sets)]
    for kept in (1, 5 * 30, 1 << 20):
        monkeypatch.setattr(preimage, "MAX_KERNEL_VALUES", kept)
        for one, other in zip(preimage.scores_per_example(K, Y, W, sets), expected, strict=True):
            np.testing.assert_allclose(one, other)
