"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` and `Preparation` read the files of the world, with
words, dates, gaps and faulty rows.
"""

from ovk.streams.chunks import Chunk, Chunks, chunks
from ovk.streams.lags import Lags
from ovk.streams.preparation import Preparation, Prepared
from ovk.streams.records import Batch, Records, open_records

__all__ = ["Batch", "Chunk", "Chunks", "Lags", "Preparation", "Prepared", "Records", "chunks", "open_records"]
