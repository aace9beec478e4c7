"""A file with numbers, words, dates and gaps as two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ovk.streams.chunks import Chunk
from ovk.streams.opening import open_records
from ovk.streams.preparation import WORDS_OF_TABLE, Preparation
from ovk.streams.records import concatenate

#: Rows read at a time.
BLOCK = 4096


def read_table(
    path: str | Path,
    targets: Sequence[str],
    features: Sequence[str] | None = None,
    time: Sequence[str] = (),
    form: str | None = None,
) -> Chunk:
    """Read a file that fits in memory, as `ovk fit` does: inputs X and outputs Y, nan where nothing was observed.

    Numbers may have percent signs and thousands separators, words become indicators, dates the time of day, the day of
    the week and the time of year. A cell that cannot be read is nan; rows with too many or too few cells are left out.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet, compressed perhaps
    targets : names of the output columns
    features : names of the input columns; default all others
    time : names of the columns that hold the time of a row
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character

    Returns
    -------
    `Chunk` with X (n, p), Y (n, d), and the names of the features and targets

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.streams import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,humidity,zinc\\nchalk,71.6%,n/a\\nclay,60%,2.5\\nchalk,,3\\nclay,55%,1.5\\n")
    ...     X, Y, features, targets = read_table(path, ["zinc"])
    >>> features
    ('rock=chalk', 'rock=clay', 'humidity')
    >>> X[:, 2], Y[:, 0]
    (array([71.6, 60. ,  nan, 55. ]), array([nan, 2.5, 3. , 1.5]))
    """
    with open_records(path, form) as records:
        preparation = Preparation(targets, features, time, max_levels=WORDS_OF_TABLE)
        preparation.bind(records.names, records.label)
        whole = concatenate(list(records.batches(BLOCK)), len(records.names))
    if not whole.rows:
        raise ValueError(f"{records.label} has no rows that can be read: check the path and the format")
    return preparation.fit(whole).prepare(whole).chunk
