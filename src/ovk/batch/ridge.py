"""Vector-valued kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ovk._progress import ProgressBar
from ovk._validation import Array, whole
from ovk.batch.landmarks import landmark_ridge
from ovk.batch.regressor import OVKRegressor
from ovk.batch.targets import Targets, check_alpha, check_seen, check_targets
from ovk.ovkernels import OperatorKernel


class OVKRidge(OVKRegressor):
    """Ridge regression in the space of an operator-valued kernel (vector-valued regularised least squares).

    Minimises  sum_i w_i |y_i - f(x_i)|^2 + alpha |f|^2  over the functions f of the kernel's space. Outputs that the
    kernel couples inform each other; an output that is missing (nan) at some rows is learned from where it was seen and
    from the others.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        For instance ``Gaussian(2.0) * MixedEffect(0.5)``, or a sum of such products.
    alpha : float >= 0, or one > 0 for each output
        Weight of the penalty; the noise variance of the equivalent Gaussian process.
    solver : "auto", "cholesky", "eigen", "cg", "gauss-seidel" or a solver of `ovk.solvers`
    fit_intercept : bool
        Learn a constant for each output that is not penalised.
    landmarks : int or (m, p) array, optional
        Use Nystrom features of that many training points (or of these points): O(n m^2) time and memory that does not
        grow with n. `fit` then also takes memory-mapped arrays, and an iterator of chunks (X, Y), (X, Y, sample_weight)
        or, in long form, (X, y, sample_weight or None, task) in the place of X. Landmarks are drawn uniformly from the
        rows; from an iterator, out of its first rows.
    chunk_size : int
        Rows taken in at a time with `landmarks`.
    random_state : int, Generator or None
        Draws the landmarks.

    Attributes
    ----------
    dual_coef_ : (n, d) coefficients c_i of f(x) = sum_i K(x, x_i) c_i; (n,) if y was one-dimensional; sparse in long
        form
    X_fit_ : (n, p) the points x_i
    intercept_ : (d,) or None
    kernel_ : the kernel with everything learned from the inputs filled in
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
    (0.5, 1.0)
    """

    alpha: Any

    def __init__(
        self,
        kernel: Any = None,
        alpha: float | Array = 1.0,
        *,
        solver: Any = "auto",
        fit_intercept: bool = False,
        landmarks: Any = None,
        chunk_size: int = 4096,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.landmarks = landmarks
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, task: Any = None) -> Self:
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
        """
        with self._all_or_nothing():
            if y is None and _is_stream(X):
                self._fit_stream(X)
            else:
                self._fit_arrays(X, y, sample_weight, task)
        return self

    def _fit_arrays(self, X: Any, y: Any, sample_weight: Any, task: Any) -> None:
        X, targets = self._check(X, y, sample_weight, task, stream=self.landmarks is not None)
        alpha = check_alpha(self.alpha, targets.d)
        if self.landmarks is None:
            self._solve(self._resolved(X, targets.d), alpha, X, targets, self.solver)
        else:
            points = self._choose_landmarks(X)
            kernel = self._resolved(points, targets.d)
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))

    def _choose_landmarks(self, X: Any) -> Any:
        if not isinstance(self.landmarks, (int, np.integer)) or isinstance(self.landmarks, bool):
            try:
                points = np.asarray(self.landmarks, dtype=np.float64)
            except (TypeError, ValueError):
                points = np.asarray(self.landmarks, dtype=object)
            if points.dtype == object or points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
                raise ValueError(
                    f"landmarks must be a whole number or points with {X.shape[1]} features, got "
                    + (f"shape {points.shape}" if points.ndim else repr(self.landmarks))
                )
            if not np.isfinite(points).all():
                raise ValueError("landmarks must hold finite numbers, got nan or inf")
            return points
        m = whole(self.landmarks, "landmarks")
        rng = self._generator()
        rows = np.sort(rng.choice(X.shape[0], size=min(m, X.shape[0]), replace=False))
        chosen = X[rows]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)

    def _generator(self) -> Any:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        return check_random_state(self.random_state)

    def _slices(self, X: Any, targets: Targets) -> Iterator[tuple[Any, Targets]]:
        step = whole(self.chunk_size, "chunk_size")
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
    ) -> None:
        sums = landmark_ridge(kernel, points, shape.d)
        seen = np.zeros(shape.d, dtype=bool)
        with ProgressBar("learning") as bar:
            for X, targets in parts:
                if targets.task is None:
                    sums.add(X, targets.Y, targets.weight)
                else:
                    sums.add_pairs(X, targets.task, targets.Y[:, 0], targets.weight)
                seen |= targets.seen()
                bar.update(X.shape[0])
        if shape.task is None or self.fit_intercept:
            check_seen(seen, "in all rows")
        C, b, info = sums.solve(alpha, intercept=self.fit_intercept)
        empty = Targets(shape.Y, shape.d, shape.single, None, None)
        self._store(kernel, alpha, sums.features.points, C, b, empty, None)
        self.landmarks_ = sums
        self.solver_info_ = info

    def _fit_stream(self, stream: Iterable[Any]) -> None:
        if self.landmarks is None:
            raise ValueError("fit takes an iterator of chunks only with landmarks: give landmarks=m, or arrays X and Y")
        parts = self._checked_chunks(stream)
        # Enough rows to draw the landmarks from, held back and then taken in like all others.
        wanted = 10 * self.landmarks if isinstance(self.landmarks, (int, np.integer)) else 1
        head: list[tuple[Any, Targets]] = []
        for part in parts:
            head.append(part)
            if sum(X.shape[0] for X, _ in head) >= wanted:
                break
        if not head:
            raise ValueError("the iterator of chunks is empty: there is nothing to learn from")
        first = [X for X, _ in head]
        X = sparse.vstack(first, format="csr") if sparse.issparse(first[0]) else np.concatenate(first)
        points = self._choose_landmarks(X)
        shape = head[0][1]
        alpha = check_alpha(self.alpha, shape.d)
        kernel = self._resolved(points, shape.d)
        self._fit_landmarks(kernel, alpha, points, shape, chain(head, parts))

    def _checked_chunks(self, stream: Iterable[Any]) -> Iterator[tuple[Any, Targets]]:
        first: Targets | None = None
        for number, chunk in enumerate(stream):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3, 4):
                raise ValueError(
                    f"chunk {number} must be a tuple (X, Y), (X, Y, sample_weight) or (X, y, sample_weight, task), got "
                    f"{type(chunk).__name__}"
                )
            X = self._check_inputs(chunk[0], reset=first is None, stream=True)
            weight, task = (*chunk[2:], None, None)[:2]
            outputs = self._output_dim()
            if task is not None and outputs is None:
                raise ValueError(
                    "chunks in long form do not show how many tasks there are: give the operator its output_dim, as in "
                    "Gaussian() * MixedEffect(0.5, output_dim=500)"
                )
            targets = check_targets(chunk[1], X.shape[0], weight, task, X, outputs, part=True)
            if first is not None and targets.d != first.d:
                raise ValueError(f"chunk {number} has {targets.d} outputs but the first one had {first.d}")
            first = first or targets
            yield X, targets


def _is_stream(X: Any) -> bool:
    return isinstance(X, Iterable) and not (
        hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, (list, tuple, str))
    )
