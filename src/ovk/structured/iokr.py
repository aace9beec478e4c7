"""Input-output kernel regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ovk._validation import Array, positive, whole
from ovk.batch.regressor import takes_gram
from ovk.expansion import Expansion
from ovk.kernels import ScalarKernel
from ovk.operators import Identity
from ovk.structured.choices import (
    check_alphas,
    coordinates_for,
    generator,
    landmarks_among,
    operator_on,
    split_kernel,
)
from ovk.structured.graph_penalty import neighbour_graph, penalty_matrix
from ovk.structured.problem import FeatureProblem
from ovk.structured.stream import StreamRegressor


class IOKR(StreamRegressor):
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
    stream_ : the `PKAWV` of `partial_fit`, None after `fit`
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
        alphas = check_alphas(self.alpha)
        output_kernel, outputs, given = self._check_outputs(y, X)
        rng = generator(self.random_state)
        scalar, operator = split_kernel(self.kernel, self.operator)
        coordinates = coordinates_for(
            output_kernel, outputs, self.output_landmarks, rng, orthonormal=operator is not None
        )
        every = self._all_inputs(X, unlabelled)
        points = landmarks_among(self.landmarks, every, rng)
        kernel: ScalarKernel = clone(scalar).resolve(every if points is None else points)
        problem = FeatureProblem(
            kernel,
            every,
            coordinates,
            outputs,
            operator_on(operator, coordinates, outputs),
            self._penalty(kernel, every, X.shape[0], graph),
            points,
            self.fit_intercept,
            whole(self.chunk_size, "chunk_size"),
        )
        if problem.penalty is not None and operator is not None:
            raise ValueError(
                "alpha_graph > 0 does not go with an operator on the output features: leave one of them out"
            )
        self.loo_errors_: Array | None = problem.left_out(alphas) if len(alphas) > 1 else None
        self.alpha_ = float(alphas[0 if self.loo_errors_ is None else int(self.loo_errors_.argmin())])
        self.X_fit_, self.dual_coef_, self.intercept_ = problem.solve(self.alpha_)
        self.kernel_, self.output_kernel_, self.stream_ = kernel, output_kernel, None
        self.anchors_, self.train_outputs_ = coordinates.anchors, given

    def _all_inputs(self, X: Any, unlabelled: Any) -> Any:
        """Labelled inputs first; the others only where the graph penalty uses them."""
        if positive(self.alpha_graph, "alpha_graph", zero=True) == 0 or unlabelled is None:
            return X
        more = self._check_inputs(unlabelled, reset=False)
        return sparse.csr_array(sparse.vstack([X, more])) if sparse.issparse(X) else np.concatenate([X, more])

    def _penalty(self, kernel: ScalarKernel, X: Any, labelled: int, graph: Any) -> Any:
        if self.alpha_graph == 0:
            return None
        if takes_gram(self.kernel):
            raise ValueError(
                "alpha_graph > 0 needs the kernel between all inputs: use Precomputed(matrix) with indices instead of "
                "Precomputed()"
            )
        weights = neighbour_graph(kernel, X, self.n_neighbors) if graph is None else graph
        return penalty_matrix(weights, X.shape[0], labelled, float(self.alpha_graph))

    def _weights(self, X: Any) -> Array:
        if self.stream_ is not None:
            return self._stream_weights(self.stream_, X)
        kernel = self.kernel_ * Identity(self.dual_coef_.shape[1])
        return Expansion(kernel, self.X_fit_, self.dual_coef_, self.intercept_)(X)
