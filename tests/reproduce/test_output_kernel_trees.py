"""Output kernel trees."""

import numpy as np
import pytest
from reproduce.output_kernel_trees import OutputKernelTrees, _best_cut
from sklearn.ensemble import ExtraTreesRegressor

from ovk.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (60, 3))
Y = np.column_stack([np.sign(X[:, 0]), np.abs(X[:, 1])])
G = Y @ Y.T


def test_the_best_cut_leaves_the_smallest_variance():
    """Against the variance of both sides, for the same random cuts."""
    G = Gaussian(1.0)(Y)
    column, place = _best_cut(X, np.arange(60), G, 3, 1, np.random.RandomState(5))
    again = np.random.RandomState(5)
    columns = again.permutation(3)
    places = again.uniform(X.min(axis=0)[columns], X.max(axis=0)[columns])

    def left(c, t):
        low = X[:, c] <= t
        return sum(np.trace(G[np.ix_(side, side)]) - G[np.ix_(side, side)].sum() / side.sum() for side in (low, ~low))

    variances = [left(c, t) for c, t in zip(columns, places, strict=True)]
    best = int(np.argmin(variances))
    assert (column, place) == (columns[best], places[best])


def test_a_single_full_tree_remembers_and_an_ensemble_is_as_good_as_scikit_learns():
    one = OutputKernelTrees(n_estimators=1, random_state=0).fit(X, G)
    np.testing.assert_allclose(one.weights(X) @ Y, Y)
    new = rng.uniform(-2, 2, (300, 3))
    truth = np.column_stack([np.sign(new[:, 0]), np.abs(new[:, 1])])
    ours = OutputKernelTrees(n_estimators=30, random_state=0).fit(X, G).weights(new) @ Y
    theirs = ExtraTreesRegressor(30, random_state=0).fit(X, Y).predict(new)
    errors = [np.mean((found - truth) ** 2) for found in (ours, theirs)]
    assert errors[0] < 1.2 * errors[1]


def test_weights_are_averages_of_leaves():
    same = Y[:, :1] == Y[:, 0]
    model = OutputKernelTrees(n_estimators=5, min_samples_leaf=4, random_state=0).fit(X, same)
    W = model.weights(X)
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    assert (W >= 0).all()
    assert W.max() <= 1 / 4 + 1e-12


def test_seeds_sparse_inputs_and_parts_of_the_inputs():
    from scipy import sparse

    settings = {"n_estimators": 4, "random_state": 3}
    for features in (2, 0.5, "sqrt"):
        model = OutputKernelTrees(max_features=features, **settings).fit(X, G)
        again = OutputKernelTrees(max_features=features, **settings).fit(sparse.csr_array(X), G)
        np.testing.assert_array_equal(model.weights(X), again.weights(sparse.csr_array(X)))


def test_constant_inputs_give_the_mean():
    model = OutputKernelTrees(n_estimators=2).fit(np.ones((60, 2)), G)
    np.testing.assert_allclose(model.weights(np.zeros((1, 2))) @ Y, [Y.mean(axis=0)])


@pytest.mark.parametrize(
    "settings", [{"max_features": 0.0}, {"max_features": "log"}, {"max_features": 0}, {"n_estimators": 0}]
)
def test_bad_parameters_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        OutputKernelTrees(**settings).fit(X, G)
