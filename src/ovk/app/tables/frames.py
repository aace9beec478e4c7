"""Rows of data frames, which are read as those of files are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ovk._extras import required
from ovk.app.tables.records import Batch, Records


class FrameRecords(Records):
    """The rows of a data frame of pandas, polars or pyarrow, without its index."""

    def __init__(self, frame: Any) -> None:
        super().__init__("the data frame", False, None)
        with required("data frames", "frames"):
            import narwhals as nw
        self.frame: Any = nw.from_native(frame, eager_only=True)
        self.names, self.n_rows = tuple(map(str, self.frame.columns)), len(self.frame)

    def _read(self, size: int) -> Batch | None:
        part = self.frame[self.offset : self.offset + size]
        if not len(part):
            return None
        first = self.offset + 1
        self.offset += len(part)
        cells: list[Sequence[Any]] = []
        for column in part.iter_columns():
            missing = column.is_null().to_list()
            cells.append([None if gap else cell for cell, gap in zip(column.to_list(), missing, strict=True)])
        return Batch(cells, list(range(first, first + len(part))), [])

    def digest(self) -> str:
        # A data frame is learned by one call, which is never resumed.
        return hashlib.sha256(repr(self.names).encode()).hexdigest()

    def close(self) -> None:
        pass
