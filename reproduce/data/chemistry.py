"""Drugs: structure and pharmacological actions."""

from __future__ import annotations

import gzip

import numpy as np

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import read_relation
from reproduce.data._shared import bundle
from reproduce.support import Array, Loaded, PathLike


def load_pharma(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """1260 drugs: fingerprints of their structure, and which of 130 pharmacological actions they have.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (1260, 920) of 0 and 1, the fingerprints; `target` (1260, 130) of 0 and 1, the actions, between
        1 and 16 for each drug; `tanimoto` (1260, 1260) the Tanimoto similarity of the fingerprints, a
        positive semidefinite kernel; `constraints` (1260, 1260) the matrix published as tanimoto;
        `compounds` (1260,) PubChem identifiers; `feature_names`, `target_names`, `DESCR`.

    Notes
    -----
    The published matrix is not a kernel but a constraint for matrix factorisation: 0 on the diagonal and
    about -1e-4 times the similarity elsewhere, rounded to two digits, with one drug and parts of others
    left blank. The similarity is computed from the fingerprints.

    Examples
    --------
    >>> from reproduce.data import available, load_pharma
    >>> if available()["pharma"]:
    ...     drugs = load_pharma()
    ...     assert drugs.target.shape == (1260, 130) and drugs.target_names[1] == "Anesthetics, General"
    """
    entry = CATALOGUE["pharma"]
    fingerprints, actions, constraints = map(gzip.decompress, read_files(entry, data_home))
    compounds, bits, data = read_relation(fingerprints)
    _, action_names, target = read_relation(actions)
    return bundle(
        entry.description,
        data,
        target,
        [f"bit {bit}" for bit in bits],
        action_names,
        return_X_y,
        tanimoto=_tanimoto(data),
        constraints=read_relation(constraints)[2],
        compounds=np.array(compounds, dtype=np.int64),
    )


def _tanimoto(bits: Array) -> Array:
    """Number of common bits divided by the number of bits in either row; every row has bits."""
    shared = bits @ bits.T
    count = np.diag(shared)
    similarity: Array = shared / (count[:, None] + count - shared)
    return similarity
