"""Finding and checking the files of a data set."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from reproduce.data._catalogue import CATALOGUE, DataFile, Dataset
from reproduce.support import PathLike

VARIABLE = "OVK_DATA"


class DatasetNotFound(FileNotFoundError):
    """A file of a data set is missing, or no directory is given.

    >>> from reproduce.data import load_jura
    >>> try:
    ...     load_jura(data_home="no-such-directory")
    ... except DatasetNotFound as error:
    ...     print(str(error).partition(":")[0])
    The data set 'jura' needs geostat/jura_pred.csv and geostat/jura_val.csv, not found in no-such-directory
    """


class DatasetCorrupt(ValueError):
    """A file of a data set does not have the sha256 in the catalogue.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from reproduce.data import load_gait
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     (Path(directory) / "functional").mkdir()
    ...     _ = (Path(directory) / "functional" / "gait.npz").write_bytes(b"something else")
    ...     load_gait(data_home=directory)
    Traceback (most recent call last):
    reproduce.data._home.DatasetCorrupt: The file ...gait.npz of the data set 'gait' has the sha256 ...
    """


def available(data_home: PathLike | None = None) -> dict[str, bool]:
    """For every data set, whether its files exist; their content is not checked.

    Parameters
    ----------
    data_home : path, optional
        The directory of the data sets; if absent, the directory named by the variable ``OVK_DATA``.

    Examples
    --------
    >>> from reproduce.data import available
    >>> found = available("no-such-directory")
    >>> found["wine"], found["mtr/andro"], found["dream3/E1"]
    (False, False, False)
    """
    home = _home(data_home)
    return {name: home is not None and not _missing(entry, home) for name, entry in CATALOGUE.items()}


def read_files(entry: Dataset, data_home: PathLike | None) -> list[bytes]:
    """The bytes of every file of `entry`, after checking their sha256.

    The checked bytes are parsed, so a file cannot change in between.
    """
    home = _home(data_home)
    if home is None:
        problem = f"but neither the argument data_home nor the variable {VARIABLE} names a directory to look in"
        raise DatasetNotFound(_advice(entry, entry.files, problem, "put it in a directory under that path"))
    missing = _missing(entry, home)
    if missing:
        raise DatasetNotFound(_advice(entry, missing, f"not found in {home}", "put it there under that path"))
    return [_checked(entry, file, home) for file in entry.files]


def _home(data_home: PathLike | None) -> Path | None:
    named = os.environ.get(VARIABLE, "") if data_home is None else data_home
    return Path(named).expanduser() if os.fspath(named) else None


def _missing(entry: Dataset, home: Path) -> tuple[DataFile, ...]:
    return tuple(file for file in entry.files if not (home / file.path).is_file())


def _advice(entry: Dataset, files: tuple[DataFile, ...], problem: str, remedy: str) -> str:
    wanted = " and ".join(file.path for file in files)
    return (
        f"The data set {entry.name!r} needs {wanted}, {problem}: "
        f"{entry.publisher} offers it ({entry.obtain}); "
        f"{remedy}, and name the directory by data_home or {VARIABLE}."
    )


def _checked(entry: Dataset, file: DataFile, home: Path) -> bytes:
    path = home / file.path
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DatasetCorrupt(
            f"The file {path} of the data set {entry.name!r} has the sha256 {found} "
            f"where {file.sha256} is expected: "
            f"replace it by the one that {entry.publisher} offers ({entry.obtain})."
        )
    return content
