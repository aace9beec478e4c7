"""Cells and columns of tables."""

import numpy as np
import pytest

from ovk.base import Label, Number, as_instants, few_whole_numbers, guess_labels, is_missing_cell, require_numbers
from ovk.base.columns import TimestampParser
from ovk.base.dates import instant_seconds


def test_numbers_are_read_in_many_spellings():
    values, bad = Number("x").encode([["1.5", "?", " \u22125 % ", None, "x"]])
    assert np.array_equal(values.ravel(), [1.5, np.nan, -5.0, np.nan, np.nan], equal_nan=True)
    assert bad.tolist() == [False, False, False, False, True]


def test_whole_labels_are_read_as_numbers_and_words_are_stripped():
    codes = Label("y", ["1", "2"], 2, whole=True).encode([["1.0", 2.0, "none"]]).values.ravel()
    assert np.array_equal(codes, [0.0, 1.0, np.nan], equal_nan=True)
    label = Label("y", ["yes", "2"], 2)
    codes = label.encode([[" yes ", 2.0, "none", "None", "NA", ""]]).values.ravel()
    assert np.array_equal(codes, [0.0, 1.0, 2.0, np.nan, np.nan, np.nan], equal_nan=True)


def test_labels_are_guessed_from_words_or_from_few_whole_numbers():
    assert guess_labels("y", ["b", "a", "b", "a"], "t.csv") == Label("y", ["a", "b"], 2)
    assert few_whole_numbers(["1", "0", "?", "1"]) == ["0", "1"]
    assert few_whole_numbers(["0.5", "1"]) == []


def test_a_cell_that_is_no_number_is_named():
    with pytest.raises(ValueError, match=r"column 'x' of t\.csv has 'abc' in line 2, which is not a number"):
        require_numbers(["1.5", "?", "abc"], "x", "t.csv", "line {}".format)


def test_dates_of_numpy_are_seconds():
    assert as_instants(np.array(["1970-01-02"], dtype="datetime64[D]")).tolist() == [86400.0]
    assert as_instants(np.arange(3)) is None


def _stamps(rng, form, n):
    instants = np.datetime64("1890-01-01T00:00:00", "us") + rng.integers(0, 8 * 10**15, n).astype("timedelta64[us]")
    padded = [instant.strftime(form.removeprefix("unpadded ")) for instant in instants.tolist()]
    return [text.lstrip("0").replace("/0", "/") for text in padded] if form.startswith("unpadded") else padded


@pytest.mark.parametrize("day_first", [True, False])
@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y-%m-%dT%H:%M:%S.%fZ",
        "%Y/%m/%d %H:%M:%S+01:00",
        "%d/%m/%Y",
        "%m/%d/%Y %H:%M",
        "%d.%m.%Y %H:%M:%S",
        "unpadded %d/%m/%Y %H:%M",
        "%Y-%m/%d",
        "%d/%m/%y %H:%M",
        "%I:%M:%S %p",
        "%Y%m%d",
    ],
)
def test_a_block_of_times_is_read_as_its_cells_are(form, day_first):
    rng = np.random.default_rng(0)
    cells = _stamps(rng, form, 300)
    odd = [
        "",
        "NA",
        "x",
        "0000-01-01",
        "2024-02-30",
        "2023-02-29",
        "2024-02-29",
        "2024-13-01",
        "2024-00-10",
        "2024-01-00",
    ]
    odd += ["2024-01-01 24:00", "2024-01-01 25:00", "2024-01-01 23:60", "2024-01-01 23:59:60", "2024-01-01 23:59:61.5"]
    odd += [
        "2024-01-01\0",
        " 2024-01-01 ",
        "2024-01-01 5:07",
        "2024-01-01 05:07:08,25",
        "٢٠٢٤-01-01",
        "1e9",
        "1700000000",
    ]
    odd += ["2024-01-01 05:07:08.123456789", "2024-01-0a", "2024-01-01T05:07 ", "31/4/2024", "9999-12-31", "x" * 50]
    mixed = [str(cell) for cell in rng.permutation([*cells, *odd, *_stamps(rng, "%Y-%m-%d %H:%M:%S", 50)])]
    for block in (cells, mixed, [*cells, None, 1.7e9]):
        expected = []
        for cell in block:
            try:
                expected.append(np.nan if is_missing_cell(cell) else instant_seconds(cell, day_first))
            except (ValueError, OverflowError):
                expected.append(np.inf)
        found = TimestampParser(day_first).read([block])
        np.testing.assert_array_equal(found.bad, np.isinf(expected))
        # Bit for bit.
        np.testing.assert_array_equal(found.values[:, 0], np.where(np.isinf(expected), np.nan, expected))


def test_common_times_are_read_in_blocks():
    cells = [f"2024-01-{1 + i // 24:02d} {i % 24:02d}:30" for i in range(96)]
    parser = TimestampParser(True)
    parser.read([cells])
    assert not parser, "a cell was read on its own"
    cells[5] = "5 o'clock"
    assert parser.read([cells]).bad.sum() == 1
    assert list(parser) == ["5 o'clock"]
