"""The automatic choice in the units of the data.

With deviations s of the outputs, S = diag(s), the problem in standard units with operator T and alphas a is the one on
the outputs as they are with the operator S T S and the alphas s^2 a. So posterior variances have the outputs' units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ovk._threads import one_blas_thread
from ovk._types import Array, Indices
from ovk.batch.ridge.inputs import mean_and_deviation
from ovk.batch.ridge.left_out import merge_same_inputs
from ovk.batch.tuning.automatic import AutomaticChoice, automatic_choice
from ovk.operators import Dense
from ovk.ovkernels import Separable
from ovk.targets import Targets


class Chosen(NamedTuple):
    """A choice, and the kernel and the alphas (d,) that it means for the outputs as they are."""

    choice: AutomaticChoice
    kernel: Separable
    alphas: Array


def choose(
    X: Any,
    targets: Targets,
    same: Indices,
    rng: np.random.Generator,
    *,
    groups: Indices | None = None,
    time_order: bool = False,
    intercept: bool = True,
    metric: bool = False,
    n_jobs: int | None = None,
) -> Chosen:
    """Choose kernel, alphas and coupling.

    Parameters
    ----------
    X : (n, p) inputs of comparable scales
    same : (n,) numbers of the rows' inputs: a repeated one counts as one row with the total weight
    groups, time_order, intercept, metric, n_jobs : as in `automatic_choice`
    """
    if targets.task is not None:
        targets = targets.wide()
    mean, deviation = mean_and_deviation(targets.Y, targets.weight)
    if not intercept:
        mean, deviation = np.zeros(targets.d), np.sqrt(mean**2 + deviation**2)
    deviation = np.where(deviation > 0, deviation, 1.0)
    standard = Targets((targets.Y - mean) / deviation, targets.d, False, None, targets.weight)
    if groups is None and not time_order:
        if targets.complete:
            X, standard, _ = merge_same_inputs(X, standard, same)
        elif len(np.unique(same)) < len(same):
            # Rows with gaps cannot be averaged; they can be left out together.
            groups = same
    how: dict[str, Any] = {"groups": groups, "time_order": time_order, "intercept": intercept, "metric": metric}
    # Choices are made by at most 1,000 rows, however many there are.
    with one_blas_thread():
        choice = automatic_choice(X, standard.Y, rng, weight=standard.weight, n_jobs=n_jobs, **how)
    kernel = Separable(choice.kernel, Dense(choice.operator * np.outer(deviation, deviation)))
    return Chosen(choice, kernel, choice.alphas * deviation**2)
