"""Directories of predictions: resuming with an incomplete file."""

import numpy as np
import pytest

from ovk.app.sessions import PredictionColumns, SessionMismatchError
from ovk.app.sessions.predictions import PredictionDirectory, Predictions


def some(first, last):
    """Predictions of rows first to last - 1."""
    rows = np.arange(first, last)
    return Predictions(rows.tolist(), rows[:, None] / 8.0, np.array([0.25]))


@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
def test_an_unfinished_part_is_replaced_unless_it_begins_with_the_same_rows(parquet, tmp_path):
    columns, name = PredictionColumns(["y"]), f"part-000000.{'parquet' if parquet else 'csv'}"

    def opened(directory, **known):
        return PredictionDirectory(tmp_path / directory, columns, "one", parquet=parquet, resumed=True, **known)

    def written(directory, *parts, finished=False, **known):
        made = opened(directory, **known)
        for part in parts:
            made.add(part)
        made.commit(finished=finished)
        return (tmp_path / directory / name).read_bytes()

    three, five = written("three", some(0, 3)), written("five", some(0, 3), some(3, 5))
    assert three != five
    # A killed run wrote more rows than the saved session, which has two.
    assert written("five", some(2, 3), files=1, lines=2) == five
    assert written("five", some(2, 3), files=1, lines=2, finished=True) == three
    # Other rows and damaged files are replaced.
    session = opened("three", files=1, lines=2)
    session.add(some(7, 9))
    session.commit(finished=False)
    assert (tmp_path / "three" / name).read_bytes() == written("other", some(0, 2), some(7, 9))
    session = opened("five", files=1, lines=3)
    (tmp_path / "five" / name).write_bytes(b"no table")
    session.commit(finished=False)
    assert (tmp_path / "five" / name).read_bytes() == three
    (tmp_path / "five" / name).write_bytes(b"no table")
    with pytest.raises(SessionMismatchError, match="does not contain the 3 predictions"):
        opened("five", files=1, lines=3)
