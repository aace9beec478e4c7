"""What the columns of a table hold: how many of their values were observed, their mean and standard deviation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ovk.evaluation.running import RunningMoments
from ovk.streams import Preparation
from ovk.streams.columns import Instant

#: Name, role, share of the values that were observed, mean, standard deviation; nan for columns of dates.
ColumnRow = tuple[str, str, float, float, float]


def column_summary(
    preparation: Preparation, outputs: Sequence[str], moments: RunningMoments, n_rows: int
) -> list[ColumnRow]:
    """Outputs first, then inputs; a column of dates is one row, whatever number of inputs is made of it.

    Parameters
    ----------
    preparation : how rows are made inputs
    outputs : names of the outputs that are told
    moments : of the inputs and outputs, in this order
    n_rows : rows that they were computed from
    """
    seen = (moments.count / max(n_rows, 1)).tolist()
    sd = np.where(moments.constant, 0.0, moments.sd)
    numbers = list(zip(seen, moments.mean.tolist(), sd.tolist(), strict=True))
    names = preparation.feature_names_
    rows = [(name, "output", *numbers[len(names) + q]) for q, name in enumerate(outputs)]
    start = 0
    for column in preparation.columns_:
        end = start + len(column.names())
        if isinstance(column, Instant):
            rows.append((" and ".join(column.sources()), "date", np.nan, np.nan, np.nan))
        else:
            rows += [(names[j], "input", *numbers[j]) for j in range(start, end)]
        start = end
    return rows + [(names[j], "input", *numbers[j]) for j in range(start, len(names))]
