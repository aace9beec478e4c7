"""Input-output kernel regression, in batch or online."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Algebra,
    Array,
    DeviceMatrix,
    Outputs,
    Parameters,
    Transactional,
    check_alphas,
    check_inputs,
    check_int,
    equal,
    host_inputs,
    positive,
    reads_snapshot,
    returned,
    to_host,
)
from ovk.batch import LandmarkRidge, as_generator, check_on_device, graph_of_inputs, takes_gram, with_unlabelled
from ovk.features import Given, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear, ScalarKernel, as_kernel
from ovk.online import PKAWV
from ovk.operators import Identity
from ovk.ovkernels import Expansion, row_slices
from ovk.structured.feature_ridge import (
    Coordinates,
    FeatureSpaceRidge,
    coordinates_for,
    dense,
    landmarks_among,
    learned_kernel,
    operator_on,
    split_kernel,
)
from ovk.structured.outputs import (
    Candidates,
    as_outputs,
    check_candidates,
    check_lengths,
    checked_blocks,
    concatenate_outputs,
    count_outputs,
    distinct_outputs,
    hashable_keys,
    select_outputs,
    squared_norms,
)
from ovk.structured.preimage import SharedScores, as_decoder, nearest_generated, nearest_per_example, scores_per_example


def _can_stream(model: Any) -> bool:
    """Whether `partial_fit` is available; if this raises an error, scikit-learn treats the method as absent."""
    if getattr(model, "stream_", model) is None:
        raise AttributeError("partial_fit cannot continue after fit: create a new model")
    if np.ndim(model.alpha) > 0 or model.fit_intercept or model.alpha_graph or isinstance(model.operator, str):
        excluded = "several alphas, fit_intercept, alpha_graph or operator='covariance'"
        raise AttributeError(f"partial_fit does not support {excluded}")
    return True


@dataclass(eq=False, repr=False)
class IOKR(MultiOutputMixin, Transactional, Parameters):
    """Input-output kernel regression: predicts structured outputs through a kernel on the outputs.

    Learns h(x) near phi(y), with phi the features of the output kernel, by ridge regression in closed form, and
    predicts the output whose features are nearest to h(x) (its pre-image). Outputs may be any objects with a kernel:
    vectors, labels, label sets, strings, nodes of a graph, rankings. Only their kernel matrix is used:

        minimise  sum_i |phi(y_i) - h(x_i)|^2 + alpha |h|^2
                  + alpha_graph sum_lm w_lm |h(x_l) - h(x_m)|^2   (over labelled and unlabelled inputs).

    Parameters
    ----------
    kernel : scalar kernel, ``k * T`` or list of scalar kernels, optional
        Kernel of the inputs, with an operator T on the output features. For a list, a weighted sum is learned (`MovKL`
        in the output feature space); all kernels must accept the same inputs. Default ``Gaussian()``.
    output_kernel : scalar kernel, optional
        Kernel of the outputs: those of `ovk.kernels` for vectors, `Precomputed(matrix)` for known objects, and those of
        `ovk.structured`: `Delta`, `Hierarchy`, `Jaccard`, `KSpectrum`, `Kendall`, `Diffusion`, `RegularizedLaplacian`.
        Default ``Linear()``, as in `OVKRidge`.
    alpha : float > 0, or sequence of floats
        Weight of the penalty, or candidates to choose from by leave-one-out in the output feature space.
    fit_intercept : bool
        Learn an unpenalised constant point of the feature space.
    operator : output operator or "covariance", optional
        Couples the output features. With a linear output kernel it acts on the outputs; otherwise on an orthonormal
        basis of the span of the training outputs (or of the `output_landmarks`). "covariance" uses the second moments
        of the training features, scaled to norm one: directions with little variance are penalised more.
    decoder : "auto", "candidates", "closed_form", "labels", "gaussian" or a decoder
        How `predict` finds a pre-image without candidates. "auto" is the closed form for a linear output kernel, and a
        search among the training outputs for any other.
    alpha_graph : float >= 0
        Weight of the graph penalty.
    n_neighbors : int
        Neighbours of an input in the graph, if none is passed to `fit`.
    landmarks : int, (m, p) array, "rpcholesky" or `RPCholesky`, optional
        Nystrom features of that many inputs: O(n m^2) time.
    output_landmarks : int or collection of outputs, optional
        The same for the outputs. With both, 100,000 examples are feasible.
    chunk_size : int
        Rows processed at a time with `landmarks`.
    random_state : int, Generator or None
        Seed or generator for the landmarks.

    Attributes
    ----------
    dual_coef_ : (m, anchors) with h(x) = sum_i k(x, x_i) sum_j dual_coef_ij phi(z_j)
    intercept_ : (anchors,) the constant, as weights of the phi(z_j), or None
    X_fit_ : (m, p) the points x_i
    anchors_ : the outputs z_j
    alpha_ : the alpha used
    loo_errors_ : (alphas,) mean squared leave-one-out distance in the feature space, None for a single alpha
    kernel_, output_kernel_ : kernels with all learned parameters
    kernel_weights_ : (M,) weights of a list of kernels, None for one kernel
    candidates_ : distinct training outputs
    landmarks_ : sums over rows that `merge` adds, None without `landmarks`
    stream_ : the `PKAWV` of `partial_fit`, None after `fit`
    n_features_in_ : as in scikit-learn

    See Also
    --------
    LinkPredictor, OVKRidge, OVKClassifier

    Examples
    --------
    Label sets with the Jaccard kernel:

    >>> from ovk import IOKR
    >>> from ovk.structured import Jaccard
    >>> X = [[0.0], [0.2], [1.0], [1.2]]
    >>> y = [{"sun"}, {"sun", "wind"}, {"rain", "wind"}, {"rain"}]
    >>> model = IOKR(output_kernel=Jaccard(), alpha=0.01).fit(X, y)
    >>> sorted(model.predict([[0.21]])[0])
    ['sun', 'wind']
    >>> [sorted(one) for one in model.predict([[0.21]], return_top_k=2)[0]]
    [['sun', 'wind'], ['sun']]
    """

    _default_factories = {"kernel": Gaussian}

    _state_classes: ClassVar = {"coordinates_": Coordinates, "landmarks_": LandmarkRidge}
    _stored = {
        "X_fit_": "n * any | other",
        "dual_coef_": "n k",
        "intercept_": "k | None",
        "kernel_": Algebra,
        "anchors_": "k * any | other",
        "loo_errors_": "* inf",
        "stream_": PKAWV | None,
    }

    kernel: Any = None
    output_kernel: Any = None
    alpha: Any = 1.0
    _: KW_ONLY
    fit_intercept: bool = False
    operator: Any = None
    decoder: Any = "auto"
    alpha_graph: float = 0.0
    n_neighbors: int = 10
    landmarks: Any = None
    output_landmarks: Any = None
    chunk_size: int = 4096
    random_state: Any = None

    _runs_on_devices = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = takes_gram(self.kernel)
        tags.target_tags.required = True
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any = None, *, unlabelled: Any = None, graph: Any = None) -> Self:
        """Learn from inputs (n, p) and n outputs, in the form that the output kernel takes.

        `unlabelled` inputs and the `graph` are as in `OVKRidge.fit`.
        """
        with self._fitting(X):
            X = self._check_inputs(X, reset=True)
            if isinstance(X, DeviceMatrix):
                self._check_on_device()
            alphas = check_alphas(np.atleast_1d(self.alpha), "alpha")
            output_kernel, outputs, given = self._check_outputs(y, X)
            problems = self._regressions(X, output_kernel, outputs, unlabelled, graph, alphas)
            self.loo_errors_: Array | None = None
            best = 0
            if len(alphas) > 1:
                shares = zip(problems, np.split(alphas, len(problems)), strict=True)
                self.loo_errors_ = np.concatenate([one.leave_one_out_errors(some) for one, some in shares])
                best = int(self.loo_errors_.argmin())
            problem, self.alpha_ = problems[min(best, len(problems) - 1)], float(alphas[best])
            ridge = problem.solve(self.alpha_)
            self.kernel_, self.operator_, self.coordinates_ = problem.kernel, problem.operator, problem.coordinates
            self.kernel_weights_ = problem.weights
            self.output_kernel_, self.anchors_, self.train_outputs_ = output_kernel, problem.coordinates.anchors, given
            self._store_function(ridge.X_fit_, ridge.dual_coef_, ridge.intercept_)
            # Sums that include a graph penalty cannot be merged.
            self.landmarks_ = ridge.landmarks_ if problem.graph is None else None
            self.stream_: PKAWV | None = None
        return self

    def _regressions(
        self, X: Any, output_kernel: ScalarKernel, outputs: Outputs, unlabelled: Any, graph: Any, alphas: Array
    ) -> list[FeatureSpaceRidge]:
        """The regression; for a list of kernels, one regression with learned weights for each alpha."""
        rng = as_generator(self.random_state)
        several = isinstance(self.kernel, (list, tuple))
        scalar, operator = split_kernel(None if several else self.kernel, self.operator)
        orthonormal = several or operator is not None
        coordinates = coordinates_for(output_kernel, outputs, self.output_landmarks, rng, orthonormal=orthonormal)
        every, penalty = X, positive(self.alpha_graph, "alpha_graph", zero=True)
        if penalty and unlabelled is not None:
            every = with_unlabelled(X, self._check_inputs(unlabelled, reset=False))
        points = landmarks_among(self.landmarks, every, rng, scalar)
        weighted: list[tuple[ScalarKernel, Array | None]]
        if several:
            targets, intercept = coordinates.transform(outputs), self.fit_intercept
            weighted = [learned_kernel(self.kernel, X, targets, a, intercept=intercept, rng=rng) for a in alphas]
        else:
            weighted = [(clone(scalar).resolve(every if points is None else points), None)]
        T, size = operator_on(operator, coordinates, outputs), check_int(self.chunk_size, "chunk_size")
        rest = points, self.fit_intercept, size
        problems = []
        for kernel, weights in weighted:
            links = graph_of_inputs(graph, kernel, every, self.n_neighbors) if penalty else None
            problems.append(FeatureSpaceRidge(kernel, weights, every, coordinates, outputs, T, links, penalty, *rest))
        return problems

    def _store_function(self, X: Any, C: Array, b: Array | None) -> None:
        """Store coefficients and intercept of the anchors, from those of the kernel k T in coordinates."""
        to_anchors = self.coordinates_.to_anchors
        self.X_fit_, self.dual_coef_ = X, to_anchors(C if self.operator_ is None else self.operator_.apply(C))
        self.intercept_ = None if b is None else to_anchors(b[None, :])[0]

    @available_if(_can_stream)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more inputs (n, p) and n outputs with the second-order online learner `PKAWV`.

        Inputs are approximated by `landmarks` (points, or a number of first rows; 100 by default), outputs by
        `output_landmarks` (outputs, or at most this many of those in the first rows; all of these by default; not
        needed for a linear output kernel). For given points, rows in any chunks give the same model as `fit`. Several
        alphas, intercepts and graph penalties are not supported.
        """
        with self._transaction() as work:
            if not hasattr(work, "output_kernel_"):
                work._start(X, y)
            else:
                X = work._check_inputs(host_inputs(work, X), reset=False)
                outputs = as_outputs(y, work.output_kernel_, "y")
                work._learn(X, outputs, y)
        return self

    def merge(self, other: IOKR) -> Self:
        """Add the rows of another model with the same landmarks, with the same result as learning from them.

        Both must have the same points as `landmarks` and, unless the output kernel is linear, the same outputs as
        `output_landmarks`, and both have learned by `fit` or both by `partial_fit`. The parameters of this model are
        used; the other one is not changed.
        """
        check_is_fitted(self)
        check_is_fitted(other)
        same = hashable_keys(self.anchors_) == hashable_keys(other.anchors_)
        if not same or not equal(self.output_kernel_, other.output_kernel_):
            raise ValueError("models to merge must have the same output kernel and the same output_landmarks")
        with self._transaction() as work:
            if work.stream_ is not None and other.stream_ is not None:
                work.stream_.merge(other.stream_)
            elif work.landmarks_ is not None and other.landmarks_ is not None:
                work.landmarks_ = work.landmarks_.merged(other.landmarks_)
                C, b, _ = work.landmarks_.solve(work.alpha_, intercept=work.fit_intercept)
                work._store_function(work.X_fit_, C, b)
            else:
                raise ValueError("models to merge must both have landmarks, and both use fit or both partial_fit")
            work._store_candidates(other.train_outputs_)
        return self

    def _store_candidates(self, y: Any) -> None:
        """Store distinct outputs, if predictions are searched among them."""
        if as_decoder(self.decoder, self.output_kernel_) is not None:
            return
        seen = concatenate_outputs([self.train_outputs_, y])
        self.train_outputs_ = select_outputs(seen, distinct_outputs(as_outputs(seen, self.output_kernel_, "y"))[0])

    def _start(self, X: Any, y: Any) -> None:
        """Choose coordinates and landmarks from the first rows, and learn these rows."""
        X = self._check_inputs(host_inputs(self, X), reset=True)
        kernel, outputs, given = self._check_outputs(y, X)
        alpha = float(check_alphas(np.atleast_1d(self.alpha), "alpha")[0])
        rng = as_generator(self.random_state)
        scalar, operator = split_kernel(self.kernel, self.operator)
        # Future outputs need coordinates too, so the anchors are landmarks even if all outputs are kept.
        coordinates = coordinates_for(kernel, outputs, self.output_landmarks, rng, orthonormal=True)
        T = operator_on(operator, coordinates, outputs) or Identity(count_outputs(coordinates.anchors))
        if self.landmarks is None or isinstance(self.landmarks, (int, np.integer)):
            selection: Any = Uniform(size=100 if self.landmarks is None else check_int(self.landmarks, "landmarks"))
        else:
            selection = Given(landmarks_among(self.landmarks, X, rng, scalar))
        resolved = clone(scalar).resolve(X)
        self.stream_ = PKAWV(resolved * T, alpha, Nystrom(selection), forecaster="ridge", random_state=0)
        self.kernel_, self.output_kernel_, self.coordinates_ = resolved, kernel, coordinates
        self.anchors_, self.alpha_, self.landmarks_ = coordinates.anchors, alpha, None
        self.train_outputs_ = select_outputs(given, np.arange(0))
        self._learn(X, outputs, y)

    def _learn(self, X: Any, outputs: Outputs, y: Any) -> None:
        check_lengths(X, outputs)
        targets = self.coordinates_.transform(outputs)
        norms = squared_norms(self.output_kernel_, outputs)
        lost = np.flatnonzero((self.coordinates_.squared_norms(targets) < 1e-6 * norms) & (norms > 0))
        if len(lost):
            raise ValueError(f"output {lost[0]} is orthogonal to the output_landmarks: pass landmarks that cover it")
        assert self.stream_ is not None
        self.stream_.partial_fit(dense(X), targets)
        self._store_candidates(y)

    def _check_on_device(self) -> None:
        """Reject settings that do not run on a device."""
        several = isinstance(self.kernel, (list, tuple))
        selected = self.landmarks is not None and np.size(self.alpha) > 1
        unsupported = {"a list of kernels": several, "alpha_graph": self.alpha_graph > 0}
        unsupported["landmarks with several alphas"] = selected
        for name in [name for name, given in unsupported.items() if given]:
            raise ValueError(f"a fit on a device does not support {name}: omit it, or pass NumPy arrays")
        check_on_device(split_kernel(self.kernel, self.operator)[0] * Identity())

    def _weights(self, X: Any) -> Array:
        if isinstance(X, DeviceMatrix):
            stored_there = self.stream_ is None and not sparse.issparse(self.X_fit_)
            X = X if stored_there and self.kernel_.runs_on_devices() else X.host()
        if self.stream_ is not None:
            coordinates = self.stream_.predict(dense(X)).reshape(X.shape[0], -1)
            return self.coordinates_.to_anchors(coordinates)
        kernel = self.kernel_ * Identity(self.dual_coef_.shape[1])
        return Expansion(kernel, self.X_fit_, self.dual_coef_, self.intercept_)(X)

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _check_outputs(self, y: Any, X: Any) -> tuple[ScalarKernel, Outputs, Any]:
        """The output kernel, and the outputs in its form and as passed."""
        y = to_host(y)
        kernel: ScalarKernel = clone(Linear() if self.output_kernel is None else as_kernel(self.output_kernel))
        outputs = as_outputs(y, kernel, "y")
        check_lengths(X, outputs)
        kernel = kernel.resolve(outputs)
        as_decoder(self.decoder, kernel)
        # Checks that the kernel has norms, which predict needs.
        squared_norms(kernel, select_outputs(outputs, np.arange(min(count_outputs(outputs), 1))))
        if sparse.issparse(y):
            return kernel, outputs, sparse.csr_array(y)
        return kernel, outputs, (np.asarray(y) if hasattr(y, "__array__") else list(y))

    @reads_snapshot
    def weights(self, X: Any) -> Array:
        """The weights w_j(x) of the anchors' features in h(x), (m, anchors)."""
        check_is_fitted(self)
        return returned(self._weights(self._check_inputs(X, reset=False)), X)  # type: ignore[no-any-return]

    @property
    @reads_snapshot
    def candidates_(self) -> Any:
        """The distinct training outputs, in order of appearance: the default candidates of predictions."""
        check_is_fitted(self)
        first, _ = distinct_outputs(as_outputs(self.train_outputs_, self.output_kernel_, "y"))
        return select_outputs(self.train_outputs_, first)

    @reads_snapshot
    def decision_function(self, X: Any, candidates: Any = None) -> Any:
        """Scores of candidates, <h(x), phi(y)> - k(y, y) / 2: largest where |h(x) - phi(y)|^2 is smallest.

        Parameters
        ----------
        X : (m, p) array
            Inputs.
        candidates : array or list of outputs, or `PerExample`, optional
            `candidates_` by default.

        Returns
        -------
        array or list of arrays
            (m, candidates), or for `PerExample` an array for each input.
        """
        check_is_fitted(self)
        X_given, X = X, self._check_inputs(X, reset=False)
        kernel = self.output_kernel_
        if isinstance(candidates, Candidates):
            if candidates.shared:
                one = "pass one block at a time"
                raise ValueError(f"decision_function does not support shared Generated candidates: {one}")
            check_candidates(candidates, X.shape[0])
            blocks = [checked_blocks(candidates, kernel, row) for row in range(X.shape[0])]
            sets = [concatenate_outputs([outputs for _, outputs in some]) for some in blocks]
            each = scores_per_example(kernel, self.anchors_, self._weights(X), sets)
            return [returned(scores, X_given) for scores in each]
        _, outputs = self._shared(candidates)
        scores = SharedScores(kernel, self.anchors_, outputs)
        parts = [scores(self._weights(X[rows])) for rows in self._row_chunks(X, count_outputs(outputs))]
        return returned(np.concatenate(parts), X_given)

    @reads_snapshot
    def predict(self, X: Any, candidates: Any = None, return_top_k: int = 1) -> Any:
        """The outputs whose features are nearest to h(x).

        Parameters
        ----------
        X : (m, p) array
            Inputs.
        candidates : array or list of outputs, `PerExample` or `Generated`, optional
            None for the decoder or, without one, the training outputs; an array or list for all inputs; `PerExample`
            for a list for each input; `Generated` for more than can be listed.
        return_top_k : int
            Number of outputs to return for each input, best first. Equal candidates count once; ties are won by the
            first candidate; if there are fewer, all are returned.

        Returns
        -------
        array or list
            m outputs, in the form of the candidates; with return_top_k > 1, m collections of outputs.
        """
        check_is_fitted(self)
        k = check_int(return_top_k, "return_top_k")
        X = self._check_inputs(X, reset=False)
        kernel, anchors = self.output_kernel_, self.anchors_
        decoder = as_decoder(self.decoder, kernel) if candidates is None else None
        if decoder is not None:
            if k > 1:
                raise ValueError(f"return_top_k must be 1 without candidates, got {k}")
            parts = [decoder.decode(kernel, anchors, self._weights(X[rows])) for rows in self._row_chunks(X, 1)]
            values = np.concatenate(parts)
            return values[:, 0] if np.ndim(self.train_outputs_) == 1 and values.shape[1] == 1 else values
        if isinstance(candidates, Candidates):
            check_candidates(candidates, X.shape[0])
            if candidates.shared:
                kept = nearest_generated(kernel, anchors, candidates, self._weights(X), k)
            else:
                kept = nearest_per_example(kernel, anchors, candidates, lambda r: self._weights(X[r]), X.shape[0], k)
            return _collected(kept, k)
        given, outputs = self._shared(candidates)
        first = distinct_outputs(outputs)[0]
        scores = SharedScores(kernel, anchors, select_outputs(outputs, first))
        chunks = self._row_chunks(X, count_outputs(outputs))
        chosen = np.concatenate([first[scores.nearest(self._weights(X[rows]), k)] for rows in chunks])
        return select_outputs(given, chosen[:, 0] if k == 1 else chosen)

    def _shared(self, candidates: Any) -> tuple[Any, Outputs]:
        given = self.candidates_ if candidates is None else to_host(candidates)
        outputs = as_outputs(given, self.output_kernel_, "candidates")
        if count_outputs(outputs) == 0:
            raise ValueError("candidates are empty: pass at least one, or None for the training outputs")
        return given, outputs

    def _row_chunks(self, X: Any, width: int) -> Iterator[slice]:
        return row_slices(X.shape[0], max(width, count_outputs(self.anchors_)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination in the output feature space.

        1 - sum |phi(y_i) - phi(prediction_i)|^2 / sum |phi(y_i) - mean of phi(y)|^2: 1 if every prediction is correct.
        """
        kernel = self.output_kernel_
        truth = as_outputs(to_host(y), kernel, "y")
        found = as_outputs(self.predict(X), kernel, "prediction")
        n = count_outputs(truth)
        if n != count_outputs(found):
            raise ValueError(f"X and y have inconsistent numbers of samples: [{count_outputs(found)}, {n}]")
        w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        w = w / w.sum()
        norms = squared_norms(kernel, truth)
        error = norms + squared_norms(kernel, found)
        spread = float(w @ norms)
        for rows in row_slices(n, 128, most=1 << 14):
            some = np.arange(rows.start, rows.stop)
            mine = select_outputs(truth, some)
            error[rows] -= 2.0 * np.diagonal(kernel(mine, select_outputs(found, some)))
            spread -= float(w[rows] @ kernel(mine, truth) @ w)
        missed = float(w @ error)
        if spread <= 1e-12 * float(w @ norms):
            # All outputs are equal.
            return 1.0 if missed <= 1e-12 * float(w @ norms) else 0.0
        return 1.0 - missed / spread


def _collected(kept: list[list[Any]], k: int) -> Any:
    """Results for candidates that differ between inputs, as arrays if they were arrays."""
    vectors = all(isinstance(one, np.ndarray) for row in kept for one in row)
    if k == 1:
        first = [row[0] for row in kept]
        return np.array(first) if vectors else first
    return [np.array(row) for row in kept] if vectors else kept
