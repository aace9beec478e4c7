"""Operators from streams: pairs of functions arrive one after the other, and any online learner stands between them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_inputs, check_int, in_interval, positive, reads_snapshot, thread_for_row
from ovk.batch import fill_gaps, stretch
from ovk.curves import Grid, PrincipalComponents, as_grid
from ovk.features import KORS, Nystrom
from ovk.kernels import Gaussian, Linear
from ovk.online.second_order.pkawv import PKAWV
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows


@dataclass(eq=False, repr=False)
class OnlineOperator(StreamRegressor):
    """Learns an operator from a stream: rows of X and y are functions, each pair predicted before it is learned.

    The first functions, a warm-up, choose orthonormal bases of inputs and outputs, their principal components in the
    inner product of the grids. From then on an online learner works on coordinates, and a function costs it as much on
    a fine grid as on a coarse one. Its squared loss is the integral of the squared error: `OLOK` takes steps of
    stochastic gradient descent in the space of operators, `PKAWV` and `KAWV` are the ridge forecasters in it,
    `OnlineMovKL` weighs kernels, and what is known of their regret holds for the functions' parts in the bases.

    Parameters
    ----------
    learner : online learner of `ovk`, optional
        Sees inputs of mean square norm 1 and outputs of mean square 1, without a warm-up of its own. By default
        progressive ridge regression (`PKAWV`) with a Gaussian beside a linear kernel, on at most 500 features.
    input_grid, output_grid : `Grid`, `ProductGrid` or points, optional
        Where the columns of X and y are: sums become integrals, and functions can be predicted on other grids.
    decay : float >= 0
        Power of their scales by which whitened input coordinates are stretched; with 1 distances are those of the
        functions, less attends more to their small parts.
    tol : float in [0, 1]
        Share of the functions' root mean square that coordinates may leave out.
    max_components : int
        Most coordinates of inputs, and of outputs.
    warm_up : int, optional
        Functions that choose the bases, 200 by default. They are predicted from those before them, at first by their
        mean.
    on_invalid : "raise" or "skip"
        What to do with rows that hold nan or inf in X or inf in y.

    Attributes
    ----------
    inputs_, outputs_ : `PrincipalComponents` of both; `outputs_.beyond` is the share that no prediction can reach
    learner_ : the learner between the coordinates
    n_skipped_ : rows skipped by ``on_invalid="skip"``
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OnlineOperator
    >>> from ovk.datasets import make_burgers
    >>> waves = make_burgers(400, size=64, viscosity=0.05, random_state=0)
    >>> model = OnlineOperator(input_grid=waves.grid, output_grid=waves.grid)
    >>> progressive = model.predict_then_learn(waves.data, waves.target)
    >>> errors = np.linalg.norm(progressive - waves.target, axis=1) / np.linalg.norm(waves.target, axis=1)
    >>> bool(errors[300:].mean() < 0.2 * errors[:20].mean())
    True
    """

    learner: Any = None
    _: KW_ONLY
    input_grid: Any = None
    output_grid: Any = None
    decay: float = 1.0
    tol: float = 1e-4
    max_components: int = 200
    warm_up: int | None = None
    on_invalid: str = "raise"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    @reads_snapshot
    def predict(self, X: Any, *, grid: Any = None) -> Array:
        """Predict output functions without learning.

        Parameters
        ----------
        X : (n, p) input functions
        grid : points, `Grid` or `ProductGrid`, optional
            Where to evaluate the functions, by cubic splines between the points of `output_grid`.

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
            raise ValueError(
                f"learner must be an online learner of ovk, such as OLOK() or PKAWV(), got {self.learner!r}"
            )
        positive(self.decay, "decay", zero=True)
        in_interval(self.tol, "tol", 0.0, 1.0)
        check_int(self.max_components, "max_components")
        if self._warm_up_rows() < 1:
            raise ValueError("warm_up must be at least 1: the first functions choose the bases, got 0")
        super()._check_parameters()

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False, unsupervised: bool = False) -> Rows:
        rows = super()._checked(X, y, first=first, whole=whole)
        for grid, name, count, of in (
            (self.input_grid, "input_grid", rows.X.shape[1], "X"),
            (self.output_grid, "output_grid", rows.Y.shape[1], "y"),
        ):
            if grid is not None and len(as_grid(grid)) != count:
                raise ValueError(f"{name} has {len(as_grid(grid))} points but {of} has {count} columns")
        return rows

    def _refuse_weights(self) -> None:
        raise ValueError("OnlineOperator cannot take sample_weight: AutoStream, OLOK, KAWV and PKAWV can")

    # Coordinates in the place of units --------------------------------------------------------------------------------

    def _choose_units(self, X: Array, Y: Array) -> None:
        tol, most = float(self.tol), int(self.max_components)
        self.inputs_ = PrincipalComponents.of(X, _grid(self.input_grid), tol, most)
        self.outputs_ = PrincipalComponents.of(_filled(Y), _grid(self.output_grid), tol, most)
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
            # Columns scaled apart would be no functions any more; and the rows of this warm-up come all at once.
            self.learner_.set_params(warm_up=0)

    def _learn(self, rows: Rows) -> Array:
        found: Array = self.learner_.predict_then_learn(rows.X, rows.Y)
        return found


def coordinates_with_gaps(basis: PrincipalComponents, Y: Array) -> Array:
    r"""Coordinates (n, J) of functions (n, d) with nan where they were not observed; nan for those not observed at all.

    With c_j of the variances s_j^2 of the basis, and tau^2 of what it leaves out at a point, the values seen,
    y = V c + e, say most probably

        c = (V' V + tau^2 S^-2)^-1 V' y,   that is  S (S V' V S + tau^2 I)^-1 S V' y  with scales that may be 0.
    """
    seen = ~np.isnan(Y)
    whole = seen.all(axis=1)
    found = np.full((len(Y), len(basis.scales)), np.nan)
    found[whole] = basis.coordinates(Y[whole])
    roots = np.ones(Y.shape[1]) if basis.grid is None else basis.grid.roots()
    s = basis.scales
    total = float(s @ s)
    # Not less than what rounding leaves, so that few points still have an answer.
    tau2 = max(basis.beyond**2, 1e-8) * max(total, np.finfo(float).tiny) / Y.shape[1]
    for i in np.flatnonzero(seen.any(axis=1) & ~whole):
        A = basis.vectors[seen[i]] * s
        y = ((Y[i] - basis.mean) * roots)[seen[i]]
        found[i] = s * np.linalg.solve(A.T @ A + tau2 * np.eye(len(s)), A.T @ y)
    return found


def _filled(Y: Array) -> Array:
    """Functions of a warm-up with their gaps filled; points that were never seen are 0."""
    seen = ~np.isnan(Y)
    if seen.all():
        return Y
    points = seen.any(axis=0)
    filled = np.zeros_like(Y)
    if points.any():
        filled[:, points] = fill_gaps(Y[:, points])
    return filled


def _grid(grid: Any) -> Grid | None:
    return None if grid is None else as_grid(grid)
