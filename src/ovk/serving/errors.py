"""What a request is refused with."""

from __future__ import annotations


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
    >>> from ovk.serving import LogDamaged
    >>> from ovk.serving.log import Log
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
