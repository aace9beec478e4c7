"""How the projected forecaster learns: features, and a ridge problem for the outputs or for each of them.

Outputs are taken apart in the eigenvectors of the output operator as long as every row is wholly seen; from the first
row on that is not, they share their sums, or have sums of their own if the operator is diagonal.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk._validation import Array, in_interval, whole
from ovk.expansion import chunks
from ovk.features import FeaturePlan, Nystrom, StreamFeatures, Uniform
from ovk.online.block_ridge import BlockRidge, Group, block_size
from ovk.online.forgetting import ForgettingRidge, forgetting_size
from ovk.online.outlook import Outlook
from ovk.online.past import Past
from ovk.online.second_order import SecondOrder
from ovk.online.sums import AllRows, LastRows, Part, Sums
from ovk.online.triangle import Forecast
from ovk.ovkernels import Separable

Mask = npt.NDArray[np.bool_]

#: Rows whose features are made at once, while none of them has a label.
PIECE = 1024
#: Numbers that the features of so many rows may be (16 MB), unless a block has more.
AT_ONCE = 1 << 21


class Projected(SecondOrder):
    """A second-order learner on features of the kernel."""

    features: FeaturePlan | None
    discount: float
    window: int | None
    random_state: Any
    _left: int

    # Start ------------------------------------------------------------------------------------------------------------

    def _plan(self) -> FeaturePlan:
        plan = Nystrom(Uniform(size=100)) if self.features is None else self.features
        if not isinstance(plan, FeaturePlan):
            raise ValueError(f"features must be Nystrom, Taylor, Fourier or OperatorFourier, got {plan!r}")
        return plan

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must lie in (0, 1], got {self.discount!r}")
        exact = self._plan().keeps_past()
        if self.window is not None:
            whole(self.window, "window")
            if self.discount != 1:
                raise ValueError("window and discount cannot both be given: both forget, in different ways")
            if exact:
                raise ValueError("window cannot go with past='exact': use past='projected', or discount")

    def _start(self, X: Array, d: int) -> None:
        self.rng_ = np.random.default_rng(self.random_state)
        plan, p = self._plan(), X.shape[1]
        self.features_: StreamFeatures = plan.begin(self.kernel_, p, d, self.rng_)
        #: All rows learned from, where features that come later must know them.
        self.past_ = Past.empty(p, d) if plan.keeps_past() else None
        #: Eigenvectors of the output operator, while outputs are taken apart in them.
        self.vectors_: Array | None = None
        #: F with T = F F' once outputs share their sums although the kernel is separable.
        self.factor_: Array | None = None
        m, alpha = self.features_.m, float(self.alpha)
        if self.features_.per == 1:
            assert isinstance(self.kernel_, Separable)
            spectrum = self.kernel_.operator.eigh()
            self.vectors_ = spectrum.vectors
            groups = [
                Group(alpha / t if t > 0 else np.inf, group.start, group.stop)
                for t, group in zip(spectrum.distinct.tolist(), spectrum.groups, strict=True)
            ]
            self.ridges_ = [self._ridge(groups, 1, Part.empty(m, d))]
        else:
            self.ridges_ = [self._ridge([Group(alpha, 0, 1)], d, Part.empty(m, 1))]
        self._open()
        # As long as there are fewer rows than features the Gram matrix of the rows is regular without the ridge, later
        # that of the features: a block that went from the one to the other would lose rounding / alpha.
        if m:
            self._left = min(self._left, max(m // self.features_.per, 1))

    def _ridge(self, groups: list[Group], per: int, part: Part) -> Any:
        if self.discount != 1:
            return ForgettingRidge(groups, per, float(self.discount), part)
        sums: Sums = AllRows.begin(part) if self.window is None else LastRows.empty(self.window, *part.B.shape)
        return BlockRidge(groups, per, sums)

    def _open(self) -> None:
        """Begin a block."""
        size = (block_size if self.discount == 1 else forgetting_size)(self.features_.m)
        room = self.ridges_[0].room()
        self._left = size if room is None else min(size, room)
        for ridge in self.ridges_:
            ridge.begin(self._left * ridge.per)

    def _fold(self) -> None:
        """End a block."""
        width = 1 if self.factor_ is None else self.factor_.shape[1]
        for ridge in self.ridges_:
            ridge.fold(self.features_.m * width)

    def _make_room(self, X: Array, Y: Array) -> None:
        pass

    def _width(self) -> int:
        d: int = self.n_outputs_
        m = self.features_.m
        return (m + block_size(m)) * (1 if self.ridges_[0].per == 1 else d**2) + d**2

    # Learning ---------------------------------------------------------------------------------------------------------

    def _take(self, X: Array, Y: Array) -> Array:
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
            # A block ends where it would have ended had the rows come in other pieces.
            before = steps[start] - learned[start]
            stop = min(int(np.searchsorted(steps, before + self._left)) + 1, len(X), start + PIECE)
            if self.vectors_ is not None and len(partly):
                stop = min(stop, int(partly[0]))
            rows, ready = slice(start, stop), None
            if self.features_.settled and self.past_ is None:
                # Features that stay as they are are made for many rows at once.
                per = self.features_.per
                if stop > made:
                    several = min(PIECE, AT_ONCE // max(self.features_.m * per, 1))
                    first, made = start, min(max(stop, start + several), len(X))
                    Phi = self.features_.transform(X[first:made])
                ready = Phi[(start - first) * per : (stop - first) * per]
            piece = X[rows], Y[rows], observed[rows], learned[rows]
            Z[rows] = self._take_piece(*piece, ready).predictions(shrink=shrink)
            start = stop
        return Z

    def _take_piece(self, X: Array, Y: Array, observed: Mask, learned: Mask, ready: Array | None) -> Outlook:
        """Rows within a block; their features, if they are ready."""
        outlooks, past, known = [], self.past_, self.features_.m
        # Drawn in any case: where the stream of random numbers stands must not depend on how rows come.
        draws = self.rng_.random(len(X))
        if ready is None:
            pieces = self.features_.take(X, draws, split=past is not None)
        else:
            pieces = iter([(slice(0, len(X)), ready)])
        for rows, Phi in pieces:
            if past is not None and self.features_.m > known:
                self._catch_up(known)
                known = self.features_.m
            self._left -= int(learned[rows].sum())
            outlooks.append(self._take_rows(Phi, Y[rows], observed[rows], learned[rows]))
            if past is not None:
                past.append(X[rows][learned[rows]], Y[rows][learned[rows]])
        if self._left == 0:
            self._fold()
            self._open()
        return Outlook.joined(outlooks)

    def _take_rows(self, Phi: Array, Y: Array, observed: Mask, learned: Mask) -> Outlook:
        last = self._left == 0
        parts = zip(self.ridges_, self._parts(Phi, Y, observed), strict=True)
        return self._joined([ridge.take(*part, learned, last=last) for ridge, part in parts])

    def _parts(self, Phi: Array, Y: Array, observed: Mask) -> list[tuple[Array, Array, Mask]]:
        """Features, labels and which of them were seen, for each of the ridge problems."""
        if self.vectors_ is not None:
            return [(Phi, Y @ self.vectors_, np.asarray(observed.any(axis=1)))]
        if self.ridges_[0].per == 1:
            return [(Phi, Y[:, q : q + 1], observed[:, q]) for q in range(len(self.ridges_))]
        return [(self._coupled(Phi), Y.reshape(-1, 1), observed.reshape(-1))]

    def _joined(self, found: list[Forecast]) -> Outlook:
        """What the ridge problems say, as outputs."""
        if self.vectors_ is not None:
            return Outlook(*found[0], self.vectors_)
        if self.ridges_[0].per == 1:
            return Outlook(np.hstack([one.ridge for one in found]), np.hstack([one.H for one in found]))
        d = self.n_outputs_
        return Outlook(found[0].ridge.reshape(-1, d), found[0].H.reshape(-1, d, d))

    def _coupled(self, Phi: Array) -> Array:
        """A row for each output of each point."""
        return Phi if self.factor_ is None else np.asarray(np.kron(Phi, self.factor_))

    def _catch_up(self, known: int) -> None:
        """Let features that are new know all rows of the past."""
        self._fold()
        past = self.past_
        assert past is not None
        width = 1 if self.factor_ is None else self.factor_.shape[1]
        new = slice(known * width, None)
        for rows in chunks(len(past), self._width()):
            X, Y = past.X[rows], past.Y[rows]
            ages = len(past) - 1.0 - np.arange(len(past))[rows]
            parts = self._parts(self.features_.transform(X), Y, ~np.isnan(Y))
            for ridge, (Phi, labels, seen) in zip(self.ridges_, parts, strict=True):
                weights = np.repeat(self.discount**ages, ridge.per)[seen]
                some = Phi[seen] * weights[:, None]
                ridge.add_late(new, some[:, new].T @ Phi[seen], some[:, new].T @ labels[seen])
        self._open()

    def _couple(self) -> None:
        """A row that is only partly seen: the outputs can no longer be taken apart in the operator's eigenvectors.

        With a diagonal operator they never had anything to do with each other, and each gets sums of its own. Else
        T = F F' with rows f_q, the features of output q at x are phi(x) (x) f_q, and S (x) F'F is what rows that were
        wholly seen have left.
        """
        assert isinstance(self.kernel_, Separable)
        assert self.vectors_ is not None
        V, (before,), d, alpha = self.vectors_, self.ridges_, self.n_outputs_, float(self.alpha)
        self._fold()
        operator = self.kernel_.operator
        T = operator.dense()
        self.vectors_ = None
        if (np.diag(np.diagonal(T)) == T).all():
            self.ridges_ = []
            for q in range(d):
                ridge = copy.deepcopy(before)
                ridge.change(partial(_one_output, V, q))
                ridge.groups = [Group(alpha / float(T[q, q]) if T[q, q] > 0 else np.inf, 0, 1)]
                self.ridges_.append(ridge)
        else:
            spectrum = operator.eigh()
            used = spectrum.values > 0
            F = spectrum.vectors[:, used] * np.sqrt(spectrum.values[used])
            before.change(partial(_all_outputs, V, F))
            before.groups, before.per = [Group(alpha, 0, 1)], d
            self.factor_ = F
        self._open()

    # Looking ----------------------------------------------------------------------------------------------------------

    def _look(self, X: Array) -> Outlook:
        Phi = self.features_.transform(X)
        rows = Phi if self.ridges_[0].per == 1 else self._coupled(Phi)
        return self._joined([ridge.look(rows) for ridge in self.ridges_])

    def _covariance(self, X: Array, outlook: Outlook) -> Array:
        # H is the posterior covariance of the part within the features, in units of the noise variance alpha; beyond
        # them the prior stands.
        Phi, per = self.features_.transform(X), self.features_.per
        blocks = Phi.reshape(len(X), per, Phi.shape[1])
        beyond = self.features_.prior(X) - blocks @ blocks.transpose(0, 2, 1)
        if per == 1:
            assert isinstance(self.kernel_, Separable)
            beyond = np.maximum(beyond, 0.0) * self.kernel_.operator.dense()
        covariance: Array = self.alpha * outlook.leverages() + beyond
        return covariance


def _one_output(V: Array, q: int, part: Part) -> Part:
    """The sums of output q, from those in eigenvectors V."""
    return Part(part.S.copy(), (part.B @ V.T)[:, q : q + 1])


def _all_outputs(V: Array, F: Array, part: Part) -> Part:
    """The sums over the features phi (x) f_q of all outputs, from those in eigenvectors V."""
    return Part(np.asarray(np.kron(part.symmetric(), F.T @ F)), (part.B @ V.T @ F).reshape(-1, 1))
