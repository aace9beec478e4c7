"""The exact kernel forecaster of Azoury, Vovk and Warmuth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from ovk.base import Array, Indices, Mask, check_int, reads_snapshot
from ovk.kernels import Gaussian
from ovk.online.second_order import forecaster as common
from ovk.online.second_order.growing_cholesky import GrowingCholesky, RidgeForecast
from ovk.online.shared.learner import StreamRegressor, learns_length_scale
from ovk.online.shared.rows import LearnedRows
from ovk.ovkernels import Expansion, Gram, Separable

#: Rows of a panel of the factor.
PANEL_ROWS = 256


@dataclass(eq=False, repr=False)
class KAWV(StreamRegressor):
    """Online kernel ridge regression on all rows, by the forecaster of Azoury, Vovk and Warmuth.

    Row t is predicted by the function that minimises  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2 + |f(x_t)|^2. For every
    sequence with |y| <= B, its regret against every f is at most  alpha |f|^2 + B^2 sum_k log(1 + lambda_k / alpha),
    where lambda_k are the eigenvalues of the kernel matrix.

    The predictions follow from a Cholesky factor that grows with the stream. All n rows together take the time of one
    batch fit, O(n^3), and the result does not depend, to rounding, on the chunks in which rows arrive. Memory grows
    like n^2 / 2; `PKAWV` has bounded memory.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, default ``Gaussian() * Identity()``
        A scalar kernel treats outputs independently. A length scale of "median" is computed from the warm-up rows.
    alpha : float > 0
        Weight of the penalty.
    forecaster : "awv" or "ridge"
        "ridge" omits |f(x_t)|^2: progressive kernel ridge regression. It has no such bound, but predicts better if rows
        are few and leverages are large.
    clip : None, number or (low, high)
        Predictions are clipped to [-clip, clip] or [low, high].
    warm_up, on_invalid : see `OLOK`
        Number of rows that determine the units, and treatment of invalid rows.
    max_rows : int
        Maximum number of rows; exceeding it is an error. Memory is 4 n^2 bytes for each distinct eigenvalue of the
        output operator (with n d in place of n if outputs cannot be decoupled).

    Attributes
    ----------
    t_ : rows learned
    support_ : (t, p) their inputs, in the units of the learner
    dual_coef_ : (t, d) their coefficients in the ridge solution
    cumulative_loss_ : sum of the squared errors of all predictions, each made before its label was learned, in the same
        units
    input_units_, output_units_ : centre and scale chosen by the warm-up, None without one
    n_skipped_ : rows skipped by ``on_invalid="skip"``

    See Also
    --------
    PKAWV, OLOK, OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import KAWV
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (300, 1))
    >>> Y = np.sin(X) + [[0.0, 0.2]] + 0.1 * rng.standard_normal((300, 2))
    >>> model = KAWV(Gaussian(1.0) * MixedEffect(0.5), alpha=0.1)
    >>> progressive = model.predict_then_learn(X, Y)
    >>> round(float(np.mean((progressive[-100:] - Y[-100:]) ** 2)), 2)
    0.01
    """

    _default_factories = {"kernel": Gaussian}
    _state_classes = {"rows_": LearnedRows, "triangles_": GrowingCholesky}
    _stored = {"rows_": LearnedRows, "triangles_": list[GrowingCholesky | None], "entries_": "n int | None"}

    kernel: Any = None
    alpha: float = 1.0
    _: KW_ONLY
    forecaster: str = "awv"
    clip: Any = None
    warm_up: int | None = None
    on_invalid: str = "raise"
    max_rows: int = 10_000

    _start = common.start
    _learn = common.learn
    predict = common.predict

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        if state and not np.isfinite(self.rows_.arrays[0]).all():
            raise ValueError("KAWV.rows_ must have finite inputs")
        entries: Any = state.get("entries_")
        if entries is None:
            return
        if (
            entries.max(initial=-1) >= len(self.rows_) * self.n_outputs_
            or self.triangles_[0] is None
            or len(entries) != self.triangles_[0].n
        ):
            raise ValueError(f"KAWV.entries_ must be indices of {len(self.rows_)} rows and {self.n_outputs_} outputs")

    @property
    def support_(self) -> Array:
        """(t, p) inputs of all rows so far."""
        return self.rows_.X

    @property
    @reads_snapshot
    def expansion_(self) -> Expansion:
        """The ridge solution for all rows so far, f(x) = sum_i K(x, x_i) c_i."""
        d = self.n_outputs_
        if self.entries_ is None:
            parts = self.kernel_.gram(self.support_[:1]).rotation()
            assert parts is not None
            t = len(self.support_)
            pairs = zip(parts.groups, self.triangles_, strict=True)
            C = [np.zeros((t, g.stop - g.start)) if one is None else one.coefficients() for g, one in pairs]
            return Expansion(self.kernel_, self.support_, self._scale_by_roots(parts.join(C) / self.alpha))
        (triangle,) = self.triangles_
        full = np.zeros(len(self.support_) * d)
        assert triangle is not None
        full[self.entries_] = triangle.coefficients()[:, 0] / self.alpha
        return Expansion(self.kernel_, self.support_, self._scale_by_roots(full.reshape(-1, d)))

    @property
    def dual_coef_(self) -> Array:
        """Coefficients c_i of `expansion_`, (t, d)."""
        return np.asarray(self.expansion_.C)

    @reads_snapshot
    def memory_needed(self, n_rows: int) -> int:
        """Memory of the factor after `n_rows` rows, in bytes."""
        rows = n_rows if self.entries_ is None else n_rows * self.n_outputs_
        return 4 * rows**2 * sum(triangle is not None for triangle in self.triangles_)

    def _check_parameters(self) -> None:
        common.check_parameters(self)
        super()._check_parameters()
        check_int(self.max_rows, "max_rows")

    def _default_warm_up(self) -> int:
        return super()._default_warm_up() if learns_length_scale(self.kernel) else 0

    def _start_state(self, X: Array, d: int) -> None:
        #: All rows, with the roots of their weights.
        self.rows_ = LearnedRows.empty(X.shape[1], d)
        #: Entries (i d + q) in the factor if outputs are not decoupled, else None.
        self.entries_: Indices | None = None
        #: A factor for each group of outputs with the same scalar kernel, None where the kernel is zero.
        self.triangles_: list[GrowingCholesky | None] = []
        parts = self.kernel_.gram(X[:1]).rotation()
        if parts is not None:
            sizes = [group.stop - group.start for group in parts.groups]
            new = (None if parts.vanishes(q) else GrowingCholesky(k, PANEL_ROWS) for q, k in enumerate(sizes))
            self.triangles_ = list(new)
        else:
            self._merge_factors()

    def _add_inputs(self, count: int) -> None:
        self._widen(count)
        self.rows_.add_columns(count)

    def _merge_factors(self) -> None:
        """Replace the factors of the groups of outputs by one factor for all."""
        X, Y, roots = self.rows_.with_weights()
        weights = None if roots is None else roots**2
        self.rows_ = LearnedRows.empty(X.shape[1], Y.shape[1])
        self.entries_, self.triangles_ = np.empty(0, dtype=np.intp), [GrowingCholesky(1, PANEL_ROWS)]
        self._predict_and_update(X, Y, weights)

    def _check_capacity(self, Y: Array) -> None:
        rows = len(self.support_) + int((~np.isnan(Y)).any(axis=1).sum())
        if rows > self.max_rows:
            raise ValueError(
                f"max_rows is {self.max_rows}, but there would be {rows} rows, which require "
                f"{self.memory_needed(rows) / 1e6:.0f} MB: use PKAWV, whose memory is bounded, or increase max_rows"
            )

    def _numbers_per_row(self) -> int:
        d: int = self.n_outputs_
        return (len(self.support_) + 1) * (1 if self.entries_ is None else d) + d**2

    def _predict_and_update(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        observed = ~np.isnan(Y)
        if self.entries_ is None and (observed.any(axis=1) != observed.all(axis=1)).any():
            # A partly observed row couples the outputs.
            self._merge_factors()
        Z = np.empty(Y.shape)
        step = PANEL_ROWS if self.entries_ is None else max(1, PANEL_ROWS // self.n_outputs_)
        shrink = self.forecaster == "awv"
        start = 0
        while start < len(X):
            stop = start + step - len(self.support_) % step
            assert stop > start
            rows = slice(start, stop)
            some = None if weights is None else weights[rows]
            Z[rows] = self._learn_block(X[rows], Y[rows], observed[rows], some).predictions(shrink=shrink)
            start = stop
        return Z

    def _learn_block(self, X: Array, Y: Array, observed: Mask, weights: Array | None) -> RidgeForecast:
        learned: Mask = np.asarray(observed.any(axis=1))
        d = self.n_outputs_
        roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
        if self.entries_ is None:
            parts = self.kernel_.gram(X).rotation()
            assert parts is not None
            crosses = parts.with_grams(_terms(self.kernel_.gram(self.support_, X)))
            targets = roots[:, None] * (Y @ parts.vectors)
            ridge, h = np.zeros(Y.shape), np.zeros(Y.shape)
            for q, (group, triangle) in enumerate(zip(parts.groups, self.triangles_, strict=True)):
                if triangle is not None:
                    cross, own = crosses.matrix(q) / self.alpha, parts.matrix(q) / self.alpha
                    self._scale(cross, own, self.rows_.weights, None if weights is None else roots)
                    base = np.zeros((len(X), triangle.k))
                    found = triangle.predict_and_update(cross, own, base, targets[:, group], learned, weights=weights)
                    ridge[:, group], h[:, group] = found.ridge, found.H[:, None]
            ridge /= roots[:, None]
            forecast = RidgeForecast(ridge, h, parts.vectors)
        else:
            (triangle,) = self.triangles_
            assert triangle is not None
            seen = observed.reshape(-1)
            cross, own = self._stacked_cross(X), self.kernel_.gram(X).dense() / self.alpha
            self._scale(cross, own, None, None if weights is None else np.repeat(roots, d))
            base, targets = np.zeros((len(own), 1)), (roots[:, None] * Y).reshape(-1, 1)
            stacked, H, _ = triangle.predict_and_update(cross, own, base, targets, seen, d, weights)
            forecast = RidgeForecast(stacked.reshape(-1, d) / roots[:, None], H.reshape(-1, d, d))
            # Rows without labels are not in the support.
            number = len(self.support_) + np.cumsum(learned) - 1
            kept = (number[:, None] * d + np.arange(d))[observed]
            self.entries_ = np.concatenate([self.entries_, kept])
        self.rows_.append_weighted(None if weights is None else roots[learned], X[learned], Y[learned])
        return forecast

    @staticmethod
    def _scale(cross: Array, own: Array, before: Array | None, roots: Array | None) -> None:
        """Multiply Gram matrices in place by the roots of the weights of earlier and of new rows."""
        if before is not None:
            cross *= before[:, None]
        if roots is not None:
            cross *= roots
            own *= roots[:, None] * roots

    def _scale_by_roots(self, C: Array) -> Array:
        roots = self.rows_.weights
        return C if roots is None else roots[:, None] * C

    def _stacked_cross(self, X: Array) -> Array:
        if len(self.support_) == 0:
            return np.zeros((0, len(X) * self.n_outputs_))
        cross: Array = self.kernel_.gram(self.support_, X).dense()[self.entries_]
        cross /= self.alpha
        if self.rows_.weights is not None:
            assert self.entries_ is not None
            cross *= self.rows_.weights[self.entries_ // self.n_outputs_][:, None]
        return cross

    def _row_plan(self) -> Any:
        """Eigenvectors of the output operator, its groups of outputs, and the eigenvalue of each over alpha."""
        if self.entries_ is not None or not isinstance(self.kernel_, Separable):
            return None
        parts = self.kernel_.gram(self.support_[:1]).rotation()
        if parts is None or len(parts.grams) != 1:
            return None
        eigenvalues = (parts.weights[:, 0] / self.alpha).tolist()
        return parts.vectors, list(zip(parts.groups, eigenvalues, strict=True))

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        assert self._fast_path is not None
        if len(self.rows_) >= self.max_rows:
            self._check_capacity(y[None])
        X, y = self._row_in_units(X, y)
        V, groups = self._fast_path.plan
        cross, own = self._row_gram(X)
        targets, ridge, H = y if len(y) == 1 else y @ V, np.zeros(len(y)), np.zeros(len(y))
        triangles = list(self.triangles_)
        for q, ((group, t), triangle) in enumerate(zip(groups, self.triangles_, strict=True)):
            if triangle is not None:
                base = np.zeros(triangle.k)
                triangles[q], ridge[group], H[group] = triangle.after_row(t * cross, t * own, base, targets[group])
        rows = self.rows_._snapshot()
        rows.append_weighted(None, X, y[None])
        return common.after_row(self, y, ridge, H, V, rows_=rows, triangles_=triangles)

    def _predict_row(self, X: Array) -> tuple[Array, Array, Array]:
        """Ridge prediction, leverages and eigenvectors, as `row_forecast` takes them."""
        assert self._fast_path is not None
        V, groups = self._fast_path.plan
        cross, own = self._row_gram(X)
        ridge, H = np.zeros(len(V)), np.zeros(len(V))
        for (group, t), triangle in zip(groups, self.triangles_, strict=True):
            if triangle is not None:
                _, ridge[group], H[group] = triangle.predict_row(t * cross, t * own, np.zeros(triangle.k))
        return ridge, H, V

    def _row_gram(self, X: Array) -> tuple[Array, float]:
        """Scalar kernel of a row (1, p) with the rows so far, times the roots of their weights, and with the row."""
        assert isinstance(self.kernel_, Separable)
        cross, roots = self.kernel_.scalar(X, self.support_)[0], self.rows_.weights
        return cross if roots is None else roots * cross, float(self.kernel_.scalar.diag(X)[0])

    def _forecast(self, X: Array) -> RidgeForecast:
        d = self.n_outputs_
        diagonal = self.kernel_.diagonal_blocks(X) / self.alpha
        if self.entries_ is not None:
            (triangle,) = self.triangles_
            assert triangle is not None
            base = np.zeros((len(X) * d, 1))
            stacked, H, _ = triangle.predict(self._stacked_cross(X), diagonal, base, per=d)
            return RidgeForecast(stacked.reshape(-1, d), H)
        parts = self.kernel_.gram(X[:1]).rotation()
        assert parts is not None
        cross = parts.with_grams(_terms(self.kernel_.gram(self.support_, X)))
        ridge, h = np.zeros((len(X), d)), np.zeros((len(X), d))
        for q, (group, triangle) in enumerate(zip(parts.groups, self.triangles_, strict=True)):
            if triangle is not None:
                v = parts.vectors[:, group.start]
                own = np.einsum("nab,a,b->n", diagonal, v, v)
                base = np.zeros((len(X), triangle.k))
                ridge[:, group], H, _ = triangle.predict(self._scale_by_roots(cross.matrix(q) / self.alpha), own, base)
                h[:, group] = H[:, None]
        return RidgeForecast(ridge, h, parts.vectors)

    def _covariance(self, X: Array, forecast: RidgeForecast) -> Array:
        # H is the posterior covariance in units of the noise variance alpha.
        return self.alpha * forecast.leverages()


def _terms(gram: Gram) -> list[Array]:
    return [G for G, _ in gram.terms() or []]
