"""What a request to learn asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.serving.entries import Entry
from ovk.serving.errors import RequestRefused
from ovk.serving.frames import read_rows
from ovk.serving.requests import check_count, check_end, check_keys, identifier_of, parameters_of, read_inputs
from ovk.serving.rows import RequestRows
from ovk.serving.service import ModelService
from ovk.serving.tensors import read_tensors
from ovk.serving.waiting import no_rows_wait

#: Targets beyond this are refused: sums of squares of larger numbers are beyond the range of doubles.
LARGEST = 1e140

#: Keys of a request to learn.
LEARN = ("id", "parameters", "rows", "inputs", "infer_id", "targets")


def read_entry(service: ModelService, body: dict[str, Any], binary: memoryview) -> Entry:
    """The entry of a request to learn: rows with targets, or labels of rows that were predicted before.

    Labels that leave out some of the outputs are a part, and the others may come later.
    """
    check_keys(body, LEARN)
    parameters_of(body, ())
    label_of = body.get("infer_id")
    if label_of is not None and not isinstance(label_of, str):
        raise RequestRefused(400, "infer_id must be a string")
    if label_of is not None and ("rows" in body or "inputs" in body):
        raise RequestRefused(400, "infer_id stands for rows that were sent before: leave out rows and inputs")
    rows = None
    if label_of is None:
        rows, binary = read_inputs(body, binary)
        check_count(len(rows), service.limits.rows)
    targets = _read_targets(body.get("targets"), binary)
    leader = service.state.leader
    named = () if label_of is None else targets.names or ()
    part = 0 < len(named) < len(leader.outputs) and set(named) <= set(leader.outputs)
    entry = Entry(identifier_of(body), rows, targets, label_of=label_of, part=part)
    if entry.id is None and label_of is not None:
        entry = replace(entry, id=entry.label_id)
    if service.intake.earlier(entry) is not None:
        return entry
    if label_of is not None:
        rows = service.intake.waiting_rows(label_of)
        if rows is None:
            raise no_rows_wait(label_of)
        entry = replace(entry, rows=rows)
    assert rows is not None
    whole = _completed(targets, leader.outputs) if part else targets
    leader.check(rows, whole)
    if not leader.labels:
        _check_sizes(leader.targets(whole), leader.outputs)
    return entry


def _check_sizes(Y: Array, outputs: Sequence[str]) -> None:
    """Refuse targets (n, d) whose squared errors are no numbers: nobody could tell how well they are predicted."""
    too_large = np.abs(Y) > LARGEST  # nan is not
    if too_large.any():
        i, q = np.argwhere(too_large)[0].tolist()
        raise RequestRefused(
            400,
            f"target {outputs[q]!r} of row {i + 1} is {Y[i, q]:g}, beyond {LARGEST:g}, so its squared error is no "
            "number: send null if it is not known",
        )


def _read_targets(given: Any, binary: memoryview) -> RequestRows:
    if isinstance(given, list) and given and isinstance(given[0], dict) and "datatype" in given[0]:
        targets, binary = read_tensors(given, binary, "targets")
    else:
        targets = read_rows(given, "targets")
    check_end(binary)
    return targets


def _completed(targets: RequestRows, outputs: Sequence[str]) -> RequestRows:
    """The targets with columns of missing values for the outputs that they leave out."""
    missing = np.full(len(targets), np.nan)
    names = targets.names or ()
    return RequestRows.named(outputs, [targets.column(name) if name in names else missing for name in outputs])
