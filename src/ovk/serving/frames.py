"""Rows as MLflow's scoring protocol writes them, and rows as plain lists or records."""

from __future__ import annotations

from typing import Any

from ovk.serving.errors import RequestRefused
from ovk.serving.rows import Cells, RequestRows, as_matrix, as_numbers, only_plain

#: The forms of a request, exactly one of which must be there.
FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")


def read_frame(body: dict[str, Any]) -> RequestRows:
    """The rows of a request to ``/invocations``.

    >>> read_frame({"dataframe_split": {"columns": ["a", "b"], "data": [[1, "x"], [2, None]]}}).columns[1]
    ['x', None]
    """
    found = [form for form in FORMS if form in body]
    if len(found) != 1:
        raise RequestRefused(400, f"the body must hold one of {', '.join(FORMS)}, found {', '.join(found) or 'none'}")
    value = body[found[0]]
    if found[0] == "dataframe_split":
        if not isinstance(value, dict) or not isinstance(value.get("data"), list):
            raise RequestRefused(400, "dataframe_split must hold columns and data")
        names = value.get("columns")
        if names is None:
            return read_rows(value["data"], "data")
        return _of_lists(_names(names), value["data"])
    if found[0] == "inputs" and isinstance(value, dict):
        return _of_columns(value)
    return read_rows(value, found[0])


def read_rows(value: Any, what: str) -> RequestRows:
    """Rows as a list of lists of numbers, or of records with the names of the columns.

    >>> read_rows([{"a": 1, "b": None}, {"a": 2, "b": 3}], "rows").names
    ('a', 'b')
    """
    if not isinstance(value, list):
        raise RequestRefused(400, f"{what} must be a list of rows")
    if not value:
        raise RequestRefused(400, f"{what} is an empty list: it must hold at least one row")
    if isinstance(value[0], dict):
        names = _names(list(value[0]))
        known = set(names)
        if not all(isinstance(record, dict) and record.keys() <= known for record in value):
            raise RequestRefused(400, f"{what}: all records must have the same columns")
        return _checked(names, [[record.get(name) for record in value] for name in names])
    if only_plain(value):
        return RequestRows.of_matrix(as_matrix(value, what))
    if all(isinstance(cell, (str, int, float)) or cell is None for cell in value):
        return RequestRows.named(["label"], [value])
    raise RequestRefused(400, f"{what} must be rows of numbers and nulls, or records with the names of the columns")


def _of_lists(names: list[str], data: list[Any]) -> RequestRows:
    if not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise RequestRefused(400, f"each row of data must be a list of {len(names)} values")
    return _checked(names, [list(column) for column in zip(*data, strict=True)] if data else [[] for _ in names])


def _of_columns(columns: dict[str, Any]) -> RequestRows:
    names = _names(list(columns))
    lists = [value if isinstance(value, list) else [value] for value in columns.values()]
    # Tensors of one column, (n, 1), are columns.
    flat = [[c[0] if isinstance(c, list) and len(c) == 1 else c for c in column] for column in lists]
    if len({len(column) for column in flat}) > 1:
        raise RequestRefused(400, "inputs have different numbers of rows")
    return _checked(names, flat)


def _names(names: Any) -> list[str]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise RequestRefused(400, "columns must be a list of names")
    if len(set(names)) < len(names):
        raise RequestRefused(400, "two columns have the same name")
    return names


def _checked(names: list[str], lists: list[list[Any]]) -> RequestRows:
    """Columns whose cells are numbers, texts, truth values and nulls."""
    columns: list[Cells] = []
    for name, cells in zip(names, lists, strict=True):
        kinds = set(map(type, cells))
        if kinds <= {int, float, type(None)}:
            columns.append(as_numbers(cells, f"column {name[:60]!r}"))
        elif kinds <= {str, bool, int, float, type(None)}:
            columns.append(cells)
        else:
            raise RequestRefused(400, f"column {name[:60]!r} must hold numbers, texts or nulls")
    return RequestRows.named(names, columns)
