"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` and `Preparation` read files as they come, with
words, dates, gaps and faulty rows, and `read_table` gives such a file as two arrays.
"""

from ovk.app.tables.brokers import BrokerError, BrokerRecords, Gap, StreamLost, open_broker
from ovk.app.tables.files import FileRange, chunks, progressive, read_table, split_files
from ovk.app.tables.preparation import UNUSED as UNUSED
from ovk.app.tables.preparation import WORDS_OF_TABLE as WORDS_OF_TABLE
from ovk.app.tables.preparation import Lags, Preparation, Prepared
from ovk.app.tables.preparation import filled as filled
from ovk.app.tables.preparation import find_columns as find_columns
from ovk.app.tables.records import FORMATS as FORMATS
from ovk.app.tables.records import Batch, Records, is_address, open_records
from ovk.app.tables.records import concatenate as concatenate
from ovk.app.tables.text import STDIN as STDIN

__all__ = [
    "Batch",
    "BrokerError",
    "BrokerRecords",
    "FileRange",
    "Gap",
    "Lags",
    "Preparation",
    "Prepared",
    "Records",
    "StreamLost",
    "chunks",
    "is_address",
    "open_broker",
    "open_records",
    "progressive",
    "read_table",
    "split_files",
]
