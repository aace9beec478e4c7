"""Inputs without outputs: the manifold penalty of `OVKRidge` against its criterion, in every form of outputs."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from batch.reference import long_form, manifold_ridge
from ovk import OVKRidge
from ovk.app import parallel as distributed
from ovk.base.graphs import as_adjacency, laplacian
from ovk.batch import neighbour_graph
from ovk.kernels import Laplacian, Matern, Precomputed
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import Diagonal

B = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
ROUGH = Laplacian(1.0)
KERNELS = {
    "identity": ROUGH * Identity(),
    "dense": ROUGH * Dense(B),
    "commuting": ROUGH * MixedEffect(0.4) + Matern(0.5, 2.0) * Identity(),
    "not commuting": ROUGH * Dense(B) + Matern(0.5, 2.0) * Dense(np.diag([1.0, 2.0, 0.5])),
    "diagonal": Diagonal([ROUGH, Laplacian(0.5), ROUGH]),
}


def problem(data, kernel, *, holes=False, weighted=False, per_output=False):
    """Eight labelled and six unlabelled inputs in a graph of nearest neighbours."""
    every = np.concatenate([data.X[:8], data.X_new[:6]])
    graph = neighbour_graph(ROUGH, every, 3).toarray()
    Y = data.holes[:8].copy() if holes else data.Y[:8]
    weight = data.weight[:8] if weighted else None
    alpha = np.array([0.2, 0.05, 0.4]) if per_output else 0.1
    return every, graph, Y, weight, alpha


@pytest.mark.parametrize(
    "form", [{}, {"holes": True}, {"weighted": True}, {"holes": True, "weighted": True, "per_output": True}], ids=str
)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_every_form_is_the_minimiser(data, name, form, intercept):
    kernel = KERNELS[name]
    every, graph, Y, weight, alpha = problem(data, kernel, **form)
    more = every[8:]
    padded = np.pad(Y, ((0, 6), (0, 0)), constant_values=np.nan)
    weights = None if weight is None else np.pad(weight, (0, 6))
    wanted = manifold_ridge(
        kernel.resolve(every, 3), every, padded, alpha, graph, 0.7, data.X, weights, intercept=intercept
    )
    model = OVKRidge(kernel, alpha, fit_intercept=intercept, alpha_graph=0.7)
    model.fit(data.X[:8], Y, weight, unlabelled=more, graph=graph)
    assert_allclose(model.predict(data.X), wanted, atol=1e-9)
    assert model.solver_info_.route == "LU"
    sums = model.set_params(landmarks=every).fit(data.X[:8], Y, weight, unlabelled=more, graph=graph)
    assert_allclose(sums.predict(data.X), wanted, atol=1e-8)
    assert sums.solver_info_.route == "Landmarks"


def test_rows_without_outputs_are_inputs_without_outputs(data):
    every, graph, Y, _, _ = problem(data, ROUGH)
    padded = np.pad(Y, ((0, 6), (0, 0)), constant_values=np.nan)
    kernel = ROUGH * MixedEffect(0.5)
    apart = OVKRidge(kernel, 0.1, alpha_graph=0.3).fit(data.X[:8], Y, unlabelled=every[8:], graph=graph)
    together = OVKRidge(kernel, 0.1, alpha_graph=0.3).fit(every, padded, graph=graph)
    assert_array_equal(apart.predict(data.X), together.predict(data.X))
    by_laplacian = OVKRidge(kernel, 0.1, alpha_graph=0.3)
    by_laplacian.fit(every, padded, graph=laplacian(as_adjacency(graph)[0], normalised=False))
    assert_allclose(by_laplacian.predict(data.X), together.predict(data.X), atol=1e-12)
    found = OVKRidge(kernel, 0.1, alpha_graph=0.3, n_neighbors=3).fit(every, padded)
    assert_allclose(found.predict(data.X), together.predict(data.X), atol=1e-12)
    assert_array_equal(found.graph_.toarray(), graph)


@pytest.mark.parametrize("given_graph", [False, True])
def test_rows_of_no_weight_are_not_there_and_copies_count_as_often_as_they_stand(data, given_graph):
    model, more = OVKRidge(ROUGH * MixedEffect(0.5), 0.1, alpha_graph=0.5, n_neighbors=3), data.X_new
    links = neighbour_graph(ROUGH, np.concatenate([data.X[:12], more]), 3).toarray() if given_graph else None
    weight = np.repeat([2.0, 1.0, 0.0], 4)
    wanted = model.fit(data.X[:12], data.Y[:12], weight, unlabelled=more, graph=links).predict(data.X)
    # The first four rows twice, the last four never. Copies need no links, because their values are equal.
    rows, at = np.r_[0:4, 0:8], np.r_[0:8, 12:19]
    links = np.pad(links[np.ix_(at, at)], ((4, 0), (4, 0))) if given_graph else None
    model.fit(data.X[rows], data.Y[rows], unlabelled=more, graph=links)
    assert_allclose(model.predict(data.X), wanted, atol=1e-10)


def test_long_form_is_the_table_with_gaps(data):
    X, y, task = long_form(data.X[:8], data.holes[:8])
    wide = np.full((len(X), 3), np.nan)
    wide[np.arange(len(X)), task] = y
    model = OVKRidge(ROUGH * Dense(B), 0.1, alpha_graph=0.5, n_neighbors=4)
    listed = model.fit(X, y, task=task, unlabelled=data.X_new).predict(data.X)
    assert_allclose(model.fit(X, wide, unlabelled=data.X_new).predict(data.X), listed, atol=1e-12)


def test_without_weight_or_links_it_is_plain_ridge(data):
    plain = OVKRidge(ROUGH * Dense(B), 0.1).fit(data.X, data.holes).predict(data.X_new)
    assert_array_equal(
        OVKRidge(ROUGH * Dense(B), 0.1, alpha_graph=0.0).fit(data.X, data.holes).predict(data.X_new), plain
    )
    alone = OVKRidge(ROUGH * Dense(B), 0.1, alpha_graph=5.0)
    alone.fit(data.X, data.holes, unlabelled=data.X_new, graph=np.zeros((32, 32)))
    assert_allclose(alone.predict(data.X_new), plain, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 3.0), st.floats(0.05, 2.0))
def test_a_stronger_penalty_leaves_less_difference_between_neighbours(seed, weaker, added):
    rng = np.random.default_rng(seed)
    X, Y, more = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), rng.standard_normal((5, 2))
    every = np.concatenate([X, more])

    def spread(alpha_graph):
        model = OVKRidge(ROUGH * MixedEffect(0.3), 0.1, alpha_graph=alpha_graph, n_neighbors=2)
        F = model.fit(X, Y, unlabelled=more).predict(every)
        return np.einsum("lm,lmq->", neighbour_graph(ROUGH, every, 2).toarray(), (F[:, None] - F) ** 2)

    assert spread(weaker + added) <= spread(weaker) * (1 + 1e-9)


def test_labels_travel_along_a_curve():
    """Two interleaved spirals with one labelled point each: Euclidean distance misleads, the graph does not."""
    t = np.linspace(0.5, 3.0, 60)
    arm = np.column_stack([t * np.cos(3 * t), t * np.sin(3 * t)])
    X, y = np.concatenate([arm, -arm]), np.repeat([-1.0, 1.0], 60)
    few = [0, 60]
    apart = OVKRidge(Laplacian(1.0), 0.01).fit(X[few], y[few])
    helped = OVKRidge(Laplacian(1.0), 0.01, alpha_graph=1.0, n_neighbors=2).fit(X[few], y[few], unlabelled=X)
    assert np.mean(np.sign(apart.predict(X)) == y) < 0.8
    assert np.mean(np.sign(helped.predict(X)) == y) > 0.95


def test_outputs_of_a_frame_keep_their_names(data):
    frame = pd.DataFrame(data.Y, columns=["a", "b", "c"])
    model = OVKRidge(ROUGH, 0.1, alpha_graph=0.5).fit(data.X, frame, unlabelled=data.X_new)
    assert list(model.predict(data.X_new).columns) == ["a", "b", "c"]


def test_saved_models_predict_the_same(data, tmp_path):
    for landmarks in (None, 10):
        model = OVKRidge(ROUGH * Dense(B), 0.1, alpha_graph=0.5, landmarks=landmarks, random_state=0)
        model.fit(data.X, data.Y, unlabelled=data.X_new)
        ovk.save(model, tmp_path / "m.ovk")
        loaded = ovk.load(tmp_path / "m.ovk")
        assert_array_equal(loaded.predict(data.X_new), model.predict(data.X_new))
        assert (loaded.graph_ != model.graph_).nnz == 0


def test_standard_deviations_shrink_near_labelled_neighbours(data):
    more = np.repeat(data.X_new, 3, axis=0) + 0.01 * np.arange(21)[:, None]
    model = OVKRidge(ROUGH, 0.1, landmarks=np.concatenate([data.X, more]))
    _, plain = model.fit(data.X, data.Y).predict(more, return_std=True)
    _, helped = model.set_params(alpha_graph=1.0).fit(data.X, data.Y, unlabelled=more).predict(more, return_std=True)
    assert (helped < plain).all()


@pytest.mark.parametrize(
    ("params", "given_", "message"),
    [
        ({"alpha_graph": -1.0}, {}, "alpha_graph must be"),
        ({"alpha": 0.0}, {}, "alpha must be positive with alpha_graph > 0"),
        ({"loss": "huber"}, {}, "requires loss='squared'"),
        ({"kernel": Precomputed()}, {}, "use Precomputed\\(matrix\\) with indices"),
        ({"kernel": Diagonal([ROUGH] * 2 + [Laplacian(2.0)])}, {}, "pass a graph of the inputs to fit"),
        ({}, {"graph": np.ones((3, 3))}, "one row for each of the 32 inputs"),
        ({}, {"graph": -np.eye(32)}, "must be a Laplacian"),
        ({}, {"unlabelled": np.ones((4, 5))}, "expecting 2 features"),
        ({"n_neighbors": 0}, {}, "n_neighbors must be"),
    ],
)
def test_unsupported_options_raise_and_do_not_change_the_model(data, params, given_, message):
    model = OVKRidge(ROUGH, 0.1, alpha_graph=1.0).fit(data.X, data.Y)
    before = model.predict(data.X_new)
    model.set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.Y, **{"unlabelled": data.X_new, **given_})
    assert_array_equal(model.predict(data.X_new), before)


def test_methods_that_the_penalty_does_not_support_raise(data):
    model = OVKRidge(ROUGH, 0.1, alpha_graph=1.0).fit(data.X, data.Y)
    for ask in (lambda: model.predict(data.X_new, return_std=True), lambda: model.predict_interval(data.X_new)):
        with pytest.raises(ValueError, match="only with landmarks"):
            ask()
    with pytest.raises(ValueError, match="all inputs at once"):
        OVKRidge(ROUGH, alpha_graph=1.0, landmarks=5).fit(iter([(data.X, data.Y)]))
    one = OVKRidge(ROUGH, alpha_graph=1.0, landmarks=data.X[:5]).fit(data.X, data.Y)
    with pytest.raises(ValueError, match="merge does not support alpha_graph"):
        one.merge(OVKRidge(ROUGH, landmarks=data.X[:5]).fit(data.X, data.Y))
    with pytest.raises(ValueError, match="omit it to fit parts"):
        distributed.fit(OVKRidge(ROUGH, alpha_graph=1.0, landmarks=5), [lambda: (data.X, data.Y)])
