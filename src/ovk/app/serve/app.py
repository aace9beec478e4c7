"""The routes of a server and their handlers."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from ovk._version import __version__
from ovk.app.serve.access import AuthMiddleware, Limits, RequestError, Tokens, needs
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import (
    RequestRows,
    TensorSpec,
    read_frame,
    read_rows,
    read_tensors,
    split_body,
    write_tensors,
)
from ovk.app.serve.schemas import INFER, INVOCATIONS, LEARN, OUTPUT, PROMOTE, RequestSchema, Route, describe
from ovk.app.serve.service import ModelService
from ovk.app.serve.status import ServiceMetrics, page_and_policy, page_for, view
from ovk.base import Array

#: The version of every model, for clients that name one; its state is identified by the sequence number.
VERSION = "1"

#: Maximum number of status pages that are updated, and seconds between two updates.
MAX_EVENT_STREAMS, UPDATE_SECONDS = 32, 1.0

#: Larger bodies are handled in another thread, so that other requests do not wait for them.
MAX_INLINE_BYTES = 64 << 10

#: Larger targets are rejected: sums of their squares exceed the range of doubles.
MAX_TARGET = 1e140

#: The header with the length of the JSON, which the bytes of tensors follow.
JSON_LENGTH = b"inference-header-content-length"


class ParsedRequest(NamedTuple):
    """A request whose body follows its schema."""

    service: ModelService
    body: dict[str, Any]
    binary: memoryview
    parameters: dict[str, Any]
    scopes: frozenset[str]

    def identifier(self) -> str | None:
        found = self.body.get("id")
        if found is None or found == "":
            return None
        if not isinstance(found, str) or len(found) > 200:
            raise RequestError(400, "id must be a string of at most 200 characters")
        try:
            found.encode()
        except UnicodeEncodeError:
            raise RequestError(400, "id must be valid Unicode") from None
        return found

    def inputs(self) -> tuple[RequestRows, memoryview]:
        """The rows, from `rows` or the tensors of `inputs`, and the rest of the binary data."""
        if "rows" in self.body:
            rows, rest = read_rows(self.body["rows"], "rows"), self.binary
        else:
            rows, rest = read_tensors(self.body.get("inputs"), self.binary, "inputs")
        self.check_count(rows)
        return rows, rest

    def check_count(self, rows: RequestRows) -> None:
        most = self.service.limits.rows
        if not len(rows):
            raise RequestError(400, "the request contains no rows")
        if len(rows) > most:
            message = f"the request contains {len(rows):,} rows; at most {most:,} are allowed (--max-rows)"
            raise RequestError(413, f"{message}: send several requests")


def _check_end(binary: memoryview) -> None:
    if len(binary):
        raise RequestError(400, f"{len(binary)} unexpected bytes after the last tensor")


class Server:
    """The handlers of all routes, and the services of the models."""

    def __init__(self, services: Mapping[str, ModelService], limits: Limits, tokens: Tokens | None) -> None:
        self.services, self.limits, self.tokens = dict(services), limits, tokens
        self.metrics = ServiceMetrics(self.services)
        self.opened = False
        self.stopping = threading.Event()
        self._streams = 0
        self._table: list[Route] = []

    def open(self) -> None:
        try:
            for service in self.services.values():
                service.open()
        except BaseException:
            for service in self.services.values():
                service.close()
            raise
        self.opened = True

    def close(self) -> None:
        """Reject learning requests, end event streams, learn queued requests and write checkpoints."""
        self.stopping.set()
        for service in self.services.values():
            service.queue.stop()
        for service in self.services.values():
            service.close()
        self.opened = False

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        if not self.opened:
            self.open()
        try:
            yield
        finally:
            await run_in_threadpool(self.close)

    def app(self) -> Starlette:
        one, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
        # Method, path, handler, scope and body schema. Health checks and the empty status page need no scope.
        self._table = [
            Route("POST", f"{one}/infer", self.infer, "predict", INFER),
            Route("POST", f"{one}/learn", self.learn, "learn", LEARN),
            Route("POST", f"{one}/promote", self.promote, "admin", PROMOTE),
            Route("GET", f"{one}/events", self.events, "predict"),
            Route("GET", f"{one}/ready", self.model_ready, "predict"),
            Route("GET", one, self.model_metadata, "predict"),
            Route("POST", f"{version}/infer", self.infer, "predict", INFER),
            Route("GET", f"{version}/ready", self.model_ready, "predict"),
            Route("GET", version, self.model_metadata, "predict"),
            Route("GET", "/v2/health/live", self.live),
            Route("GET", "/v2/health/ready", self.ready),
            Route("GET", "/v2", self.server_metadata, "predict"),
            Route("POST", "/invocations", self.invocations, "predict", INVOCATIONS),
            Route("GET", "/ping", self.ready),
            Route("GET", "/version", self.version),
            Route("GET", "/metrics", self.prometheus, "predict"),
            Route("GET", "/openapi.json", self.openapi),
            Route("GET", "/", self.page),
        ]
        routes = [
            StarletteRoute(path, needs(scope, self._parsing(schema, handler) if schema else handler), methods=[method])
            for method, path, handler, scope, schema in self._table
        ]
        auth = Middleware(AuthMiddleware, tokens=self.tokens, observe=self.metrics.observe)
        handlers: Any = dict.fromkeys((HTTPException, ClientDisconnect), http_error)
        app = Starlette(routes=routes, middleware=[auth], lifespan=self.lifespan, exception_handlers=handlers)
        app.state.server = self
        return app

    def _parsing(
        self, schema: RequestSchema, handler: Callable[[ParsedRequest], Response | Entry]
    ) -> Callable[[Request], Any]:
        """Parse the body for a handler. An entry that the handler returns is in the log before the client is told."""

        @wraps(handler)
        async def parsing(request: Request) -> Response:
            service = self._service(request)
            content = await self._body(request)
            length: bytes | None = request.scope["ovk.headers"].get(JSON_LENGTH)

            def work() -> Response | Entry:
                body, binary = split_body(content, None if length is None else length.decode("latin-1"))
                try:
                    parameters = schema.check(body)
                    return handler(ParsedRequest(service, body, binary, parameters, request.scope["ovk.scopes"]))
                except RequestError:
                    service.rejected += schema is LEARN
                    raise

            found = work() if len(content) <= MAX_INLINE_BYTES else await run_in_threadpool(work)
            if isinstance(found, Response):
                return found
            stored = await service.queue.submit(found)
            if found.promote is not None:
                return json_response({"sequence": stored.sequence, "active": found.promote}, 202)
            reply: dict[str, Any] = {"id": found.id, "sequence": stored.sequence, "rows": stored.rows}
            if found.partial and found.targets is not None:
                reply["outputs"] = found.targets.names
            return json_response(reply, 202)

        return parsing

    async def live(self, request: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, request: Request) -> Response:
        ready = self.opened and not self.stopping.is_set()
        return json_response({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        service = self._service(request)
        ready = not self.stopping.is_set() and not service.queue.halted
        return json_response({"name": service.name, "ready": ready}, 200 if ready else 503)

    async def server_metadata(self, request: Request) -> Response:
        found = {"name": "ovk", "version": __version__, "extensions": ["binary_tensor_data", "learn"]}
        return json_response({**found, "models": list(self.services)})

    async def version(self, request: Request) -> Response:
        return PlainTextResponse(__version__)

    async def model_metadata(self, request: Request) -> Response:
        service = self._service(request)
        active = service.state.active
        return json_response(
            {
                "name": service.name,
                "versions": [VERSION],
                "platform": "ovk",
                "inputs": [spec.metadata() for spec in active.input_specs()],
                "outputs": [spec.metadata() for spec in active.output_specs().values()],
                "parameters": {"targets": active.outputs, "active": active.name, "learns": not service.predicts_only},
            }
        )

    def infer(self, request: ParsedRequest) -> Response:
        service, parameters = request.service, request.parameters
        rows, rest = request.inputs()
        _check_end(rest)
        state = service.state
        active = state.active
        given = active.output_specs()
        as_bytes = _wanted_outputs(request.body, parameters, given)
        level = active.checked_level(parameters.get("level", 0.9))
        found = active.predict(rows, frozenset(as_bytes), level)
        tensors, buffers = write_tensors([(given[name], found[name]) for name in as_bytes], as_bytes)
        identifier = request.identifier()
        if parameters.get("await_label") is True:
            if "learn" not in request.scopes:
                # These rows are learned whichever client sends the label.
                message = "await_label requires learning, which this token does not allow"
                raise RequestError(403, f"{message}: omit await_label")
            service.check_learns()
            identifier = identifier or secrets.token_hex(16)
            service.queue.wait_for_label(identifier, rows)
        reply: dict[str, Any] = {"model_name": service.name, "model_version": VERSION}
        if identifier is not None:
            reply["id"] = identifier
        about: dict[str, Any] = {"sequence": state.sequence, "active": active.name}
        if note := active.missing_bounds(found, level, learning=not service.predicts_only):
            about["note"] = note
        reply |= {"parameters": about, "outputs": tensors}
        if not buffers:
            return json_response(reply)
        head = orjson.dumps(reply)
        headers = {"Inference-Header-Content-Length": str(len(head))}
        return Response(b"".join([head, *buffers]), media_type="application/octet-stream", headers=headers)

    def invocations(self, request: ParsedRequest) -> Response:
        """Predictions of the first model, in the format of MLflow's scoring servers."""
        _check_end(request.binary)
        service, rows = request.service, read_frame(request.body)
        request.check_count(rows)
        level = request.parameters.get("level")
        predictions, note = service.state.active.records(rows, level, learning=not service.predicts_only)
        return json_response({"predictions": predictions, **({"note": note} if note else {})})

    def learn(self, request: ParsedRequest) -> Entry:
        request.service.check_learns()
        return _read_entry(request)

    def promote(self, request: ParsedRequest) -> Entry:
        """Make another model the active one."""
        state = request.service.state
        others = [model.name for model in state.models if model is not state.active]
        name = request.body.get("name", others[0] if len(others) == 1 else None)
        if name not in [model.name for model in state.models]:
            what = f"name must be one of {', '.join(others)}" if others else "there is no shadow to promote"
            raise RequestError(400, what)
        return Entry(request.identifier(), promote=name)

    async def events(self, request: Request) -> Response:
        """Server-sent events with the contents of the status page."""
        service = self._service(request)
        if self._streams >= MAX_EVENT_STREAMS:
            raise RequestError(429, f"{MAX_EVENT_STREAMS} status pages are connected: close one", retry_after=10)
        return StreamingResponse(self._updates(service), media_type="text/event-stream")

    async def _updates(self, service: ModelService) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            shown, quiet = None, 0.0
            while not self.stopping.is_set():
                state = service.state
                if (state.sequence, state.active.name) != shown or quiet >= 5.0:
                    shown, quiet = (state.sequence, state.active.name), 0.0
                    yield b"data: " + orjson.dumps(view(service)) + b"\n\n"
                for _ in range(5):
                    await asyncio.sleep(UPDATE_SECONDS / 5)
                    if self.stopping.is_set():
                        return
                quiet += UPDATE_SECONDS
        finally:
            self._streams -= 1

    async def prometheus(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI description; model names are included only for clients with the predict scope."""
        allowed = "predict" in (request.scope["ovk.scopes"] or ())
        return json_response(describe(self._table, list(self.services) if allowed else []))

    async def page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": page_and_policy()[1]}
        html = page_for(self.services if self.tokens is None else None)
        return Response(html, media_type="text/html; charset=utf-8", headers=headers)

    def _service(self, request: Request) -> ModelService:
        """The model in the path, by default the first one."""
        name = request.path_params.get("model", next(iter(self.services)))
        if name not in self.services:
            known = f": models are {', '.join(self.services)}" if "predict" in request.scope["ovk.scopes"] else ""
            raise RequestError(404, f"there is no model {name[:100]!r}{known}")
        if request.path_params.get("version", VERSION) != VERSION:
            raise RequestError(404, f"unknown version; the only version of this model is {VERSION}")
        return self.services[name]

    async def _body(self, request: Request) -> bytes:
        headers: dict[bytes, bytes] = request.scope["ovk.headers"]
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        # Clients of the protocol omit it. Foreign pages could omit it too, but the Origin header identifies them.
        allowed = ("application/json", "application/octet-stream") if JSON_LENGTH in headers else ("application/json",)
        if kind and kind not in allowed:
            raise RequestError(415, f"Content-Type must be {' or '.join(allowed)}, got {kind[:60]}")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise RequestError(415, "compressed bodies are not supported")
        too_large = RequestError(
            413, f"the body is larger than {self.limits.body:,} bytes (--max-body): send several requests"
        )
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:18]) > self.limits.body:
            raise too_large
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > self.limits.body:
                        raise too_large
                    chunks.append(chunk)
        except TimeoutError:
            raise RequestError(408, f"the body did not arrive within {self.limits.seconds:g} s") from None
        return b"".join(chunks)


def _wanted_outputs(
    body: dict[str, Any], parameters: dict[str, Any], given: Mapping[str, TensorSpec]
) -> dict[str, bool]:
    """The requested outputs, by default the first one, and whether each is to be sent as bytes."""
    everything = parameters.get("binary_data_output") is True
    asked = body.get("outputs")
    if not asked:
        ends = ["lower", "upper"] if "level" in parameters and "lower" in given else []
        return dict.fromkeys([next(iter(given)), *ends], everything)
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise RequestError(400, "outputs must be a list of objects with names")
    wanted: dict[str, bool] = {}
    for one in asked:
        name, own = one.get("name"), OUTPUT.check_parameters(one)
        if not isinstance(name, str) or name not in given:
            raise RequestError(400, f"outputs must be among {', '.join(given)}, got {str(name)[:60]!r}")
        wanted[name] = bool(own.get("binary_data", everything))
    return wanted


def _read_entry(request: ParsedRequest) -> Entry:
    """The log entry of a learning request: rows with targets, or all or some labels of predicted rows."""
    body, label_of, rest = request.body, request.body.get("infer_id"), request.binary
    if label_of is not None and not isinstance(label_of, str):
        raise RequestError(400, "infer_id must be a string")
    if label_of is not None and ("rows" in body or "inputs" in body):
        raise RequestError(400, "infer_id refers to rows that were sent before: omit rows and inputs")
    rows = None
    if label_of is None:
        rows, rest = request.inputs()
    given = body.get("targets")
    if isinstance(given, list) and given and isinstance(given[0], dict) and "datatype" in given[0]:
        targets, rest = read_tensors(given, rest, "targets")
    else:
        targets = read_rows(given, "targets")
    _check_end(rest)
    active = request.service.state.active
    named = () if label_of is None else targets.names or ()
    partial = 0 < len(named) < len(active.outputs) and set(named) <= set(active.outputs)
    entry = Entry(request.identifier(), rows, targets, label_of=label_of, partial=partial)
    if entry.id is None and label_of is not None:
        entry = replace(entry, id=entry.label_id)
    repeated, rows = request.service.queue.look_up(entry)
    entry = replace(entry, rows=rows)
    if repeated:
        return entry
    assert rows is not None
    if partial:
        missing = np.full(len(targets), np.nan)
        columns = [targets.column(name) if name in named else missing for name in active.outputs]
        targets = RequestRows.named(active.outputs, columns)
    active.check(rows, targets)
    if active.task.numeric:
        _check_sizes(active.targets(targets), active.outputs)
    return entry


def _check_sizes(Y: Array, outputs: Sequence[str]) -> None:
    """Reject targets (n, d) whose squared errors overflow, which would make every score infinite."""
    too_large = np.abs(Y) > MAX_TARGET  # nan is not
    if too_large.any():
        i, q = np.argwhere(too_large)[0].tolist()
        raise RequestError(
            400,
            f"target {outputs[q]!r} of row {i + 1} must be at most {MAX_TARGET:g} in magnitude, got {Y[i, q]:g}: send "
            "null if it is unknown",
        )


def json_response(content: Any, status: int = 200) -> Response:
    """A JSON response with a final newline, for terminals."""
    return Response(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE), status, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)  # nobody reads the reply to a closed connection
    message = {404: "no such URL", 405: "method not allowed for this URL"}.get(status, "the request was rejected")
    return json_response({"error": message}, status)
