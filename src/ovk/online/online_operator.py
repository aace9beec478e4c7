"""Online operator learning from a stream of pairs of functions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_inputs, check_int, in_interval, positive, reads_snapshot, thread_for_row
from ovk.batch import fill_gaps, stretch
from ovk.curves import PrincipalComponents, as_grid
from ovk.features import KORS, Nystrom
from ovk.kernels import Gaussian, Linear
from ovk.online.second_order.pkawv import PKAWV
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows


@dataclass(eq=False, repr=False)
class OnlineOperator(StreamRegressor):
    """Online operator learning: each row of X and y is a function on a grid.

    The warm-up chooses orthonormal bases of inputs and outputs: their principal components in the inner product of the
    grids. An online learner then works on coordinates, at a cost that does not depend on the grid. Its squared loss is
    the integral of the squared error, so the regret bounds of the learner hold for the projections of the functions.

    Parameters
    ----------
    learner : online learner of `ovk`, optional
        Receives inputs of mean squared norm 1 and outputs of mean square 1, without its own warm-up. By default
        progressive ridge regression (`PKAWV`) with the sum of a Gaussian and a linear kernel, on at most 500 features.
    input_grid, output_grid : `Grid`, `ProductGrid` or points, optional
        Points of the columns of X and y: sums become integrals, and functions can be predicted on other grids.
    decay : float >= 0
        Whitened input coordinates are multiplied by this power of their scales: 1 gives the distances of the functions,
        and smaller values more weight to minor components.
    tol : float in [0, 1]
        Share of the functions' root mean square that coordinates may omit.
    max_components : int
        Maximum number of coordinates of inputs, and of outputs.
    warm_up : int, optional
        Number of rows that determine the bases, 200 by default. They are predicted from the rows before them, at first
        by their mean.
    on_invalid : "raise" or "skip"
        How to treat rows with nan or inf in X or inf in y.

    Attributes
    ----------
    inputs_, outputs_ : `PrincipalComponents` of both; `outputs_.beyond` is the share outside the basis
    learner_ : the learner on the coordinates
    n_skipped_ : rows skipped by ``on_invalid="skip"``
    n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    OperatorRidge, PKAWV, OLOK

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OnlineOperator
    >>> from ovk.datasets import make_burgers
    >>> waves = make_burgers(400, size=64, viscosity=0.05, random_state=0)
    >>> model = OnlineOperator(input_grid=waves.grid, output_grid=waves.grid)
    >>> progressive = model.predict_then_learn(waves.data, waves.target)
    >>> errors = np.linalg.norm(progressive - waves.target, axis=1) / np.linalg.norm(waves.target, axis=1)
    >>> print(f"{errors[:20].mean():.2f} {errors[300:].mean():.2f}")
    1.18 0.18
    """

    _poor_score = True
    _stored = {"size_": float, "learner_": StreamRegressor, "inputs_ outputs_": PrincipalComponents}

    learner: Any = None
    _: KW_ONLY
    input_grid: Any = None
    output_grid: Any = None
    decay: float = 1.0
    tol: float = 1e-4
    max_components: int = 200
    warm_up: int | None = None
    on_invalid: str = "raise"

    @reads_snapshot
    def predict(self, X: Any, *, grid: Any = None) -> Array:
        """Predict output functions without learning.

        Parameters
        ----------
        X : (n, p) input functions
        grid : points, `Grid` or `ProductGrid`, optional
            Points at which to evaluate the functions, by cubic splines on `output_grid`.

        Returns
        -------
        (n, d) on the output grid, or (n, m) on another; (n,) if y was one-dimensional
        """
        check_is_fitted(self, "learner_")
        X = check_inputs(self, X, reset=False, dtype=np.float64)
        with thread_for_row() if len(X) == 1 else nullcontext():
            Z = self._inputs(X)
            values = self.outputs_.functions(self.size_ * self.learner_.predict(Z).reshape(len(Z), -1), grid)
        return values[:, 0] if self.single_output_ else values

    def _check_parameters(self) -> None:
        if self.learner is not None and not hasattr(self.learner, "predict_then_learn"):
            allowed = "an online learner of ovk, such as OLOK() or PKAWV()"
            raise ValueError(f"learner must be {allowed}, got {self.learner!r}")
        positive(self.decay, "decay", zero=True)
        in_interval(self.tol, "tol", 0.0, 1.0)
        check_int(self.max_components, "max_components")
        if self._warm_up_rows() < 1:
            raise ValueError("warm_up must be at least 1, got 0")
        super()._check_parameters()

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False, unsupervised: bool = False) -> Rows:
        rows = super()._checked(X, y, first=first, whole=whole)
        for grid, name, count, of in (
            (self.input_grid, "input_grid", rows.X.shape[1], "X"),
            (self.output_grid, "output_grid", rows.Y.shape[1], "y"),
        ):
            if grid is not None and len(as_grid(grid)) != count:
                found = len(as_grid(grid))
                raise ValueError(f"{name} must have one point for each of the {count} columns of {of}, got {found}")
        return rows

    def _check_weights_supported(self) -> None:
        raise ValueError("OnlineOperator does not support sample_weight; AutoStream, OLOK, KAWV and PKAWV do")

    # Coordinates instead of units -------------------------------------------------------------------------------------

    def _choose_units(self, X: Array, Y: Array) -> None:
        tol, most = float(self.tol), int(self.max_components)
        grids = [None if grid is None else as_grid(grid) for grid in (self.input_grid, self.output_grid)]
        self.inputs_ = PrincipalComponents.of(X, grids[0], tol, most)
        self.outputs_ = PrincipalComponents.of(_filled(Y), grids[1], tol, most)
        size = float(np.linalg.norm(self.outputs_.scales))
        self.size_ = size if size > 0 else 1.0

    def _inputs(self, X: Array) -> Array:
        scales = self.inputs_.scales
        return self.inputs_.coordinates(X) / self.inputs_.unit * stretch(scales, float(self.decay))

    def _rows_in_units(self, rows: Rows) -> Rows:
        return rows._replace(X=self._inputs(rows.X), Y=coordinates_with_gaps(self.outputs_, rows.Y) / self.size_)

    def _outputs_of_user(self, Z: Array) -> Array:
        return self.outputs_.functions(self.size_ * Z)

    def _start(self, rows: Rows) -> None:
        features = Nystrom(KORS(mu=1e-3), budget=500)
        # Ridge rather than the forecaster, whose shrinkage slows learning: operators often have no noise.
        default = PKAWV(Linear() + Gaussian(), 1e-2, features, forecaster="ridge", random_state=0)
        self.learner_ = default if self.learner is None else clone(self.learner)
        if "warm_up" in self.learner_.get_params(deep=False):
            # Coordinates must not be scaled separately.
            self.learner_.set_params(warm_up=0)

    def _learn(self, rows: Rows) -> Array:
        return np.asarray(self.learner_.predict_then_learn(rows.X, rows.Y))


def coordinates_with_gaps(basis: PrincipalComponents, Y: Array) -> Array:
    r"""Coordinates (n, J) of functions (n, d) with missing values, nan for functions without any values.

    With variances s_j^2 of c_j, and tau^2 of the residual at a point, the observed values y = V c + e have the
    posterior mode

        c = (V' V + tau^2 S^-2)^-1 V' y = S (S V' V S + tau^2 I)^-1 S V' y,

    where the last form allows scales of 0.
    """
    seen = ~np.isnan(Y)
    whole = seen.all(axis=1)
    found = np.full((len(Y), len(basis.scales)), np.nan)
    found[whole] = basis.coordinates(Y[whole])
    roots = np.ones(Y.shape[1]) if basis.grid is None else basis.grid.roots()
    s = basis.scales
    total = float(s @ s)
    # Above the rounding error, so that the system is regular even for few points.
    tau2 = max(basis.beyond**2, 1e-8) * max(total, np.finfo(float).tiny) / Y.shape[1]
    for i in np.flatnonzero(seen.any(axis=1) & ~whole):
        A = basis.vectors[seen[i]] * s
        y = ((Y[i] - basis.mean) * roots)[seen[i]]
        found[i] = s * np.linalg.solve(A.T @ A + tau2 * np.eye(len(s)), A.T @ y)
    return found


def _filled(Y: Array) -> Array:
    """Fill missing values; points without any values are 0."""
    seen = ~np.isnan(Y)
    if seen.all():
        return Y
    points = seen.any(axis=0)
    filled = np.zeros_like(Y)
    if points.any():
        filled[:, points] = fill_gaps(Y[:, points])
    return filled
