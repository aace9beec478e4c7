"""Vector-valued kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import (
    Array,
    Mask,
    ProgressBar,
    Targets,
    check_alpha,
    check_int,
    check_observed_outputs,
    positive,
    progress_shown,
)
from ovk.batch.ridge.graph_penalty import (
    check_manifold,
    graph_of_inputs,
    penalised_ridge,
    penalty_matrix,
    weighted_inputs,
    with_unlabelled,
)
from ovk.batch.ridge.kernel_estimator import KernelEstimator, is_stream
from ovk.batch.ridge.landmarks import LandmarkRidge, choose_landmarks, landmark_ridge, rows_to_choose_from
from ovk.batch.ridge.prediction import ExpansionPrediction
from ovk.batch.ridge.ridge_system import as_single, ridge_problem, robust_targets, single_precision_ridge
from ovk.ovkernels import OperatorKernel
from ovk.solvers import as_solver


class OVKRegressor(KernelEstimator, ExpansionPrediction, saved=False):
    """A regressor that solves ridge regression for an expansion in training points, or in landmarks."""

    fit_intercept: bool
    loss: str = "squared"
    alpha_graph: float = 0.0
    chunk_size = 4096
    dtype: Any = "float64"
    verbose: bool | None = None

    @property
    def _free_intercept(self) -> bool:
        """Whether a constant for each output is learned that is not penalised."""
        return self.fit_intercept

    def _informative(self, X: Any, targets: Targets) -> tuple[Any, Targets]:
        informative = super()._informative(X, targets)
        dropped = informative[0].shape[0] < X.shape[0]
        self.learned_rows_ = targets.informative_rows() if dropped else None
        return informative

    def _solve(self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, solver: Any) -> None:
        """Fit with a resolved kernel and keep the result."""
        single = self._is_single(solver)
        try:
            if single:
                X = as_single(X)
                C, b, info = single_precision_ridge(kernel, X, targets, alpha, intercept=self._free_intercept)
            else:
                targets = self._robust(kernel, alpha, X, targets)
                problem = ridge_problem(kernel, X, targets, alpha)
                (C, info), b = problem.solve(as_solver(solver, problem.gram), intercept=self._free_intercept)
        except MemoryError as error:
            n = X.shape[0]
            raise MemoryError(
                f"the kernel matrix of {n:,} rows takes {8e-9 * n * n:,.1f} GB, and solving as much again (with "
                "dtype='float32' a quarter of both): give landmarks=1000 (or another number), whose memory does not "
                "grow with the rows"
            ) from error
        self._store(kernel, alpha, X, C, b, targets)
        self.solver_info_ = info

    def _is_single(self, solver: Any = "auto") -> bool:
        """Whether the kernel's matrix is to be held in single precision; refuses what does not go with it."""
        try:
            name = str(np.dtype(self.dtype).name)
        except TypeError:
            name = repr(self.dtype)
        if name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}")
        others = {"loss": self.loss != "squared", "solver": isinstance(solver, str) and solver != "auto"}
        others["alpha_graph"] = self.alpha_graph > 0
        for other in [other for other, given in others.items() if given and name == "float32"]:
            raise ValueError(f"dtype='float32' is solved in a way of its own: leave out {other}, or dtype")
        return name == "float32"

    def _robust(self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets) -> Targets:
        """The targets with the weights of Huber's loss, where that is asked for."""
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"loss must be 'squared' or 'huber', got {self.loss!r}")
        if self.loss == "squared":
            return targets
        return robust_targets(kernel, alpha, X, targets, intercept=self.fit_intercept)

    def _store(self, kernel: OperatorKernel, alpha: Any, X: Any, C: Any, b: Array | None, targets: Targets) -> None:
        self.__dict__.pop("_memo", None)
        self.inputs_ = None
        self.kernel_ = kernel
        self.alpha_ = alpha
        self.X_fit_ = X
        self.dual_coef_ = C[:, 0] if targets.single else C
        self.intercept_ = b
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single
        self.observed_ = targets.observed_mask()
        self.task_ = targets.task
        self.sample_weight_ = targets.weight
        self.landmarks_ = None

    def _slices(self, X: Any, targets: Targets) -> Iterator[tuple[Any, Targets]]:
        step = check_int(self.chunk_size, "chunk_size")
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            yield X[rows], targets.rows(rows)

    def _fit_landmarks(
        self,
        kernel: OperatorKernel,
        alpha: float | Array,
        points: Any,
        shape: Targets,
        parts: Iterable[tuple[Any, Targets]],
        penalty: tuple[Any, Any] | None = None,
    ) -> None:
        """Learn sums over rows; `penalty` has the inputs and the matrix P of a manifold penalty."""
        sums = landmark_ridge(kernel, points, shape.d)
        observed = np.zeros(shape.d, dtype=bool)
        with ProgressBar("learning") as bar:
            for X, targets in parts:
                if targets.task is None:
                    sums.add(X, targets.Y, targets.weight)
                else:
                    sums.add_pairs(X, targets.task, targets.Y[:, 0], targets.weight)
                observed |= targets.observed_outputs()
                bar.update(X.shape[0])
        if penalty is not None:
            sums.add_penalty(*penalty)
        self._finish_landmarks(kernel, alpha, sums, observed, shape)

    def _finish_landmarks(
        self, kernel: OperatorKernel, alpha: float | Array, sums: LandmarkRidge, observed: Mask, shape: Targets
    ) -> None:
        """Solve for the sums over all rows; `shape` tells the form of the outputs."""
        if self.loss != "squared":
            raise ValueError(f"loss={self.loss!r} needs all rows at once: give landmarks=None")
        if shape.task is None or self.fit_intercept:
            check_observed_outputs(observed, "in all rows")
        C, b, info = sums.solve(alpha, intercept=self.fit_intercept)
        self._store(
            kernel, alpha, sums.features.points, C, b, replace(shape, Y=np.empty((0, 1)), task=None, weight=None)
        )
        self.landmarks_ = sums
        self.solver_info_ = info


class OVKRidge(OVKRegressor):
    """Ridge regression in the space of an operator-valued kernel (vector-valued regularised least squares).

    Minimises  sum_i w_i |y_i - f(x_i)|^2 + alpha |f|^2  over the functions f of the kernel's space. Outputs that the
    kernel couples inform each other; an output that is missing (nan) at some rows is learned from where it was seen and
    from the others. With `alpha_graph`, inputs without outputs help: alpha_graph sum_lm g_lm |f(x_l) - f(x_m)|^2 over
    the links g of a graph of all inputs is minimised too (the manifold penalty).

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        For instance ``Gaussian(2.0) * MixedEffect(0.5)``, or a sum of such products.
    alpha : float >= 0, or one > 0 for each output
        Weight of the penalty; the noise variance of the equivalent Gaussian process.
    solver : "auto", "cholesky", "eigen", "cg", "gauss-seidel" or a solver of `ovk.solvers`
    fit_intercept : bool
        Learn a constant for each output that is not penalised. Without it predictions fall to 0 away from the data.
    loss : "squared" or "huber"
        Huber's loss counts rows that are far off linearly: the fit is the weighted one in which they weigh less, and
        `sample_weight_` holds these weights. Not with `landmarks`, nor with `alpha_graph`.
    landmarks : int, (m, p) array, "rpcholesky" or `RPCholesky`, optional
        Use Nystrom features of that many training points (or of these points): O(n m^2) time and memory that does not
        grow with n. `fit` then also takes memory-mapped arrays, and an iterator of chunks (X, Y), (X, Y, sample_weight)
        or, in long form, (X, y, sample_weight or None, task) in the place of X. Landmarks are drawn uniformly from the
        rows, or with "rpcholesky" from where the kernel is not yet explained; from an iterator, out of its first rows.
    alpha_graph : float >= 0
        Weight of the manifold penalty; 0 for none. With it, rows of `y` without any output (nan) and the inputs given
        as `unlabelled` are learned from too. Standard deviations then need `landmarks`; intervals there are none.
    n_neighbors : int
        Of the graph of inputs that is made where `fit` gets none: each input is linked to that many most like it.
    chunk_size : int
        Rows taken in at a time with `landmarks`.
    dtype : "float64" or "float32"
        Precision in which inputs and the kernel's matrix are held. With "float32" fitting takes a quarter of the
        memory, 4 n^2 bytes; solutions are refined to double precision. For kernels k * T, all outputs seen, alpha > 0.
    verbose : bool, optional
        Show progress, or never; by default it is shown on a terminal by fits that take longer than a second.
    random_state : int, Generator or None
        Draws the landmarks.

    Attributes
    ----------
    dual_coef_ : (n, d) coefficients c_i of f(x) = sum_i K(x, x_i) c_i; (n,) if y was one-dimensional; sparse in long
        form
    X_fit_ : (n, p) the points x_i
    intercept_ : (d,) or None
    kernel_ : the kernel with everything learned from the inputs filled in
    graph_ : (n, n) sparse weights between the inputs, labelled ones first, with `alpha_graph`, else None
    solver_info_ : `SolverInfo` with route, iterations, condition estimate and jitter
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    Two outputs with a common shape; the second is observed at 4 of 60 points, and learned through the first.

    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> Y = np.column_stack([np.sin(2 * x[:, 0]), np.sin(2 * x[:, 0]) + 0.1])
    >>> seen = Y.copy()
    >>> seen[np.arange(60) % 15 != 0, 1] = np.nan
    >>> apart = OVKRidge(Gaussian(1.0) * MixedEffect(0.0), alpha=0.01).fit(x, seen)
    >>> coupled = OVKRidge(Gaussian(1.0) * MixedEffect(0.9), alpha=0.01).fit(x, seen)
    >>> round(apart.score(x, Y), 2), round(coupled.score(x, Y), 2)
    (0.47, 0.99)

    One label on each of two moons, and the inputs of the others:

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.05, random_state=0)
    >>> few = [y.tolist().index(0), y.tolist().index(1)]
    >>> def share_right(**graph):
    ...     model = OVKRidge(Gaussian(0.2), 0.01, **graph).fit(X[few], y[few], unlabelled=X)
    ...     return float(np.mean((model.predict(X) > 0.5) == y))
    >>> share_right(), share_right(alpha_graph=1.0)
    (0.77, 1.0)
    """

    alpha: Any
    graph_: sparse.csr_array | None

    def __init__(
        self,
        kernel: Any = None,
        alpha: float | Array = 1.0,
        *,
        solver: Any = "auto",
        fit_intercept: bool = True,
        loss: str = "squared",
        landmarks: Any = None,
        alpha_graph: float = 0.0,
        n_neighbors: int = 10,
        chunk_size: int = 4096,
        dtype: Any = "float64",
        verbose: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.loss = loss
        self.landmarks = landmarks
        self.alpha_graph = alpha_graph
        self.n_neighbors = n_neighbors
        self.chunk_size = chunk_size
        self.dtype = dtype
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        task: Any = None,
        unlabelled: Any = None,
        graph: Any = None,
    ) -> Self:
        """Learn from inputs and outputs.

        Parameters
        ----------
        X : (n, p); or, with `landmarks`, an iterator of chunks (X, Y), (X, Y, sample_weight) or (X, y, sample_weight,
            task)
        y : (n, d) or (n,), nan where an output was not observed
        sample_weight : (n,), optional
        task : (n,) integers, optional
            Long form: row i is one observation, of output task_i, with value y_i. The number of outputs is that of
            the kernel's operator, or the largest task plus one.
        unlabelled : (u, p), optional
            Inputs without outputs, for the manifold penalty (`alpha_graph` > 0).
        graph : (n + u, n + u) array, sparse matrix or networkx graph, optional
            Weights >= 0 between inputs, those of X first, or their Laplacian; similarities of near neighbours by
            default.
        """
        with self._fitting(X, y), progress_shown(self.verbose):
            if positive(self.alpha_graph, "alpha_graph", zero=True) > 0:
                self._fit_manifold(X, y, sample_weight, task, unlabelled, graph)
            elif y is None and is_stream(X):
                self._fit_stream(X)
            else:
                self._fit_arrays(X, y, sample_weight, task)
        return self

    def merge(self, other: OVKRidge) -> Self:
        """Learn what another model with the same landmarks has learned, exactly as from its rows.

        Both must have been fitted with the same kernel and the same points as `landmarks`. Sums over rows add up, so
        that parts of the data can be learned anywhere, saved, loaded and merged (`ovk.features.merge_all` does it in a
        fixed order). The parameters of this model hold; the other is left as it is.
        """
        if self.landmarks_ is None or other.landmarks_ is None:
            raise ValueError("models can be merged only if both were fitted with landmarks: give landmarks=points")
        if self.graph_ is not None or other.graph_ is not None:
            raise ValueError("alpha_graph needs all inputs at once: leave it out to merge models")
        sums = self.landmarks_.merged(other.landmarks_)
        with self._fitting(sums.features.L):
            self._solve_sums(sums)
        return self

    def _solve_sums(self, sums: LandmarkRidge) -> None:
        """Solve for sums over all rows, with everything else about the model known."""
        C, self.intercept_, self.solver_info_ = sums.solve(self.alpha_, intercept=self.fit_intercept)
        self.__dict__.pop("_memo", None)
        self.dual_coef_ = C[:, 0] if self.single_output_ else C
        self.landmarks_ = sums

    def _fit_arrays(self, X: Any, y: Any, sample_weight: Any, task: Any) -> None:
        X, targets = self._check(X, y, sample_weight, task, stream=self.landmarks is not None)
        alpha = check_alpha(self.alpha, targets.d)
        if self.landmarks is None:
            self._solve(self._resolved(X, targets.d), alpha, X, targets, self.solver)
        else:
            points = self._landmarks(X, targets.d, self.random_state)
            kernel = self._resolved(points, targets.d)
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))

    def _fit_manifold(self, X: Any, y: Any, sample_weight: Any, task: Any, unlabelled: Any, graph: Any) -> None:
        check_manifold(self.kernel, self.loss, streamed=y is None and is_stream(X))
        self._is_single()
        X, targets = self._check_rows(X, y, sample_weight, task)
        targets = targets.wide()
        alpha = check_alpha(self.alpha, targets.d)
        if unlabelled is not None:
            X = with_unlabelled(X, self._check_inputs(unlabelled, reset=False))
            targets = targets.followed_by_gaps(X.shape[0])
        X, targets, graph = weighted_inputs(X, targets, graph)
        points = None if self.landmarks is None else self._landmarks(X, targets.d, self.random_state)
        kernel = self._resolved(X if points is None else points, targets.d)
        separable = kernel.as_separable()
        weights = graph_of_inputs(graph, None if separable is None else separable.scalar, X, self.n_neighbors)
        P = penalty_matrix(weights, float(self.alpha_graph))
        if points is None:
            C, b, info = penalised_ridge(kernel, X, targets, alpha, P, intercept=self.fit_intercept)
            self._store(kernel, alpha, X, C, b, targets)
            self.solver_info_ = info
        else:
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets), (X, P))
        self.graph_ = weights

    def _store(self, kernel: OperatorKernel, alpha: Any, X: Any, C: Any, b: Array | None, targets: Targets) -> None:
        super()._store(kernel, alpha, X, C, b, targets)
        self.graph_ = None

    def _check_prior(self) -> None:
        super()._check_prior()
        if self.graph_ is not None and self.landmarks_ is None:
            raise ValueError(
                "with alpha_graph > 0 there are no intervals, and standard deviations only with landmarks: give for "
                "instance landmarks=500"
            )

    def _landmarks(self, X: Any, d: int, random_state: Any) -> Any:
        return choose_landmarks(self.landmarks, X, random_state, lambda rows: self._resolved(rows, d))

    def _fit_stream(self, stream: Iterable[Any]) -> None:
        if self.landmarks is None:
            raise ValueError("fit takes an iterator of chunks only with landmarks: give landmarks=m, or arrays X and Y")
        parts = self._checked_chunks(stream)
        head, X = rows_to_choose_from(self.landmarks, parts)
        shape = head[0][1]
        points = self._landmarks(X, shape.d, self.random_state)
        alpha = check_alpha(self.alpha, shape.d)
        kernel = self._resolved(points, shape.d)
        self._fit_landmarks(kernel, alpha, points, shape, chain(head, parts))
