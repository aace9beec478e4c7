"""What should be said about the columns of a table that was learned."""

from __future__ import annotations

from ovk.streams import Preparation
from ovk.streams.columns import Category


def doubts(preparation: Preparation) -> list[str]:
    """Sentences about columns that may not be what they are read as."""
    return list(preparation.doubts_.values())


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
        groups = (
            f"if rows to come belong to new ones, name it with --groups {name} (groups={name!r}), so that errors and "
            "intervals are about these; "
            if table
            else ""
        )
        found.append(
            f"Column {name!r} takes {count:,} values, each in several rows, and is used as {what}. If it tells which "
            f"thing a row belongs to: {groups}to leave it out, --ignore {name} (ignore=[{name!r}])."
        )
    return found
