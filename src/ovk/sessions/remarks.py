"""What should be said about the columns of a table that was learned."""

from __future__ import annotations

from collections.abc import Iterable

from ovk.sessions.column_summary import ColumnRow
from ovk.streams import Preparation
from ovk.streams.columns import Category


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
