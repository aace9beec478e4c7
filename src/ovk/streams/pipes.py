"""Lines that come through a pipe: whoever sends them one by one waits for an answer to each."""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import stat
from collections import deque
from typing import Any

#: Seconds without a new line after which those that have come are passed on. A program that writes as fast as it can
#: does not rest so long, so that its rows come in blocks as full as those of a file.
PAUSE = 0.05

#: Bytes asked for at a time.
SIZE = 1 << 16

#: Most letters of a line; a longer one is taken for several.
LONGEST = 1 << 23

# A carriage return at the very end may be the first half of a line's end.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r(?=[^\n]))")


def is_pipe(raw: Any) -> bool:
    """Whether bytes come from a pipe, a socket or a terminal, of which the system tells when there are more."""
    if os.name == "nt" or not isinstance(raw, io.FileIO):
        return False
    mode = os.fstat(raw.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or raw.isatty()


class PipedText(io.TextIOBase):
    """Text out of a pipe, line by line, which tells how many lines have come.

    Parameters
    ----------
    buffered : bytes of the pipe
    encoding : of the text

    Examples
    --------
    >>> import io, os
    >>> from ovk.streams.pipes import PipedText
    >>> end, beginning = os.pipe()
    >>> _ = os.write(beginning, b"a,b\\n1,2\\n3,")
    >>> text = PipedText(io.BufferedReader(io.FileIO(end)), "utf-8")
    >>> text.ready(100), text.readline(), text.readline()
    (2, 'a,b\\n', '1,2\\n')
    >>> os.close(beginning)
    >>> text.readline(), text.readline()
    ('3,', '')
    """

    def __init__(self, buffered: io.BufferedReader, encoding: str) -> None:
        self.buffer, self._encoding = buffered, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._lines: deque[str] = deque()
        self._rest, self._ended = "", False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the text."""
        return self._encoding

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line, when it has come; empty at the end."""
        while not self._lines and not self._ended:
            self._fill()
        return self._lines.popleft() if self._lines else ""

    def ready(self, most: int) -> int:
        """Number of lines that have come, at least 1 and hardly more than `most`; waits for the first of them."""
        while len(self._lines) < most and not self._ended:
            if self._lines and not select.select([self.buffer.fileno()], [], [], PAUSE)[0]:
                break
            self._fill()
        return max(len(self._lines), 1)

    def _fill(self) -> None:
        data = self.buffer.read1(SIZE)
        self._ended = not data
        text = self._rest + self._decoder.decode(data, final=self._ended)
        lines = _LINE.findall(text)
        self._lines.extend(lines)
        self._rest = text[sum(map(len, lines)) :]
        if self._rest and (self._ended or len(self._rest) > LONGEST):
            self._lines.append(self._rest)
            self._rest = ""

    def close(self) -> None:
        """Close the pipe."""
        self.buffer.close()
        super().close()
