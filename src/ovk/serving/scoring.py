"""Predictions as records or lists, which is how MLflow's clients expect them."""

from __future__ import annotations

from typing import Any

from ovk.serving.contenders import Contender, Outputs
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows
from ovk.serving.tensors import plain_list


def checked_level(level: Any) -> float:
    """How often an interval should hold the outcome.

    >>> checked_level(0.9)
    0.9
    """
    if type(level) not in (int, float) or not 1e-6 <= level <= 1 - 1e-6:
        raise RequestRefused(400, f"level must be a number between 0 and 1, got {str(level)[:40]}")
    return float(level)


def columns(leader: Contender, rows: RequestRows, level: Any = None) -> Outputs:
    """Predictions by the names of outputs; with a level also the ends of their intervals."""
    wanted = frozenset() if level is None else frozenset({"lower", "upper"})
    found = leader.predict(rows, wanted, 0.9 if level is None else checked_level(level))
    if leader.labels:
        return found
    kinds = {"mean": "", "lower": " lower", "upper": " upper"}
    present = {kind: end for kind, end in kinds.items() if kind == "mean" or level is not None}
    return {f"{name}{end}": found[kind][:, q] for kind, end in present.items() for q, name in enumerate(leader.outputs)}


def records(leader: Contender, rows: RequestRows, level: Any = None) -> list[Any]:
    """A record for each row, or a number or label where there is one output without a name of its own."""
    found = {name: plain_list(values) for name, values in columns(leader, rows, level).items()}
    if len(found) == 1:
        return list(*found.values())
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
