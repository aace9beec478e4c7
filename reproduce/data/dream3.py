"""Simulated gene regulation: trajectories of ten genes and their network."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from reproduce.data._catalogue import member
from reproduce.data._home import read_files
from reproduce.data._reading import read_numbers
from reproduce.data._shared import bundle
from reproduce.support import Array, Loaded, PathLike


def load_dream3(name: str, *, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """One of the five networks of ten genes of the DREAM3 in-silico challenge, with four noisy time series.

    Parameters
    ----------
    name : {"E1", "E2", "Y1", "Y2", "Y3"}
        The network, taken from E. coli (E) or yeast (Y).
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `series`: a list of four arrays (21, 10); `times` (21,) from 0 to 200; `data` (80, 10) the expressions
        at one time and `target` (80, 10) those at the next time of the same series; `groups` (80,) the series
        of each row; `adjacency` (10, 10) sparse, 1 in row i and column j where gene i regulates gene j;
        `signs` the same with 1 for activation and -1 for repression; `feature_names`, `target_names`,
        `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_dream3
    >>> if available()["dream3/E1"]:
    ...     coli = load_dream3("E1")
    ...     assert len(coli.series) == 4 and coli.adjacency.nnz == 11
    >>> load_dream3("E3")
    Traceback (most recent call last):
    ValueError: name must be one of 'E1', 'E2', 'Y1', 'Y2', 'Y3', got 'E3'
    """
    entry = member("dream3", name)
    trajectories, network = read_files(entry, data_home)
    genes, times, series = _series(trajectories)
    signs = _signs(network, genes)
    return gene_series_bundle(entry.description, series, times, signs, genes, return_X_y)


def gene_series_bundle(
    description: str,
    series: list[Array],
    times: Array,
    signs: csr_array,
    genes: list[str],
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """The Bunch of several time series of genes, (times, genes) each, and of their signed network."""
    return bundle(
        description,
        np.concatenate([one[:-1] for one in series]),
        np.concatenate([one[1:] for one in series]),
        genes,
        genes,
        return_X_y,
        series=series,
        times=times,
        groups=np.repeat(np.arange(len(series)), len(times) - 1),
        adjacency=abs(signs),
        signs=signs,
        **fields,
    )


def _series(content: bytes) -> tuple[list[str], Array, list[Array]]:
    """Genes, times and series of a text with a blank line before each series."""
    header, *blocks = content.decode("ascii").strip().split("\n\n")
    genes = [gene.strip('"') for gene in header.split()[1:]]
    tables = [read_numbers(block.encode(), "\t") for block in blocks]
    return genes, tables[0][:, 0], [np.ascontiguousarray(table[:, 1:]) for table in tables]


def _signs(content: bytes, genes: list[str]) -> csr_array:
    """The signed network of a text whose lines are regulator, regulated gene, and + or -."""
    signs: npt.NDArray[np.float64] = np.zeros((len(genes), len(genes)))
    for line in content.decode("ascii").split("\n"):
        if line:
            regulator, regulated, sign = line.split()
            signs[genes.index(regulator), genes.index(regulated)] = {"+": 1, "-": -1}[sign]
    return csr_array(signs)
