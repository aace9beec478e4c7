"""By what a file is recognised when it is read again: a digest of everything in it up to a row.

The digest is one of the text, after decompression and decoding, so that a log may be packed between two runs. It costs
a few percent of reading: lines are joined and hashed a block at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


class TextDigest:
    """A running digest of lines.

    The end of the last line does not count, since a file whose last line has none yet may grow.

    >>> one, two = TextDigest(), TextDigest()
    >>> one.add("x,y\\n1,2\\n")
    >>> two.add("x,y\\n")
    >>> two.add("1,2")
    >>> one.hexdigest() == two.hexdigest()
    True
    """

    def __init__(self) -> None:
        # The fastest of hashlib where the processor helps, as nearly all do.
        self._hash = hashlib.sha256()
        self._end = ""

    def add(self, lines: str) -> None:
        """Add lines, all of them with their ends but perhaps the last line of the file."""
        if not lines:
            # The end of the file was met: the end of its last line does not count yet.
            return
        body = lines.removesuffix("\n").removesuffix("\r")
        self._hash.update((self._end + body).encode("utf-8", "surrogatepass"))
        self._end = lines[len(body) :]

    def hexdigest(self) -> str:
        """The digest of all lines so far."""
        return self._hash.hexdigest()


class ColumnDigest:
    """A running digest of a table that comes in columns, whatever the sizes of the pieces in which it comes.

    >>> one, two = ColumnDigest(["x"]), ColumnDigest(["x"])
    >>> one.add([b"12"])
    >>> two.add([b"1"])
    >>> two.add([b"2"])
    >>> one.hexdigest() == two.hexdigest()
    True
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = [hashlib.sha256(repr(name).encode()) for name in names]

    def add(self, columns: Sequence[bytes]) -> None:
        """Add cells of each column, as bytes that stand for them one after the other."""
        for digest, cells in zip(self._columns, columns, strict=True):
            digest.update(cells)

    def hexdigest(self) -> str:
        """The digest of all cells so far."""
        return hashlib.sha256(b"".join(digest.digest() for digest in self._columns)).hexdigest()
