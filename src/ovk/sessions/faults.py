"""Rows of a table that had unreadable cells, told by kind of fault."""

from __future__ import annotations

from collections.abc import Sequence

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
