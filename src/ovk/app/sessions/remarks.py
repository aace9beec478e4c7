"""What should be said about the columns of a table that was learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ovk.app.tables import Category, Instant, Preparation
from ovk.evaluation import RunningMoments

# What the columns of a table hold: how many of their values were observed, their mean and standard deviation.

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


def doubts(preparation: Preparation, columns: Iterable[ColumnRow] = ()) -> list[str]:
    """Sentences about columns that may not be what they are read as, or that never vary.

    Parameters
    ----------
    preparation : how columns are read
    columns : what they hold
    """
    sources = [source for column in preparation.columns_ for source in column.sources()]
    constant = [
        f"Column {name!r} is {mean:g} in every row, so that it "
        + ("leaves nothing to learn." if role == "output" else "says nothing about the outputs.")
        for name, role, _, mean, sd in columns
        if sd == 0 and (role == "output" or name in sources)
    ]
    return [*preparation.doubts_.values(), *constant]


def hints(preparation: Preparation, *, table: bool) -> list[str]:
    """Sentences about columns that seem to number or name things, such as patients, each in several rows.

    Parameters
    ----------
    preparation : how columns are read
    table : rows were learned as one table, of which groups can be left out
    """
    found = []
    for name, count in preparation.id_like_.items():
        (column,) = (column for column in preparation.columns_ if name in column.sources())
        what = "categories" if isinstance(column, Category) else "a number"
        out = f"--ignore {name} (ignore=[{name!r}])"
        cure = f"If it only names things, leave it out: {out}."
        if table:
            cure = (
                f"If it names things, and new rows will be of new ones, give --groups {name} (groups={name!r}): errors "
                f"and intervals are then about these. {out} leaves the column out."
            )
        found.append(f"Column {name!r} takes {count:,} values, each in several rows, and is used as {what}. {cure}")
    return found


# Rows of a table that had unreadable cells, told by kind of fault.

#: Faulty rows that are remembered with their fault; of the others only the number.
REMEMBERED = 200

#: Most kinds of faults that are told, and rows of each that are named.
KINDS, NAMED = 5, 3


def fault_lines(bad: int, faults: Sequence[tuple[int, str]]) -> list[str]:
    """A line for each kind of fault with how often it was met, the most frequent first, and one for all others.

    Parameters
    ----------
    bad : number of faulty rows
    faults : number and fault of the first of them

    >>> error = "'ERR' in column 'x' is treated as missing"
    >>> for line in fault_lines(250, [*((row, error) for row in range(7, 57)), (90, "1 fields instead of 2")]):
    ...     print(line)
    'ERR' in column 'x' is treated as missing: 50 rows (7, 8, 9, ...)
    1 fields instead of 2: row 90
    199 more rows
    """
    rows: dict[str, list[int]] = {}
    for row, fault in faults:
        rows.setdefault(fault, []).append(row)
    lines, told = [], 0
    for fault, where in sorted(rows.items(), key=lambda pair: -len(pair[1]))[:KINDS]:
        named = ", ".join(map(str, where[:NAMED])) + (", ..." if len(where) > NAMED else "")
        lines.append(f"{fault}: row {named}" if len(where) == 1 else f"{fault}: {len(where)} rows ({named})")
        told += len(where)
    if bad > told:
        lines.append(f"{bad - told:,} more row{'s' if bad - told > 1 else ''}")
    return lines


def bad_rows_note(bad: int, faults: Sequence[tuple[int, str]]) -> str:
    """The same as a sentence of a report.

    >>> bad_rows_note(1, [(3, "'ERR' in column 'x' is treated as missing")])
    "1 row had unreadable cells ('ERR' in column 'x' is treated as missing: row 3)."
    """
    return f"{bad:,} row{'s' if bad > 1 else ''} had unreadable cells ({'; '.join(fault_lines(bad, faults))})."
