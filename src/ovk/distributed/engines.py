"""Who does the work: a Dask cluster (futures only), or processes of this machine (joblib).

Work is a function of a part and of values that all parts share. `map` gives its results in the order of the parts;
`reduce` merges them in a fixed binary tree, wherever they are, and leaves the result there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ovk._extras import required
from ovk._progress import ProgressBar
from ovk._threads import one_blas_thread
from ovk.distributed.parts import HeldPart, Part, PartError
from ovk.features import MergeTree

#: How often a part that failed is tried again on a cluster; a worker that dies does not count.
RETRIES = 2

Work = Callable[..., Any]


class Engine(ABC):
    """Applies work to parts."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """A handle of a value that all parts need."""

    @abstractmethod
    def map(self, work: Work, parts: Sequence[Any], *shared: Any, label: str) -> Iterator[Any]:
        """The results of ``work(part, *shared)``, in the order of the parts."""

    @abstractmethod
    def reduce(self, work: Work, merge: Callable[[Any, Any], Any], parts: Sequence[Any], *shared: Any) -> Any:
        """A handle of all results, merged."""

    @abstractmethod
    def fetch(self, handle: Any) -> Any:
        """The value of a handle."""


class ProcessEngine(Engine):
    """Processes of this machine, or this process alone."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def share(self, value: Any) -> Any:
        return value

    def fetch(self, handle: Any) -> Any:
        return handle

    def map(self, work: Work, parts: Sequence[Any], *shared: Any, label: str) -> Iterator[Any]:
        from joblib import Parallel, delayed

        calls = (delayed(perform)(work, number, part, *shared) for number, part in enumerate(parts))
        with ProgressBar(label, len(parts)) as bar:
            # In the order of the parts, and no more of them ahead than there are processes.
            for result in Parallel(n_jobs=self.n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(calls):
                bar.update()
                yield result

    def reduce(self, work: Work, merge: Callable[[Any, Any], Any], parts: Sequence[Any], *shared: Any) -> Any:
        tree = MergeTree(merge)
        for result in self.map(work, parts, *shared, label="learning"):
            tree.add(result)
        return tree.result()


class DaskEngine(Engine):
    """The workers of a `distributed.Client`. A part that is lost with its worker is read again by another."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def share(self, value: Any) -> Any:
        # A task, not scattered data: what a worker takes with it when it dies can be made again.
        return self.client.submit(identity, value, pure=False)

    def fetch(self, handle: Any) -> Any:
        return handle.result()

    def _submit(self, work: Work, number: int, part: Any, shared: tuple[Any, ...]) -> Any:
        return self.client.submit(perform, work, number, part, *shared, pure=False, retries=RETRIES)

    def _ahead(self) -> int:
        """Parts to be under way at a time: enough to keep all workers busy, few enough to bound their memory."""
        cores: dict[str, int] = self.client.ncores()
        return max(8, 3 * sum(cores.values()))

    def map(self, work: Work, parts: Sequence[Any], *shared: Any, label: str) -> Iterator[Any]:
        waiting: deque[Any] = deque()
        ahead = self._ahead()
        with ProgressBar(label, len(parts)) as bar:
            for number, part in enumerate(parts):
                waiting.append(self._submit(work, number, part, shared))
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
                    bar.update()
            while waiting:
                yield waiting.popleft().result()
                bar.update()

    def reduce(self, work: Work, merge: Callable[[Any, Any], Any], parts: Sequence[Any], *shared: Any) -> Any:
        # Sums are merged before further parts are read, so that few of them are held.
        tree = MergeTree(lambda a, b: self.client.submit(both, merge, a, b, pure=False, priority=1, retries=RETRIES))
        waiting: deque[Any] = deque()
        ahead = self._ahead()
        with ProgressBar("learning", len(parts)) as bar:
            for number, part in enumerate(parts):
                future = self._submit(work, number, part, shared)
                tree.add(future)
                waiting.append(future)
                if len(waiting) >= ahead:
                    self._finished(waiting.popleft(), bar)
            while waiting:
                self._finished(waiting.popleft(), bar)
            return tree.result()

    @staticmethod
    def _finished(future: Any, bar: ProgressBar) -> None:
        """Wait for a part, without its result, and raise its error if it has one."""
        from distributed import wait

        wait([future])  # type: ignore[no-untyped-call]
        if future.status == "error":
            future.result()
        bar.update()


def identity(value: Any) -> Any:
    """The value itself: a task that a cluster can do again."""
    return value


def both(merge: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    """Merge two results, with the same bits on every worker."""
    with one_blas_thread(tiles=1):
        return merge(one, two)


def perform(work: Work, number: int, part: Any, *shared: Any) -> Any:
    """The work on one part, in one thread; an error names the part."""
    part = part if isinstance(part, Part) else HeldPart(part)
    try:
        with one_blas_thread(tiles=1):
            return work(part, *shared)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise PartError(f"part {number} ({part.label}) cannot be used: {error}") from error


def as_engine(client: Any, n_jobs: int | None) -> Engine:
    """The engine of a client, or processes where there is none."""
    if client is None:
        return ProcessEngine(n_jobs)
    with required("clusters", "dask"):
        from distributed import Client
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client or None, got {type(client).__name__}")
    return DaskEngine(client)
