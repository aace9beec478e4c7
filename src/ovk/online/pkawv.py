"""The projected kernel forecaster of Azoury, Vovk and Warmuth."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._params import equal
from ovk._validation import Array, whole
from ovk.features import KORS, FeaturePlan, Nystrom
from ovk.features.dictionary import Dictionary
from ovk.kernels import Gaussian
from ovk.online.projected import Projected
from ovk.online.suggest import capacity_exponent, suggest


class PKAWV(Projected):
    """The nonlinear ridge forecaster on a few features of the kernel: O(m^2) time a row, whatever their number.

    Row t is predicted by the function that minimises  sum_{s<t} |y_s - f(x_s)|^2 + alpha |f|^2 + |f(x_t)|^2  over the
    span of the features. With Nystrom features of a `KORS` dictionary of scale mu its regret exceeds that of the exact
    forecaster (`KAWV`) by a multiple of m n mu / alpha.

    Rows are learned in exact blocks: one at a time, in chunks of any sizes or all at once, the result is the same to
    rounding.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        A length scale of "median" is learned from the first rows that arrive.
    alpha : float > 0
        Weight of the penalty.
    features : `Nystrom`, `Taylor`, `Fourier` or `OperatorFourier` of `ovk.features`; default the first 100 rows
        Which features stand in for the kernel.
    forecaster : "awv" or "ridge"
        "ridge" leaves |f(x_t)|^2 out: progressive ridge regression.
    discount : float in (0, 1]
        An observation of k rows ago has the weight discount^k; the penalty does not decay.
    window : int, optional
        Forget rows older than this, in steps of an eighth of it.
    clip : None, number or (low, high)
        Predictions are put back into [-clip, clip] or [low, high].
    on_invalid : "raise" or "skip"
        What to do with rows that hold nan or inf in X or inf in Y: refuse them all with the row's number, or skip and
        count them.
    random_state : int, Generator or None
        Draws features and dictionaries.

    Attributes
    ----------
    t_ : rows learned from
    features_ : the features as they are now
    n_features_ : their number m
    support_ : (N, p) the points of the dictionary that give a feature, with Nystrom features
    cumulative_loss_ : sum of the squared errors of all predictions, each made before its own label was seen
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

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1.0,
        features: FeaturePlan | None = None,
        *,
        forecaster: str = "awv",
        discount: float = 1.0,
        window: int | None = None,
        clip: Any = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.features = features
        self.forecaster = forecaster
        self.discount = discount
        self.window = window
        self.clip = clip
        self.on_invalid = on_invalid
        self.random_state = random_state

    @property
    def n_features_(self) -> int:
        """Number of features."""
        return self.features_.m

    @property
    def support_(self) -> Array:
        """The points of the dictionary that give a feature, in the order in which they joined."""
        if not isinstance(self.features_, Dictionary):
            raise AttributeError(f"{type(self.features).__name__} features have no support points")
        # KORS also counts points that depend on the others, and give none.
        return self.features_.points[np.unique(self.features_.keep // self.features_.per)]

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
        PKAWV(features=Nystrom(budget=500, selection=KORS(mu=1e-06)),
              kernel=Gaussian(length_scale=1.0))
        """
        kernel = Gaussian() if kernel is None else kernel
        rows = 10_000 if n is None else whole(n, "n")
        most = whole(budget, "budget")
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
        if self.discount != 1 or self.window is not None:
            raise ValueError("learners that forget cannot be merged: which rows of one came before those of the other?")
        same = equal(self.kernel_, other.kernel_) and self.n_outputs_ == other.n_outputs_
        if not same or not self.features_.same(other.features_):
            raise ValueError(
                "learners to be merged must have the same kernel and features: give both the same dictionary, "
                "Nystrom(Given(points)), or draw their features from the same random_state"
            )
        ours, others = self, copy.deepcopy(other)
        if (ours.vectors_ is None) != (others.vectors_ is None):
            (ours if others.vectors_ is None else others)._couple()
        ours._fold()
        others._fold()
        for one, two in zip(ours.ridges_, others.ridges_, strict=True):
            one.merge(two)
        if self.past_ is not None and others.past_ is not None:
            self.past_.append(others.past_.X, others.past_.Y)
        self._open()
        self.t_ += other.t_
        self.n_skipped_ += other.n_skipped_
        self.cumulative_loss_ += other.cumulative_loss_
        return self
