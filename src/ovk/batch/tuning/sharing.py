"""Candidates in several threads, with results that do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed

from ovk._progress import progress_shown, track
from ovk._threads import one_blas_thread

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None, label: str
) -> Iterator[Result]:
    """work(item) for each of the items in their order, behind a progress bar.

    With a number of threads each of them has one thread of BLAS: how BLAS shares a product among several changes its
    last bits. With None there is one item after the other, and BLAS has its threads.

    >>> list(in_threads(lambda x: x**2, [1, 2, 3], 2, "squaring"))
    [1, 4, 9]
    """
    if n_jobs is None:
        yield from track((work(item) for item in items), label, len(items))
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for one for each processor, got {n_jobs!r}")

    def alone(item: Item) -> Result:
        # Bars of several threads at once would write over each other.
        with one_blas_thread(tiles=1), progress_shown(False):
            return work(item)

    results = Parallel(n_jobs=int(n_jobs), prefer="threads", return_as="generator")(delayed(alone)(i) for i in items)
    yield from track(results, label, len(items))
