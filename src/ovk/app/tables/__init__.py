"""Rows of files and brokers, and the inputs and outputs made of them.

`chunks` reads files of numbers larger than memory; `open_records` reads raw rows, with words, dates, missing cells and
faulty rows; `read_table` reads such a file as two arrays.
"""

from ovk.app.tables.brokers import BrokerError, BrokerRecords, MissingMessagesError, StreamLostError, open_broker
from ovk.app.tables.files import FileRange, chunks, progressive, read_table, split_files
from ovk.app.tables.frames import FrameRecords
from ovk.app.tables.preparation import MAX_TABLE_LEVELS, UNUSED, Lags, Preparation, Prepared, fill_forward, find_columns
from ovk.app.tables.records import FORMATS, Batch, Records, concatenate, is_address, open_records
from ovk.app.tables.text_files import STDIN

__all__ = [
    "BrokerError",
    "FileRange",
    "StreamLostError",
    "chunks",
    "open_broker",
    "open_records",
    "progressive",
    "read_table",
    "split_files",
]
