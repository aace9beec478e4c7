"""The projected kernel forecaster of Azoury, Vovk and Warmuth."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_int, equal, reads_snapshot
from ovk.features import KORS, Dictionary, FeaturePlan, Nystrom
from ovk.kernels import Gaussian
from ovk.objectives import simplex_code
from ovk.online.second_order.block_ridge import ProgressiveRidge
from ovk.online.second_order.projected import ProjectedLearner
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.rows import LearnedRows
from ovk.online.shared.scale import ResidualLimits
from ovk.online.theory import capacity_exponent, suggest


class PKAWV(ProjectedLearner):
    """The nonlinear ridge forecaster on m features of the kernel: O(m^2) time a row, however many rows there are.

    Row t is predicted by the function that minimises  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2 + |f(x_t)|^2  over the
    span of the features. How far its regret exceeds that of the exact forecaster (`KAWV`) depends on what the past says
    about a feature that is new:

    - ``Nystrom(past="exact")``, which keeps all rows, has the published bound: with a `KORS` dictionary of scale mu,
      a multiple of m n mu / alpha (`projected_regret_bound`).
    - ``Nystrom(past="projected")``, the default, in bounded memory, does not have that one. Its bound is
      2 |f| sqrt(L spill) + |f|^2 spill, with L the loss of f and spill the sum of k(x_t, x_t) - |phi_t(x_t)|^2
      (`spilled_regret_bound`).
    - Features chosen beforehand (`Taylor`, `Fourier`) have both; `Fourier` features stand in for another kernel than
      the one given, so that f is a function of theirs.

    Rows are learned in exact blocks: one at a time, in chunks of any sizes or all at once, the result is the same to
    rounding.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        A length scale of "median" is learned in the warm-up.
    alpha : float > 0
        Weight of the penalty.
    features : `Nystrom`, `Taylor`, `Fourier` or `OperatorFourier` of `ovk.features`; default the first 100 rows
        Which features stand in for the kernel.
    forecaster : "awv" or "ridge"
        "ridge" leaves |f(x_t)|^2 out: progressive ridge regression.
    discount : float in (0, 1]
        An observation of k rows ago has the weight discount^k. Rows are cut into blocks of min(128, log 2 / log
        (1 / discount)); the penalty decays inside a block, has its weight alpha in the middle, and is restored for the
        next one.
    window : int, optional
        Forget rows older than this, in steps of an eighth of it.
    loss : "squared" or "huber"
        "huber": from the 51st row on a label that is further from its ridge prediction than three times the largest
        residual of late is moved to that distance (`ovk.online.shared.scale` has the rule), so that a wild
        one teaches no more than an ordinary one; the rest is exact for the labels as moved.
    clip : None, number or (low, high)
        Predictions are put back into [-clip, clip] or [low, high].
    on_invalid : "raise" or "skip"
        What to do with rows that hold nan or inf in X or inf in Y: refuse them all with the row's number, or skip and
        count them.
    warm_up : int, optional
        The first so many rows choose the units in which the learner works: centre and scale of inputs and outputs, and
        the width of the kernel. They are predicted from the rows before them, at first by their mean. By default 200 if
        the width of the kernel is to be learned (and no dictionary is given), else 0, the algorithm of the paper.
    random_state : int, Generator or None
        Draws features and dictionaries.

    Attributes
    ----------
    t_ : rows learned from
    features_ : the features as they are now
    n_features_ : their number m
    support_ : (N, p) the points of the dictionary that give a feature, with Nystrom features
    cumulative_loss_ : sum of the squared errors of all predictions, each made before its own label was seen, in the
        units in which the learner works
    input_units_, output_units_ : centre and scale that the warm-up has chosen, None without one
    n_skipped_ : rows skipped by ``on_invalid="skip"``

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

    _saved_state = ("_left",)
    _state_classes = {"ridges_": ProgressiveRidge, "past_": LearnedRows, "limits_": ResidualLimits}

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1.0,
        features: FeaturePlan | None = None,
        *,
        forecaster: str = "awv",
        discount: float = 1.0,
        window: int | None = None,
        loss: str = "squared",
        clip: Any = None,
        warm_up: int | None = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.features = features
        self.forecaster = forecaster
        self.discount = discount
        self.window = window
        self.loss = loss
        self.clip = clip
        self.warm_up = warm_up
        self.on_invalid = on_invalid
        self.random_state = random_state

    @property
    def n_features_(self) -> int:
        """Number of features."""
        return self.features_.m

    @property
    @reads_snapshot
    def support_(self) -> Array:
        """The points of the dictionary that give a feature, in the order in which they joined."""
        if not isinstance(self.features_, Dictionary):
            raise AttributeError(f"{type(self.features).__name__} features have no support points")
        # KORS also counts points that depend on the others, and give none.
        points = self.features_.points[np.unique(self.features_.keep // self.features_.per)]
        return points if self.input_units_ is None else self.input_units_.predictions(points)

    @classmethod
    def auto(
        cls, kernel: Any = None, n: int | None = None, *, p: int | None = None, budget: int = 500, **params: Any
    ) -> Self:
        """A learner with the parameters that theory suggests, for outputs and kernel values of order one.

        alpha and the scale mu of the `KORS` dictionary are those of `suggest`: for the Gaussian kernel alpha = 1 and
        mu = n^-2, for a rougher kernel what balances its regret.

        Parameters
        ----------
        kernel : scalar or operator-valued kernel; default ``Gaussian()``
        n : rows that there will be, about; default 10,000
        p : number of inputs, which matters for kernels that are not analytic (Matern, Laplacian)
        budget : most points of the dictionary
        params : further parameters of `PKAWV`

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
            raise ValueError(f"p, the number of inputs, must be given for {kernel!r}: its capacity depends on it")
        found = suggest(kernel, rows, 1 if p is None else p)
        if found.m > most:
            # With fewer points than the best rate needs, another alpha goes with them.
            found = suggest(kernel, rows, 1 if p is None else p, m=most)
        return cls(kernel, found.alpha, Nystrom(KORS(found.mu), budget=most), **params)

    def merge(self, other: PKAWV) -> Self:
        """Learn what another learner on the same features has learned, exactly as from its rows.

        Both must have the same parameters and the same features: a `Given` dictionary, or features that were drawn
        from the same random state. The other is left as it is.
        """
        check_is_fitted(self, "kernel_")
        check_is_fitted(other, "kernel_")
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        names = [name for name in mine if name not in ("random_state", "kernel", "features", "on_invalid")]
        if differing := [name for name in names if not equal(mine[name], theirs[name])]:
            raise ValueError(f"learners to be merged must have the same {differing[0]}")
        if self.held_ is not None or other.held_ is not None or _units(self) != _units(other):
            raise ValueError(
                "learners to be merged must work in the same units: give both warm_up=0 and scale the rows"
            )
        if self.loss == "huber":
            raise ValueError("learners with the loss of Huber cannot be merged: which labels were wild?")
        if self.discount != 1 or self.window is not None:
            raise ValueError("learners that forget cannot be merged: which rows of one came before those of the other?")
        same = equal(self.kernel_, other.kernel_) and self.n_outputs_ == other.n_outputs_
        if not same or not self.features_.same(other.features_):
            raise ValueError(
                "learners to be merged must have the same kernel and features: give both the same dictionary, "
                "Nystrom(Given(points)), or draw their features from the same random_state"
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


def _units(model: PKAWV) -> list[float]:
    found = (model.input_units_, model.output_units_)
    return [x for units in found if units is not None for x in (*units.centre.tolist(), *units.scale.tolist())]


# PKAWV for class labels.


class PKAWVClassifier(CodedClassifier):
    """Online classification by the projected kernel forecaster: ridge regression of the labels' codes.

    Two classes are one output with labels -1 and 1.

    Parameters
    ----------
    kernel, alpha, features, forecaster, discount, window, warm_up, on_invalid, random_state : as in `PKAWV`
    coding : "simplex" or "one-vs-rest"
        More than two classes as the corners of a regular simplex, K - 1 outputs for K classes, or as K outputs, 1 for
        the class and -1 for the rest. The kernel couples these outputs.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `PKAWV` that learns the codes of the labels

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
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    learner_: PKAWV

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1.0,
        features: FeaturePlan | None = None,
        *,
        coding: str = "simplex",
        forecaster: str = "awv",
        discount: float = 1.0,
        window: int | None = None,
        warm_up: int | None = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.features = features
        self.coding = coding
        self.forecaster = forecaster
        self.discount = discount
        self.window = window
        self.warm_up = warm_up
        self.on_invalid = on_invalid
        self.random_state = random_state

    @property
    def support_(self) -> Array:
        """As in `PKAWV`."""
        return self.learner_.support_

    def _code(self, classes: int) -> Array:
        if self.coding not in ("simplex", "one-vs-rest"):
            raise ValueError(f"coding must be 'simplex' or 'one-vs-rest', got {self.coding!r}")
        if classes == 2:
            return np.array([[-1.0], [1.0]])
        return simplex_code(classes) if self.coding == "simplex" else 2.0 * np.eye(classes) - 1.0

    def _learner(self, classes: int) -> PKAWV:
        shared = self.get_params(deep=False)
        del shared["coding"]
        return PKAWV(**shared)
