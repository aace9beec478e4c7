"""Spatial measurements: ground velocities, ocean currents and heavy metals in soil."""

from __future__ import annotations

import csv
import io
import lzma

import numpy as np
from sklearn.utils import Bunch

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import columns, read_numbers, read_table
from reproduce.data._shared import bundle
from reproduce.support import Loaded, PathLike


def load_california_gps(
    *, data_home: PathLike | None = None, vertical: bool = False, return_X_y: bool = False
) -> Loaded:
    """GPS velocities of the ground in and around California, relative to the North American plate.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    vertical : bool
        Add the height to `data` and the vertical component to `target` and `target_std`.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (2458, 2): longitude, from 235 to 245 degrees east, and latitude; `target` (2458, 2):
        velocity_east and velocity_north in m/year, in the order of the axes of `data`; `target_std` (2458,
        2): their standard deviations; `feature_names`, `target_names`, `DESCR`. With `vertical`, 3 columns
        instead of 2 (height in m). Some stations appear several times, millimetres apart, with the same
        velocity.

    Examples
    --------
    >>> from reproduce.data import available, load_california_gps
    >>> if available()["california_gps"]:
    ...     ground = load_california_gps()
    ...     assert ground.data.shape == ground.target.shape == ground.target_std.shape == (2458, 2)
    """
    entry = CATALOGUE["california_gps"]
    names, table = read_table(lzma.decompress(read_files(entry, data_home)[0]))
    features, axes = ["longitude", "latitude"], ["east", "north"]
    if vertical:
        features, axes = [*features, "height"], [*axes, "up"]
    velocities = [f"velocity_{axis}" for axis in axes]
    return bundle(
        entry.description,
        columns(names, table, features),
        columns(names, table, velocities),
        features,
        velocities,
        return_X_y,
        target_std=columns(names, table, [f"std_{axis}" for axis in axes]),
    )


def load_glad(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Ocean drifters of the Grand Lagrangian Deployment in the Gulf of Mexico: positions and velocities.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (1183, 2) in km; `target` (1183, 2) in m/s; `data_test` (1600, 2) the points of a regular grid,
        without measurements; `grid_x`, `grid_y` (40, 40) the same points as a grid; `feature_names`,
        `target_names`, `DESCR`. The rows of a drifter are consecutive.

    Examples
    --------
    >>> from reproduce.data import available, load_glad
    >>> if available()["glad"]:
    ...     currents = load_glad()
    ...     assert currents.data.shape == (1183, 2) and currents.grid_x.shape == (40, 40)
    """
    entry = CATALOGUE["glad"]
    data, target, data_test, grid_x, grid_y = map(read_numbers, read_files(entry, data_home))
    return bundle(
        entry.description,
        data,
        target,
        ["x", "y"],
        ["u", "v"],
        return_X_y,
        data_test=data_test,
        grid_x=grid_x,
        grid_y=grid_y,
    )


def load_jura(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Concentrations of seven heavy metals in the topsoil of the Swiss Jura.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) of the 259 sampling locations instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (259, 2) local coordinates in km; `target` (259, 7) Cd, Co, Cr, Cu, Ni, Pb, Zn in mg/kg;
        `landuse` and `rock` (259,) of str; `coordinates` (259, 2) longitude and latitude; the same for the
        100 validation locations as `data_validation`, `target_validation`, `landuse_validation`,
        `rock_validation` and `coordinates_validation`; `feature_names`, `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_jura
    >>> if available()["jura"]:
    ...     soil = load_jura()
    ...     assert soil.target.shape == (259, 7) and soil.target_validation.shape == (100, 7)
    """
    entry = CATALOGUE["jura"]
    sampling, validation = map(_places, read_files(entry, data_home))
    features, metals = ["Xloc", "Yloc"], ["Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn"]
    extra = {key: value for key, value in sampling.items() if key not in ("data", "target")}
    extra |= {f"{key}_validation": value for key, value in validation.items()}
    return bundle(entry.description, sampling.data, sampling.target, features, metals, return_X_y, **extra)


def _places(content: bytes) -> Bunch:
    _, *rows = csv.reader(io.StringIO(content.decode("ascii")))
    table = np.array(rows)
    return Bunch(
        data=table[:, :2].astype(np.float64),
        target=table[:, 6:].astype(np.float64),
        coordinates=table[:, 2:4].astype(np.float64),
        landuse=table[:, 4],
        rock=table[:, 5],
    )
