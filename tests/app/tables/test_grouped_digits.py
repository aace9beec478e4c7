"""Numbers with and without thousands separators in one column."""

import pytest

from ovk.base import Number, guess_column


@pytest.mark.parametrize(
    ("cells", "decimal", "grouped"),
    [
        (["999", "1,234", "12,345", "7"], ".", True),
        (["1,5", "2", "3,25"], ",", False),
        # A leading zero means a decimal comma, not a thousands separator.
        (["0,125", "2", "3,250"], ",", False),
        # Alone they are ambiguous and read as decimals.
        (["1,234", "2,345"], ",", False),
    ],
)
def test_what_commas_mean(cells, decimal, grouped):
    assert guess_column("a", cells, 9) == Number("a", decimal, grouped)
