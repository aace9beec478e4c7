"""What stands in the bodies of requests, besides tensors and frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ovk.serving.contenders import TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.frames import read_rows
from ovk.serving.rows import RequestRows
from ovk.serving.tensors import read_tensors

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
    close = get_close_matches(name, allowed, 1)
    return (", ".join(allowed) or "none") + (f"; did you mean {close[0]!r}?" if close else "")


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
