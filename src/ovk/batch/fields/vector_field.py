"""Regression of vector fields: parts, derivatives and outliers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Indices, Targets, check_choice, check_groups, check_int, drop_unobserved_rows, positive
from ovk.batch.fields.comparison import (
    KINDS,
    OutlierEstimate,
    choose_kernel,
    estimate_outliers,
    field_kernels,
    smoother,
)
from ovk.batch.ridge.landmarks import choose_landmarks
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import as_generator
from ovk.ovkernels import CurlFree, DivFree, Expansion, OperatorKernel, WeightedSum, as_operator_kernel


class FieldParts(NamedTuple):
    """Values of the parts of a field, each (n, d); their sum is the prediction.

    `curl_free` is a gradient, `div_free` has no sources, `rest` comes from all other kernels and the constant.
    """

    curl_free: Array
    div_free: Array
    rest: Array


@dataclass(eq=False, repr=False)
class VectorField(OVKRegressor):
    """Regression of vector fields, with their curl-free and divergence-free parts.

    Ridge regression (Gaussian process regression) from observations at scattered points. The weights and length scales
    of the kernels and the noise variance are chosen by the evidence or by leave-one-out, with exact gradients.

    Parameters
    ----------
    kernel : "helmholtz", "curl-free", "div-free", "independent", or an operator-valued kernel; default None
        "helmholtz" is the sum of the next two; "independent" learns each component separately. None compares
        "helmholtz" and "independent" by the criterion if there are as many components as coordinates, and is
        "independent" otherwise. Only "helmholtz" splits the field into parts. For an operator-valued kernel, its
        weights and length scales are the starting point of the search.
    alpha : float > 0, optional
        Noise variance; chosen by default. With `robust`, the starting point of its search.
    profile : "auto", scalar kernel, or list of them
        Profiles of the named kernels, compared by the criterion. "auto" compares Gaussian, Matern 5/2 and 3/2 and, for
        independent components, Matern 1/2. Without a criterion the first one is used.
    criterion : "evidence", "loo" or None
        How weights and length scales are chosen: by the evidence (marginal likelihood) or by the squared leave-one-out
        error (leave-one-group-out with the `groups` of `fit`). None keeps the given ones.
    robust : bool
        Detect outliers (vector field consensus): each observation gets an inlier probability, which weights it.
    fit_intercept : bool
        Add an unpenalised constant vector. It has neither curl nor divergence, and counts as `rest`.
    landmarks : int or (m, p) array, optional
        Sparse approximation with that many points, or with these points, for many observations.
    tuning_size : int
        Maximum number of rows, drawn at random, on which weights and length scales are chosen. Kernels are compared on
        160 of them, half of which are nearest neighbours of the others.
    restarts : int from 1 to 4
        Number of starting points of the search.
    solver, chunk_size, random_state
        As in `OVKRidge`.

    Attributes
    ----------
    kernel_, alpha_ : chosen kernel and noise variance
    criterion_values_ : criterion per observed number at the end of each search with the chosen kernel; lower is better
    compared_ : dict from kernel names to their criterion per observed number; None without a criterion
    inlier_probability_ : (n,) with `robust`, else None
    inliers_ : (n,) booleans, probability above one half, or None
    and those of `OVKRidge`

    See Also
    --------
    OVKRidge, tune, ovk.ovkernels.CurlFree, ovk.ovkernels.DivFree

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import VectorField
    >>> from ovk.datasets import make_vector_field
    >>> sample = make_vector_field(80, noise=0.05, random_state=0)
    >>> model = VectorField().fit(sample.data, sample.target)
    >>> x = np.array([[0.1, -0.2], [0.4, 0.3]])
    >>> parts = model.decompose(x)
    >>> print(f"{np.abs(parts.curl_free - sample.field.curl_free(x)).max():.1f}")
    0.1
    >>> np.allclose(sum(parts), model.predict(x)), model.curl(x).shape, model.divergence(x).shape
    (True, (2,), (2,))
    """

    _stored = {"criterion_values_": "* inf"}

    _default_factories = {"kernel": None}

    kernel: Any = None
    alpha: float | None = None
    _: KW_ONLY
    profile: Any = "auto"
    criterion: str | None = "evidence"
    robust: bool = False
    fit_intercept: bool = False
    landmarks: Any = None
    tuning_size: int = 1000
    restarts: int = 2
    solver: Any = "auto"
    chunk_size: int = 4096
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None, groups: Any = None) -> Self:
        """Learn from points (n, p) and vectors (n, d); `task` is as in `OVKRidge.fit`.

        `sample_weight` (n,) is the number of times each row counts; divide relative weights by their mean. With
        criterion "loo", rows of the same group in `groups` (n,) are held out together, for example near-duplicates or
        spatial blocks.
        """
        with self._fitting(X, y):
            check_choice(self.criterion, "criterion", ("evidence", "loo", None))
            if not 1 <= check_int(self.restarts, "restarts") <= 4:
                raise ValueError(f"restarts must be between 1 and 4, got {self.restarts!r}")
            alpha = None if self.alpha is None else positive(self.alpha, "alpha")
            if alpha is None and self.criterion is None and not self.robust:
                raise ValueError("alpha must be given with criterion=None, got None: pass the noise variance")
            X, targets = self._check_rows(X, y, sample_weight, task)
            n, keep = X.shape[0], targets.informative_rows()
            labels = None if groups is None else check_groups(groups, n)[keep]
            X, targets = X[keep], targets.rows(keep)
            self.learned_rows_ = None if keep.all() else keep
            rng = as_generator(self.random_state)
            kernels = {name: one.resolve(X, targets.d) for name, one in self._kernels_of(X.shape[1], targets.d).items()}
            kernel = next(iter(kernels.values()))
            self.criterion_values_: Any = None
            self.compared_: Any = None
            self.inlier_probability_: Any = None
            self.inliers_: Any = None
            if self.robust:
                kernel, alpha, probability = self._inliers(kernels, X, targets, alpha, rng)
                self.inlier_probability_ = np.zeros(n)
                self.inlier_probability_[keep] = probability
                self.inliers_ = self.inlier_probability_ > 0.5
                weight = probability if targets.weight is None else probability * targets.weight
                used = replace(targets, weight=np.where(probability > 1e-8, weight, 0.0))
                self.learned_rows_ = keep.copy()
                self.learned_rows_[keep] = used.informative_rows()
                X, targets = drop_unobserved_rows(X, used)
            elif self.criterion is not None:
                kernel, alpha = self._tune(kernels, X, targets, labels, alpha, rng)
            assert alpha is not None
            if self.landmarks is None:
                self._solve(kernel, alpha, X, targets, self.solver)
            else:
                points = choose_landmarks(self.landmarks, X, self.random_state, lambda rows: kernel)
                self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))
        return self

    def _default_kernel(self) -> OperatorKernel:
        if self._is_named():
            return next(iter(field_kernels(self.kernel, self.profile, 2, 2).values()))
        return as_operator_kernel(self.kernel)

    def _is_named(self) -> bool:
        return self.kernel is None or (isinstance(self.kernel, str) and self.kernel in KINDS)

    def _kernels_of(self, p: int, d: int) -> dict[str, OperatorKernel]:
        if self._is_named():
            return {name: clone(one) for name, one in field_kernels(self.kernel, self.profile, p, d).items()}
        if not (isinstance(self.profile, str) and self.profile == "auto"):
            raise ValueError(f"profile is only for the kernels {', '.join(KINDS)}: pass it to the kernel instead")
        return {"given": clone(self._default_kernel())}

    def _output_dim(self) -> int | None:
        return None if self.kernel is None else super()._output_dim()

    def _tune(
        self,
        kernels: dict[str, OperatorKernel],
        X: Any,
        targets: Targets,
        groups: Indices | None,
        alpha: float | None,
        rng: Any,
    ) -> tuple[OperatorKernel, float]:
        most = check_int(self.tuning_size, "tuning_size", least=2)
        if X.shape[0] > most:
            rows = np.sort(rng.choice(X.shape[0], size=most, replace=False))
            X, targets = X[rows], targets.rows(rows)
            groups = None if groups is None else groups[rows]
        options: dict[str, Any] = {"intercept": self.fit_intercept, "restarts": self.restarts, "rng": rng}
        chosen = choose_kernel(kernels, X, targets, groups, alpha, str(self.criterion), **options)
        self.criterion_values_, self.compared_ = chosen.values, chosen.compared
        return chosen.kernel, chosen.noise

    def _inliers(
        self, kernels: dict[str, OperatorKernel], X: Any, targets: Targets, alpha: float | None, rng: Any
    ) -> tuple[OperatorKernel, float, Array]:
        """Kernel, noise variance and inlier probabilities; the kernel is tuned on the inliers."""
        if not targets.complete:
            raise ValueError("robust=True requires complete vectors, got missing components: drop rows with nan")
        V, weight, kernel = targets.Y, targets.weight, next(iter(kernels.values()))
        given = self.landmarks
        landmarks = None if given is None else choose_landmarks(given, X, self.random_state, lambda rows: kernel)
        centre = V.mean(axis=0) if self.fit_intercept else np.zeros(V.shape[1])
        if self.criterion is not None:
            pairs = kernel.summands()
            total = sum(factor for factor, _ in pairs)
            power = float(((V - centre) ** 2).mean()) or 1.0
            kernel = WeightedSum([term for _, term in pairs], [power * factor / total for factor, _ in pairs])
        start = None if alpha is None else OutlierEstimate(np.ones(len(V)), alpha, 0.9, 0)
        smooth = smoother(kernel, X, V, landmarks, intercept=self.fit_intercept)
        found = estimate_outliers(smooth, V, weight, start=start)
        if self.criterion is not None:
            for _ in range(2):
                chosen = found.probability > 0.5
                if chosen.sum() < 3:
                    break
                kernel, variance = self._tune(kernels, X[chosen], targets.rows(chosen), None, None, rng)
                again = OutlierEstimate(found.probability, variance, found.share, 0)
                smooth = smoother(kernel, X, V, landmarks, intercept=self.fit_intercept)
                found = estimate_outliers(smooth, V, weight, start=again)
        if found.variance == 0:
            # All vectors are equal.
            return kernel, 1e-8 * (float((V**2).mean()) or 1.0), found.probability
        return kernel, found.variance, found.probability

    def part(self, name: str) -> Expansion | None:
        """One part of the field as a function: "curl-free", "div-free" or "rest"; None if it is zero."""
        check_is_fitted(self)
        check_choice(name, "name", ("curl-free", "div-free", "rest"))

        def kind(term: OperatorKernel) -> str:
            return "curl-free" if isinstance(term, CurlFree) else "div-free" if isinstance(term, DivFree) else "rest"

        field, summands = self.expansion_, self.kernel_.summands()
        chosen = [(weight, term) for weight, term in summands if kind(term) == name]
        offset = field.offset if name == "rest" else None
        if not chosen and offset is None:
            return None
        chosen = chosen or [(0.0, summands[0][1])]
        kernel = WeightedSum([term for _, term in chosen], [weight for weight, _ in chosen])
        return Expansion(kernel, field.support, field.C, offset)

    def decompose(self, X: Any) -> FieldParts:
        """The parts of the field at each row of X; their sum is `predict(X)`."""
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        parts = [self.part(name) for name in ("curl-free", "div-free", "rest")]
        zero = np.zeros((X.shape[0], self.n_outputs_))
        return FieldParts(*[zero.copy() if part is None else part(X) for part in parts])

    def divergence(self, X: Any) -> Array:
        """Divergence of the field at each row of X, in closed form, (n,)."""
        return np.asarray(np.einsum("nii->n", self._square_jacobian(X, "divergence")))

    def curl(self, X: Any) -> Array:
        """Curl of the field at each row of X, in closed form: (n,) in the plane, (n, 3) in space."""
        J = self._square_jacobian(X, "curl")
        if J.shape[1] == 2:
            return np.asarray(J[:, 1, 0] - J[:, 0, 1])
        if J.shape[1] != 3:
            raise ValueError(f"curl requires a field in 2 or 3 dimensions, got {J.shape[1]}")
        return np.stack([J[:, 2, 1] - J[:, 1, 2], J[:, 0, 2] - J[:, 2, 0], J[:, 1, 0] - J[:, 0, 1]], axis=1)

    def _square_jacobian(self, X: Any, what: str) -> Array:
        check_is_fitted(self)
        if self.n_outputs_ != self.n_features_in_:
            shape = f"{self.n_outputs_} components and {self.n_features_in_} coordinates"
            raise ValueError(f"{what} requires as many components as coordinates, got {shape}")
        return self.jacobian(X)
