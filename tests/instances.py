"""Every scalar kernel, operator, operator-valued kernel, gram and solver once (at least).

Tests sweep these lists, so a class that joins them is tested; `tests/test_instances.py` fails for a public
class that did not join.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import ovk
from ovk import kernels, operators, ovkernels, solvers
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import (
    Function,
    Gaussian,
    Intercept,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    OnColumns,
    OnCurves,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    SklearnKernel,
    Tanimoto,
)
from ovk.operators import (
    Cluster,
    Dense,
    GraphLaplacian,
    Identity,
    Integral,
    LowRank,
    MeanRegularized,
    MixedEffect,
    Multiplication,
    TensorProduct,
    Tree,
)
from ovk.ovkernels import CurlFree, Diagonal, DivFree, Hadamard, Transformable, WeightedSum
from ovk.solvers import Cholesky, ConjugateGradient, Eigen, GaussSeidel, MissingOutputs

P = D = 3  # inputs and outputs
OBJECTS = 20  # known to the precomputed kernel

_F = np.random.default_rng(0).standard_normal((OBJECTS, 6))
B = np.array([[2.0, 0.5, 0.3], [0.5, 1.0, -0.4], [0.3, -0.4, 1.5]])
PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
ARD = np.array([0.8, 1.5, 2.5])


def minimum(X, Z):
    """sum_a min(|x_a|, |z_a|)."""
    return np.minimum(np.abs(X)[:, None, :], np.abs(Z)[None, :, :]).sum(axis=2)


KERNELS = [
    ("gaussian", Gaussian(1.3)),
    ("gaussian-ard", Gaussian(ARD)),
    ("laplacian", Laplacian(2.0)),
    ("intercept", Intercept(1.7)),
    ("matern-1/2", Matern(0.5, 1.2)),
    ("matern-0.8", Matern(0.8, 1.2)),
    ("matern-1", Matern(1, 1.2)),
    ("matern-3/2", Matern(1.5, 1.2)),
    ("matern-5/2", Matern(2.5, 1.2)),
    ("matern-5/2-ard", Matern(2.5, ARD)),
    ("matern-3.3", Matern(3.3, 1.2)),
    ("rational-quadratic", RationalQuadratic(0.7, 1.1)),
    ("rational-quadratic-ard", RationalQuadratic(2.0, ARD)),
    ("polynomial", Polynomial(3, 0.5, 1.5)),
    ("linear", Linear()),
    ("tanimoto", Tanimoto()),
    ("precomputed", Precomputed(_F @ _F.T)),
    ("function", Function(minimum)),
    ("sklearn", SklearnKernel(ConstantKernel(1.7) * RBF(0.9))),
    ("sum", Gaussian(0.7) + Linear()),
    ("product", Matern(2.5, 2.0) * Polynomial(2)),
    ("scaled", 2.5 * RationalQuadratic(1.0, 1.4)),
    ("periodic", Periodic(Gaussian(0.8), 3.0)),
    ("periodic-sum", Periodic(Matern(1.5, 0.6) + Linear(), 2.0)),
    ("mapped", Mapped(Gaussian([0.8, 1.5]), np.array([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.7]]))),
    (
        "mapped-twice",
        Mapped(Mapped(Matern(1.5, 1.0), np.diag([1.0, 0.2, 0.5])), np.tri(3)),
    ),
    ("on-columns", OnColumns(Gaussian([0.8, 1.5]), [2, 0])),
    ("on-curves", OnCurves(Gaussian(0.8), Grid([0.0, 0.3, 1.0]))),
    ("on-curves-lag", OnCurves(Gaussian(0.8), Grid([0.0, 0.3, 1.0]), window=(0.3, 0.9), lag=0.15)),
    ("on-curves-derivative", OnCurves(Linear(), Grid([0.0, 0.3, 1.0]), derivative=1)),
    ("nested", 0.5 * (Gaussian(ARD) + 2.0 * Linear()) * Matern(1.5, 3.0)),
]

#: Kernels without a derivative in their input.
ROUGH = {
    *("laplacian", "matern-1/2", "precomputed", "function", "sklearn"),
    *("on-curves", "on-curves-lag", "on-curves-derivative", "periodic", "periodic-sum"),
}

OPERATORS = [
    ("identity", Identity(D)),
    ("dense", Dense(B)),
    ("low-rank", LowRank([[1.0, 0.5], [-0.5, 1.0], [0.2, 0.3]])),
    ("low-rank-diag", LowRank(np.array([[1.0], [2.0], [-1.0]]), diag=np.array([0.5, 0.1, 0.2]))),
    ("mixed-effect", MixedEffect(0.4, D)),
    ("mixed-effect-one", MixedEffect(1.0, D)),
    ("mean-regularised", MeanRegularized(0.5, 2.0, D)),
    ("graph", GraphLaplacian(PATH)),
    ("graph-weighted", GraphLaplacian(PATH, self_weight=0.5)),
    (
        "graph-sparse",
        GraphLaplacian(sparse.csr_array(PATH + np.eye(D)), self_weight=np.array([0.1, 0.2, 0.3])),
    ),
    ("cluster", Cluster(["a", "b", "a"], within=0.6, between=0.2)),
    ("tree", Tree([[0, 2], 1], decay=0.7)),
    ("multiplication", Multiplication(Gaussian.from_mu(1.0), Grid([0.0, 0.4, 1.0]))),
    ("multiplication-values", Multiplication(np.array([0.5, 0.0, 2.0]), Grid([0.0, 0.4, 1.0]))),
    ("integral", Integral(grid=Grid([0.0, 0.4, 1.0]))),
    ("integral-gaussian", Integral(Gaussian(0.5), Grid([0.0, 0.4, 1.0]))),
    ("integral-lag", Integral(Gaussian(0.5), Grid([0.0, 0.4, 1.0]), lag=0.3)),
    ("integral-lag-exponential", Integral(grid=Grid([0.0, 0.4, 1.0]), lag=0.3)),
    ("integral-truncated", Integral(Matern(0.5, 0.7), Grid([0.0, 0.4, 1.0]), n_eigen=2)),
    ("integral-periodic", Integral(Periodic(Gaussian(0.3), 1.0), Grid([0.1, 0.4, 0.9], period=1.0))),
    ("tensor", TensorProduct([Dense([[2.0]]), Dense(B)])),
    ("integral-product", Integral(Gaussian(0.5), ProductGrid([Components(1), Grid([0.0, 0.4, 1.0])]))),
    ("tree-parents", Tree({0: "left", 2: "left", "left": "root", 1: "root"})),
]

#: Operators that are singular: with them the kernel matrix has no inverse of its own.
SINGULAR = {"multiplication-values", "integral-truncated", "low-rank", "mixed-effect-one", "graph"}

_MATRICES = [
    np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]),
    np.array([[0.0, 1.0, 0.0], [1.0, 0.0, -1.0]]),
    np.eye(2, 3),
]

OVKERNELS = [
    ("separable", Gaussian(1.3) * Dense(B)),
    ("separable-operator-first", MixedEffect(0.4, D) * Polynomial(2, 0.5)),
    ("separable-multiple", 2.0 * (Matern(1.5, 2.0) * Tree([[0, 2], 1]))),
    ("separable-ard", Matern(2.5, ARD) * LowRank([[1.0], [0.5], [2.0]], diag=0.3)),
    ("sum-same-operator", Gaussian(1.3) * Dense(B) + Linear() * Dense(B)),
    ("sum-commuting", Gaussian(1.3) * MixedEffect(0.4, D) + Linear() * Identity(D)),
    ("sum-not-commuting", Gaussian(1.3) * Dense(B) + Matern(1.5, 2.0) * MixedEffect(0.6, D)),
    (
        "sum-of-three",
        sum([Gaussian(1.3) * Dense(B), Linear() * Identity(D), Gaussian(3.0) * GraphLaplacian(PATH)]),
    ),
    ("sum-diagonal", Diagonal([Gaussian(1.0), Linear(), Gaussian(1.0)]) + Polynomial(2) * Identity(D)),
    ("scaled-sum", 1.5 * (Gaussian(1.3) * Dense(B) + Linear() * MixedEffect(0.4, D))),
    ("hadamard", Hadamard(Gaussian(1.3) * Dense(B), Linear() * MixedEffect(0.4, D))),
    (
        "hadamard-of-sum",
        (Gaussian(1.3) * Dense(B) + Linear() * Cluster("aab", 0.5, 0.1)) & Matern(1.5, 2.0) * MixedEffect(0.4, D),
    ),
    ("hadamard-transformable", Gaussian(2.0) * MixedEffect(0.4, D) & Transformable(Gaussian(1.0))),
    (
        "weighted-sum",
        WeightedSum([Gaussian(1.3) * Dense(B), Linear() * Dense(B), Linear() * Identity(D)], [0.5, 0.25, 2.0]),
    ),
    ("weighted-sum-blocks", WeightedSum([CurlFree(Gaussian(1.4), P), Linear() * Dense(B)], [0.5, 2.0])),
    ("diagonal", Diagonal([Gaussian(1.0), Linear(), RationalQuadratic(1.0, 2.0)])),
    ("diagonal-one-kernel", Diagonal([Matern(2.5, 1.0)] * D)),
    ("transformable", Transformable(Gaussian(1.1))),
    ("transformable-matrices", Transformable(Matern(2.5, 1.5), _MATRICES)),
    ("transformable-functions", Transformable(Gaussian(1.5), [np.tanh, np.sin, np.negative])),
    ("curl-free", CurlFree(Gaussian(1.4), P)),
    ("curl-free-matern-5/2", CurlFree(Matern(2.5, 1.4))),
    ("curl-free-matern-7/2", CurlFree(Matern(3.5, 1.4))),
    ("curl-free-rational-quadratic", CurlFree(RationalQuadratic(1.3, 1.4))),
    ("div-free", DivFree(Gaussian(1.4), P)),
    ("div-free-matern-5/2", DivFree(Matern(2.5, 1.4))),
    ("div-free-matern-7/2", DivFree(Matern(3.5, 1.4))),
    ("div-free-rational-quadratic", DivFree(RationalQuadratic(1.3, 1.4))),
    ("helmholtz", CurlFree(Gaussian(1.4)) + 0.5 * DivFree(Matern(3.5, 2.0))),
    ("field-plus-separable", CurlFree(Gaussian(1.4)) + Linear() * Dense(B)),
]

_PRODUCT = (ovkernels.Kronecker, 1, Cholesky)
_COMMUTING = (ovkernels.Kronecker, 2, Cholesky)
_COUPLED = (ovkernels.Kronecker, 2, ConjugateGradient)
_BLOCKS = (ovkernels.DenseBlocks, None, Cholesky)

#: The gram that each operator-valued kernel makes, its number of terms, and the solver that it gets.
ROUTES = {
    "separable": _PRODUCT,
    "separable-operator-first": _PRODUCT,
    "separable-multiple": _PRODUCT,
    "separable-ard": _PRODUCT,
    "sum-same-operator": _PRODUCT,
    "sum-commuting": _COMMUTING,
    "sum-not-commuting": _COUPLED,
    "sum-of-three": (ovkernels.Kronecker, 3, ConjugateGradient),
    "sum-diagonal": (ovkernels.Kronecker, 3, Cholesky),
    "scaled-sum": _COUPLED,
    "hadamard": _PRODUCT,
    "hadamard-of-sum": _COUPLED,
    "hadamard-transformable": _BLOCKS,
    "weighted-sum": _COMMUTING,
    "weighted-sum-blocks": _BLOCKS,
    "diagonal": (ovkernels.Kronecker, 3, Cholesky),
    "diagonal-one-kernel": _PRODUCT,
    **{
        name: _BLOCKS
        for name, _ in OVKERNELS
        if name.startswith(("transformable", "curl", "div", "helmholtz", "field"))
    },
}


def inputs(thing, n, seed=0):
    """(n, p) inputs that suit a kernel: rows of numbers, or the indices of known objects."""
    rng = np.random.default_rng(seed)
    if isinstance(thing, Precomputed):
        return rng.choice(OBJECTS, size=(n, 1), replace=False).astype(float)
    return rng.standard_normal((n, P))


_X = inputs(None, 8, seed=5)
_SEEN = np.nonzero(np.random.default_rng(6).random((8, D)) < 0.7)

GRAMS = [
    ("kronecker", (Gaussian(1.3) * Dense(B)).gram(_X)),
    ("kronecker-singular", (Gaussian(1.3) * GraphLaplacian(PATH)).gram(_X)),
    ("kronecker-sum", (Gaussian(1.3) * Dense(B) + Linear() * MixedEffect(0.4, D)).gram(_X)),
    ("kronecker-sum-commuting", (Gaussian(1.3) * MixedEffect(0.4, D) + Linear() * Identity(D)).gram(_X)),
    ("dense-blocks", CurlFree(Gaussian(1.4)).gram(_X)),
    ("observed", ovkernels.Observed((Gaussian(1.3) * Dense(B)).gram(_X), *_SEEN)),
    (
        "observed-by-output",
        ovkernels.Observed(Diagonal([Gaussian(1.0), Linear(), Gaussian(2.0)]).gram(_X), *_SEEN),
    ),
    (
        "observed-sum",
        ovkernels.Observed((Gaussian(1.3) * Dense(B) + Linear() * MixedEffect(0.4, D)).gram(_X), *_SEEN),
    ),
    ("observed-blocks", ovkernels.Observed(CurlFree(Gaussian(1.4)).gram(_X), *_SEEN)),
]

SOLVERS = [
    ("cholesky", Cholesky()),
    ("eigen", Eigen()),
    ("conjugate-gradient", ConjugateGradient(tol=1e-13)),
    ("gauss-seidel", GaussSeidel(tol=1e-12, max_iter=20_000)),
    ("missing-outputs", MissingOutputs(tol=1e-13)),
]

MARKET = {
    kernels.ScalarKernel: (kernels, KERNELS),
    operators.OutputOperator: (operators, OPERATORS),
    ovkernels.OperatorKernel: (ovkernels, OVKERNELS),
    ovkernels.Gram: (ovkernels, GRAMS),
    solvers.Solver: (solvers, SOLVERS),
}


def each(entries, *, only=None, without=()):
    """The entries of a list as parameters of a test."""
    chosen = [(name, thing) for name, thing in entries if name not in without and (only is None or name in only)]
    assert chosen
    return [pytest.param(thing, id=name) for name, thing in chosen]


#: Every estimator that users import from ovk itself. Names, not `vars`: a package is loaded when it is first used.
ESTIMATORS = {name: thing for name in ovk.__all__ if hasattr(thing := getattr(ovk, name), "fit")}
