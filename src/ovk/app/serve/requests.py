"""What stands in the bodies of requests, besides tensors and frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.log import Entry
from ovk.app.serve.rows import RequestRows
from ovk.app.serve.served_models import TensorSpec
from ovk.app.serve.service import ModelService
from ovk.app.serve.tensors import read_rows, read_tensors
from ovk.base import Array, closest_names

#: Keys of a request to predict, those of the protocol and `rows`; and what its parameters may be.
INFER = ("id", "parameters", "inputs", "outputs", "rows")
PARAMETERS = ("level", "await_label", "binary_data_output")

#: Parameters by which clients of Triton ask for a place in its queue: they are taken, and change no prediction.
QUEUEING = ("priority", "timeout")


def check_keys(
    body: dict[str, Any], allowed: Sequence[str], parameters: Sequence[str] = (), inside: str = "parameters"
) -> None:
    """Refuse keys that nobody would read; `parameters` are those that belong one level deeper, under `inside`."""
    for key in body:
        if key in allowed:
            continue
        if key in parameters:
            raise RequestRefused(400, f'{key!r} belongs inside {inside!r}: "{inside}": {{"{key}": ...}}')
        raise RequestRefused(400, f"unknown key {key[:60]!r}: a request holds {_known_ones(key, allowed)}")


def _known_ones(name: str, allowed: Sequence[str]) -> str:
    """The names that are known, and which of them may have been meant."""
    close = closest_names([name], allowed)
    return (", ".join(allowed) or "none") + (f"; did you mean {close[name]!r}?" if close else "")


def check_count(count: int, most: int) -> None:
    """Refuse a request without rows, or with too many."""
    if count < 1:
        raise RequestRefused(400, "the request holds no rows")
    if count > most:
        raise RequestRefused(
            413, f"the request holds {count:,} rows; at most {most:,} are allowed (--max-rows): send several requests"
        )


def read_inputs(body: dict[str, Any], binary: memoryview) -> tuple[RequestRows, memoryview]:
    """The rows of a request, as `rows` or as the tensors of `inputs`, and what is left of the binary data."""
    if "rows" in body:
        return read_rows(body["rows"], "rows"), binary
    return read_tensors(body.get("inputs"), binary, "inputs")


def check_end(binary: memoryview) -> None:
    """Refuse binary data that no tensor asked for."""
    if len(binary):
        raise RequestRefused(400, f"{len(binary)} bytes stand behind the last tensor")


def described(spec: TensorSpec) -> dict[str, Any]:
    parameters = {"columns": spec.columns}
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape, "parameters": parameters}


def identifier_of(body: dict[str, Any]) -> str | None:
    identifier = body.get("id")
    if identifier is None or identifier == "":
        return None
    if not isinstance(identifier, str) or len(identifier) > 200:
        raise RequestRefused(400, "id must be a string of at most 200 characters")
    try:
        identifier.encode()
    except UnicodeEncodeError:
        raise RequestRefused(400, "id must be a string that UTF-8 can encode") from None
    return identifier


def parameters_of(body: dict[str, Any], allowed: Sequence[str], key: str = "parameters") -> dict[str, Any]:
    """The parameters of a request; those that nobody would read are refused."""
    parameters = body.get(key) or {}
    if not isinstance(parameters, dict):
        raise RequestRefused(400, f"{key} must be an object")
    for name, value in parameters.items():
        if name not in allowed and (key != "parameters" or name not in QUEUEING):
            elsewhere = ": only /v2/models/NAME/infer takes it" if name in PARAMETERS else ""
            raise RequestRefused(
                400, f"unknown parameter {name[:60]!r} in {key}{elsewhere}; known here: {_known_ones(name, allowed)}"
            )
        if name in ("await_label", "binary_data_output") and type(value) is not bool:
            raise RequestRefused(400, f"{name} must be true or false, got {json.dumps(value)[:40]}")
    return parameters


def wanted_outputs(
    body: dict[str, Any], parameters: dict[str, Any], given: Mapping[str, TensorSpec], default: str
) -> tuple[list[str], dict[str, bool]]:
    """Names of the outputs that were asked for, and which of them as bytes."""
    everything = parameters.get("binary_data_output") is True
    asked = body.get("outputs")
    if not asked:
        names = [default]
        if "level" in parameters and "lower" in given:
            names += ["lower", "upper"]
        return names, dict.fromkeys(names, everything)
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise RequestRefused(400, "outputs must be a list of objects with names")
    wanted: dict[str, bool] = {}
    for one in asked:
        name, own = one.get("name"), parameters_of(one, ["binary_data"])
        if not isinstance(name, str) or name not in given:
            raise RequestRefused(400, f"outputs must be among {', '.join(given)}, got {str(name)[:60]!r}")
        wanted[name] = bool(own.get("binary_data", everything))
    return list(wanted), wanted


# Replies in JSON, and small things that all addresses need.

R = TypeVar("R")

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

#: Bodies beyond this are read in another thread, so that others need not wait for them.
LARGE = 64 << 10

#: Says where the JSON of a request ends and the bytes of its tensors begin.
BINARY = b"inference-header-content-length"


def json_reply(content: Any, status: int = 200) -> Response:
    """A reply in JSON. It ends its line, for those who read it in a terminal."""
    body = _ENCODER.encode(content).encode() + b"\n"
    return Response(body, status, media_type="application/json")


async def beside(size: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do small work at once, and large work in another thread."""
    if size <= LARGE:
        return work(*arguments)
    return await run_in_threadpool(work, *arguments)


def json_length(request: Request) -> str | None:
    """How many bytes of the body are JSON, as its header says; None where all are."""
    length: bytes | None = request.scope["ovk.headers"].get(BINARY)
    return None if length is None else length.decode("latin-1")


async def no_such_address(request: Request, error: Exception) -> Response:
    """For addresses and methods that do not exist."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = {404: "there is no such address", 405: "this address does not take that method"}.get(status, "refused")
    return json_reply({"error": message}, status)


async def pass_on(request: Request, error: Exception) -> Response:
    """For refusals, which the guard answers."""
    raise error


async def gone(request: Request, error: Exception) -> Response:
    """For clients that did not wait."""
    return json_reply({"error": "the connection was closed"}, 400)


# What a request to learn asks for.

#: Targets beyond this are refused: sums of squares of larger numbers are beyond the range of doubles.
LARGEST = 1e140

#: Keys of a request to learn.
LEARN = ("id", "parameters", "rows", "inputs", "infer_id", "targets")


def read_entry(service: ModelService, body: dict[str, Any], binary: memoryview) -> Entry:
    """The entry of a request to learn: rows with targets, or labels of rows that were predicted before.

    Labels that leave out some of the outputs are partial, and the others may come later.
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
    partial = 0 < len(named) < len(leader.outputs) and set(named) <= set(leader.outputs)
    entry = Entry(identifier_of(body), rows, targets, label_of=label_of, partial=partial)
    if entry.id is None and label_of is not None:
        entry = replace(entry, id=entry.label_id)
    repeated, rows = service.queue.look_up(entry)
    entry = replace(entry, rows=rows)
    if repeated:
        return entry
    assert rows is not None
    whole = _completed(targets, leader.outputs) if partial else targets
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
