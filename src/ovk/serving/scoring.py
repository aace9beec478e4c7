"""Predictions as records or lists, which is how MLflow's clients expect them."""

from __future__ import annotations

import json
from math import ceil, floor
from typing import Any

import numpy as np

from ovk.serving.contenders import Contender, Outputs
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows
from ovk.serving.tensors import plain_list


def checked_level(level: Any, leader: Contender) -> float:
    """How often an interval should hold the outcome, if the rows that a model keeps are enough for it."""
    if isinstance(level, str):
        raise RequestRefused(
            400, f"level must be a number between 0 and 1, got the text {level[:40]!r}: write it without quotes"
        )
    if type(level) not in (int, float) or not 1e-6 <= level <= 1 - 1e-6:
        raise RequestRefused(400, f"level must be a number between 0 and 1, got {json.dumps(level)[:40]}")
    kept = leader.window
    if kept and rows_needed(level) > kept:
        highest = floor(1e4 * kept / (kept + 1)) / 1e4
        raise RequestRefused(
            400,
            f"intervals of level {level} need the errors of {rows_needed(level):,} rows, and only the last {kept:,} "
            f"are kept: the highest level is {highest}",
        )
    return float(level)


def rows_needed(level: float) -> int:
    """Rows with known outcomes before intervals of that level have ends.

    >>> rows_needed(0.9), rows_needed(0.9999)
    (9, 9999)
    """
    return ceil(round(level / (1 - level), 3))


def missing_bounds(found: Outputs, level: float, leader: Contender, *, learning: bool = True) -> str:
    """Why intervals have no ends, in one sentence; empty if they have. `learning` is whether rows are learned."""
    for end in ("lower", "upper"):
        if end in found and (np.isinf(found[end]) & np.isfinite(found["mean"])).any():
            if leader.intervals_of_service and not learning:
                return (
                    "this model has no intervals here: they are made from the errors of rows that are learned in "
                    "service, and this service learns none"
                )
            return (
                f"ends of intervals are null where an output has too few known outcomes: level {level} needs "
                f"{rows_needed(level):,} of them"
            )
    return ""


def columns(leader: Contender, rows: RequestRows, level: Any = None, *, learning: bool = True) -> tuple[Outputs, str]:
    """Predictions by the names of outputs, with a level also the ends of their intervals; and why ends are missing."""
    wanted = frozenset() if level is None else frozenset({"lower", "upper"})
    asked = 0.9 if level is None else checked_level(level, leader)
    found = leader.predict(rows, wanted, asked)
    if leader.labels:
        return found, ""
    kinds = {"mean": "", "lower": " lower", "upper": " upper"}
    present = {kind: end for kind, end in kinds.items() if kind == "mean" or level is not None}
    named = {
        f"{name}{end}": found[kind][:, q] for kind, end in present.items() for q, name in enumerate(leader.outputs)
    }
    return named, missing_bounds(found, asked, leader, learning=learning) if level is not None else ""


def records(leader: Contender, rows: RequestRows, level: Any = None, *, learning: bool = True) -> tuple[list[Any], str]:
    """A record for each row, or a number or label where there is one output; and why ends of intervals are missing."""
    values, note = columns(leader, rows, level, learning=learning)
    found = {name: plain_list(column) for name, column in values.items()}
    if len(found) == 1:
        return list(*found.values()), note
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)], note
