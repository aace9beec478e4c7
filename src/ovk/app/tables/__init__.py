"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y).

`chunks` reads numbers and refuses everything else; `open_records` and `Preparation` read files as they come, with
words, dates, gaps and faulty rows, and `read_table` gives such a file as two arrays.
"""

from ovk.app.tables.brokers import BrokerError, StreamLost, open_broker
from ovk.app.tables.brokers import BrokerRecords as BrokerRecords
from ovk.app.tables.brokers import Gap as Gap
from ovk.app.tables.files import FileRange, chunks, progressive, read_table, split_files
from ovk.app.tables.preparation import UNUSED as UNUSED
from ovk.app.tables.preparation import WORDS_OF_TABLE as WORDS_OF_TABLE
from ovk.app.tables.preparation import Lags as Lags
from ovk.app.tables.preparation import Preparation as Preparation
from ovk.app.tables.preparation import Prepared as Prepared
from ovk.app.tables.preparation import filled as filled
from ovk.app.tables.preparation import find_columns as find_columns
from ovk.app.tables.records import FORMATS as FORMATS
from ovk.app.tables.records import Batch as Batch
from ovk.app.tables.records import Records as Records
from ovk.app.tables.records import concatenate as concatenate
from ovk.app.tables.records import is_address as is_address
from ovk.app.tables.records import open_records
from ovk.app.tables.text import STDIN as STDIN

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
