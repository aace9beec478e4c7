"""Curves to curves: Canadian weather and gait, the two classics of functional data analysis."""

from __future__ import annotations

import numpy as np

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import read_arrays
from reproduce.data._shared import bundle
from reproduce.support import Loaded, PathLike


def load_canadian_weather(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Temperature curves as inputs and log-precipitation curves as outputs, at 35 Canadian weather stations.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (35, 365) mean temperature of each day in °C; `target` (35, 365) log10 of the mean
        precipitation in mm, with 0 mm replaced by 0.05 mm; `precipitation` (35, 365) in mm; `grid` (365,) the day
        of the year, from 1; `place`, `province`, `region` (35,); `coordinates` (35, 2); `feature_names`,
        `target_names`, `DESCR`.

    Notes
    -----
    The coordinates, north and west, are as published and unreliable: most, but not all, are written as
    degrees.minutes, and Charlottetown has the position and province of a place in Ontario.

    Examples
    --------
    >>> from reproduce.data import available, load_canadian_weather
    >>> if available()["canadian_weather"]:
    ...     weather = load_canadian_weather()
    ...     assert weather.data.shape == weather.target.shape == (35, 365)
    """
    entry = CATALOGUE["canadian_weather"]
    arrays = read_arrays(read_files(entry, data_home)[0])
    # (days, stations, variables) -> (variables, stations, days)
    temperature, precipitation, log_precipitation = np.ascontiguousarray(arrays["dailyAv"].T)
    stations = {key: arrays[key] for key in ("place", "province", "region", "coordinates")}
    grid = np.arange(1.0, 366.0)
    return bundle(
        entry.description,
        temperature,
        log_precipitation,
        [f"temperature on day {day:.0f}" for day in grid],
        [f"log10 precipitation on day {day:.0f}" for day in grid],
        return_X_y,
        precipitation=precipitation,
        grid=grid,
        **stations,
    )


def load_gait(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Angle of the hip as input and angle of the knee as output, over a gait cycle of 39 boys.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (39, 20) hip and `target` (39, 20) knee, in degrees; `grid` (20,) the share of the cycle, 0.025
        to 0.975; `feature_names`, `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_gait
    >>> if available()["gait"]:
    ...     hip, knee = load_gait(return_X_y=True)
    ...     assert hip.shape == knee.shape == (39, 20)
    """
    entry = CATALOGUE["gait"]
    # (times, boys, joints) -> (joints, boys, times)
    hip, knee = np.ascontiguousarray(read_arrays(read_files(entry, data_home)[0])["gait"].T)
    grid = np.linspace(0.025, 0.975, hip.shape[1])
    return bundle(
        entry.description,
        hip,
        knee,
        [f"hip at {t:.3f}" for t in grid],
        [f"knee at {t:.3f}" for t in grid],
        return_X_y,
        grid=grid,
    )
