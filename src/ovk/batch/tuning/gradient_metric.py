"""A linear map of the inputs, learned from the gradients of a regression."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Indices, Parameters, check_inputs, check_int, in_interval, positive
from ovk.batch.ridge.ridge import OVKRidge
from ovk.kernels import Gaussian, Laplacian, Mapped, Matern, ScalarKernel, median_distance


@dataclass(eq=False, repr=False)
class GradientMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Parameters):
    """Stretches inputs along the directions in which the outputs change, and shrinks them along the others.

    A kernel of |x - z| treats all directions equally, but few of them may matter. With f a kernel ridge regression of
    the outputs and J its Jacobian, the average outer product of gradients

        A = mean_i J(x_i)' J(x_i),      (p, p),

    measures the change of f along each direction. Inputs become A^(power / 2) x, so that distances are those of the
    metric A^power; f is fitted again in this metric, for a few steps (the recursive feature machines of Radhakrishnan,
    Beaglehole, Pandit and Belkin, 2024). A few thousand rows suffice, and any batch or online learner can use the map.

    Parameters
    ----------
    kernel : scalar or operator-valued kernel; default ``Gaussian()``
        Kernel of the regression, differentiable with respect to its inputs. A length scale of "median" follows the
        metric.
    alpha : float > 0
        Weight of the regression's penalty.
    steps : int
        Number of times the metric is learned.
    power : float in [0, 1]
        0 does not change the inputs; 1 follows the gradients fully, and may remove a direction in which the training
        rows happen not to vary.
    diagonal : bool
        Only scale the axes, by the diagonal of A: for axis-aligned kernels, such as a Laplacian.
    landmarks : int or (m, p) array, optional
        As in `OVKRidge`, for many rows.
    random_state : int, Generator or None
        Seed of the landmarks.

    Attributes
    ----------
    components_ : (p, p) the symmetric map, scaled to the squared norm p; inputs should have comparable scales
        (standardised)
    outer_product_ : (p, p) A, in units of the outputs squared over the inputs squared

    See Also
    --------
    OVKRidgeCV, OVKRidge

    Examples
    --------
    Only the sum of the first two of five inputs matters.

    >>> import numpy as np
    >>> from ovk import GradientMetric
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = np.sin(X[:, 0] + X[:, 1])
    >>> metric = GradientMetric().fit(X, y)
    >>> np.linalg.eigh(metric.outer_product_)[1][:, -1].round(1) + 0.0
    array([0.7, 0.7, 0. , 0. , 0. ])
    >>> metric.transform(X).shape
    (300, 5)
    """

    _stored = {"components_": "k n_features_in_", "outer_product_": "n_features_in_ n_features_in_"}

    kernel: Any = None
    alpha: float = 0.1
    _: KW_ONLY
    steps: int = 2
    power: float = 0.5
    diagonal: bool = False
    landmarks: Any = None
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from inputs (n, p) and outputs (n, d) or (n,), nan where one is missing."""
        steps, power = check_int(self.steps, "steps"), in_interval(self.power, "power", 0.0, 1.0)
        positive(self.alpha, "alpha")
        with self._fitting(X, y):
            X = check_inputs(self, X, dtype=np.float64)
            kernel = Gaussian() if self.kernel is None else self.kernel
            U, R = X, np.eye(X.shape[1])
            for _ in range(steps):
                f = OVKRidge(clone(kernel), self.alpha, landmarks=self.landmarks, random_state=self.random_state)
                J = f.fit(U, y).jacobian(U).reshape(-1, X.shape[1])
                # The chain rule gives the gradient with respect to the original inputs.
                if self.diagonal:
                    G = J * np.diagonal(R)
                    R = np.diag(_roots(np.einsum("ij,ij->j", G, G), power))
                    U = X * np.diagonal(R)
                else:
                    G = J @ R
                    values, Q = np.linalg.eigh(G.T @ G)
                    R = (Q * _roots(values, power)) @ Q.T
                    U = X @ R
            self.components_, self.outer_product_ = R, G.T @ G / len(X)
        return self

    def transform(self, X: Any) -> Array:
        """Map the inputs, (n, p)."""
        check_is_fitted(self)
        return np.asarray(check_inputs(self, X, reset=False, dtype=np.float64) @ self.components_)


def _roots(values: Array, power: float) -> Array:
    """Eigenvalues of A^(power / 2) from those of A, (p,), scaled to the squared norm p; ones if all are zero."""
    largest = float(values.max())
    if not largest > 0:
        return np.ones(len(values))
    roots = np.maximum(values / largest, 0.0) ** (0.5 * power)
    return np.asarray(roots * np.sqrt(len(values) / (roots @ roots)))


# Kernels in a learned metric, and two halves of the rows that evaluate them.
#
# A metric is fitted to the outputs of its rows: their leave-one-out errors can be too small by a factor of four. So it
# is learned from one half of the rows and evaluated by the leave-one-out errors of the other half, and vice versa. The
# final metric is learned from all rows.

#: Minimum number of rows, or groups, to learn a metric from.
MIN_METRIC_ROWS = 50
#: Length scales in units of the median distance.
WIDTHS = (0.5, 1.0, 2.0, 4.0)


def halves(order: Indices, groups: Indices | None, *, time_order: bool = False) -> Indices:
    """(n,) 0 or 1, the half of each row: whole groups in a random `order` (n,) of rows, or earlier and later rows."""
    n = len(order)
    if time_order:
        return np.asarray(np.arange(n) >= n // 2, dtype=np.intp)
    _, unit = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
    # Groups in the order of their first rows.
    first = np.unique(unit[order], return_index=True)[1]
    return np.argsort(np.argsort(first))[unit] % 2


#: Kernels by the name of their metric, with steps, power and whether it only scales the axes.
METRICS = {
    "metric, Matern 3/2": (2, 0.5, False),
    "metric of axes, Laplacian": (3, 0.5, True),
    "metric of few axes, Laplacian": (5, 1.0, True),
}


def metric_kernels(X: Array, Y: Array, ridge: float, names: Collection[str] | None = None) -> dict[str, ScalarKernel]:
    """Matern kernels in a metric of all directions, and Laplacians in metrics of the axes, by name.

    Inputs X (n, p) have comparable scales, outputs Y (n, d) are standardised, nan where one is missing. `ridge` is the
    alpha of the regression whose gradients are used. Only metrics of kernels in `names`, by default all, are learned.
    """
    # Missing outputs become the mean, which shrinks the gradients but keeps their directions.
    Y = np.where(np.isnan(Y), 0.0, Y)
    result: dict[str, ScalarKernel] = {}
    for family, (steps, power, diagonal) in METRICS.items():
        widths = {f"{family} {f:g}": f for f in WIDTHS}
        if names is not None and not widths.keys() & set(names):
            continue
        metric = GradientMetric(Matern(1.5), ridge, steps=steps, power=power, diagonal=diagonal).fit(X, Y)
        R, distance = metric.components_, "cityblock" if diagonal else "euclidean"
        width = median_distance(X @ R, distance)
        for name, f in widths.items():
            result[name] = Mapped(Laplacian(f * width) if diagonal else Matern(1.5, f * width), R)
    return result
