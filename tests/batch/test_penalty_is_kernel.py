"""Penalty = kernel: the minimiser of an explicit penalty is ridge regression with the operator that stands for it.

In a finite feature space, f_t(x) = <w_t, phi(x)>, the penalised least squares problem is solved directly for the
weights W, (p, d), from its normal equations, written down from the penalty's own words; the kernel solution must agree.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from batch.reference import long_form, with_holes
from ovk import OVKRidge
from ovk.kernels import Linear, Polynomial
from ovk.operators import Cluster, GraphLaplacian, MeanRegularized, MixedEffect, Tree

D, ALPHA = 5, 0.3
rng = np.random.default_rng(0)
X = rng.standard_normal((30, 3))
Y = rng.standard_normal((30, D))
NEW = rng.standard_normal((6, 3))
M = np.abs(rng.standard_normal((D, D)))
M = (M + M.T) * (np.add.outer(np.arange(D), np.arange(D)) % 2) + np.diag([0.5, 0.1, 0.2, 0.3, 0.4])
CLUSTERS = [0, 1, 0, 0, 1]


def quadratic(penalty, k):
    """The symmetric matrix of a quadratic form in k vectors, read off by polarisation."""
    E = np.eye(k)
    alone = np.array([penalty(E[:, i : i + 1]) for i in range(k)])
    pairs = np.array([[penalty(E[:, [i]] + E[:, [j]]) for j in range(k)] for i in range(k)])
    return (pairs - alone[:, None] - alone[None, :]) / 2


def minimiser(Phi, Y, parts, penalty):
    """Weights W, (p, d), of sum over the observed |y_it - <phi_i, w_t>|^2 + alpha penalty(parts).

    The outputs are sums of k free parts, w_t = sum_k parts[t, k] u_k; penalty takes the parts, a row for each.
    """
    k, p = parts.shape[1], Phi.shape[1]
    A, b = ALPHA * np.kron(quadratic(penalty, k), np.eye(p)), np.zeros(k * p)
    for i, t in zip(*np.nonzero(~np.isnan(Y)), strict=True):
        row = np.kron(parts[t], Phi[i])
        A += np.outer(row, row)
        b += row * Y[i, t]
    return np.linalg.solve(A, b).reshape(k, p).T @ parts.T


def squares(U):
    return (U**2).sum()


def mean_regularised(U):
    return 0.7 * squares(U) + 2.0 * squares(U - U.mean(axis=0))


def shared(U):
    """U = w_0, v_1..v_d with lambda_1 = 2 and lambda_2 = 0.5."""
    return 2.0 / D * squares(U[1:]) + 0.5 * squares(U[0])


def mixed_effect(U, w=0.4):
    return ((1 - w) * squares(U) + w * D * squares(U - U.mean(axis=0))) / ((1 - w) * (1 - w + w * D))


def graph(U):
    pairs = sum(M[i, j] * squares(U[i] - U[j]) for i in range(D) for j in range(D) if i != j)
    return pairs / 2 + sum(M[i, i] * squares(U[i]) for i in range(D))


def cluster(U, within=0.6):
    total = 0.0
    for c in (0, 1):
        mine = U[np.array(CLUSTERS) == c]
        m = len(mine)
        total += m * squares(mine.mean(axis=0)) / (1 - within + within * m)
        total += squares(mine - mine.mean(axis=0)) / (1 - within)
    return total


def nested_clusters(U, within=0.6, between=0.2):
    """U = g, g_0, g_1, v_1..v_d."""
    return squares(U[0]) / between + squares(U[1:3]) / (within - between) + squares(U[3:]) / (1 - within)


#: The tree [[0, 1], [2, [3, 4]]] as the nodes above each output, and the depth of every node.
ABOVE = ["r a 0", "r a 1", "r b 2", "r b c 3", "r b c 4"]
NODES = sorted({node for path in ABOVE for node in path.split()})


def tree(U, decay=0.7):
    depth = {node: path.split().index(node) for path in ABOVE for node in path.split()}
    return sum(squares(U[v]) / decay ** depth[node] for v, node in enumerate(NODES))


def tree_parts(decay=0.7):
    parts = np.zeros((D, len(NODES)))
    for i, path in enumerate(ABOVE):
        nodes = path.split()
        scale = np.sqrt(sum(decay**k for k in range(len(nodes))))
        parts[i, [NODES.index(node) for node in nodes]] = 1 / scale
    return parts


EYE, ONE = np.eye(D), np.ones((D, 1))
MEMBER = np.equal.outer(CLUSTERS, [0, 1]).astype(float)
REGULARISERS = {
    "mean": (MeanRegularized(0.7, 2.0), EYE, mean_regularised),
    "mean, as shared and own parts": (MeanRegularized.from_shared(2.0, 0.5, D), np.hstack([ONE, EYE]), shared),
    "mixed effect": (MixedEffect(0.4), EYE, mixed_effect),
    "graph": (GraphLaplacian(M), EYE, graph),
    "clusters": (Cluster(CLUSTERS, 0.6), EYE, cluster),
    "clusters within clusters": (Cluster(CLUSTERS, 0.6, 0.2), np.hstack([ONE, MEMBER, EYE]), nested_clusters),
    "tree": (Tree({i: path.split()[-2] for i, path in enumerate(ABOVE)} | {"a": "r", "b": "r", "c": "b"}, 0.7),
             tree_parts(), tree),
}  # fmt: skip


def quadratic_features(X):
    """phi(x) of k(x, z) = (1 + <x, z>)^2."""
    cross = [np.sqrt(2) * X[:, i] * X[:, j] for i in range(3) for j in range(i)]
    return np.column_stack([np.ones(len(X)), np.sqrt(2) * X, X**2, *cross])


FEATURES = {"linear": (Linear(), lambda X: X), "quadratic": (Polynomial(2, 1.0, 1.0), quadratic_features)}


@pytest.mark.parametrize("form", ["complete", "holes", "long", "landmarks"])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("name", REGULARISERS)
def test_minimiser_of_the_penalty(name, features, form):
    T, parts, penalty = REGULARISERS[name]
    kernel, phi = FEATURES[features]
    outputs = Y if form == "complete" else with_holes(Y)
    expected = phi(NEW) @ minimiser(phi(X), outputs, parts, penalty)
    model = OVKRidge(kernel * T, ALPHA, landmarks=X if form == "landmarks" else None, fit_intercept=False)
    if form in ("long", "landmarks"):
        rows, y, task = long_form(X, outputs)
        model.fit(rows, y, task=task)
    else:
        model.fit(X, outputs)
    assert_allclose(model.predict(NEW), expected, rtol=0, atol=1e-6)


def test_the_shared_part_is_a_multiple_of_the_mean():
    """w_0 = lambda_1 / (lambda_1 + lambda_2) mean w: the mean, not the sum."""
    _, parts, penalty = REGULARISERS["mean, as shared and own parts"]
    p = X.shape[1]
    A, b = ALPHA * np.kron(quadratic(penalty, D + 1), np.eye(p)), np.zeros((D + 1) * p)
    for i, t in np.ndindex(Y.shape):
        row = np.kron(parts[t], X[i])
        A, b = A + np.outer(row, row), b + row * Y[i, t]
    U = np.linalg.solve(A, b).reshape(D + 1, p)
    W = U[0] + U[1:]
    assert_allclose(U[0], 2.0 / 2.5 * W.mean(axis=0), atol=1e-12)
