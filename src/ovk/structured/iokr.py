"""Input-output kernel regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from ovk._validation import Array, positive, whole
from ovk.batch import OVKRidge
from ovk.batch.regressor import takes_gram
from ovk.expansion import Expansion
from ovk.features import NystromMap
from ovk.kernels import Gaussian, Linear, ScalarKernel, as_kernel
from ovk.operators import Dense, Identity, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable
from ovk.structured.coordinates import Coordinates, Distinct, Sketch, Vectors
from ovk.structured.graph_penalty import neighbour_graph, penalised_dual, penalised_primal, penalty_matrix
from ovk.structured.leave_one_out import exact_path, smoother_path
from ovk.structured.outputs import Outputs, as_outputs, count, first_of_each, take
from ovk.structured.regressor import FeatureRegressor

#: Distinct outputs above which a square matrix of them is not made unasked.
MANY_OUTPUTS = 10_000


class IOKR(FeatureRegressor):
    """Regression from inputs to structured outputs, through the feature space of a kernel on the outputs.

    Learns h(x) near phi(y), with phi the features of the output kernel, by ridge regression in closed form, and
    predicts the output whose features lie nearest to h(x) (its pre-image). Outputs may be anything that has a kernel:
    vectors, labels, label sets, strings, nodes of a graph, rankings. They enter through their kernel matrix alone:

        minimise  sum_i |phi(y_i) - h(x_i)|^2 + alpha |h|^2
                  + alpha_graph sum_lm w_lm |h(x_l) - h(x_m)|^2   (over labelled and unlabelled inputs).

    Parameters
    ----------
    kernel : scalar kernel of the inputs, or ``k * T`` with an operator T on the output features; default ``Gaussian()``
    output_kernel : scalar kernel of the outputs; default ``Linear()`` (vectors, as in `OVKRidge`)
        Those of `ovk.kernels` for vectors, `Precomputed(matrix)` for known objects, and those of `ovk.structured`:
        `Delta`, `Hierarchy`, `Jaccard`, `MeanMap`, `KSpectrum`, `Mismatch`, `Diffusion`, `Kendall`, ...
    alpha : float, or a sequence of floats > 0 to choose from by leave-one-out in the output feature space
    fit_intercept : bool
        Learn a constant point of the feature space that is not penalised.
    operator : output operator or "covariance", optional
        Couples the output features. With a linear output kernel it acts on the outputs; with another one on an
        orthonormal basis of the span of the training outputs (or of the `output_landmarks`). "covariance" takes the
        second moments of the training features, scaled to norm one: directions in which outputs vary little are
        penalised more.
    decoder : "auto", "candidates", "closed_form", "labels", "gaussian" or a decoder
        How `predict` finds a pre-image when it is given no candidates. "auto" is the closed form for a linear output
        kernel, and a search among the training outputs for any other.
    alpha_graph : float >= 0
        Weight of the graph penalty.
    n_neighbors : int
        Neighbours of an input in that graph, where `fit` is given no graph.
    landmarks : int or (m, p) array, optional
        Nystrom features of that many inputs: O(n m^2) time.
    output_landmarks : int or collection of outputs, optional
        The same for the outputs. With both, n = 100,000 examples fit.
    chunk_size : int
        Rows taken in at a time with `landmarks`.
    random_state : int, Generator or None
        Draws the landmarks.

    Attributes
    ----------
    dual_coef_ : (m, anchors) with h(x) = sum_i k(x, x_i) sum_j dual_coef_ij phi(z_j)
    intercept_ : (anchors,) the constant, as weights of the phi(z_j); None without
    X_fit_ : (m, p) the points x_i
    anchors_ : the outputs z_j
    alpha_ : the alpha used
    loo_errors_ : (alphas,) mean squared left-out distance in the feature space, None for a single alpha
    kernel_, output_kernel_ : with everything learned from the data filled in
    candidates_ : distinct training outputs
    n_features_in_ : as in scikit-learn

    Examples
    --------
    Label sets under the Jaccard kernel:

    >>> from ovk import IOKR
    >>> from ovk.structured import Jaccard
    >>> X = [[0.0], [0.2], [1.0], [1.2]]
    >>> y = [{"sun"}, {"sun", "wind"}, {"rain", "wind"}, {"rain"}]
    >>> model = IOKR(output_kernel=Jaccard(), alpha=0.01).fit(X, y)
    >>> model.predict([[0.21]]) == [{"sun", "wind"}]
    True
    >>> [sorted(one) for one in model.predict([[0.21]], return_top_k=2)[0]]
    [['sun', 'wind'], ['sun']]
    """

    def __init__(
        self,
        kernel: Any = None,
        output_kernel: Any = None,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = False,
        operator: Any = None,
        decoder: Any = "auto",
        alpha_graph: float = 0.0,
        n_neighbors: int = 10,
        landmarks: Any = None,
        output_landmarks: Any = None,
        chunk_size: int = 4096,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.output_kernel = output_kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.operator = operator
        self.decoder = decoder
        self.alpha_graph = alpha_graph
        self.n_neighbors = n_neighbors
        self.landmarks = landmarks
        self.output_landmarks = output_landmarks
        self.chunk_size = chunk_size
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = takes_gram(self.kernel)
        return tags

    def fit(self, X: Any, y: Any = None, *, unlabelled: Any = None, graph: Any = None) -> Self:
        """Learn from inputs and outputs.

        Parameters
        ----------
        X : (n, p)
        y : n outputs, in the form that the output kernel takes
        unlabelled : (u, p), optional
            Inputs without outputs, for the graph penalty (`alpha_graph` > 0).
        graph : (n + u, n + u) array, sparse matrix or networkx graph, optional
            Weights between inputs, labelled ones first; similarities of near neighbours by default.
        """
        with self._all_or_nothing():
            self._fit(X, y, unlabelled, graph)
        return self

    def _fit(self, X: Any, y: Any, unlabelled: Any, graph: Any) -> None:
        X = self._check_inputs(X, reset=True)
        alphas = self._alphas()
        output_kernel, outputs, given = self._check_outputs(y, X)
        rng = (
            check_random_state(self.random_state)
            if not isinstance(self.random_state, np.random.Generator)
            else (self.random_state)
        )
        scalar, operator = self._split_kernel()
        coordinates = self._coordinates(output_kernel, outputs, operator is not None, rng)
        T = self._operator(operator, coordinates, outputs)
        X_all, M = self._penalty(scalar, X, unlabelled, graph)
        points = self._landmarks(X_all, rng)
        kernel: ScalarKernel = clone(scalar).resolve(X_all if points is None else points)
        if M is None and graph is None and self.alpha_graph:
            # The graph needs the resolved kernel.
            M = penalty_matrix(
                neighbour_graph(kernel, X_all, self.n_neighbors), X_all.shape[0], X.shape[0], self.alpha_graph
            )
        if M is not None and T is not None:
            raise ValueError(
                "alpha_graph > 0 does not go with an operator on the output features: leave one of them out"
            )
        self.loo_errors_ = None
        alpha = float(alphas[0])
        if len(alphas) > 1:
            self.loo_errors_ = self._loo(kernel, coordinates, outputs, T, X_all, M, points, alphas)
            alpha = float(alphas[int(self.loo_errors_.argmin())])
        b: Array | None
        if M is None:
            support, C, b = self._ridge(kernel, T, alpha, X, coordinates, outputs, points)
        elif points is None:
            targets = coordinates.of(outputs)
            support, (C, b) = X_all, penalised_dual(kernel(X_all), M, targets, alpha, self.fit_intercept)
        else:
            features = NystromMap.from_points(kernel, points)
            targets = coordinates.of(outputs)
            B, b = penalised_primal(features.transform(X_all), M, targets, alpha, self.fit_intercept)
            support, C = features.points, features.coefficients(B)
        self.kernel_, self.output_kernel_, self.alpha_ = kernel, output_kernel, alpha
        self.X_fit_, self.dual_coef_ = support, coordinates.to_anchors(C)
        self.intercept_ = None if b is None else coordinates.to_anchors(b[None, :])[0]
        self.anchors_, self.train_outputs_ = coordinates.anchors, given

    def _alphas(self) -> Array:
        alphas = np.atleast_1d(np.asarray(self.alpha))
        if alphas.ndim != 1 or alphas.size == 0 or alphas.dtype.kind not in "iuf":
            raise ValueError(f"alpha must be a number > 0, or a sequence of them to choose from, got {self.alpha!r}")
        return np.array([positive(float(alpha), "alpha") for alpha in alphas])

    def _split_kernel(self) -> tuple[ScalarKernel, Any]:
        """The scalar kernel and what is known of the operator."""
        kernel, operator = self.kernel, self.operator
        if isinstance(kernel, Separable):
            if operator is not None:
                raise ValueError("give the operator in the kernel k * T or as operator=, not both")
            kernel, operator = kernel.scalar, kernel.operator
        elif isinstance(kernel, OperatorKernel):
            raise ValueError(
                f"kernel must be a scalar kernel or k * T, got {type(kernel).__name__}: the features of outputs have "
                "no coordinates that it could be about; use OVKRidge for vectors"
            )
        if operator is not None and operator != "covariance" and not isinstance(operator, OutputOperator):
            raise ValueError(f"operator must be an operator of ovk.operators or 'covariance', got {operator!r}")
        trivial = isinstance(operator, Identity) and operator.output_dim is None
        return Gaussian() if kernel is None else as_kernel(kernel), None if trivial else operator

    def _coordinates(self, kernel: ScalarKernel, outputs: Outputs, coupled: bool, rng: Any) -> Coordinates:
        landmarks = self.output_landmarks
        if isinstance(kernel, Linear) and landmarks is None and (coupled or outputs.shape[1] <= outputs.shape[0]):
            return Vectors(np.eye(outputs.shape[1]))
        first = first_of_each(outputs)
        if landmarks is None or isinstance(landmarks, (int, np.integer)):
            wanted = len(first) if landmarks is None else min(whole(landmarks, "output_landmarks"), len(first))
            if wanted > MANY_OUTPUTS:
                raise ValueError(
                    f"there are {wanted} distinct outputs, and their kernel matrix would not fit: give "
                    "output_landmarks=m, a few hundred or thousand"
                )
            if landmarks is None and not coupled:
                return Distinct.among(kernel, outputs)
            chosen = first if wanted == len(first) else np.sort(rng.choice(first, size=wanted, replace=False))
            return Sketch.on(kernel, take(outputs, chosen))
        return Sketch.on(kernel, as_outputs(landmarks, kernel, "output_landmarks"))

    @staticmethod
    def _operator(operator: Any, coordinates: Coordinates, outputs: Outputs) -> OutputOperator | None:
        if operator is None:
            return None
        if isinstance(operator, OutputOperator):
            resolved: OutputOperator = clone(operator).resolve(count(coordinates.anchors))
            return resolved
        T = coordinates.of(outputs)
        moments = T.T @ T
        return Dense(moments / max(float(np.linalg.norm(moments, 2)), 1e-300))

    def _penalty(self, kernel: ScalarKernel, X: Any, unlabelled: Any, graph: Any) -> tuple[Any, Any]:
        """All inputs, labelled ones first, and the penalty of a given graph."""
        weight = positive(self.alpha_graph, "alpha_graph", zero=True)
        if weight == 0:
            return X, None
        if takes_gram(self.kernel):
            raise ValueError(
                "alpha_graph > 0 needs the kernel between all inputs: use Precomputed(matrix) with indices instead of "
                "Precomputed()"
            )
        X_all = X
        if unlabelled is not None:
            more = self._check_inputs(unlabelled, reset=False)
            X_all = sparse.csr_array(sparse.vstack([X, more])) if sparse.issparse(X) else np.concatenate([X, more])
        return X_all, None if graph is None else penalty_matrix(graph, X_all.shape[0], X.shape[0], weight)

    def _landmarks(self, X: Any, rng: Any) -> Any:
        """Points of the inputs' Nystrom features, None without."""
        if self.landmarks is None:
            return None
        if isinstance(self.landmarks, (int, np.integer)) and not isinstance(self.landmarks, bool):
            m = min(whole(self.landmarks, "landmarks"), X.shape[0])
            return X[np.sort(rng.choice(X.shape[0], size=m, replace=False))]
        points = np.asarray(self.landmarks, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0 or not np.isfinite(points).all():
            raise ValueError(
                f"landmarks must be a whole number or finite points with {X.shape[1]} features, "
                f"got shape {points.shape}"
            )
        return points

    def _ridge(
        self,
        kernel: ScalarKernel,
        T: OutputOperator | None,
        alpha: float,
        X: Any,
        coordinates: Coordinates,
        outputs: Outputs,
        points: Any,
    ) -> tuple[Any, Array, Array | None]:
        """Support, coefficients and intercept of the scalar expansion, learned as vectors of coordinates."""
        operator = Identity(count(coordinates.anchors)) if T is None else T
        if points is None:
            ridge = OVKRidge(kernel * operator, alpha, fit_intercept=self.fit_intercept)
            ridge.fit(X, coordinates.of(outputs))
        else:
            ridge = OVKRidge(kernel * operator, alpha, fit_intercept=self.fit_intercept, landmarks=_dense(points))
            ridge.fit(self._chunks(X, coordinates, outputs))
        C = ridge.dual_coef_
        return ridge.X_fit_, C if T is None else T.apply(C), ridge.intercept_

    def _chunks(self, X: Any, coordinates: Coordinates, outputs: Outputs) -> Iterator[tuple[Any, Array]]:
        step = whole(self.chunk_size, "chunk_size")
        for start in range(0, X.shape[0], step):
            rows = np.arange(start, min(start + step, X.shape[0]))
            yield X[rows], coordinates.of(take(outputs, rows))

    def _loo(
        self,
        kernel: ScalarKernel,
        coordinates: Coordinates,
        outputs: Outputs,
        T: OutputOperator | None,
        X: Any,
        M: Any,
        points: Any,
        alphas: Array,
    ) -> Array:
        """Mean squared left-out distance in the feature space for each alpha."""
        targets = coordinates.of(outputs)
        if points is None and M is None:
            path = exact_path(kernel(X), targets, None if T is None else T.eigh(), alphas, self.fit_intercept)
        elif T is not None:
            raise ValueError("a choice of alphas does not go with both landmarks and an operator: give one alpha")
        elif self.fit_intercept:
            raise ValueError(
                "a choice of alphas with fit_intercept=True does not go with landmarks or alpha_graph > 0: give "
                "one alpha"
            )
        else:
            features = NystromMap.from_points(kernel, X if points is None else points)
            path = smoother_path(features.transform(X), M, targets, alphas)
        return np.array([float(coordinates.squared_norms(R).mean()) for R in path])

    def _weights(self, X: Any) -> Array:
        return Expansion(
            self.kernel_ * Identity(self.dual_coef_.shape[1]), self.X_fit_, self.dual_coef_, self.intercept_
        )(X)


def _dense(points: Any) -> Array:
    return np.asarray(points.toarray() if sparse.issparse(points) else points, dtype=np.float64)
