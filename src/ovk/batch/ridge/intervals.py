"""Prediction intervals and standard deviations of an expansion, from its left-out functions.

Nothing but the fitted function is needed: where alpha C_i = w_i (y_i - f(x_i)), the outputs are

    y_i = f(x_i) + alpha C_i / w_i,

and the left-out functions follow from them in closed form (`ovk.solvers.left_out`): for a kernel k T and complete
outputs from the eigenvectors of k's gram, for everything else from one dense system of the observed pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ovk._named_outputs import NamedOutputs
from ovk._progress import track
from ovk._types import Array, Indices
from ovk.batch.ridge.problem import CompleteProblem, PairProblem, takes_gram
from ovk.batch.ridge.same_inputs import same_inputs
from ovk.expansion import Expansion, row_slices
from ovk.intervals import Regions, concatenate, fold_numbers, jackknife, jackknife_plus
from ovk.operators import Identity
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.left_out import LeftOut, SeparableLeftOut
from ovk.solvers.left_out_pairs import PairData, PairsLeftOut
from ovk.solvers.select import DENSE_LIMIT
from ovk.targets import Targets

METHODS = ("jackknife", "jackknife+", "cv+")
#: Repetitions of inputs from which the spread of outputs at the same inputs is estimated.
FEWEST_REPEATED = 10


class RowsLeftOut(ABC):
    """The left-out functions of a fitted expansion, asked for by new inputs instead of kernel values.

    Attributes
    ----------
    left_out : the regression with its blocks of rows left out
    width : numbers that a new row takes
    """

    left_out: LeftOut
    width: int

    @abstractmethod
    def kernels(self, X: Any) -> tuple[Array, Array]:
        """What `left_out` takes for new points: `cross` and `prior`."""


class SeparableRows(RowsLeftOut):
    """Complete outputs and a kernel k T."""

    def __init__(self, kernel: Separable, fitted: FittedRows, together: Indices | None) -> None:
        self._kernel, self._X, targets = kernel, fitted.X, fitted.targets
        alone = Separable(kernel.kernel, Identity(targets.d))
        ((G, _),) = CompleteProblem(alone, self._X, targets, 1.0).gram.terms() or []
        T = kernel.operator.dense()
        self.width = self._X.shape[0] * (targets.d + 2)
        how: dict[str, Any] = {"intercept": fitted.intercept, "together": together}
        self.left_out = SeparableLeftOut(eigenpairs(G), targets.Y, T, fitted.alpha, targets.weight, **how)

    def kernels(self, X: Any) -> tuple[Array, Array]:
        return self._kernel.scalar(X, self._X), self._kernel.scalar.diag(X)


class PairRows(RowsLeftOut):
    """Any kernel and any gaps, as one dense problem of the observed pairs."""

    def __init__(self, fitted: FittedRows, together: Indices | None) -> None:
        self._kernel, self._X, targets = fitted.kernel, fitted.X, fitted.targets
        self._d, self._pairs = targets.d, targets.pairs()
        if len(self._pairs) > DENSE_LIMIT:
            raise ValueError(
                f"leaving rows out takes a dense matrix of all {len(self._pairs)} observed values, more than "
                f"{DENSE_LIMIT}: fit fewer rows, or ask for predict(of='posterior') without intervals"
            )
        K = PairProblem(self._kernel, self._X, replace(targets, weight=None), 1.0).gram.dense()
        data = PairData(self._pairs.points, self._pairs.outputs, self._pairs.values)
        self.width = len(self._pairs) * targets.d
        how: dict[str, Any] = {"intercept": fitted.intercept, "together": together}
        shape = self._X.shape[0], targets.d
        self.left_out = PairsLeftOut(K, data, shape, fitted.alpha, targets.weight, **how)

    def kernels(self, X: Any) -> tuple[Array, Array]:
        m, d, pairs = X.shape[0], self._d, self._pairs
        repeated, outputs = X[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m)
        cross = self._kernel.pairs(repeated, outputs, self._X[pairs.points], pairs.outputs).reshape(m, d, -1)
        return cross, np.einsum("nqq->nq", self._kernel.diagonal_blocks(X))


@dataclass(frozen=True)
class FittedRows:
    """What was learned from: resolved kernel, inputs, alpha, whether there is an intercept, outputs."""

    kernel: OperatorKernel
    X: Any
    alpha: float | Array
    intercept: bool
    targets: Targets

    @classmethod
    def recover(
        cls, expansion: Expansion, alpha: float | Array, observed: Any, task: Any, weight: Array | None
    ) -> FittedRows:
        """From a fitted expansion; `observed`, `task` and `weight` are those of the training data."""
        if np.any(np.asarray(alpha) <= 0):
            raise ValueError("leaving rows out needs alpha > 0: a function without penalty fits every row it has")
        X, d = expansion.support, expansion.kernel.output_dim
        C, single = expansion.C, task is not None
        assert d is not None
        if single:
            every = np.arange(X.shape[0])
            values, c = expansion.at(X, task), np.asarray(C[every, task]).reshape(-1)
            scale = alpha if isinstance(alpha, float) else alpha[task]
            Y = (values + scale * c / (1.0 if weight is None else weight))[:, None]
        else:
            Y = expansion(X) + alpha * C / (1.0 if weight is None else weight[:, None])
            if observed is not None:
                Y = np.where(observed, Y, np.nan)
        return cls(expansion.kernel, X, alpha, expansion.offset is not None, Targets(Y, d, False, task, weight))

    def left_out(self, together: Indices | None, *, alike: bool = False) -> RowsLeftOut:
        """Rows with the same number in `together` left out at a time; each alone where it is None.

        Outputs that are `alike` are values of one curve.
        """
        separable = self.kernel.as_separable()
        if self.targets.complete and separable is not None:
            rows: RowsLeftOut = SeparableRows(separable, self, together)
        else:
            rows = PairRows(self, together)
        rows.left_out.alike = alike
        if self.targets.task is None and not takes_gram(self.kernel):
            spread = repeated_spread(same_inputs(self.X), self.targets.Y, self.targets.weight)
            if spread is not None:
                rows.left_out.raise_noise(spread, self.targets.weight)
        return rows


def repeated_spread(same: Indices, Y: Array, weight: Array | None) -> Array | None:
    """(d,) variances of outputs at the same inputs, of rows of weight 1; None where too few are repeated.

    sum_i w_i (y_i - mean of its group)^2 / sum over groups of (rows - 1); 0 for an output that is repeated too rarely.

    Parameters
    ----------
    same : (n,) rows with the same inputs have the same number
    Y : (n, d) outputs, nan where one was not observed
    """
    count = int(same.max()) + 1
    if len(same) - count < FEWEST_REPEATED:
        return None
    seen = ~np.isnan(Y)
    w = seen * (1.0 if weight is None else weight[:, None])
    member = sparse.csr_array((np.ones(len(same)), (same, np.arange(len(same)))), shape=(count, len(same)))
    mean = (member @ (w * np.where(seen, Y, 0.0))) / np.maximum(member @ w, 1e-300)
    squares = (w * np.where(seen, Y - mean[same], 0.0) ** 2).sum(axis=0)
    freedom = seen.sum(axis=0) - (member @ seen.astype(np.float64) > 0).sum(axis=0)
    return np.where(freedom >= FEWEST_REPEATED, squares / np.maximum(freedom, 1), 0.0)


class PredictionIntervals(NamedOutputs, ABC):
    """Mixin of estimators that end in an expansion: intervals of their predictions."""

    @abstractmethod
    def _fitted_rows(self) -> FittedRows:
        """What was learned from, for leaving rows out; refuses where it was not kept."""

    @abstractmethod
    def _check_prior(self) -> None:
        """Refuse kernels that do not know k(x, x) of new points."""

    @abstractmethod
    def _new_inputs(self, X: Any) -> Any:
        """New inputs, checked, as kernels take them."""

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        method: str = "jackknife",
        region: str = "each",
        groups: Any = None,
        folds: int = 10,
    ) -> Regions:
        """Intervals that hold new observations with a given probability, from the rows that were left out.

        Training rows with the same inputs are left out together: a copy left in would give the answer away. How far
        their outputs are apart says how far a new observation may be off at least.

        Parameters
        ----------
        X : (n, p)
        level : float in (0, 1)
            Coverage asked for.
        method : "jackknife", "jackknife+" or "cv+"
            Left-out residuals in units of their own standard deviations, wide where there were few data, with a
            coverage close to `level` as a rule; or intervals around the left-out functions, with a coverage of at
            least 1 - 2 (1 - level) whatever the distribution, as long as kernel and alpha were not chosen by the same
            rows: each row (or group) left out, or `folds` of them.
        region : "each", "box" or "ellipsoid"
            An interval for each output with that coverage, or one region that holds all outputs of a row at once;
            around a curve or a field, a box is a band. Only with "jackknife".
        groups : (training rows,), optional
            Where rows come in groups (patients, days, places) and new rows are of new groups: whole groups are left
            out. Rows that taught nothing, of weight 0 or without any observed output, have no entry.
        folds : int
            Of "cv+".

        Returns
        -------
        `ovk.intervals.Regions` with `predictions`, `lower` and `upper`, (n, d), frames where y was one; `contains(Y)`
        tells what they hold
        """
        check_is_fitted(self)
        if method not in METHODS:
            raise ValueError(f"method must be {', '.join(map(repr, METHODS))}, got {method!r}")
        if method != "jackknife" and region != "each":
            raise ValueError(f"region={region!r} needs method='jackknife': {method!r} has an interval for each output")
        self._check_prior()
        asked, X = X, self._new_inputs(X)
        rows = self._rows_left_out(groups, folds if method == "cv+" else None)
        blocks = self._blocks(groups)
        # Rows of a group, and repetitions, say little more than one row: they share one vote.
        shared = None if blocks is None or len(np.unique(blocks)) == len(blocks) else blocks
        parts = []
        for part in track(list(row_slices(X.shape[0], rows.width)), "intervals"):
            cross, prior = rows.kernels(X[part])
            if method == "jackknife":
                parts.append(jackknife(rows.left_out, cross, prior, level, region=region, groups=shared))
            else:
                parts.append(jackknife_plus(rows.left_out, cross, prior, level, groups=shared))
        return self._regions_of_outputs(concatenate(parts), asked)

    def _regions_of_outputs(self, regions: Regions, X: Any) -> Regions:
        """The regions around the outputs as the user knows them, for new inputs as they were given."""
        return regions.named(lambda ends: self._named(ends, X))

    def left_out_residuals(self, groups: Any = None) -> Array:
        """(training rows, d) outputs less what is predicted for them without their row, nan where one is missing.

        Rows with the same inputs, or of the same of the `groups` (training rows,), are left out together.
        """
        check_is_fitted(self)
        return self._rows_left_out(groups, None).left_out.residuals.copy()

    def _training_outputs(self) -> Array:
        """(training rows, d) what was learned from, nan where an output was not observed; (rows, 1) in long form."""
        return self._fitted_rows().targets.Y

    def _left_out_scale(self) -> tuple[Array, Array]:
        """(d,) what variances have to be multiplied by to have the size of left-out residuals, and an observation's."""
        left_out = self._rows_left_out(None, None).left_out
        return left_out.scale, left_out.noise

    def _left_out_deviation(self, X: Any, *, observation: bool) -> Array:
        """(n, d) standard deviations of new observations, or of the function, at checked inputs."""
        rows = self._rows_left_out(None, None)
        parts = [
            rows.left_out.deviation(*rows.kernels(X[part]), observation=observation)
            for part in track(list(row_slices(X.shape[0], rows.width)), "standard deviations")
        ]
        result: Array = np.concatenate(parts) * np.sqrt(rows.left_out.scale)
        return result

    def _rows_left_out(self, groups: Any, folds: int | None) -> RowsLeftOut:
        """Kept for the next call: the memory of one factorisation."""
        key = None if groups is None else np.asarray(groups).tobytes(), folds
        memo = self.__dict__.setdefault("_memo", {})
        if memo.get("left out", (None,))[0] != key:
            together = self._blocks(groups)
            fitted = self._fitted_rows()
            if folds is not None:
                n = fitted.X.shape[0]
                together = fold_numbers(n, folds, np.random.default_rng(0), together)
            memo["left out"] = key, fitted.left_out(together, alike=self._outputs_alike())
        found: RowsLeftOut = memo["left out"][1]
        return found

    def _outputs_alike(self) -> bool:
        """Whether outputs are values of one curve."""
        return False

    def _blocks(self, groups: Any) -> Indices | None:
        """(n,) numbers of rows that are left out together: groups, or rows with the same inputs."""
        fitted = self._fitted_rows()
        n = fitted.X.shape[0]
        if groups is None:
            return None if takes_gram(fitted.kernel) else same_inputs(fitted.X)
        labels = np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(
                f"groups must have one entry for each of the {n} rows that were learned from, got shape {labels.shape}"
            )
        return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.intp)
