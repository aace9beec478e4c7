"""Household and regional electric power."""

from __future__ import annotations

import csv
import io
import lzma
from datetime import datetime

import numpy as np
import pytest
from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files

from reproduce.data import load_french_load, load_household


def test_household_agrees_with_a_plain_reading(load):
    rows = 6850  # two minutes without measurement among them
    house = load(load_household, n_rows=rows)
    (content,) = read_files(CATALOGUE["household"], None)
    with lzma.open(io.BytesIO(content), "rt") as stream:
        lines = csv.reader(stream)
        assert next(lines)[2:] == house.target_names
        for i, (date, time, *values) in zip(range(rows), lines, strict=False):
            expected = [float(value) if value not in ("?", "") else np.nan for value in values]
            np.testing.assert_array_equal(house.target[i], expected)
            moment = datetime.strptime(f"{date} {time}", "%d/%m/%Y %H:%M:%S")
            assert house.time[i] == np.datetime64(moment, "m")
            calendar = [moment.hour * 60 + moment.minute, moment.weekday(), moment.timetuple().tm_yday]
            assert house.data[i, 1:].tolist() == calendar
    assert np.isnan(house.target).all(axis=1).sum() == 2


@pytest.mark.long
def test_household_whole(load):
    house = load(load_household)
    missing = np.isnan(house.target)
    assert house.target.shape == (2075259, 7)
    assert missing.any(axis=1).sum() == missing.all(axis=1).sum() == 25979
    assert str(house.time[-1]) == "2010-11-26T21:02"
    np.testing.assert_array_equal(house.target[-1], [0.932, 0, 239.55, 3.8, 0, 0, 0])
    assert house.data[-1, 2] == 4  # a Friday


@pytest.mark.parametrize("rows", [1, 100_000, 100_001])
def test_household_first_rows(load, rows):
    house = load(load_household, n_rows=rows)
    assert house.data.shape == (rows, 4)
    assert house.target[0, 0] == 4.216


def test_household_refuses_no_rows():
    with pytest.raises(ValueError, match="n_rows must be an integer >= 1, got 0"):
        load_household(n_rows=0)


def test_french_load(load):
    france = load(load_french_load)
    names = france.feature_names
    assert france.target_names[0] == "Nouvelle_A"
    assert france.target_names[-1] == "Grand_Est"
    np.testing.assert_array_equal(france.target[0, :3], [7238, 9955, 3331])
    assert str(france.time[-1]) == "2021-04-29T20:00:00"
    assert (np.diff(france.time) > np.timedelta64(0)).all()
    # No input gives the targets away.
    assert not {"Load", "Date", *france.target_names} & set(names)
    assert np.median(np.abs(france.national_load - france.target.sum(axis=1))) <= 1
    assert france.national_forecast.shape == (2409, 2)
    # Indicators of the day of the week agree with the date; 1970-01-01 was a Thursday.
    indicators = france.data[:, [names.index(f"WeekDays={day}") for day in ("lundi", "dimanche")]]
    weekday = (france.time.astype("datetime64[D]").astype(int) + 3) % 7
    np.testing.assert_array_equal(indicators, np.column_stack([weekday == 0, weekday == 6]))
    # What the publisher calls the lag of one day is the target of the day before.
    follows = np.flatnonzero(np.diff(france.time) == np.timedelta64(1, "D"))
    lagged = france.data[:, names.index("Bretagne.48")]
    today = france.target[:, france.target_names.index("Bretagne")]
    np.testing.assert_array_equal(lagged[follows + 1], today[follows])
