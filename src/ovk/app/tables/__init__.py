"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` and `Preparation` read files as they come, with
words, dates, gaps and faulty rows, and `read_table` gives such a file as two arrays.
"""

from ovk.app.tables.broker_access import BrokerError, StreamLost, is_address
from ovk.app.tables.brokers import BrokerRecords, Gap, Partitions, open_broker, open_partitions
from ovk.app.tables.files import chunks, progressive, progressive_classes, read_table
from ovk.app.tables.opening import open_records
from ovk.app.tables.preparation import Lags, Preparation, Prepared
from ovk.app.tables.ranges import FileRange, split_files
from ovk.app.tables.records import Batch, Records

__all__ = [
    "Batch",
    "BrokerError",
    "BrokerRecords",
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
    "progressive",
    "progressive_classes",
    "read_table",
    "split_files",
]
