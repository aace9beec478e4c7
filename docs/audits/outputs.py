"""The lectures on operator-valued kernels: tasks, kernels, networks and structured outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm
from sklearn.svm import LinearSVC

from audits.base import NEW, K, X, Y, excess, largest, statement
from ovk import IOKR, OKVAR, LinkPredictor, MultiTaskSVC, OVKRidge
from ovk.kernels import Gaussian, Linear, Tanimoto
from ovk.objectives import L1, L1L2, PSDCone
from ovk.operators import GraphLaplacian, LowRank, MeanRegularized, MixedEffect, TensorProduct
from ovk.ovkernels import CurlFree, Diagonal, DivFree, Expansion, Transformable
from ovk.structured import Diffusion


@statement(
    "OVK slides",
    "the representer theorem for vector-valued ridge regression",
    "ovk.OVKRidge",
    "batch/test_ridge_exact.py::test_fit_and_posterior_equal_dense_algebra",
)
def ridge() -> float:
    """(K + alpha I) c = y with the matrix of all blocks."""
    T = MixedEffect(0.5, 3).dense()
    c = np.linalg.solve(np.kron(K(X), T) + 0.3 * np.eye(90), Y.ravel())
    model = OVKRidge(K * MixedEffect(0.5), 0.3, fit_intercept=False).fit(X, Y)
    return largest(model.predict(NEW), (np.kron(K(NEW, X), T) @ c).reshape(-1, 3))


@statement(
    "OVK slides",
    "the reproducing property of an operator-valued kernel",
    "ovk.ovkernels.base.Expansion",
    "ovkernels/test_laws.py::test_positive_semi_definite",
)
def reproducing() -> float:
    """The inner product from norms of sums and differences, for kernels that are products and that are not."""
    C, worst = Y[:, :2], 0.0
    for kernel in (K * MixedEffect(0.5, 2), CurlFree(K), Transformable(K, np.arange(8.0).reshape(2, 2, 2))):
        x, y = NEW[:1], np.array([[0.3, -1.0]])
        both = [Expansion(kernel, np.vstack([X, x]), np.vstack([C, sign * y])).norm() ** 2 for sign in (1, -1)]
        worst = max(worst, largest((both[0] - both[1]) / 4, Expansion(kernel, X, C)(x)[0] @ y[0]))
    return worst


@statement(
    "OVK slides",
    "the norm for K = k B is that of the pseudo-inverse of B",
    "ovk.ovkernels.base.Expansion",
    "test_expansion.py::test_norm",
)
def norm() -> float:
    """f_i = sum_l (B c_l)_i k(., x_l), with an operator that has no inverse."""
    F = np.array([[1.0, 0.0], [0.5, 1.0], [0.2, -1.0]])
    B, pseudo = F @ F.T, np.linalg.pinv(F @ F.T)
    inner = (Y @ B).T @ K(X) @ (Y @ B)
    return largest(Expansion(K * LowRank(F), X, Y).norm() ** 2, (pseudo * inner).sum())


@statement(
    "OVK slides",
    "penalties on tasks are operators (mean, graph, mixed effect)",
    "ovk.operators.MeanRegularized",
    "batch/test_penalty_is_kernel.py::test_minimiser_of_the_penalty",
)
def penalties() -> float:
    """Penalties on tasks as they are written, by their normal equations, against operators."""
    M = np.array([[0.2, 1.0, 0.0], [1.0, 0.1, 0.5], [0.0, 0.5, 0.3]])
    centred = np.eye(3) - 1 / 3
    off = M - np.diag(np.diag(M))
    written = {
        MeanRegularized(0.4, 1.5): 0.4 * np.eye(3) + 1.5 * centred,
        GraphLaplacian(M): np.diag(off.sum(axis=1)) - off + np.diag(np.diag(M)),
        # With the constant that belongs to the mean: the page on tasks says where the slides have another one.
        MixedEffect(0.4, 3): (0.6 * np.eye(3) + 1.2 * centred) / (0.6 * (0.6 + 1.2)),
    }
    worst = 0.0
    for operator, R in written.items():
        W = np.linalg.solve(np.kron(np.eye(3), X.T @ X) + 0.3 * np.kron(R, np.eye(2)), (X.T @ Y).T.ravel())
        model = OVKRidge(Linear() * operator, 0.3, fit_intercept=False).fit(X, Y)
        worst = max(worst, largest(model.predict(np.eye(2)), W.reshape(3, 2).T))
    return worst


@statement(
    "OVK slides",
    "the shared part w_0 and the penalties rho_1, rho_2 of formulation 1' (as corrected on the page on tasks)",
    "ovk.operators.MeanRegularized",
    "batch/test_penalty_is_kernel.py::test_the_shared_part_is_a_multiple_of_the_mean",
)
def shared_part() -> float:
    """Ridge regression with w_0 and the v_t as unknowns, against the operator."""
    l1, l2, parts = 2.0, 0.5, np.hstack([np.ones((3, 1)), np.eye(3)])
    A = np.kron(parts.T @ parts, X.T @ X) + 0.3 * np.kron(np.diag([l2, *[l1 / 3] * 3]), np.eye(2))
    u = np.linalg.solve(A, np.kron(parts.T, X.T) @ Y.T.ravel()).reshape(4, 2)
    model = OVKRidge(Linear() * MeanRegularized.from_shared(l1, l2, 3), 0.3, fit_intercept=False).fit(X, Y)
    W = model.predict(np.eye(2))
    return max(largest(W, (parts @ u).T), largest(u[0], l1 / (l1 + l2) * W.mean(axis=1)))


@statement(
    "OVK slides",
    "the multi-task support vector machine",
    "ovk.MultiTaskSVC",
    "batch/test_multitask_svm.py::test_theorem_2_1_is_the_penalty_on_a_common_and_on_own_parts",
    least=1e-11,
)
def machine() -> float:
    """Theorem 2.1: an ordinary machine on phi(x, t) = (x / sqrt(mu), 0, ..., x, ..., 0)."""
    labels, mu = np.where(Y[:, :2] > 0, 1.0, -1.0), 0.5
    phi = [np.hstack([X / np.sqrt(mu), *(X if s == t else np.zeros_like(X) for s in range(2))]) for t in range(2)]
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-11, max_iter=10**6)
    peer.fit(np.vstack(phi), labels.T.ravel())
    shared = LowRank(np.full((2, 1), mu**-0.5), diag=1.0)
    model = MultiTaskSVC(Linear() * shared, C=0.7, tol=1e-11).fit(X, labels)
    return largest(model.decision_function(X).T.ravel(), peer.decision_function(np.vstack(phi)))


@statement(
    "OVK slides",
    "several classes in several tasks (hospitals)",
    "ovk.MultiTaskSVC",
    "batch/test_multitask_svm.py::test_several_classes_in_several_tasks_are_linear_svc_on_the_expanded_features",
    least=1e-11,
)
def classes_in_tasks() -> float:
    """Several classes in several tasks: a machine on the features of a Kronecker product, a row for each class."""
    task, classes = np.arange(30) % 2, (Y[:, 0] > 0).astype(int) + (Y[:, 1] > 0)
    operators = [MixedEffect(0.7, 2), MixedEffect(0.2, 3)]
    F = np.linalg.cholesky(np.kron(operators[0].dense(), operators[1].dense()))
    phi = np.array([np.kron(x, F[3 * t + c]) for x, t in zip(X, task, strict=True) for c in range(3)])
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-11, max_iter=10**6)
    peer.fit(phi, np.where(classes[:, None] == np.arange(3), 1.0, -1.0).ravel())
    model = MultiTaskSVC(Linear() * TensorProduct(operators), C=0.7, tol=1e-11).fit(X, classes, task=task)
    return largest(model.decision_function(X, task).ravel(), peer.decision_function(phi))


@statement(
    "OVK slides",
    "structured multiple class classification: a matrix of relations between classes",
    "ovk.MultiTaskSVC",
    "batch/test_multitask_svm.py::test_related_classes_are_linear_svc_on_the_expanded_features",
    least=1e-11,
)
def related_classes() -> float:
    """Three classes, each against the rest, with the penalty of a graph on them."""
    operator = GraphLaplacian(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.3], [0.0, 0.3, 0.0]]), self_weight=0.2)
    classes = (Y[:, 0] > 0).astype(int) + (Y[:, 1] > 0)
    F = np.linalg.cholesky(operator.dense())
    phi = np.array([np.kron(x, F[c]) for x in X for c in range(3)])
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-11, max_iter=10**6)
    peer.fit(phi, np.where(classes[:, None] == np.arange(3), 1.0, -1.0).ravel())
    model = MultiTaskSVC(Linear() * operator, C=0.7, tol=1e-11).fit(X, classes)
    return largest(model.decision_function(X).ravel(), peer.decision_function(phi))


@statement(
    "OVK slides",
    "curl-free and divergence-free kernels",
    "ovk.ovkernels.CurlFree",
    "ovkernels/test_fields.py::test_second_differences_of_the_scalar_kernel",
)
def fields() -> float:
    """Curl-free and divergence-free kernels as second differences of the scalar one."""
    h, worst = 1e-4, 0.0
    k = Gaussian(0.8)
    for kernel in (CurlFree(k), DivFree(k)):
        H = np.empty((2, 2))
        x, z = X[0], X[1]
        for i, j in np.ndindex(2, 2):
            e, f = h * np.eye(2)[i], h * np.eye(2)[j]
            values = [k((x + s * e + t * f)[None], z[None])[0, 0] * s * t for s in (1, -1) for t in (1, -1)]
            H[i, j] = sum(values) / (4 * h * h)
        whole = -H if isinstance(kernel, CurlFree) else H - np.trace(H) * np.eye(2)
        worst = max(worst, largest(kernel(x, z), whole * 0.8**2))
    return worst


@statement(
    "OVK slides",
    "diagonal kernels and entrywise (Hadamard) products",
    "ovk.ovkernels.Hadamard",
    "ovkernels/test_agreement.py::test_gram",
)
def entrywise() -> float:
    kernels, S = [Gaussian(0.3), Linear()], np.arange(8.0).reshape(2, 2, 2)
    diagonal = np.diag([k(X[:1], X[1:2])[0, 0] for k in kernels])
    product = K(X[:1], X[1:2])[0, 0] * MixedEffect(0.5, 2).dense() * Transformable(K, S)(X[0], X[1])
    found = K * MixedEffect(0.5, 2) & Transformable(K, S)
    return max(largest(Diagonal(kernels)(X[0], X[1]), diagonal), largest(found(X[0], X[1]), product))


@statement("OVK slides", "the Tanimoto kernel", "ovk.kernels.Tanimoto", "kernels/test_agreement.py::test_matrix")
def tanimoto() -> float:
    F = (X @ np.random.default_rng(3).standard_normal((2, 20)) > 0).astype(float)
    inner, own = F @ F.T, (F**2).sum(axis=1)
    return largest(Tanimoto()(F), inner / (own[:, None] + own - inner))


@statement(
    "OVK slides",
    "transformable kernels",
    "ovk.ovkernels.Transformable",
    "ovkernels/test_agreement.py::test_gram",
)
def transformable() -> float:
    """K(x, z)_ij = k(S_i x, S_j z)."""
    S = np.random.default_rng(1).standard_normal((2, 2, 2))
    kernel = Transformable(K, S)
    blocks = [[K((S[i] @ X[0])[None], (S[j] @ X[1])[None])[0, 0] for j in range(2)] for i in range(2)]
    return largest(kernel(X[0], X[1]), blocks)


@statement(
    "OVK slides",
    "input-output kernel regression and its pre-image",
    "ovk.IOKR",
    "structured/test_iokr.py::test_pre_images_are_those_of_brute_force_with_norms_that_vary",
)
def structured() -> float:
    """argmin_y |phi(y) - h(x)|^2 with h(x) = sum_ij phi(y_i) (K + alpha I)^-1_ij k(x_j, x)."""
    outputs, L = Y, Gaussian(1.0)
    A = np.linalg.solve(K(X) + 0.3 * np.eye(30), K(X, NEW))
    scores = (L(outputs) @ A - 0.5).T
    return largest(IOKR(K, L, 0.3).fit(X, outputs).decision_function(NEW, outputs), scores)


@statement(
    "OVK slides",
    "the diffusion kernel of a graph, exp(-beta L)",
    "ovk.structured.Diffusion",
    "structured/test_kernels.py::test_node_kernels_are_functions_of_the_laplacian",
)
def diffusion() -> float:
    A = graph()
    return largest(Diffusion(A, 0.7)(range(30)), expm(-0.7 * (np.diag(A.sum(axis=1)) - A)))


def graph() -> Any:
    """Links between rows that are near each other."""
    A = (((X[:, None] - X) ** 2).sum(axis=2) < 0.15).astype(float)
    np.fill_diagonal(A, 0.0)
    return A


@statement(
    "OVK slides",
    "links are predicted by inner products of h",
    "ovk.LinkPredictor",
    "structured/test_links.py::test_plain_scores_are_those_of_iokr_on_nodes",
)
def links() -> float:
    """w(u)' K_y w(u') with w = (K + alpha I)^-1 k(u), for nodes that were not in the graph."""
    W = np.linalg.solve(K(X) + 0.3 * np.eye(30), K(X, NEW))
    model = LinkPredictor(K, beta=0.7, alpha=0.3, centre=False).fit(X, graph())
    return largest(model.score_pairs(NEW), W.T @ Diffusion(graph(), 0.7)(range(30)) @ W)


@statement(
    "OVK slides",
    "the solution with unlabelled inputs and a graph, for K = k T",
    "ovk.OVKRidge",
    "batch/test_manifold.py::test_every_form_is_the_minimiser",
)
def manifold() -> float:
    """The gradient of the criterion with the graph's penalty, at the coefficients of the library, over that at zero."""
    labelled, n, alpha, weight = 12, len(X), 0.3, 0.7
    T, links = MixedEffect(0.4, output_dim=3).dense(), np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    model = OVKRidge(K * MixedEffect(0.4), alpha, fit_intercept=False, alpha_graph=weight)
    model.fit(X[:labelled], Y[:labelled], unlabelled=X[labelled:], graph=links - np.diag(np.diag(links)))
    G = K(X)

    def slope(C: Any) -> Any:
        # Of sum |y - f|^2 + alpha |f|^2 + weight sum_lm w_lm |f_l - f_m|^2 in the values f, as coefficients.
        F = G @ C @ T
        down = alpha * C
        for one in range(n):
            if one < labelled:
                down[one] += F[one] - Y[one]
            for other in range(n):
                down[one] += 2.0 * weight * links[one, other] * (F[one] - F[other])
        return down

    return float(np.abs(slope(model.dual_coef_)).max() / np.abs(slope(np.zeros((n, 3)))).max())


@statement(
    "OVK slides",
    "networks from the Jacobians of an autoregression",
    "ovk.OKVAR",
    "batch/okvar/test_exact.py::test_jacobians_equal_finite_differences",
)
def jacobians() -> float:
    """The Jacobians from which networks are read, against differences of what the model predicts."""
    series = np.cumsum(np.random.default_rng(2).standard_normal((40, 3)), axis=0)
    model, h = OKVAR(Gaussian(3.0), 0.5).fit(series), 1e-5
    slopes = [(model.drift(series + h * e) - model.drift(series - h * e)) / (2 * h) for e in np.eye(3)]
    return largest(model.jacobian(series), np.stack(slopes, axis=-1))


@statement(
    "OVK slides",
    "networks: mean, median or largest derivative over the points",
    "ovk.OKVAR",
    "batch/okvar/test_forms.py::test_aggregates",
)
def aggregates() -> float:
    series = np.cumsum(np.random.default_rng(2).standard_normal((40, 3)), axis=0)
    model = OKVAR(Gaussian(3.0), 0.5, standardize=False).fit(series)
    J, worst = model.jacobian(series[:-1]), 0.0
    for name, values in {
        "mean": np.abs(J.mean(axis=0)),
        "median": np.abs(np.median(J, axis=0)),
        "max_abs": np.abs(J).max(axis=0),
    }.items():
        np.fill_diagonal(values, 0.0)
        worst = max(worst, largest(model.edge_scores(aggregate=name), values.T))
    return worst


@statement(
    "OVK slides",
    "proximal operators of the penalties on C and B",
    "ovk.objectives.L1",
    "objectives/test_penalties.py::test_l1_step_fulfils_the_subgradient_condition",
)
def proximal_steps() -> float:
    """Entries, rows and eigenvalues shrink, and stop at zero."""
    C = Y - 0.3
    lengths = np.linalg.norm(C, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(C[:3] + C[:3].T)
    return max(
        largest(L1(0.4).prox(C, 0.5), np.sign(C) * np.maximum(np.abs(C) - 0.2, 0.0)),
        largest(L1L2(0.4).prox(C, 0.5), C * np.maximum(1 - 0.2 / lengths, 0.0)),
        largest(PSDCone().prox(C[:3] + C[:3].T, 0.5), vectors * np.maximum(values, 0.0) @ vectors.T),
    )


@statement(
    "OVK slides",
    "sparse coefficients, l_1 and l_1 / l_2: the minimum of (7)",
    "ovk.OKVAR",
    "batch/okvar/test_exact.py::test_sparse_coefficients_minimise_the_objective",
    least=1e-7,
)
def sparse_coefficients() -> float:
    """The conditions of the minimum: the slope is -lambda times the penalty's, or at most that where C is zero."""
    series = np.cumsum(np.random.default_rng(2).standard_normal((30, 3)), axis=0) / 5
    G, target, worst = Gaussian(1.0)(series[:-1]), series[1:], 0.0
    for penalty in (L1(0.3), L1L2(0.3)):
        model = OKVAR(Gaussian(1.0), 0.5, penalty, standardize=False, fit_intercept=False, tol=1e-9, max_iter=10**5)
        C = model.fit(series).dual_coef_
        slope = 2 * G @ (G @ C - target) + G @ C
        if isinstance(penalty, L1L2):
            lengths = np.linalg.norm(C, axis=1, keepdims=True)
            wanted, size = C / np.where(lengths > 0, lengths, 1.0), np.linalg.norm(slope, axis=1, keepdims=True)
        else:
            lengths, wanted, size = np.abs(C), np.sign(C), np.abs(slope)
        off = np.where(lengths > 0, np.abs(slope + 0.3 * wanted), np.maximum(size - 0.3, 0.0))
        worst = max(worst, float(off.max() / 0.3))
    return worst


@statement(
    "OVK slides",
    "C and B in turn: the objective never rises",
    "ovk.OKVAR",
    "batch/okvar/test_exact.py::test_learning_the_operator_never_raises_the_objective",
    bound=True,
)
def in_turn() -> float:
    series = np.cumsum(np.random.default_rng(2).standard_normal((30, 3)), axis=0) / 5
    model = OKVAR(
        Gaussian(1.0) * MixedEffect(0.2), 0.5, L1(0.1), learn_operator=True, operator_weight=0.5, max_rounds=300
    )
    found = np.asarray(model.fit(series).objective_)
    assert np.linalg.eigvalsh(model.operator_).min() >= -1e-12
    return excess((found[1:], found[:-1]))
