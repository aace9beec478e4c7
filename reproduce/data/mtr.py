"""The multi-target regression sets that Mulan collects."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.io import arff

from reproduce.data._catalogue import member
from reproduce.data._home import read_files
from reproduce.data._shared import bundle
from reproduce.support import Array, Loaded, PathLike


def load_mtr(name: str, *, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """One of eight small multi-target regression sets from Mulan.

    ======= ===== ====== =======  ==========================================
    name    rows  inputs outputs  what
    ======= ===== ====== =======  ==========================================
    andro   49    30     6        water quality, five days ahead
    edm     154   16     2        electrical discharge machining
    enb     768   8      2        heating and cooling load of buildings
    jura    359   15     3        heavy metals in soil
    slump   103   7      3        concrete
    wq      1060  16     14       species in rivers
    sf1     323   28     3        solar flares
    atp1d   337   411    6        prices of airline tickets
    ======= ===== ====== =======  ==========================================

    Only sf1 has nominal inputs: one with two values becomes one column, the indicator of the second; one with
    more values becomes an indicator for each, named ``input=value``.

    Parameters
    ----------
    name : str
        One of the names above.
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, p), `target` (n, d), `feature_names`, `target_names`, `DESCR`; nan is missing.

    Examples
    --------
    >>> from reproduce.data import available, load_mtr
    >>> if available()["mtr/slump"]:
    ...     concrete = load_mtr("slump")
    ...     assert concrete.target_names == ["SLUMP_cm", "FLOW_cm", "Compressive_Strength_Mpa"]
    >>> load_mtr("iris")
    Traceback (most recent call last):
    ValueError: name must be one of 'andro', 'edm', 'enb', 'jura', 'slump', 'wq', 'sf1', 'atp1d', got 'iris'
    """
    entry = member("mtr", name)
    names, table = read_arff(read_files(entry, data_home)[0])
    d = entry.shape[2]
    data, target = np.ascontiguousarray(table[:, :-d]), np.ascontiguousarray(table[:, -d:])
    return bundle(entry.description, data, target, names[:-d], names[-d:], return_X_y)


def read_arff(content: bytes) -> tuple[list[str], Array]:
    """Column names and numbers of an ARFF text, its nominal attributes as indicators; nan is missing.

    >>> read_arff(b"@relation r\\n@attribute 'a' numeric\\n@attribute b {x,y,z}\\n@data\\n1,y\\n?,x\\n")
    (['a', 'b=x', 'b=y', 'b=z'], array([[ 1., 0., 1., 0.], [nan, 1., 0., 0.]]))
    """
    records, attributes = arff.loadarff(io.StringIO(content.decode("ascii")))
    names, table = [], []
    for attribute in attributes.names():
        kind, levels = attributes[attribute]
        name = attribute.replace('"', "").replace("'", "")
        if kind == "nominal":
            shown = levels[1:] if len(levels) == 2 else levels
            names += [f"{name}={level}" for level in shown]
            table += [_indicator(records[attribute], level) for level in shown]
        else:
            names.append(name)
            table.append(records[attribute].astype(np.float64))
    return names, np.column_stack(table)


def _indicator(values: npt.NDArray[Any], level: str) -> Array:
    return np.where(values == b"?", np.nan, (values == level.encode()).astype(np.float64))
