"""Streams of NATS JetStream.

The asyncio client runs in its own thread. Consumers are ephemeral, so that the server stores nothing that could
disagree with the session file.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from ovk._extras import required
from ovk.app.tables.brokers import Address, Broker, BrokerError, Message, StreamLostError

#: Seconds to wait for a new message and for an answer.
FETCH_TIMEOUT, ANSWER_TIMEOUT = 1.0, 10.0

#: Seconds between two attempts to reach a server, at first and at most.
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0

#: Desired bytes and maximum number of messages of a fetch.
FETCH_BYTES, MAX_MESSAGES = 1 << 22, 256

T = TypeVar("T")


class JetStream(Broker):
    """A stream, or one subject of it. Reconnects after errors."""

    def __init__(self, address: Address, known: Mapping[str, str], reconnect_timeout: float) -> None:
        with required("nats://", "nats"):
            from nats import errors
            from nats.aio.client import Client
        self._make, self._errors = Client, errors
        self._address, self._known, self._reconnect_timeout = address, known, reconnect_timeout
        self.label = address.label + (f"?subject={address.selector}" if address.selector else "")
        self._stream, self._subject = address.name, address.selector
        # Messages on other subjects have sequence numbers too.
        self.dense = not self._subject
        self._subscription: Any = None
        self._next, self._message_bytes = 0, FETCH_BYTES
        self._tls = _tls_context(known)
        self._client: Any = None
        self._last_error = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ovk-nats", daemon=True)
        self._thread.start()
        try:
            _, _, created = self._first_call(self._info)
        except BaseException:
            self.close()
            raise
        self.identity = f"nats {self._stream} {self._subject} of {created}"

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _connect(self) -> Any:
        """A JetStream context; connects if necessary."""
        if self._client is None or not self._client.is_connected:
            await self._disconnect()
            who = {name: self._known[name] for name in ("user", "password", "token") if name in self._known}
            if "creds" in self._known:
                who["user_credentials"] = self._known["creds"]
            # Stored before it connects, so that a failed attempt is closed too.
            self._client = self._make()
            await self._client.connect(
                servers=[f"{'tls' if self._tls else 'nats'}://{host}" for host in self._address.hosts.split(",")],
                # `_with_reconnects` reconnects.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=FIRST_PAUSE,
                connect_timeout=ANSWER_TIMEOUT,
                error_cb=self._on_error,
                tls=self._tls,
                **who,
            )
        return self._client.jetstream(timeout=ANSWER_TIMEOUT)

    async def _on_error(self, error: Exception) -> None:
        self._last_error = str(error)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(TimeoutError, OSError, self._errors.Error):
                await client.close()

    def _first_call(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The first call to a server. Explains why it failed."""
        host = self._address.hosts
        try:
            return self._call(action())
        except (TimeoutError, OSError, self._errors.Error) as error:
            text = f"{error} {self._last_error}".lower()
            if "permissions" in text or "auth" in text:
                raise BrokerError(
                    f"the NATS server at {host} denied access: check OVK_BROKER_USER and OVK_BROKER_PASSWORD, "
                    "OVK_BROKER_TOKEN or OVK_BROKER_CREDS"
                ) from error
            if "tls" in text or "ssl" in text or "certificate" in text:
                raise BrokerError(
                    f"TLS with the NATS server at {host} failed ({error}): check OVK_BROKER_CA, "
                    "OVK_BROKER_CERT and OVK_BROKER_KEY"
                ) from error
            raise BrokerError(
                f"no NATS server answers at {host}: check the address and that the server is running"
            ) from error

    def _with_reconnects(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of an action, repeated with growing pauses on new connections until it succeeds."""
        pause, until = FIRST_PAUSE, time.monotonic() + self._reconnect_timeout
        while True:
            try:
                return self._call(action())
            except (TimeoutError, OSError, self._errors.Error) as error:
                if time.monotonic() > until:
                    raise StreamLostError.unreachable(self._address.label, self._reconnect_timeout, error) from error
            self._call(self._disconnect())
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(ANSWER_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    async def _info(self) -> tuple[int, int, str]:
        """First sequence number, the one after the last, and creation time of the stream."""
        from nats.js import errors

        context = await self._connect()
        try:
            info = await context.stream_info(self._stream)
        except errors.NotFoundError as error:
            names = ", ".join(sorted(one.config.name for one in await context.streams_info())) or "none"
            raise BrokerError(
                f"there is no stream {self._stream!r} on {self.label.rsplit('/', 1)[0]}: its streams are {names}"
            ) from error
        except errors.ServiceUnavailableError as error:
            raise BrokerError(f"{self.label}: the server runs without JetStream: start it with -js") from error
        # An empty stream begins after its last message.
        return int(info.state.first_seq or info.state.last_seq + 1), int(info.state.last_seq) + 1, str(info.created)

    def bounds(self) -> tuple[int, int]:
        first, stop, created = self._with_reconnects(self._info)
        if not self.identity.endswith(f"of {created}"):
            raise BrokerError(f"{self.label} was recreated while it was read: its messages have changed")
        return max(first, 1), max(stop, first, 1)

    def read(self, place: int) -> list[Message]:
        found = self._with_reconnects(lambda: self._messages(place))
        if found:
            self._next = found[-1].place + 1
            self._message_bytes = max(max(len(message.data) for message in found), 1)
        else:
            # No new messages, or the consumer is gone; creating a new one is cheap.
            self._subscription = None
        return found

    async def _messages(self, place: int) -> list[Message]:
        from nats import errors

        context = await self._connect()
        try:
            if self._subscription is None or self._next != place:
                self._subscription = await self._subscribe(context, place)
                self._next = place
            count = min(max(FETCH_BYTES // self._message_bytes, 1), MAX_MESSAGES)
            got = await self._subscription.fetch(count, timeout=FETCH_TIMEOUT)
        except errors.TimeoutError:
            if not context._nc.is_connected:
                raise
            return []
        except BaseException:
            self._subscription = None
            raise
        return [Message(int(one.metadata.sequence.stream), one.data) for one in got]

    async def _subscribe(self, context: Any, place: int) -> Any:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=place,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=60.0,
        )
        return await context.pull_subscribe(self._subject, stream=self._stream, config=config)

    def first_kept(self, place: int) -> int | None:
        return self._with_reconnects(lambda: self._following(place))

    async def _following(self, place: int) -> int | None:
        from nats.js.errors import NotFoundError

        context = await self._connect()
        try:
            found = await context.get_msg(self._stream, seq=place, subject=self._subject or ">", next=True)
        except NotFoundError:
            return None
        return int(found.seq)


def _tls_context(known: Mapping[str, str]) -> Any:
    if not any(known.get(name) for name in ("ca", "cert", "key", "tls")):
        return None
    try:
        context = ssl.create_default_context(cafile=known.get("ca"))
        if "cert" in known:
            context.load_cert_chain(known["cert"], known.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"the TLS certificates cannot be used: {error}") from error
    return context
