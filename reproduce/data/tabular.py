"""Plain tables: wine quality, Parkinson's telemonitoring, cod-rna and the electricity market."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import numpy as np

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import columns, read_table
from reproduce.data._shared import bundle
from reproduce.support import Loaded, PathLike


def load_wine(
    *,
    data_home: PathLike | None = None,
    targets: Sequence[str] = ("quality",),
    return_X_y: bool = False,
) -> Loaded:
    """White wines: physico-chemical measurements and a quality grade from 3 to 9 (4898 samples, 12 columns).

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    targets : sequence of str
        The columns to predict; the others are the inputs. The publisher names only "quality"; publications
        with two outputs seem to add one of the measurements, for instance ``("quality", "alcohol")``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (4898, 12 - d), `target` (4898, d), `feature_names`, `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_wine
    >>> if available()["wine"]:
    ...     wine = load_wine(targets=("quality", "alcohol"))
    ...     assert wine.data.shape == (4898, 10) and wine.target.shape == (4898, 2)
    """
    entry = CATALOGUE["wine"]
    names, table = read_table(read_files(entry, data_home)[0], ";")
    wanted = [targets] if isinstance(targets, str) else list(targets)
    if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) < set(names):
        raise ValueError(
            f"targets must be some, not all, of the columns {', '.join(map(repr, names))}, each once, got {targets!r}"
        )
    features = [name for name in names if name not in wanted]
    data, target = columns(names, table, features), columns(names, table, wanted)
    return bundle(entry.description, data, target, features, wanted, return_X_y)


def load_parkinsons(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Voice recordings of 42 patients, with the motor and total UPDRS scores of their Parkinson's disease.

    Rows of one patient are not independent: split by `groups`.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (5875, 19): age, sex, test_time and 16 voice measures; `target` (5875, 2): motor_UPDRS,
        total_UPDRS; `groups` (5875,) the patient of each row, from 1 to 42; `feature_names`, `target_names`,
        `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_parkinsons
    >>> if available()["parkinsons"]:
    ...     patients = load_parkinsons()
    ...     assert patients.target_names == ["motor_UPDRS", "total_UPDRS"] and patients.groups.max() == 42
    """
    entry = CATALOGUE["parkinsons"]
    names, table = read_table(read_files(entry, data_home)[0])
    wanted = ["motor_UPDRS", "total_UPDRS"]
    features = [name for name in names if name not in ("subject#", *wanted)]
    groups = table[:, names.index("subject#")].astype(np.int64)
    data, target = columns(names, table, features), columns(names, table, wanted)
    return bundle(entry.description, data, target, features, wanted, return_X_y, groups=groups)


def load_codrna(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Pairs of sequences that are a non-coding RNA (1) or not (-1), the training part of cod-rna.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (59535, 8), not scaled; `target` (59535,) of -1 and 1; `feature_names`, `target_names` (of the
        two classes), `DESCR`. The rows come in six blocks of one class each: shuffle them before streaming.

    Examples
    --------
    >>> from reproduce.data import available, load_codrna
    >>> if available()["codrna"]:
    ...     X, y = load_codrna(return_X_y=True)
    ...     assert X.shape == (59535, 8) and set(y.tolist()) == {-1, 1}
    """
    entry = CATALOGUE["codrna"]
    _, table = read_table(gzip.decompress(read_files(entry, data_home)[0]))
    features = ["10 * free energy", "length of the shorter sequence"]
    features += [f"frequency of {base} in sequence {s}" for s in (1, 2) for base in "AUC"]
    data, target = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    return bundle(entry.description, data, target, features, ["other", "non-coding RNA"], return_X_y)


def load_elec2(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Electricity market of New South Wales: is the price above its mean of the last day (1) or not (0).

    A stream with drift in chronological order; the publisher scaled all inputs to [0, 1].

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (45312, 6), `target` (45312,) of 0 (down) and 1 (up), `feature_names`, `target_names` (of the
        two classes), `DESCR`. The file calls the inputs feat_1 to feat_6; the names given here are those of
        the original.

    Examples
    --------
    >>> from reproduce.data import available, load_elec2
    >>> if available()["elec2"]:
    ...     market = load_elec2()
    ...     assert market.data.shape == (45312, 6) and int(market.target.sum()) == 19237
    """
    entry = CATALOGUE["elec2"]
    _, table = read_table(gzip.decompress(read_files(entry, data_home)[0]))
    features = ["period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"]
    data, target = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    return bundle(entry.description, data, target, features, ["down", "up"], return_X_y)
