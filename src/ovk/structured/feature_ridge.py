"""Ridge regression into a feature space, in coordinates of the outputs, and its leave-one-out errors in closed form.

The prediction with row i left out is the one with row i's target replaced by that prediction, so with the smoother
S (fitted values S T) the left-out residual is

    t_i - h_without_i(x_i) = (T - S T)_i / (1 - S_ii),

and its squared norm in the feature space is the error. This holds for landmarks that stay fixed and for the graph
penalty (row i then stays, as an input without an output). With features Phi of the inputs, the first rows P labelled,
and Phi' N Phi = U e U' for the penalty N beyond alpha, S = (P U) diag(1 / (e + alpha)) (P U)'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ovk._types import Array, Outputs
from ovk.batch import OVKRidge
from ovk.batch.ridge.graph_penalty import penalty_matrix
from ovk.batch.ridge.landmarks import LandmarkRidge
from ovk.features import NystromMap
from ovk.kernels import ScalarKernel
from ovk.operators import Identity, OutputOperator, Spectrum
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import KroneckerLeaveOneOut
from ovk.structured.coordinates import Coordinates
from ovk.structured.outputs import count_outputs, select_outputs


class SolvedRidge(NamedTuple):
    """Support (m, p), coefficients of the anchors (m, r), their intercept (r,), and the sums over rows if any."""

    support: Any
    coefficients: Array
    intercept: Array | None
    sums: LandmarkRidge | None

    @classmethod
    def from_coordinates(
        cls, coordinates: Coordinates, operator: OutputOperator | None, X: Any, C: Array, b: Array | None, sums: Any
    ) -> SolvedRidge:
        """From coefficients C of the kernel k T in coordinates of the outputs."""
        C, to = C if operator is None else operator.apply(C), coordinates.to_anchors
        return cls(X, to(C), None if b is None else to(b[None, :])[0], sums)


@dataclass(frozen=True)
class FeatureSpaceRidge:
    """The regression for any alpha.

    Attributes
    ----------
    kernel : scalar kernel of the inputs
    X : (n, p) inputs, labelled ones first
    coordinates, outputs : of the labelled inputs
    operator : on the coordinates, None for the identity
    graph, alpha_graph : weights between the inputs X, and that of their penalty; None and 0 without
    landmarks : (m, p) points of Nystrom features, None for the exact solution
    intercept : learn a constant
    chunk_size : rows taken in at a time with landmarks
    """

    kernel: ScalarKernel
    X: Any
    coordinates: Coordinates
    outputs: Outputs
    operator: OutputOperator | None
    graph: sparse.csr_array | None
    alpha_graph: float
    landmarks: Any
    intercept: bool
    chunk_size: int

    def solve(self, alpha: float) -> SolvedRidge:
        """The solution in coefficients of the anchors, and the sums over rows that it came from, if there are any."""
        ridge = self._ridge(alpha)
        # Sums that hold the penalty of one set of inputs are not those of rows alone, which could be merged.
        sums = ridge.landmarks_ if self.graph is None else None
        C, b = ridge.dual_coef_, ridge.intercept_
        return SolvedRidge.from_coordinates(self.coordinates, self.operator, ridge.X_fit_, C, b, sums)

    def _ridge(self, alpha: float) -> OVKRidge:
        T = Identity(count_outputs(self.coordinates.anchors)) if self.operator is None else self.operator
        ridge = OVKRidge(self.kernel * T, alpha, fit_intercept=self.intercept, landmarks=self.landmarks)
        if self.graph is not None:
            labelled, targets = count_outputs(self.outputs), self.coordinates.transform(self.outputs)
            ridge.set_params(alpha_graph=self.alpha_graph, chunk_size=self.chunk_size)
            more = self.X[labelled:] if labelled < self.X.shape[0] else None
            ridge.fit(self.X[:labelled], targets, unlabelled=more, graph=self.graph)
        elif self.landmarks is None:
            ridge.fit(self.X, self.coordinates.transform(self.outputs))
        else:
            ridge.fit(self._chunks())
        return ridge

    def _chunks(self) -> Iterator[tuple[Any, Array]]:
        n = self.X.shape[0]
        for start in range(0, n, self.chunk_size):
            rows = np.arange(start, min(start + self.chunk_size, n))
            yield self.X[rows], self.coordinates.transform(select_outputs(self.outputs, rows))

    def left_out(self, alphas: Array) -> Array:
        """Mean squared left-out distance in the feature space for each alpha."""
        targets = self.coordinates.transform(self.outputs)
        if self.landmarks is None and self.graph is None:
            d = targets.shape[1]
            spectrum = Spectrum(np.ones(d), np.eye(d)) if self.operator is None else self.operator.eigh()
            constant = np.ones(len(targets)) if self.intercept else None
            path = KroneckerLeaveOneOut(eigenpairs(self.kernel(self.X)), targets, constant).path(spectrum, alphas)
        elif self.operator is not None:
            raise ValueError(
                "several alphas and an operator cannot be combined with landmarks or alpha_graph > 0: give one alpha"
            )
        elif self.intercept:
            raise ValueError(
                "several alphas and fit_intercept=True cannot be combined with landmarks or alpha_graph > 0: give "
                "one alpha"
            )
        else:
            points = self.X if self.landmarks is None else self.landmarks
            Phi = NystromMap.from_points(self.kernel, points).transform(self.X)
            P = None if self.graph is None else penalty_matrix(self.graph, self.alpha_graph)
            path = smoother_path(Phi, P, targets, alphas)
        return np.array([float(self.coordinates.squared_norms(R).mean()) for R in path])


def smoother_path(Phi: Array, P: sparse.csr_array | None, T: Array, alphas: Array) -> Iterator[Array]:
    """Left-out residuals (n, r) at each alpha, for features Phi (n, m) of all inputs and a penalty P (see
    `graph_penalty`)."""
    labelled = Phi[: len(T)]
    inside = labelled.T @ labelled
    e, U = np.linalg.eigh(inside if P is None else inside + Phi.T @ (P @ Phi))
    basis = labelled @ U
    inner, squares = basis.T @ T, basis**2
    for alpha in alphas:
        D = 1.0 / (np.maximum(e, 0.0) + alpha)
        yield (T - basis @ (D[:, None] * inner)) / (1.0 - squares @ D)[:, None]
