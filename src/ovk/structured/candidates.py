"""Where predictions are looked for: one list for all inputs, a list for each, or lists too long to hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ovk._types import Outputs
from ovk.kernels import ScalarKernel
from ovk.structured.outputs import as_outputs, count_outputs


class Candidates(ABC):
    """Candidate outputs for each of a number of inputs, in blocks.

    Implement it for candidates that are neither a list nor come from a generator function.
    """

    #: Whether every input has the same candidates; `blocks` is then called once for many inputs.
    shared: bool

    @abstractmethod
    def blocks(self, row: int) -> Iterable[Any]:
        """Collections of candidates (arrays or lists) for the input of that number."""

    def check(self, n: int) -> None:
        """Raise an error when these cannot be the candidates of n inputs."""
        return


class PerExample(Candidates):
    """A collection of candidates for each input.

    Parameters
    ----------
    collections : sequence, one entry an input, each an array or list of candidate outputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import IOKR
    >>> from ovk.structured import Delta, PerExample
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> model = IOKR(output_kernel=Delta(), alpha=0.1).fit(X, ["low", "middle", "high"])
    >>> model.predict(X[:2], candidates=PerExample([["low", "high"], ["middle", "high"]]))
    ['low', 'middle']
    """

    shared = False

    def __init__(self, collections: Sequence[Any]) -> None:
        self.collections = collections

    def blocks(self, row: int) -> Iterable[Any]:
        return [self.collections[row]]

    def check(self, n: int) -> None:
        if len(self.collections) != n:
            raise ValueError(
                f"candidates must have a collection for each of the {n} inputs, got {len(self.collections)}"
            )


class Generated(Candidates):
    """Candidates that are made block by block and forgotten, for more of them than can be listed.

    Parameters
    ----------
    make : function that returns an iterable of blocks (arrays or lists of candidate outputs)
        Called without an argument when the candidates are shared, else with the number of the input. It should not
        repeat itself: repeated candidates are not noticed across blocks.
    shared : bool
        Whether all inputs have the same candidates.

    Examples
    --------
    All 0/1 vectors with eight entries, four blocks of them:

    >>> import numpy as np
    >>> from ovk import IOKR
    >>> from ovk.kernels import Tanimoto
    >>> from ovk.structured import Generated
    >>> def blocks():
    ...     for start in range(0, 256, 64):
    ...         yield (np.arange(start, start + 64)[:, None] >> np.arange(8)) & 1
    >>> X = np.eye(2)
    >>> Y = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]])
    >>> IOKR("linear", Tanimoto(), alpha=1e-6).fit(X, Y).predict(X, candidates=Generated(blocks))
    array([[1, 1, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 1, 1]])
    """

    def __init__(self, make: Callable[..., Iterable[Any]], shared: bool = True) -> None:
        self.make = make
        self.shared = shared

    def blocks(self, row: int) -> Iterable[Any]:
        return self.make() if self.shared else self.make(row)


def checked_blocks(candidates: Candidates, kernel: ScalarKernel, row: int) -> Iterator[tuple[Any, Outputs]]:
    """Blocks as they were given, and in the form that the output kernel takes; without empty ones."""
    whom = "candidates" if candidates.shared else f"candidates of input {row}"
    found = False
    for block in candidates.blocks(row):
        outputs = as_outputs(block, kernel, whom)
        if count_outputs(outputs):
            found = True
            yield block, outputs
    if not found:
        raise ValueError(f"{whom} are empty: give at least one, or candidates=None for the training outputs")
