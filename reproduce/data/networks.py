"""Graphs: citations between papers, interactions between genes, pathways between proteins."""

from __future__ import annotations

import gzip

import numpy as np
from scipy.sparse import csr_array

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import read_arrays, read_relation
from reproduce.data._shared import bundle
from reproduce.support import Loaded, PathLike

#: Classes of Cora in the order of their labels; the sizes of the classes, all different, identify them.
_CORA = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def load_cora(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """2708 papers on machine learning in 7 classes, the words they use and the citations between them.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (2708, 1433) sparse, 1 where a paper uses a word; `target` (2708,) the class, 0 to 6;
        `adjacency` (2708, 2708) sparse and symmetric, 1 for each of the 5278 citations; `feature_names`,
        `target_names` (of the classes), `DESCR`. The names of the words are not published.

    Examples
    --------
    >>> from reproduce.data import available, load_cora
    >>> if available()["cora"]:
    ...     cora = load_cora()
    ...     assert cora.adjacency.nnz == 2 * 5278 and cora.target_names[3] == "Neural_Networks"
    """
    entry = CATALOGUE["cora"]
    arrays = read_arrays(read_files(entry, data_home)[0])
    rows, words, edges = arrays["feature_rows"], arrays["feature_cols"], arrays["edges"]
    target, p = arrays["labels"].astype(np.int64), int(arrays["n_features"])
    n = len(target)
    data = csr_array((np.ones(len(rows)), (rows, words)), shape=(n, p))
    upper = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    features = [f"word {j}" for j in range(p)]
    return bundle(entry.description, data, target, features, _CORA, return_X_y, adjacency=upper + upper.T)


def load_dicty(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """1219 genes of the amoeba Dictyostelium: expression, Gene Ontology terms and protein interactions.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (1219, 282) expression in 282 experiments, from 0 to 27,297 (its publisher takes the
        logarithm); `target` (1219, 116) of 0 and 1, the Gene Ontology terms; `adjacency` (1219, 1219) sparse
        and symmetric, the confidence, 0.150 to 0.999, of 23,025 interactions; `genes`, `feature_names`,
        `target_names`, `DESCR`.

    Notes
    -----
    The file writes an interaction of confidence c as -c / 10, the form of a constraint in matrix
    factorisation, and 91 of them in one direction only; both are undone here.

    Examples
    --------
    >>> from reproduce.data import available, load_dicty
    >>> if available()["dicty"]:
    ...     amoeba = load_dicty()
    ...     assert amoeba.adjacency.nnz == 2 * 23025 and amoeba.genes[0] == "DDB_G0286509"
    """
    entry = CATALOGUE["dicty"]
    expression, annotations, interactions = map(gzip.decompress, read_files(entry, data_home))
    genes, experiments, data = read_relation(expression)
    _, terms, target = read_relation(annotations)
    _, _, constraints = read_relation(interactions)
    confidence = -10 * np.minimum(constraints, constraints.T)
    adjacency = csr_array(np.round(confidence, 3))
    return bundle(entry.description, data, target, experiments, terms, return_X_y, adjacency=adjacency, genes=genes)


def load_yeast_kegg(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """150 proteins of yeast: the network of the KEGG pathways, and a kernel from four kinds of measurements.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `kernel` (150, 150), symmetric and positive definite, 1 on the diagonal; `adjacency` (150, 150) sparse
        and symmetric, 1 for each of the 168 edges; `data` the kernel again, for models with a precomputed
        kernel, and `target` (150, 150) the adjacency as a dense array; `feature_names`, `target_names`,
        `DESCR`.

    Notes
    -----
    The kernel has no information about 55 proteins: their rows are 0 except on the diagonal.

    Examples
    --------
    >>> from reproduce.data import available, load_yeast_kegg
    >>> if available()["yeast_kegg"]:
    ...     yeast = load_yeast_kegg()
    ...     assert yeast.kernel.shape == (150, 150) and yeast.adjacency.nnz == 2 * 168
    """
    entry = CATALOGUE["yeast_kegg"]
    arrays = read_arrays(read_files(entry, data_home)[0])
    kernel, target = arrays["K"], arrays["A"]
    proteins = [f"protein {i}" for i in range(len(kernel))]
    return bundle(
        entry.description, kernel, target, proteins, proteins, return_X_y, kernel=kernel, adjacency=csr_array(target)
    )
