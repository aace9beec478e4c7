"""The kernel forecaster of Azoury, Vovk and Warmuth on finitely many features."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import SIZE, Array, Mask, check_choice, check_int, equal, in_interval, reads_snapshot, snapshot_of
from ovk.features import DEPENDENCE_TOL, KORS, Dictionary, FeatureSpec, FeatureSums, Given, Nystrom, StreamFeatures
from ovk.kernels import Gaussian
from ovk.online.second_order import forecaster as common
from ovk.online.second_order.block_ridge import BlockRidge, OutputGroup, ProgressiveRidge, RidgeRows, SumsOfEachOutput
from ovk.online.second_order.coupled_ridge import CoupledRidge
from ovk.online.second_order.decaying_ridge import ResidualLimits
from ovk.online.second_order.growing_cholesky import RidgeForecast
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.learner import StreamRegressor, learns_length_scale
from ovk.online.shared.rows import LearnedRows
from ovk.online.theory import capacity_exponent, suggest
from ovk.operators import Identity, OutputOperator
from ovk.ovkernels import Separable

# Outputs are decoupled in the eigenvectors of the output operator as long as every row is complete. From the first
# incomplete row on they have separate sums, coupled by the operator unless it is diagonal (`CoupledRidge`).

#: Limits on the rows, and on the numbers (16 MB), of features computed at once, unless a block has more.
MAX_PIECE_ROWS, MAX_FEATURE_NUMBERS = 1024, 1 << 21


@dataclass(eq=False, repr=False)
class PKAWV(StreamRegressor):
    """Online kernel ridge regression on m features, in O(m^2) time per row and bounded memory.

    Row t is predicted by the function that minimises  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2 + |f(x_t)|^2  over the
    span of the features (the projected forecaster of Azoury, Vovk and Warmuth). The excess of its regret over that of
    the exact forecaster (`KAWV`) depends on the features:

    - ``Nystrom(past="exact")``, which stores all rows, has the published bound: with a `KORS` dictionary of scale mu, a
      multiple of m n mu / alpha (`projected_regret_bound`).
    - ``Nystrom(past="projected")``, the default, has the bound 2 |f| sqrt(L spill) + |f|^2 spill, where L is the loss
      of f and spill the sum of k(x_t, x_t) - |phi_t(x_t)|^2 (`spilled_regret_bound`).
    - Features chosen beforehand (`Taylor`, `Fourier`) have both bounds; for `Fourier` features f is a function of their
      kernel, not of the given one.

    Rows are learned in exact blocks: the result does not depend, to rounding, on the chunks in which rows arrive.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, default ``Gaussian() * Identity()``
        A scalar kernel treats outputs independently. A length scale of "median" is computed from the warm-up rows.
    alpha : float > 0
        Weight of the penalty.
    features : `Nystrom`, `Taylor`, `Fourier` or `OperatorFourier` of `ovk.features`
        Features that approximate the kernel, by default Nystrom features of the first 100 rows.
    forecaster : "awv" or "ridge"
        "ridge" omits |f(x_t)|^2: progressive ridge regression.
    discount : float in (0, 1]
        A row k rows ago has the weight discount^k. In each block of min(128, log 2 / log(1 / discount)) rows the
        penalty decays as well, with the weight alpha in the middle.
    window : int, optional
        Number of rows after which a row is forgotten, in steps of an eighth of the window.
    loss : "squared" or "huber"
        "huber": from the 51st row on, residuals of the ridge prediction are clipped to three times the largest recent
        one, which caps the influence of outliers. The result is exact for the clipped labels.
    clip : None, number or (low, high)
        Predictions are clipped to [-clip, clip] or [low, high].
    warm_up, on_invalid : see `OLOK`
        Number of rows that determine the units, 0 by default for a `Given` dictionary; treatment of invalid rows.
    random_state : int, Generator or None
        Source of random features and dictionaries.

    Attributes
    ----------
    t_ : rows learned
    features_ : the current features
    n_features_ : their number m
    support_ : (N, p) points of the dictionary that give a feature, with Nystrom features
    cumulative_loss_ : sum of the squared errors of all predictions, each made before its label was learned, in the
        units of the learner
    input_units_, output_units_ : centre and scale chosen by the warm-up, None without one
    n_skipped_ : rows skipped by ``on_invalid="skip"``

    See Also
    --------
    PKAWVClassifier, KAWV, Nystrom, AutoStream

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWV
    >>> from ovk.features import KORS, Nystrom
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 1))
    >>> Y = np.sin(X) + [[0.0, 0.2]] + 0.1 * rng.standard_normal((2000, 2))
    >>> model = PKAWV(Gaussian(1.0) * MixedEffect(0.5), alpha=0.1, features=Nystrom(KORS(mu=1e-3)), random_state=0)
    >>> progressive = model.predict_then_learn(X, Y)
    >>> round(float(np.mean((progressive[-1000:] - Y[-1000:]) ** 2)), 3), len(model.support_) < 100
    (0.01, True)
    """

    _default_factories = {"kernel": Gaussian}
    # A dictionary and units from rows with constant labels, such as a room at night, do not suit later rows.
    _repeats_warm_up = True
    _saved_state = ("_left",)
    _state_classes = {
        "features_": StreamFeatures,
        "ridges_": ProgressiveRidge,
        "past_": LearnedRows,
        "limits_": ResidualLimits,
    }
    _stored = {"ridges_": list[ProgressiveRidge], "features_": StreamFeatures, "vectors_": "d d | None", "_left": SIZE}

    kernel: Any = None
    alpha: float = 1.0
    features: FeatureSpec | None = None
    _: KW_ONLY
    forecaster: str = "awv"
    discount: float = 1.0
    window: int | None = None
    loss: str = "squared"
    clip: Any = None
    warm_up: int | None = None
    on_invalid: str = "raise"
    random_state: Any = None

    _start = common.start
    _learn = common.learn
    predict = common.predict

    @property
    def n_features_(self) -> int:
        """Number of features."""
        return self.features_.m

    @property
    @reads_snapshot
    def support_(self) -> Array:
        """(N, p) points of the dictionary that give a feature, in the order in which they were added."""
        if not isinstance(self.features_, Dictionary):
            raise AttributeError(f"{type(self.features).__name__} features have no support points")
        # KORS also keeps points that depend on the others and give no feature.
        points = self.features_.points[np.unique(self.features_.keep // self.features_.per)]
        return points if self.input_units_ is None else self.input_units_.predictions(points)

    @classmethod
    def auto(
        cls, kernel: Any = None, n: int | None = None, *, p: int | None = None, budget: int = 500, **params: Any
    ) -> Self:
        """A learner with the parameters suggested by theory, for outputs and kernel values of order one.

        alpha and the scale mu of the `KORS` dictionary are those of `suggest`: alpha = 1 and mu = n^-2 for the Gaussian
        kernel; for a rougher kernel they balance the terms of the regret. mu is at least 1e-6, which is what features
        with a projected past resolve.

        Parameters
        ----------
        kernel : scalar or operator-valued kernel; default ``Gaussian()``
        n : approximate number of rows; default 10,000
        p : number of inputs, required for kernels that are not analytic (Matern, Laplacian)
        budget : maximum size of the dictionary
        params : other parameters of `PKAWV`

        Examples
        --------
        >>> from ovk import PKAWV
        >>> from ovk.kernels import Gaussian
        >>> PKAWV.auto(Gaussian(1.0), n=1000)
        PKAWV(kernel=Gaussian(1.0),
              features=Nystrom(selection=KORS(mu=1e-06), budget=500))
        """
        kernel = Gaussian() if kernel is None else kernel
        rows = 10_000 if n is None else check_int(n, "n")
        most = check_int(budget, "budget")
        if p is None and capacity_exponent(kernel, 1) != 0:
            raise ValueError(f"p, the number of inputs, is required for {kernel!r}, whose capacity depends on it")
        found = suggest(kernel, rows, 1 if p is None else p)
        if found.m > most:
            # With fewer points than the best rate needs, another alpha is optimal.
            found = suggest(kernel, rows, 1 if p is None else p, m=most)
        # A projected past ignores smaller distances to the dictionary.
        return cls(kernel, found.alpha, Nystrom(KORS(max(found.mu, DEPENDENCE_TOL)), budget=most), **params)

    def merge(self, other: PKAWV) -> Self:
        """Add what another learner has learned, exactly as from its rows; the other does not change.

        Both must have the same parameters and features: a `Given` dictionary, or features from the same random state.
        """
        check_is_fitted(self, "kernel_")
        check_is_fitted(other, "kernel_")
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        names = [name for name in mine if name not in ("random_state", "kernel", "features", "on_invalid")]
        if differing := [name for name in names if not equal(mine[name], theirs[name])]:
            name = differing[0]
            raise ValueError(f"learners to merge must have the same {name}, got {mine[name]!r} and {theirs[name]!r}")
        if self.held_ is not None or other.held_ is not None or _units(self) != _units(other):
            raise ValueError("learners to merge must have the same units: set warm_up=0 for both and scale the rows")
        if self.loss == "huber":
            raise ValueError("learners with loss='huber' cannot be merged: use loss='squared'")
        if self.discount != 1 or self.window is not None:
            raise ValueError("learners that forget cannot be merged: use discount=1 and window=None")
        same = equal(self.kernel_, other.kernel_) and self.n_outputs_ == other.n_outputs_
        if not same or not self.features_.same(other.features_):
            raise ValueError(
                "learners to merge must have the same kernel and features: give both the same dictionary, "
                "Nystrom(Given(points)), or the same random_state"
            )
        others = copy.deepcopy(other)
        with self._transaction() as work:
            if (work.vectors_ is None) != (others.vectors_ is None):
                (work if others.vectors_ is None else others)._couple()
            work._commit()
            others._commit()
            for one, two in zip(work.ridges_, others.ridges_, strict=True):
                one.merge(two)
            if work.past_ is not None and others.past_ is not None:
                work.past_.append(*others.past_.arrays)
            work._start_block()
            work.t_ += others.t_
            work.n_skipped_ += others.n_skipped_
            work.cumulative_loss_ += others.cumulative_loss_
        return self

    def _plan(self) -> FeatureSpec:
        plan = Nystrom() if self.features is None else self.features
        if not isinstance(plan, FeatureSpec):
            raise ValueError(f"features must be Nystrom, Taylor, Fourier or OperatorFourier, got {plan!r}")
        return plan

    def _default_warm_up(self) -> int:
        # A `Given` dictionary has the units of the user.
        plan = self._plan()
        given = isinstance(plan, Nystrom) and isinstance(plan.selection, Given)
        return super()._default_warm_up() if learns_length_scale(self.kernel) and not given else 0

    def _check_parameters(self) -> None:
        common.check_parameters(self)
        super()._check_parameters()
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must be in (0, 1], got {self.discount!r}")
        check_choice(self.loss, "loss", ("squared", "huber"))
        exact = self._plan().keeps_past()
        if self.window is not None:
            check_int(self.window, "window")
            if self.discount != 1:
                raise ValueError("window and discount cannot be combined: choose one of them")
            if exact:
                raise ValueError("window and past='exact' cannot be combined: use past='projected', or discount")

    def _start_block(self) -> None:
        size, most = self.ridges_[0].block_size(self.features_.m), self.ridges_[0].sums.points_left()
        self._left = size if most is None else min(size, most)
        for ridge in self.ridges_:
            ridge.start_block(self._left)

    def _start_state(self, X: Array, d: int) -> None:
        self.rng_ = np.random.default_rng(self.random_state)
        plan, p = self._plan(), X.shape[1]
        self.features_: StreamFeatures = plan.build(self.kernel_, p, d, self.rng_)
        #: All rows, if new features are computed for past rows.
        self.past_ = LearnedRows.empty(p, d) if plan.keeps_past() else None
        self.limits_: ResidualLimits | None = ResidualLimits.start(d) if self.loss == "huber" else None
        #: Eigenvectors of the output operator, None once outputs are not decoupled.
        self.vectors_: Array | None = None
        m, alpha, per = self.features_.m, float(self.alpha), self.features_.per
        groups = [OutputGroup(alpha, 0, 1)]
        if per == 1:
            spectrum = self._operator().eigh()
            self.vectors_ = np.asarray(spectrum.vectors)
            pairs = zip(spectrum.distinct.tolist(), spectrum.groups, strict=True)
            groups = [OutputGroup(alpha / t if t > 0 else np.inf, group.start, group.stop) for t, group in pairs]
        ridge = BlockRidge.start(FeatureSums.zeros(m, groups[-1].stop), groups, per, self.discount, self.window)
        self.ridges_: list[ProgressiveRidge] = [ridge]
        self._start_block()
        # While there are fewer rows than features, the Gram matrix of the rows is regular without the ridge, later that
        # of the features. A block that contains both cases would have errors of rounding / alpha.
        if m:
            self._left = min(self._left, max(m // per, 1))

    def _operator(self) -> OutputOperator:
        """T of a kernel k T; a kernel of another kind with one output is a scalar kernel times 1."""
        return self.kernel_.operator if isinstance(self.kernel_, Separable) else Identity(1)

    def _commit(self, m: int | None = None) -> None:
        for ridge in self.ridges_:
            ridge.commit(self.features_.m if m is None else m)

    def _add_inputs(self, count: int) -> None:
        features = self.features_
        if not isinstance(features, Dictionary):
            raise TypeError(
                f"{type(self.features).__name__} features do not support inputs that appear after the start: let the "
                "first example name them all, or use Nystrom features"
            )
        self._widen(count)
        features.points = np.pad(features.points, ((0, 0), (0, count)))
        if self.past_ is not None:
            self.past_.add_columns(count)

    def _check_capacity(self, Y: Array) -> None:
        pass

    def _numbers_per_row(self) -> int:
        d: int = self.n_outputs_
        m = self.features_.m
        decoupled = self.vectors_ is not None or len(self.ridges_) > 1
        return (m + self.ridges_[0].block_size(m)) * (1 if decoupled else d**2) + d**2

    def _check_weights_supported(self) -> None:
        if self._plan().keeps_past():
            raise ValueError("sample_weight and past='exact' cannot be combined: use past='projected'")

    def _predict_and_update(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        observed = ~np.isnan(Y)
        learned: Mask = np.asarray(observed.any(axis=1))
        steps = np.cumsum(learned)
        partly = np.flatnonzero(learned & ~observed.all(axis=1))
        shrink = self.forecaster == "awv"
        Z = np.empty(Y.shape)
        start, first, made, Phi = 0, 0, 0, np.empty((0, 0))
        while start < len(X):
            if self.vectors_ is not None and len(partly) and partly[0] == start:
                self._couple()
            # The end of a block does not depend on chunk sizes.
            before = steps[start] - learned[start]
            stop = min(int(np.searchsorted(steps, before + self._left)) + 1, len(X), start + MAX_PIECE_ROWS)
            if self.vectors_ is not None and len(partly):
                stop = min(stop, int(partly[0]))
            ready = None
            if not self.features_.settled:
                # Rows without a label do not join a dictionary and are processed separately.
                change = np.flatnonzero(learned[start:stop] != learned[start])
                stop = start + int(change[0]) if len(change) else stop
                ready = None if learned[start] else self.features_.transform(X[start:stop])
            assert stop > start
            rows = slice(start, stop)
            if self.features_.settled and self.past_ is None:
                # Fixed features are computed for many rows at once.
                per = self.features_.per
                if stop > made:
                    several = min(MAX_PIECE_ROWS, MAX_FEATURE_NUMBERS // max(self.features_.m * per, 1))
                    first, made = start, min(max(stop, start + several), len(X))
                    Phi = self.features_.transform(X[first:made])
                ready = Phi[(start - first) * per : (stop - first) * per]
            some = None if weights is None else weights[rows]
            piece = RidgeRows(ready, Y[rows], observed[rows], learned[rows], some)
            Z[rows] = self._learn_piece(X[rows], piece).predictions(shrink=shrink)
            start = stop
        return Z

    def _learn_piece(self, X: Array, rows: RidgeRows) -> RidgeForecast:
        """Learn rows; their features are computed from the inputs X if they are None."""
        forecasts, past, known = [], self.past_, self.features_.m
        draws, sizes, stops = np.empty(0), np.full(len(X), known), [len(X)]
        if rows.Phi is None and not self.features_.settled:
            # One for each row, needed or not, so that chunk sizes make no difference.
            self.rng_ = copied_generator(self.rng_)
            draws = self.rng_.random(len(X))
        if rows.Phi is None:
            Phi, sizes = self.features_.transform_and_grow(X, draws, exact=past is not None)
            rows = rows._replace(Phi=Phi)
        if past is not None:
            rows = rows._replace(sizes=sizes)
            if not all(ridge.nested for ridge in self.ridges_):
                stops = np.append(np.flatnonzero(np.diff(sizes)) + 1, len(X)).tolist()
        start = 0
        for stop in stops:
            part = rows.take(start, stop)
            if past is not None:
                m = int(sizes[stop - 1])
                if m > known:
                    self._add_past_to_new_features(known, m)
                    known = m
                part = part._replace(Phi=part.Phi[:, :m])
            self._left -= int(part.learned.sum())
            found, labels = self._learn_rows(part)
            forecasts.append(found)
            if past is not None:
                past.append(X[start:stop][part.learned], labels[part.learned])
            start = stop
        if self._left <= 0:
            self._commit()
            self._start_block()
        return RidgeForecast.concatenate(forecasts)

    def _learn_rows(self, rows: RidgeRows) -> tuple[RidgeForecast, Array]:
        """The forecast, and the labels as learned, which are clipped for the Huber loss."""
        last = self._left <= 0
        if self.limits_ is None:
            return self._update_ridges(rows, last=last), rows.Y
        Y, start, found = rows.Y.copy(), 0, []
        rows = rows._replace(Y=Y)
        while start < len(Y):
            before, rest = [ridge._snapshot() for ridge in self.ridges_], rows.take(start, len(Y))
            forecast = self._update_ridges(rest, last=last)
            with np.errstate(over="ignore"):
                residuals = np.nan_to_num(np.where(rest.observed, rest.Y - forecast.predictions(shrink=False), 0.0))
            numbers = np.flatnonzero(rest.learned)
            inliers = self.limits_.inliers(residuals[numbers])
            stop = len(Y)
            if inliers < len(numbers):
                # Repeat up to the first outlier, with its label clipped.
                self.ridges_ = before
                i = int(numbers[inliers])
                stop, numbers = start + i + 1, numbers[: inliers + 1]
                clipped = self.limits_.clip(residuals[numbers])[-1]
                Y[start + i] = np.where(rest.observed[i], forecast.predictions(shrink=False)[i] + clipped, np.nan)
                forecast = self._update_ridges(rows.take(start, stop), last=last and stop == len(Y))
            else:
                self.limits_.clip(residuals[numbers])
            found.append(forecast)
            start = stop
        return RidgeForecast.concatenate(found), Y

    def _update_ridges(self, rows: RidgeRows, *, last: bool) -> RidgeForecast:
        pairs = zip(self.ridges_, self._ridge_inputs(rows), strict=True)
        return self._join_forecasts([ridge.predict_and_update(part, last=last) for ridge, part in pairs])

    def _ridge_inputs(self, rows: RidgeRows) -> list[RidgeRows]:
        """The rows of each ridge problem, which differ in their outputs."""
        if self.vectors_ is not None:
            return [rows._replace(Y=rows.Y @ self.vectors_)]
        if len(self.ridges_) == 1:
            return [rows]
        columns = [slice(q, q + 1) for q in range(len(self.ridges_))]
        return [rows._replace(Y=rows.Y[:, q], observed=rows.observed[:, q]) for q in columns]

    def _join_forecasts(self, found: list[RidgeForecast]) -> RidgeForecast:
        if len(found) == 1:
            return found[0]._replace(vectors=self.vectors_)
        return RidgeForecast(np.hstack([one.ridge for one in found]), np.hstack([one.H for one in found]))

    def _add_past_to_new_features(self, known: int, m: int) -> None:
        """Add past rows to the sums of the new features `known` to m."""
        self._commit(m)
        past = self.past_
        assert past is not None
        ages: Array = np.arange(len(past) - 1.0, -1.0, -1.0)
        Phi, observed = self.features_.transform_past(past.X)[:, :m], ~np.isnan(past.Y)
        parts = self._ridge_inputs(RidgeRows(Phi, past.Y, observed, np.full(len(past), True)))
        for ridge, part in zip(self.ridges_, parts, strict=True):
            ridge.add_for_new_features(slice(known, None), part, ages)
        self._start_block()

    def _couple(self) -> None:
        """Stop decoupling the outputs in the eigenvectors of the operator, as a row is partly observed.

        With a diagonal operator each output becomes a separate problem; otherwise there is one problem with separate
        sums, T = F F' + diag(delta).
        """
        assert self.vectors_ is not None
        V, (before,), alpha = self.vectors_, self.ridges_, float(self.alpha)
        self._commit()
        operator = self._operator()
        T = operator.dense()
        self.vectors_ = None
        if operator.is_diagonal():
            self.ridges_ = []
            for q, t in enumerate(np.diagonal(T).tolist()):
                sums = copy.deepcopy(before.sums)
                sums.transform(partial(_one_output, V, q))
                self.ridges_.append(BlockRidge(sums, [OutputGroup(alpha / t if t > 0 else np.inf, 0, 1)], 1))
        else:
            d = len(V)
            before.sums.transform(lambda one: SumsOfEachOutput(one.symmetric()[None].repeat(d, axis=0), one.B @ V.T))
            self.ridges_ = [CoupledRidge(before.sums, *operator.factors(), alpha)]
        self._start_block()

    def _row_plan(self) -> Any:
        ridge, features = self.ridges_[0], self.features_
        plain = features.settled and self.vectors_ is not None and self.past_ is None and self.limits_ is None
        if not plain or not isinstance(ridge, BlockRidge) or ridge.per > 1:
            return None
        same = all(block is None or block.U.shape[1] == len(block.z) == features.m for block in ridge.blocks)
        return True if same else None

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        X, y = self._row_in_units(X, y)
        (before,), V = self.ridges_, self.vectors_
        assert isinstance(before, BlockRidge)
        assert V is not None
        ridge, values, H = before.after_row(self.features_.transform(X)[0], y if len(y) == 1 else y @ V)
        learned, z = common.after_row(self, y, values, H, V, ridges_=[ridge], _left=self._left - 1)
        if learned._left == 0:
            learned.ridges_ = snapshot_of(learned.ridges_)
            learned._commit()
            learned._start_block()
            learned._open_fast_path()
        return learned, z

    def _predict_row(self, X: Array) -> tuple[Array, Array, Array]:
        (ridge,), V = self.ridges_, self.vectors_
        assert isinstance(ridge, BlockRidge)
        assert V is not None
        return *ridge.predict_row(self.features_.transform(X)[0]), V

    def _forecast(self, X: Array) -> RidgeForecast:
        Phi = self.features_.transform(X)
        return self._join_forecasts([ridge.predict(Phi) for ridge in self.ridges_])

    def _covariance(self, X: Array, forecast: RidgeForecast) -> Array:
        # H is the posterior covariance within the span of the features, in units of the noise variance alpha; outside
        # the span the covariance is that of the prior.
        Phi, per = self.features_.transform(X), self.features_.per
        blocks = Phi.reshape(len(X), per, Phi.shape[1])
        beyond = self.features_.prior(X) - blocks @ blocks.transpose(0, 2, 1)
        if per == 1:
            beyond = np.maximum(beyond, 0.0) * self._operator().dense()
        return self.alpha * forecast.leverages() + beyond


def _units(model: PKAWV) -> list[float]:
    found = (model.input_units_, model.output_units_)
    return [x for units in found if units is not None for x in (*units.centre.tolist(), *units.scale.tolist())]


def copied_generator(rng: np.random.Generator) -> np.random.Generator:
    source = rng.bit_generator
    fresh = type(source)(0)
    fresh.state = source.state
    return np.random.Generator(fresh)


def _one_output(V: Array, q: int, sums: FeatureSums) -> FeatureSums:
    return FeatureSums(sums.S.copy(), (sums.B @ V.T)[:, q : q + 1])


@dataclass(eq=False, repr=False)
class PKAWVClassifier(CodedClassifier):
    """Online classification by kernel ridge regression of codes of the labels on m features.

    Two classes are one output with labels -1 and 1.

    Parameters
    ----------
    kernel, alpha, features, forecaster, discount, window, warm_up, on_invalid, random_state : see `PKAWV`
        Parameters of the learner.
    coding : "simplex" or "one-vs-rest"
        Codes of more than two classes: the corners of a regular simplex, K - 1 outputs for K classes, or K outputs, 1
        for the class and -1 for the rest. The kernel couples these outputs.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `PKAWV` that learns the codes of the labels

    See Also
    --------
    PKAWV, OLOKClassifier, AutoStreamClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWVClassifier
    >>> from ovk.features import Nystrom, Uniform
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = PKAWVClassifier(Gaussian(1.0), alpha=0.1, features=Nystrom(Uniform(size=50))).fit(X, y)
    >>> print(f"{model.score(X, y):.2f}")
    0.98
    """

    kernel: Any = None
    alpha: float = 1.0
    features: FeatureSpec | None = None
    _: KW_ONLY
    forecaster: str = "awv"
    discount: float = 1.0
    window: int | None = None
    warm_up: int | None = None
    on_invalid: str = "raise"
    random_state: Any = None
    coding: str = "simplex"

    @property
    def support_(self) -> Array:
        """See `PKAWV`."""
        return np.asarray(self.learner_.support_)

    def _simplex(self) -> bool:
        check_choice(self.coding, "coding", ("simplex", "one-vs-rest"))
        return self.coding == "simplex"

    def _learner(self) -> PKAWV:
        shared = self.get_params(deep=False)
        del shared["coding"]
        return PKAWV(**shared)
