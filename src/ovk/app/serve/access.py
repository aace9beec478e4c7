"""Who may do what: tokens with scopes, and which addresses may ask without one."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

#: What a token may allow; admin allows everything.
SCOPES = ("predict", "learn", "admin")


class Tokens:
    """Bearer tokens and their scopes. Only digests are kept, and all of them are compared, in constant time.

    Parameters
    ----------
    scopes : the scopes of each token

    Examples
    --------
    >>> from ovk.app.serve import Tokens
    >>> tokens = Tokens({"a-secret-of-sixteen": {"predict"}})
    >>> sorted(tokens.scopes("Bearer a-secret-of-sixteen")), tokens.scopes("Bearer wrong")
    (['predict'], None)
    """

    def __init__(self, scopes: Mapping[str, set[str]]) -> None:
        self._scopes = [
            (_digest(token.encode()), frozenset(SCOPES if "admin" in allowed else allowed))
            for token, allowed in scopes.items()
        ]

    @classmethod
    def read(cls, path: str | Path) -> Tokens:
        """Tokens of a file: a line ``scope,scope token`` for each; empty lines and those with # are left out."""
        found: dict[str, set[str]] = {}
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            scopes = set(words[0].split(","))
            if len(words) != 2 or not scopes <= set(SCOPES):
                raise ValueError(
                    f"line {number} of {path} must be scopes and a token, such as 'predict,learn 3f9a...'; scopes are "
                    f"{', '.join(SCOPES)}"
                )
            if len(words[1]) < 16:
                raise ValueError(f"the token in line {number} of {path} has fewer than 16 letters: take a longer one")
            found[words[1]] = scopes
        if not found:
            raise ValueError(f"{path} holds no token: write a line such as 'predict,learn 3f9a...', or leave it out")
        return cls(found)

    def scopes(self, header: str | None) -> frozenset[str] | None:
        """The scopes of the token in a header ``Authorization``; None for no token, or one that nobody knows."""
        kind, _, token = (header or "").partition(" ")
        digest = _digest(token.strip().encode("utf-8", "surrogateescape"))
        found: frozenset[str] | None = None
        for known, scopes in self._scopes:
            if hmac.compare_digest(known, digest):
                found = scopes
        return found if kind.lower() == "bearer" else None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def is_local_name(host: str | None) -> bool:
    """Whether a header ``Host`` names this machine: a page elsewhere whose name leads here does not.

    >>> is_local_name("127.0.0.1:8080"), is_local_name("evil.example")
    (True, False)
    """
    if host is None:
        return True
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit():
        name = host
    return is_loopback(name.lower().removeprefix("[").removesuffix("]"))


# What a service allows.


@dataclass(frozen=True)
class Limits:
    """What a service allows.

    Parameters
    ----------
    body : most bytes of a request
    rows : most rows of a request
    queue : most requests that wait to be learned
    seconds : how long a request may take
    checkpoint_rows, checkpoint_seconds : rows learned, or seconds, after which a checkpoint is written
    label_seconds, label_bytes : how long, and in how much memory, rows wait for their labels

    Examples
    --------
    >>> from ovk.app.serve import Limits
    >>> Limits(rows=100).rows
    100
    """

    body: int = 8 << 20
    rows: int = 10_000
    queue: int = 256
    seconds: float = 30.0
    checkpoint_rows: int = 10_000
    checkpoint_seconds: float = 60.0
    label_seconds: float = 3600.0
    label_bytes: int = 64 << 20


# What a request is refused with.


class RequestRefused(Exception):
    """A request that cannot be answered: the status of the reply, one sentence, and when to come again.

    The message names what was found and what is allowed; it goes to the client as it is, so it never holds a path or a
    trace of the stack.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class LogDamaged(ValueError):
    """A log is broken in a place where no crash can have broken it: the file and the offset are named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ovk.app.serve import LogDamaged
    >>> from ovk.app.serve.log import Log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder))
    ...     for k in (1, 2, 3):
    ...         _ = log.append([b"rows"])
    ...     log.close()
    ...     (segment,) = Path(folder).iterdir()
    ...     content = bytearray(segment.read_bytes())
    ...     content[40] ^= 1
    ...     _ = segment.write_bytes(content)
    ...     try:
    ...         list(Log(Path(folder)).replay(after=0))
    ...     except LogDamaged as error:
    ...         print("at offset" in str(error))
    True
    """
