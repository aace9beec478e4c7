"""Finger movements from the surface of the brain: BCI Competition IV data set 4."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from sklearn.utils import Bunch

from ovk.datasets import prepare_bci
from reproduce.support import Array


def load_bci(
    path: str | Path,
    *,
    finger: int = 1,
    labels: str | Path | None = None,
    **options: Any,
) -> Bunch:
    """Read a subject of BCI Competition IV, data set 4, and prepare it as in `prepare_bci`.

    Parameters
    ----------
    path : the subject's file, ``sub1_comp.mat``: `train_data`, `test_data` (time, electrodes) and `train_dg` (time, 5)
    finger : 0 thumb, 1 index, ..., 4 little
    labels : the file of the test labels, ``sub1_testlabels.mat`` with `test_dg`, optional
        With it the test recording is prepared too, as `data_test`, `target_test` and `labels_test`.
    options : as in `prepare_bci`

    Notes
    -----
    The competition offers the files to those who register (bbci.de/competition/iv); they are not checked by a checksum.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from reproduce.data import load_bci
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sub1_comp.mat"
    ...     savemat(file, {"train_data": rng.standard_normal((4000, 6)), "train_dg": rng.standard_normal((4000, 5))})
    ...     load_bci(file, channels=[0, 3], segment=100).data.shape
    (10, 200)
    """
    arrays = _read_mat(path, ("train_data", "train_dg"))
    if not 0 <= finger < arrays["train_dg"].shape[1]:
        raise ValueError(f"finger must be a number from 0 to {arrays['train_dg'].shape[1] - 1}, got {finger}")
    curves = prepare_bci(arrays["train_data"], arrays["train_dg"][:, finger], **options)
    if labels is not None:
        test = _read_mat(path, ("test_data",))["test_data"]
        flexion = _read_mat(labels, ("test_dg",))["test_dg"][:, finger]
        found = prepare_bci(test, flexion[: len(test)], **options)
        curves.update(data_test=found.data, target_test=found.target, labels_test=found.labels)
    return curves


def _read_mat(path: str | Path, names: Sequence[str]) -> dict[str, Array]:
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no file {file}: the files of BCI Competition IV, data set 4 (sub1_comp.mat, ...), are offered "
            "at bbci.de/competition/iv"
        )
    content = loadmat(io.BytesIO(file.read_bytes()), variable_names=list(names))
    missing = [name for name in names if name not in content]
    if missing:
        raise ValueError(f"{file} holds no {missing[0]}: is it the file of a subject of data set 4?")
    return {name: np.asarray(content[name], dtype=np.float64) for name in names}
