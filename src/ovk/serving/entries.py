"""Records of the log: what was asked for, as bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from ovk.serving.rows import RequestRows


@dataclass(frozen=True)
class Entry:
    """A record of the log.

    Rows to learn with their targets; or labels of rows that were predicted before, all of them or a part; or the end of
    the time in which further labels of such rows are taken; or the name of a contender to promote.

    Attributes
    ----------
    id : identifier of the request
    rows, targets : what to learn
    promote : name of the contender that answers from now on
    label_of : identifier of the prediction whose labels the targets are
    part : whether the targets hold some of the outputs only, and the others are still to come
    expired : identifier of a prediction of which no further labels are taken

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.serving.entries import Entry
    >>> from ovk.serving.rows import RequestRows
    >>> rows = RequestRows.of_matrix(np.ones((2, 3)))
    >>> Entry.decode(Entry("id 1", rows, rows).encode()).id
    'id 1'
    >>> Entry("id 1", rows, rows).digest == Entry("id 2", rows, rows).digest
    True
    """

    id: str | None
    rows: RequestRows | None = None
    targets: RequestRows | None = None
    promote: str | None = None
    label_of: str | None = None
    part: bool = False
    expired: str | None = None

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def label_id(self) -> str:
        """The identifier of labels that were sent without one: a label that comes twice is one request."""
        names = self.targets.names if self.part and self.targets is not None else None
        return f"label of {self.label_of}" + ("" if names is None else f": {', '.join(sorted(names))}")

    @cached_property
    def _contents(self) -> tuple[bytes, bytes]:
        """The rows and the targets as bytes."""
        rows = b"" if self.rows is None else self.rows.encode()
        return rows, b"" if self.targets is None else self.targets.encode()

    @cached_property
    def digest(self) -> str:
        """What tells the contents of two requests with the same identifier apart.

        The rows of a prediction that was labelled are not part of it: nobody keeps them until the label is repeated.
        """
        rows, targets = self._contents
        about = json.dumps([self.promote, self.label_of, self.part]).encode()
        return blake2b(b"\n".join([about, b"" if self.label_of else rows, targets]), digest_size=8).hexdigest()

    def encode(self) -> bytes:
        """The entry as bytes."""
        if self.expired is not None:
            return json.dumps({"expired": self.expired}).encode() + b"\n"
        if self.rows is None or self.targets is None:
            return json.dumps({"id": self.id, "promote": self.promote}).encode() + b"\n"
        rows, targets = self._contents
        head: dict[str, Any] = {"id": self.id, "rows": len(rows)}
        if self.label_of is not None:
            head |= {"label_of": self.label_of, "part": self.part}
        return json.dumps(head).encode() + b"\n" + rows + targets

    @classmethod
    def decode(cls, content: bytes) -> Entry:
        """What `encode` gave."""
        start = content.index(b"\n") + 1
        head: dict[str, Any] = json.loads(content[:start])
        if "expired" in head:
            return cls(None, expired=head["expired"])
        if "promote" in head:
            return cls(head["id"], promote=head["promote"])
        middle = start + head["rows"]
        rows, targets = RequestRows.decode(content[start:middle]), RequestRows.decode(content[middle:])
        return cls(head["id"], rows, targets, label_of=head.get("label_of"), part=head.get("part", False))
