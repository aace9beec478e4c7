"""The addresses of a server, and what each answers."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ovk._version import __version__
from ovk.app.serve.access import Limits, RequestRefused, Tokens
from ovk.app.serve.auth_middleware import AuthMiddleware, Handler, needs
from ovk.app.serve.log import Entry
from ovk.app.serve.metrics import ServiceMetrics
from ovk.app.serve.page import page_and_policy, page_for, view
from ovk.app.serve.requests import (
    BINARY,
    INFER,
    PARAMETERS,
    beside,
    check_count,
    check_end,
    check_keys,
    described,
    gone,
    identifier_of,
    json_length,
    json_reply,
    no_such_address,
    parameters_of,
    pass_on,
    read_entry,
    read_inputs,
    wanted_outputs,
)
from ovk.app.serve.service import ModelService
from ovk.app.serve.tensors import (
    FORMS,
    checked_level,
    missing_bounds,
    parse_json,
    read_frame,
    records,
    split_body,
    write_tensors,
)

#: The version of every model, for clients of the protocol that name one: what it has learned is told by its sequence.
VERSION = "1"

#: Most pages that are kept up to date at once, and seconds between two of their updates.
STREAMS, PAUSE = 32, 1.0

#: Why a prediction may not wait for its label: what waits is learned with the label, whoever sends that.
NO_WAITING = (
    "rows that wait for labels become rows to learn, and this token does not allow learning: leave out await_label"
)


class Server:
    """What the addresses have in common: the models, the limits, and whether the end has begun."""

    def __init__(self, services: Mapping[str, ModelService], limits: Limits, tokens: Tokens | None) -> None:
        self.services, self.limits, self.tokens = dict(services), limits, tokens
        self.metrics = ServiceMetrics(self.services)
        self.opened = False
        self.stopping = threading.Event()
        self._streams = 0

    # Opening and closing ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load all models."""
        done: list[ModelService] = []
        try:
            for service in self.services.values():
                done.append(service)
                service.open()
        except BaseException:
            for service in done:
                service.close()
            raise
        self.opened = True

    def stop(self) -> None:
        """Begin to end: no request to learn is accepted any more, and pages are let go."""
        self.stopping.set()
        for service in self.services.values():
            service.queue.stop()

    def close(self) -> None:
        """Learn what waits, write checkpoints, end."""
        self.stop()
        for service in self.services.values():
            service.close()
        self.opened = False

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Open when the server starts, unless that was done, and close when it ends."""
        if not self.opened:
            self.open()
        try:
            yield
        finally:
            await run_in_threadpool(self.close)

    def app(self) -> Starlette:
        """The application."""
        one, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
        # The scope of each address; None for those that tell nothing but that the server is there, and for the page,
        # which is the same for everybody.
        table: list[tuple[str, str, Handler, str | None]] = [
            ("POST", f"{one}/infer", self.infer, "predict"),
            ("POST", f"{one}/learn", self.learn, "learn"),
            ("POST", f"{one}/promote", self.promote, "admin"),
            ("GET", f"{one}/events", self.events, "predict"),
            ("GET", f"{one}/ready", self.model_ready, "predict"),
            ("GET", one, self.model_metadata, "predict"),
            ("POST", f"{version}/infer", self.infer, "predict"),
            ("GET", f"{version}/ready", self.model_ready, "predict"),
            ("GET", version, self.model_metadata, "predict"),
            ("GET", "/v2/health/live", self.live, None),
            ("GET", "/v2/health/ready", self.ready, None),
            ("GET", "/v2", self.server_metadata, "predict"),
            ("POST", "/invocations", self.invocations, "predict"),
            ("GET", "/ping", self.ready, None),
            ("GET", "/version", self.version, None),
            ("GET", "/metrics", self.prometheus, "predict"),
            ("GET", "/", self.page, None),
        ]
        routes = [Route(path, needs(scope, handler), methods=[method]) for method, path, handler, scope in table]
        guard = Middleware(AuthMiddleware, tokens=self.tokens, metrics=self.metrics)
        handlers: Any = {HTTPException: no_such_address, RequestRefused: pass_on, ClientDisconnect: gone}
        app = Starlette(routes=routes, middleware=[guard], lifespan=self.lifespan, exception_handlers=handlers)
        app.state.server = self
        return app

    # Health and metadata ----------------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        """Whether the process runs."""
        return json_reply({"live": True})

    async def ready(self, request: Request) -> Response:
        """Whether all models can be asked."""
        ready = self.opened and not self.stopping.is_set()
        return json_reply({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """Whether a model can be asked."""
        service = self._service(request)
        ready = not self.stopping.is_set() and not service.halted
        return json_reply({"name": service.name, "ready": ready}, 200 if ready else 503)

    async def server_metadata(self, request: Request) -> Response:
        """Name, version, extensions, models."""
        found = {"name": "ovk", "version": __version__, "extensions": ["binary_tensor_data", "learn"]}
        return json_reply({**found, "models": list(self.services)})

    async def version(self, request: Request) -> Response:
        """The release of ovk."""
        return PlainTextResponse(__version__)

    async def model_metadata(self, request: Request) -> Response:
        """The tensors that a model takes and gives."""
        service = self._service(request)
        leader = service.state.leader
        return json_reply(
            {
                "name": service.name,
                "versions": [VERSION],
                "platform": "ovk",
                "inputs": [described(spec) for spec in leader.inputs()],
                "outputs": [described(spec) for spec in leader.gives().values()],
                "parameters": {"targets": leader.outputs, "champion": leader.name, "learns": not service.predicts_only},
            }
        )

    # Predicting -------------------------------------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """Predictions, in tensors."""
        service = self._service(request)
        content = await self._body(request)
        may_learn = "learn" in request.scope["ovk.scopes"]
        return await beside(len(content), self._infer, service, content, json_length(request), may_learn)

    def _infer(self, service: ModelService, content: bytes, json_length: str | None, may_learn: bool) -> Response:
        body, binary = split_body(content, json_length)
        check_keys(body, INFER, PARAMETERS)
        rows, rest = read_inputs(body, binary)
        check_end(rest)
        check_count(len(rows), self.limits.rows)
        state = service.state
        leader = state.leader
        parameters = parameters_of(body, PARAMETERS)
        given = leader.gives()
        wanted, as_bytes = wanted_outputs(body, parameters, given, next(iter(given)))
        level = checked_level(parameters.get("level", 0.9), leader)
        found = leader.predict(rows, frozenset(wanted), level)
        outputs = [(given[name], found[name]) for name in wanted]
        tensors, buffers = write_tensors(outputs, as_bytes)
        reply: dict[str, Any] = {"model_name": service.name, "model_version": VERSION}
        identifier = identifier_of(body)
        if parameters.get("await_label") is True:
            if not may_learn:
                raise RequestRefused(403, NO_WAITING)
            service.check_learns()
            identifier = identifier or secrets.token_hex(16)
            service.queue.wait_for_label(identifier, rows)
        if identifier is not None:
            reply["id"] = identifier
        about: dict[str, Any] = {"sequence": state.sequence, "champion": leader.name}
        if note := missing_bounds(found, level, leader, learning=not service.predicts_only):
            about["note"] = note
        reply |= {"parameters": about, "outputs": tensors}
        if not buffers:
            return json_reply(reply)
        head = json.dumps(reply, allow_nan=False).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        return Response(b"".join([head, *buffers]), media_type="application/octet-stream", headers=headers)

    async def invocations(self, request: Request) -> Response:
        """Predictions as MLflow's servers give them, of the first model."""
        content = await self._body(request)
        service = next(iter(self.services.values()))
        return await beside(len(content), self._invoke, service, content)

    def _invoke(self, service: ModelService, content: bytes) -> Response:
        body = parse_json(content)
        check_keys(body, (*FORMS, "params"), ["level"], inside="params")
        rows = read_frame(body)
        check_count(len(rows), self.limits.rows)
        level = parameters_of(body, ["level"], "params").get("level")
        predictions, note = records(service.state.leader, rows, level, learning=not service.predicts_only)
        return json_reply({"predictions": predictions, **({"note": note} if note else {})})

    # Learning ---------------------------------------------------------------------------------------------------------

    async def learn(self, request: Request) -> Response:
        """Rows and their targets: safe when the reply goes out, learned soon after."""
        service = self._service(request)
        service.check_learns()
        content = await self._body(request)
        entry = await beside(len(content), self._entry, service, content, json_length(request))
        receipt = await service.queue.submit(entry)
        reply: dict[str, Any] = {"id": entry.id, "sequence": receipt.sequence, "rows": receipt.rows}
        if entry.partial and entry.targets is not None:
            reply["outputs"] = entry.targets.names
        return json_reply(reply, 202)

    def _entry(self, service: ModelService, content: bytes, json_length: str | None) -> Entry:
        body, binary = split_body(content, json_length)
        try:
            return read_entry(service, body, binary)
        except RequestRefused:
            service.refused += 1
            raise

    async def promote(self, request: Request) -> Response:
        """Let another learner answer from now on."""
        service = self._service(request)
        body = parse_json(await self._body(request))
        check_keys(body, ("id", "name"))
        state = service.state
        others = [contender.name for contender in state.contenders if contender is not state.leader]
        name = body.get("name", others[0] if len(others) == 1 else None)
        if name not in [contender.name for contender in state.contenders]:
            raise RequestRefused(400, f"name must be one of {', '.join(others) or 'no shadow: there is none'}")
        receipt = await service.queue.submit(Entry(identifier_of(body), promote=name))
        return json_reply({"sequence": receipt.sequence, "champion": name}, 202)

    # Watching ---------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Server-sent events: what the page shows, whenever it changed."""
        service = self._service(request)
        if self._streams >= STREAMS:
            raise RequestRefused(429, f"{STREAMS} pages are kept up to date already", retry_after=10)
        return StreamingResponse(self._updates(service, request), media_type="text/event-stream")

    async def _updates(self, service: ModelService, request: Request) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            shown, quiet = None, 0.0
            while not self.stopping.is_set():
                state = service.state
                if (state.sequence, state.champion) != shown or quiet >= 5.0:
                    shown, quiet = (state.sequence, state.champion), 0.0
                    yield b"data: " + json.dumps(view(service), allow_nan=False).encode() + b"\n\n"
                for _ in range(5):
                    await asyncio.sleep(PAUSE / 5)
                    if self.stopping.is_set():
                        return
                quiet += PAUSE
        finally:
            self._streams -= 1

    async def prometheus(self, request: Request) -> Response:
        """Metrics."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def page(self, request: Request) -> Response:
        """The page."""
        headers = {"Content-Security-Policy": page_and_policy()[1]}
        html = page_for(self.services if self.tokens is None else None)
        return Response(html, media_type="text/html; charset=utf-8", headers=headers)

    # What requests have in common -------------------------------------------------------------------------------------

    def _service(self, request: Request) -> ModelService:
        service = self.services.get(request.path_params["model"])
        if service is None:
            known = f": models are {', '.join(self.services)}" if "predict" in request.scope["ovk.scopes"] else ""
            raise RequestRefused(404, f"there is no model {request.path_params['model'][:100]!r}{known}")
        if request.path_params.get("version", VERSION) != VERSION:
            raise RequestRefused(404, f"there is no such version of this model: its versions are {VERSION}")
        return service

    async def _body(self, request: Request) -> bytes:
        """The body, if its type and size are allowed and it comes in time."""
        headers: dict[bytes, bytes] = request.scope["ovk.headers"]
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        # Clients of the protocol leave it out; pages elsewhere, which could do so as well, are told by their origin.
        allowed = ("application/json", "application/octet-stream") if BINARY in headers else ("application/json",)
        if kind and kind not in allowed:
            raise RequestRefused(415, f"Content-Type must be {' or '.join(allowed)}, got {kind[:60]}")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise RequestRefused(415, "compressed bodies are not taken")
        too_large = RequestRefused(
            413, f"the body is larger than {self.limits.body:,} bytes (--max-body): send several requests"
        )
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:18]) > self.limits.body:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > self.limits.body:
                        raise too_large
                    parts.append(part)
        except TimeoutError:
            raise RequestRefused(408, f"the body did not come within {self.limits.seconds:g} s") from None
        return b"".join(parts)
