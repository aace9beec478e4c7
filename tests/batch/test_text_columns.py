"""Text columns of data frames: categories are encoded; numbers and dates as text are rejected."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ovk import OVKRidgeCV

N = 40
RNG = np.random.default_rng(0)
NUMBERS = RNG.uniform(0, 3000, N)


def _fit(words):
    frame = pd.DataFrame({"x": np.linspace(0, 1, N), "text": words})
    return OVKRidgeCV().fit(frame, np.sin(frame["x"].to_numpy()))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([f"{v / 30:.1f}%" for v in NUMBERS], "numbers"),
        ([f"{v % 7:.0f}%" for v in NUMBERS], "numbers"),
        ([f"{v:,.2f}" for v in NUMBERS], "numbers"),
        ([f"{v:.1f}".replace(".", ",") for v in NUMBERS], "numbers"),
        (["n/a", "?", *(f"{v:.3g}" for v in NUMBERS[2:] / 100)], "numbers"),
        ([f"2024-01-{1 + i % 28:02d}" for i in range(N)], "dates"),
        ([f"{1 + i % 28}/12/2006 17:24:00" for i in range(N)], "dates"),
        ([f"{1 + i % 28:02d}.12.2006" for i in range(N)], "dates"),
    ],
)
def test_numbers_and_dates_as_text_raise(words, what):
    with pytest.raises(ValueError, match=rf"column 'text' of X has {what} as text, such as"):
        _fit(words)
    # A categorical dtype declares them as categories.
    assert len(_fit(pd.Categorical(words)).predict(pd.DataFrame({"x": [0.5], "text": words[:1]}))) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["chalk", "clay"] * (N // 2),
        [str(i % 5) for i in range(N)],  # codes
        [str(i % 5) if i else "B" for i in range(N)],
        [f"Line {i % 7}" for i in range(N)],
        [f"A-{i % 9}/3" for i in range(N)],
        ["chalk", None] * (N // 2),
        ["3.5", *["red", "blue", "green"] * 13],  # one odd cell among words
    ],
)
def test_categories_are_encoded_without_a_warning(words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = _fit(words)
    assert len(model.columns_.categories[1]) == len(set(words))


def test_names_are_warned_about():
    with pytest.warns(UserWarning, match=r"'text' of X has 40 distinct words in 40 rows.*drop the column"):
        _fit([f"sample {i}" for i in range(N)])


def test_missing_cells_are_those_of_files():
    model = _fit(["chalk", " clay", "?", "NA"] * (N // 4))
    assert model.columns_.categories[1] == ["", "chalk", "clay"]
    with_dash = _fit(["chalk", "clay", "-", "clay "] * (N // 4))
    assert with_dash.columns_.categories[1] == ["-", "chalk", "clay"]
    numbers = pd.DataFrame({"x": np.array([1.0, "?", 3.0, None] * (N // 4), dtype=object)})
    assert OVKRidgeCV().fit(numbers, np.arange(N)).columns_.categories == [None]
