"""The keys and parameters of requests with their JSON schemas, and the OpenAPI description of the service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from ovk._version import __version__
from ovk.app.serve.access import HEALTH_CHECKS, RequestError
from ovk.app.serve.protocol import MLFLOW_FORMS, NUMBERS
from ovk.base import closest_names

#: A JSON schema.
Schema = dict[str, Any]

#: Scheduling parameters of Triton's clients, accepted and ignored.
SCHEDULING_PARAMETERS = ("priority", "timeout")

BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
LIST: Schema = {"type": "array"}
OBJECT: Schema = {"type": "object"}


class RequestSchema(NamedTuple):
    """The allowed keys of a request, and the parameters in the object under one of them, `key`; with their schemas.

    Names and booleans are checked here, and other values where they are read.
    """

    keys: Mapping[str, Schema]
    parameters: Mapping[str, Schema] = {}
    key: str = "parameters"

    def check(self, body: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a request. Rejects unknown keys and parameters."""
        for name in body:
            if name not in self.keys and name in self.parameters:
                raise RequestError(400, f'{name!r} belongs inside {self.key!r}: "{self.key}": {{"{name}": ...}}')
            if name not in self.keys:
                known = _known(name, self.keys)
                raise RequestError(400, f"unknown key {name[:60]!r}: allowed keys are {known}")
        return self.check_parameters(body)

    def check_parameters(self, body: dict[str, Any]) -> dict[str, Any]:
        found = body.get(self.key) or {}
        if not isinstance(found, dict):
            raise RequestError(400, f"{self.key} must be an object")
        for name, value in found.items():
            if name not in self.parameters and not (self.key == "parameters" and name in SCHEDULING_PARAMETERS):
                elsewhere = ": only /v2/models/NAME/infer takes it" if name in INFER.parameters else ""
                known = _known(name, self.parameters)
                raise RequestError(
                    400, f"unknown parameter {name[:60]!r} in {self.key}{elsewhere}; allowed here: {known}"
                )
            if self.parameters.get(name) is BOOLEAN and type(value) is not bool:
                raise RequestError(400, f"{name} must be true or false, got {json.dumps(value)[:40]}")
        return found

    def described(self) -> Schema:
        """The JSON schema of the body."""
        properties = dict(self.keys)
        if self.key in properties:
            allowed = dict(self.parameters)
            if self.key == "parameters":
                allowed |= {name: {} for name in SCHEDULING_PARAMETERS}
            properties[self.key] = {"type": ["object", "null"], "properties": allowed, "additionalProperties": False}
        return {**OBJECT, "properties": properties, "additionalProperties": False}


def _known(name: str, allowed: Iterable[str]) -> str:
    close = closest_names([name], allowed)
    return (", ".join(allowed) or "none") + (f"; did you mean {close[name]!r}?" if close else "")


_ID: Schema = {"type": ["string", "null"], "maxLength": 200}
_LEVEL: Schema = {"type": "number", "minimum": 1e-6, "maximum": 1 - 1e-6}
_TENSOR: Schema = {
    **OBJECT,
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {**TEXT, "minLength": 1, "maxLength": 200},
        "shape": {**LIST, "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2},
        "datatype": {"enum": [*NUMBERS, "BYTES"]},
        "data": LIST,
        "parameters": {**OBJECT, "properties": {"binary_data_size": {"type": "integer", "minimum": 0}}},
    },
}
_TENSORS: Schema = {**LIST, "items": _TENSOR, "minItems": 1}
#: Lists of numbers or records with column names; labels may be given without a list around each.
_ROWS: Schema = {**LIST, "minItems": 1, "items": {"type": ["array", "object", "number", "string", "null"]}}

OUTPUT = RequestSchema({"name": TEXT, "parameters": OBJECT}, {"binary_data": {}})
_COMMON: dict[str, Schema] = {"id": _ID, "parameters": OBJECT}
_LABELS: dict[str, Schema] = {"infer_id": {"type": ["string", "null"]}, "targets": {"anyOf": [_ROWS, _TENSORS]}}
INFER = RequestSchema(
    {**_COMMON, "inputs": _TENSORS, "outputs": {**LIST, "items": OUTPUT.described()}, "rows": _ROWS},
    {"level": _LEVEL, "await_label": BOOLEAN, "binary_data_output": BOOLEAN},
)
LEARN = RequestSchema({**_COMMON, "rows": _ROWS, "inputs": _TENSORS, **_LABELS})
PROMOTE = RequestSchema({"id": _ID, "name": TEXT})
INVOCATIONS = RequestSchema(
    {**{form: {"type": ["array", "object"]} for form in MLFLOW_FORMS}, "params": OBJECT}, {"level": _LEVEL}, "params"
)


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[..., Any]
    scope: str | None = None
    schema: RequestSchema | None = None


_JSON, _BYTES = "application/json", "application/octet-stream"
#: Successful responses of handlers: the keys that its JSON always has, status and media types; others send JSON.
REPLIES: dict[str, tuple[Sequence[str], int, Sequence[str]]] = {
    "infer": (("model_name", "model_version", "parameters", "outputs"), 200, (_JSON, _BYTES)),
    "learn": (("sequence", "rows"), 202, (_JSON,)),
    "promote": (("sequence", "active"), 202, (_JSON,)),
    "invocations": (("predictions",), 200, (_JSON,)),
    "events": ((), 200, ("text/event-stream",)),
    "version": ((), 200, ("text/plain",)),
    "prometheus": ((), 200, ("text/plain",)),
    "page": ((), 200, ("text/html",)),
}

#: Statuses of rejected requests: of all requests, of a path that names a model (a slash in the name leads elsewhere),
#: of a body, of what concerns ids and queues, and of what is stored.
ALWAYS, NAMED, WITH_BODY, WITH_ID, STORED = (400, 403, 503), (404, 405), (408, 413, 415), (409, 429), (507,)


def _responses(route: Route) -> dict[str, Any]:
    name = route.handler.__name__
    keys, status, media = REPLIES.get(name, ((), 200, (_JSON,)))
    success = {"schema": {**OBJECT, "required": list(keys)}}
    found = {status: {one: success if one == _JSON else {} for one in media}}
    statuses = [*ALWAYS, *([401] if route.scope else []), *(NAMED if "{" in route.path else [])]
    statuses += [*(WITH_BODY if route.schema else []), *(STORED if status == 202 else [])]
    statuses += WITH_ID if route.schema or name == "events" else []
    keys = ["error_code", "message"] if name == "invocations" else ["error"]
    failure = {**OBJECT, "required": keys, "properties": dict.fromkeys(keys, TEXT)}
    for status in statuses:
        # A health check that fails has the form of one that succeeds.
        schema = OBJECT if status == 503 and name in HEALTH_CHECKS else failure
        found[status] = {_JSON: {"schema": schema}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status, content in sorted(found.items())
    }


def describe(table: Sequence[Route], models: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI description of a table of routes; `models` are the names to reveal."""
    paths: dict[str, Any] = {}
    for route in table:
        named = {"model": {**TEXT, "enum": list(models)} if models else TEXT, "version": TEXT}
        operation: dict[str, Any] = {
            "operationId": f"{route.method} {route.path}",
            "summary": (route.handler.__doc__ or route.handler.__name__.replace("_", " ")).strip().split("\n")[0],
            "parameters": [
                {"name": one, "in": "path", "required": True, "schema": named[one]}
                for one in re.findall(r"{(\w+)}", route.path)
            ],
            "responses": _responses(route),
            "security": [] if route.scope is None else [{"token": [route.scope]}],
        }
        if route.schema is not None:
            operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": route.schema.described()}}}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "ovk", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
