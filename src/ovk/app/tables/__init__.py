"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` reads files as they come, with words, dates, gaps and
faulty rows, and `read_table` gives such a file as two arrays.
"""

from ovk.app.tables.brokers import BrokerError, BrokerRecords, Gap, StreamLost, open_broker
from ovk.app.tables.files import FileRange, chunks, progressive, read_table, split_files
from ovk.app.tables.preparation import UNUSED, WORDS_OF_TABLE, Lags, Preparation, Prepared, filled, find_columns
from ovk.app.tables.records import FORMATS, Batch, Records, concatenate, is_address, open_records
from ovk.app.tables.text_files import STDIN

__all__ = [
    "BrokerError",
    "FileRange",
    "StreamLost",
    "chunks",
    "open_broker",
    "open_records",
    "progressive",
    "read_table",
    "split_files",
]
