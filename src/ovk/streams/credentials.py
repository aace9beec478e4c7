"""Addresses of brokers, and who we are to them: told by the environment or a file, never on a command line."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

#: Schemes of addresses, with the port that is meant where none is given.
PORTS = {"nats": 4222, "kafka": 9092}

#: What a broker may be told, as names in a file; in the environment ``OVK_BROKER_USER`` and so on.
KNOWN = ("user", "password", "token", "creds", "ca", "cert", "key", "tls")

#: The variables begin with this; the one that names a file of credentials ends with FILE.
PREFIX = "OVK_BROKER_"


class BrokerError(ValueError):
    """A broker cannot be reached, refuses us, or does not have what was asked for.

    Examples
    --------
    >>> from ovk.streams import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://user:secret@127.0.0.1/STREAM")
    ... except BrokerError as error:
    ...     print(error)
    the address must not hold a password, which others can read: set the variables OVK_BROKER_USER and OVK_BROKER_PASSWORD, or name a file with them in OVK_BROKER_FILE
    """  # noqa: E501


class StreamLost(BrokerError):
    """A stream that was being read has lost messages, or stays away: no fault of the call.

    Examples
    --------
    >>> from ovk.streams import Gap, StreamLost
    >>> issubclass(Gap, StreamLost)
    True
    """


@dataclass(frozen=True)
class Address:
    """Where a stream is: ``nats://host:4222/STREAM?subject=a.b`` or ``kafka://host:9092/TOPIC?partition=0``.

    Subjects and partitions may be several, ``?partition=0&partition=2``.

    >>> Address.parse("kafka://127.0.0.1/readings?partition=2")
    Address(scheme='kafka', hosts='127.0.0.1:9092', name='readings', parts=('2',))
    """

    scheme: str
    hosts: str
    name: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in a text."""
        parts = urlsplit(text)
        if parts.scheme not in PORTS:
            raise BrokerError(f"the address must begin with {' or '.join(f'{s}://' for s in PORTS)}, got {text!r}")
        if "@" in parts.netloc:
            raise BrokerError(
                "the address must not hold a password, which others can read: set the variables "
                f"{PREFIX}USER and {PREFIX}PASSWORD, or name a file with them in {PREFIX}FILE"
            )
        name = parts.path.strip("/")
        if not parts.netloc or not name or "/" in name:
            raise BrokerError(f"the address must read {parts.scheme}://host:port/NAME, got {text!r}")
        allowed = {"nats": "subject", "kafka": "partition"}[parts.scheme]
        options = parse_qsl(parts.query, keep_blank_values=True)
        if unknown := [option for option, _ in options if option != allowed]:
            raise BrokerError(f"the address may hold ?{allowed}=, got {unknown[0]!r}")
        chosen = [value for _, value in options]
        if twice := [value for value in chosen if chosen.count(value) > 1]:
            raise BrokerError(f"{text!r} names {allowed} {twice[0]!r} twice: name it once")
        hosts = [one if ":" in one else f"{one}:{PORTS[parts.scheme]}" for one in parts.netloc.split(",")]
        return cls(parts.scheme, ",".join(hosts), name, tuple(chosen))

    @property
    def label(self) -> str:
        """The address for a message."""
        return f"{self.scheme}://{self.hosts}/{self.name}"


def is_address(text: str) -> bool:
    """Whether a text is the address of a broker, and not the path of a file.

    >>> is_address("nats://127.0.0.1/STREAM"), is_address("data/t.csv")
    (True, False)
    """
    return any(text.startswith(f"{scheme}://") for scheme in PORTS)


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the environment and the file it names say: user, password, token, creds, ca, cert, key, tls.

    >>> credentials({"OVK_BROKER_USER": "me", "OVK_BROKER_PASSWORD": "secret"})
    {'user': 'me', 'password': 'secret'}
    """
    found: dict[str, str] = {}
    if path := environment.get(f"{PREFIX}FILE"):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise BrokerError(f"the file of credentials {path} ({PREFIX}FILE) cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, mark, value = (one.strip() for one in line.partition("="))
            if not mark or name not in KNOWN:
                raise BrokerError(
                    f"line {number} of {path} ({PREFIX}FILE) must read NAME = VALUE, with one of {', '.join(KNOWN)}"
                )
            found[name] = value
    for name in KNOWN:
        if value := environment.get(f"{PREFIX}{name.upper()}", ""):
            found[name] = value
    return found


def tls_context(known: Mapping[str, str]) -> Any:
    """The TLS context that credentials ask for, None for none."""
    if not any(known.get(name) for name in ("ca", "cert", "key", "tls")):
        return None
    try:
        context = ssl.create_default_context(cafile=known.get("ca"))
        if "cert" in known:
            context.load_cert_chain(known["cert"], known.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"the certificates for TLS cannot be used: {error}") from error
    return context
