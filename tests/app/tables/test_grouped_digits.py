"""Numbers with thousands separators beside numbers that need none."""

import pytest

from ovk.base import Number, guess_column


@pytest.mark.parametrize(
    ("cells", "decimal", "grouped"),
    [
        (["999", "1,234", "12,345", "7"], ".", True),
        (["1,5", "2", "3,25"], ",", False),
        # Zero stands before a decimal comma, not before a group.
        (["0,125", "2", "3,250"], ",", False),
        # Alone they may be either, and are decimals.
        (["1,234", "2,345"], ",", False),
    ],
)
def test_what_commas_mean(cells, decimal, grouped):
    assert guess_column("a", cells, 9) == Number("a", decimal, grouped)
