"""Reading a network off a fitted autoregression."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._progress import ProgressBar
from ovk._validation import Array, positive, whole
from ovk.batch.okvar.coupling import learnable
from ovk.batch.okvar.fitted import FittedDynamics
from ovk.batch.okvar.network import Aggregate, Network, aggregated, choose, pooled_p_values
from ovk.batch.okvar.series import Series
from ovk.batch.okvar.transitions import Regression
from ovk.ovkernels import Hadamard


class NetworkInference(FittedDynamics):
    """Scores of edges, and which of them to believe."""

    operator_: Array | None

    @abstractmethod
    def _twin(self, regression: Regression) -> NetworkInference:
        """A model with the same settings, learned on something else."""

    @abstractmethod
    def _regression(self, series: list[Series]) -> Regression:
        """What is regressed on what."""

    def edge_scores(
        self, *, aggregate: Aggregate = "mean_abs", balance: float = 0.0, mask_by_operator: bool = False
    ) -> Array:
        """How strongly each variable acts on each other one, (d, d): row i and column j for i acting on j.

        Derivatives of the right-hand side on standardised states at the training points, brought together by
        `aggregate`, the largest of the lags.

        Parameters
        ----------
        aggregate : {"mean_abs", "mean", "median", "max_abs"} or a function from (n, d, d) to (d, d)
            Of absolute values (the first and the last), or of the derivatives before their absolute value is taken.
            J[t, i, j] is the derivative of output i in input j.
        balance : float in [0, 1]
            Divide the scores of all that acts on a variable by their mean to this power: 1 puts all variables on a
            common scale, 0 leaves them.
        mask_by_operator : bool
            Multiply each derivative by |B_ij|. That is not a derivative of anything: B is in the derivative already,
            and a B taken from the truth would make this return the truth. It is here because older code does this.
        """
        check_is_fitted(self)
        return self._edge_scores(self._standard_jacobian(self.X_fit_), aggregate, balance, mask_by_operator)

    def _edge_scores(self, J: Array, aggregate: Aggregate, balance: float, mask: bool) -> Array:
        d = len(self.mean_)
        by_lag = [aggregated(J[:, :, k * d : (k + 1) * d], aggregate) for k in range(self.lag)]
        scores = np.max(by_lag, axis=0)
        if mask:
            scores = scores * np.abs(self._operator())
        np.fill_diagonal(scores, 0.0)
        if balance:
            means = scores.mean(axis=1, keepdims=True)
            scores = scores / np.where(means > 0, means, 1.0) ** positive(balance, "balance")
        return np.ascontiguousarray(scores.T)

    def _operator(self) -> Array:
        if self.operator_ is not None:
            return self.operator_
        if isinstance(self.kernel_, Hadamard):
            return learnable(self.kernel_).dense()
        raise ValueError("mask_by_operator needs a kernel with one operator, as k * T or (k * T) & K")

    def network(
        self,
        threshold: float | None = None,
        top_k: int | None = None,
        fdr: float | None = None,
        *,
        aggregate: Aggregate = "mean_abs",
        balance: float = 0.0,
        mask_by_operator: bool = False,
        n_permutations: int = 20,
        random_state: int | np.random.Generator | None = None,
    ) -> Network:
        """Which variables act on which others.

        Parameters
        ----------
        threshold : edges with a larger score
        top_k : that many edges, the strongest
        fdr : edges at that false discovery rate, by Benjamini and Hochberg
            p-values come from fits to targets on which only their own past acts (see `targets_without_action`);
            scores of all pairs are pooled.
        aggregate, balance, mask_by_operator : as in `edge_scores`
        n_permutations : fits for `fdr`
        random_state : int, Generator or None, for `fdr`
        """
        options: tuple[Aggregate, float, bool] = (aggregate, balance, mask_by_operator)
        check_is_fitted(self)
        J = self._standard_jacobian(self.X_fit_)
        scores = self._edge_scores(J, *options)
        p_values = None
        if fdr is not None:
            null = self._null_scores(whole(n_permutations, "n_permutations"), random_state, options)
            p_values = pooled_p_values(scores, null)
        d = len(scores)
        signs = np.sign(J.mean(axis=0)[:, :d]).T * ~np.eye(d, dtype=bool)
        return Network(scores, choose(scores, threshold, top_k, p_values, fdr), signs, self._names(d))

    def _null_scores(self, count: int, random_state: Any, options: tuple[Aggregate, float, bool]) -> Array:
        rng = np.random.default_rng(random_state)
        regression = self._regression(self.series_)
        scores = []
        with ProgressBar("fitting without action", count) as bar:
            for _ in range(count):
                twin = self._twin(regression.with_targets(targets_without_action(regression, rng)))
                scores.append(twin._edge_scores(twin._standard_jacobian(twin.X_fit_), *options))
                bar.update()
        return np.array(scores)


def targets_without_action(regression: Regression, rng: np.random.Generator) -> Array:
    """Targets that each variable might have had if only its own past acted on it.

    What its own past explains, plus the rest of another series, turned round in time by a random stretch and with a
    random sign: the shape of the rest is kept, and what it owes to other variables is not.
    """
    Y, d = regression.Y, regression.Y.shape[1]
    own = regression.left(regression.Z[:, :d]) if regression.O is None else regression.O
    result = np.full_like(Y, np.nan)
    members = [np.flatnonzero(regression.groups == group) for group in np.unique(regression.groups)]
    for q in range(d):
        seen = ~np.isnan(Y[:, q])
        columns = np.column_stack([regression.E, own[:, q]])
        explained = columns @ np.linalg.lstsq(columns[seen], Y[seen, q], rcond=None)[0]
        rest = np.where(seen, Y[:, q] - explained, 0.0)
        for rows, source in zip(members, _exchanged(members, rng), strict=True):
            shift = int(rng.integers(len(rows)))
            result[rows, q] = explained[rows] + rng.choice([-1.0, 1.0]) * np.roll(rest[source], shift)
        result[~seen, q] = np.nan
    return result


def _exchanged(members: list[Any], rng: np.random.Generator) -> list[Any]:
    """The series, those of one length exchanged at random."""
    result = list(members)
    for length in {len(rows) for rows in members}:
        same = [k for k, rows in enumerate(members) if len(rows) == length]
        for k, other in zip(same, rng.permutation(same), strict=True):
            result[k] = members[other]
    return result
