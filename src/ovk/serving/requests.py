"""What stands in the bodies of requests, besides tensors and frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ovk.serving.contenders import TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.frames import read_rows
from ovk.serving.rows import RequestRows
from ovk.serving.tensors import read_tensors


def rows_and_targets(
    body: dict[str, Any], binary: memoryview, waiting: RequestRows | None
) -> tuple[RequestRows, RequestRows]:
    """The rows of a request to learn, or those that waited for their labels, and the targets."""
    if body.get("infer_id") is not None:
        if waiting is None:
            raise RequestRefused(404, "no rows wait under this infer_id: it is unknown, or its time has passed")
        rows = waiting
    else:
        rows, binary = read_inputs(body, binary)
    given = body.get("targets")
    if isinstance(given, list) and given and isinstance(given[0], dict) and "datatype" in given[0]:
        targets, binary = read_tensors(given, binary, "targets")
    else:
        targets = read_rows(given, "targets")
    check_end(binary)
    return rows, targets


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
        raise RequestRefused(400, "id must be a text of at most 200 letters")
    try:
        identifier.encode()
    except UnicodeEncodeError:
        raise RequestRefused(400, "id must be a text that UTF-8 can write") from None
    return identifier


def parameters_of(body: dict[str, Any]) -> dict[str, Any]:
    parameters = body.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise RequestRefused(400, "parameters must be an object")
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
        name, own = one.get("name"), one.get("parameters")
        if not isinstance(name, str) or name not in given:
            raise RequestRefused(400, f"outputs must be among {', '.join(given)}, got {str(name)[:60]!r}")
        wanted[name] = bool(own.get("binary_data", everything)) if isinstance(own, dict) else everything
    return list(wanted), wanted
