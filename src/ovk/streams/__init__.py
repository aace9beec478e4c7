"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` and `Preparation` read files as they come, with
words, dates, gaps and faulty rows, and `read_table` gives such a file as two arrays.
"""

from ovk.streams.brokers import BrokerRecords, Gap, Partitions, open_broker, open_partitions
from ovk.streams.chunks import Chunk, Chunks, chunks
from ovk.streams.credentials import BrokerError, StreamLost, is_address
from ovk.streams.opening import open_records
from ovk.streams.preparation import Lags, Preparation, Prepared
from ovk.streams.ranges import FileRange, split_files
from ovk.streams.records import Batch, Records
from ovk.streams.whole_tables import read_table

__all__ = [
    "Batch",
    "BrokerError",
    "BrokerRecords",
    "Chunk",
    "Chunks",
    "FileRange",
    "Gap",
    "Lags",
    "Partitions",
    "Preparation",
    "Prepared",
    "Records",
    "StreamLost",
    "chunks",
    "is_address",
    "open_broker",
    "open_partitions",
    "open_records",
    "read_table",
    "split_files",
]
