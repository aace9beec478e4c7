"""Engines that apply a function to all partitions: a Dask cluster (futures only), or local processes (joblib).

`Pass` merges the results in a fixed binary tree. Results are sent to this process as soon as they are ready, so that a
dying worker loses only the partition it was working on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ovk._extras import required
from ovk.app.parallel.partitions import GivenPartition, Partition, PartitionError
from ovk.base import ProgressBar, one_blas_thread
from ovk.features import MergeTree

#: How often a cluster repeats a failed partition. Dask counts dead workers separately
#: (``distributed.scheduler.allowed-failures``, 3 by default).
RETRIES = 2

#: Seconds for which a cluster may have no worker before work on it ends with `WorkersLostError`.
WORKER_TIMEOUT = 120.0

#: Minimum seconds that the scheduler may take to answer; it may be loading packages.
SCHEDULER_TIMEOUT = 60.0

#: Seconds between two checks of the workers while no result arrives.
WORKER_CHECK_SECONDS = 0.5

#: By partition number, the arguments of `perform`.
Calls = dict[int, tuple[Any, ...]]

#: A result that is being transferred from a worker.
Transfer = concurrent.futures.Future[Any]


class WorkersLostError(RuntimeError):
    """The workers are gone or died repeatedly; finished parts are kept.

    Parameters
    ----------
    why : str
        The reason.
    finished, total : int
        Number of finished parts in the pass that stopped, and number of all parts.

    Attributes
    ----------
    resume : callable or None
        ``resume(client)`` continues `fit` without reading finished parts again, and returns the model. It takes
        `client`, `n_jobs` and `worker_timeout` like `fit`, so ``resume()`` needs no cluster. None for
        `ovk.app.sessions.fit_files`, which must be called again.

    See Also
    --------
    fit, PartitionError

    Examples
    --------
    >>> from ovk.app.parallel import WorkersLostError
    >>> print(WorkersLostError("no worker for 120 s (worker_timeout)", 5, 12))
    no worker for 120 s (worker_timeout); 5 of 12 parts are finished: start workers and run this again
    """

    def __init__(self, why: str, finished: int = 0, total: int = 0) -> None:
        super().__init__(why, finished, total)
        self.why, self.finished, self.total = why, finished, total
        self.resume: Callable[..., Any] | None = None

    def __str__(self) -> str:
        how = "run this again" if self.resume is None else "continue with error.resume(client), or here: error.resume()"
        return f"{self.why}; {self.finished} of {self.total} parts are finished: start workers and {how}"


class Engine(ABC):
    def share(self, value: Any) -> Any:
        """A handle of a value that all partitions need."""
        return value

    @abstractmethod
    def results(self, calls: Calls, early: Collection[int]) -> Generator[tuple[int, Any], None, None]:
        """Number and result of each call, in the order of arrival; `early` are results that are not merged yet."""


@dataclass
class ProcessEngine(Engine):
    """Local processes, or only this one."""

    n_jobs: int | None = None

    def results(self, calls: Calls, early: Collection[int]) -> Generator[tuple[int, Any], None, None]:
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        work = (delayed(perform)(*call) for call in calls.values())
        # In the order of the partitions, with few of them ahead.
        found = Parallel(n_jobs=self.n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(work)
        try:
            yield from zip(calls, found, strict=True)
        except TerminatedWorkerError as error:
            raise WorkersLostError("a process died, possibly out of memory,") from error


@dataclass
class DaskEngine(Engine):
    """The workers of a `distributed.Client`. A partition that is lost with its worker is repeated."""

    client: Any
    worker_timeout: float

    def share(self, value: Any) -> Any:
        from dask import config

        # A task, not scattered data: Dask can recompute it when a worker dies. Its size is intended.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1PB"}):
            return self.client.submit(lambda: value, pure=False)

    def results(self, calls: Calls, early: Collection[int]) -> Generator[tuple[int, Any], None, None]:
        waiting, submitted = deque(calls), dict[Transfer, tuple[int, Any]]()
        # Enough partitions to keep all workers busy, few enough to bound the memory here.
        max_ahead = max(8, 3 * self._n_cores())
        try:
            while waiting or submitted:
                while waiting and (not submitted or len(submitted) + len(early) < max_ahead):
                    number = waiting.popleft()
                    # Earlier ones first, so that few results wait to be merged.
                    future = self.client.submit(perform, *calls[number], pure=False, retries=RETRIES, priority=-number)
                    submitted[self._start_transfer(future)] = number, future
                # Failed transfers last: the error ends the pass.
                for transfer in sorted(self._done(submitted), key=lambda one: one.cancelled() or bool(one.exception())):
                    number, _ = submitted.pop(transfer)
                    label = getattr(calls[number][2], "label", GivenPartition.label)
                    yield number, self._result(transfer, f"part {number} ({label})")
        finally:
            # An error keeps this frame alive and with it the futures, which would be computed.
            for _, future in submitted.values():
                future.release()

    def _start_transfer(self, future: Any) -> Transfer:
        """Transfer the result of a future as soon as it is ready."""

        async def gather() -> Any:
            result = await self.client.gather(future, asynchronous=True)
            # Dask need not recompute it if its worker dies now.
            future.release()
            return result

        return asyncio.run_coroutine_threadsafe(gather(), self.client.loop.asyncio_loop)

    def _n_cores(self) -> int:
        """Threads of all workers, 0 if the scheduler does not answer in time."""
        with suppress(OSError):
            asking = asyncio.run_coroutine_threadsafe(self.client.scheduler.ncores(), self.client.loop.asyncio_loop)
            return sum(asking.result(max(self.worker_timeout, SCHEDULER_TIMEOUT)).values())
        return 0

    def _done(self, submitted: Collection[Transfer]) -> set[Transfer]:
        seen = time.monotonic()
        while not (
            done := concurrent.futures.wait(submitted, WORKER_CHECK_SECONDS, concurrent.futures.FIRST_COMPLETED).done
        ):
            if self._n_cores():
                seen = time.monotonic()
            elif time.monotonic() - seen > self.worker_timeout:
                raise WorkersLostError(f"no worker for {self.worker_timeout:g} s (worker_timeout)")
        return done

    @staticmethod
    def _result(transfer: Transfer, part: str) -> Any:
        from distributed import KilledWorker

        try:
            return transfer.result()
        except KilledWorker as error:
            raise WorkersLostError(f"workers died repeatedly on {part}, possibly out of memory,") from error
        except concurrent.futures.CancelledError as error:
            raise WorkersLostError(f"the cluster dropped {part}") from error


class Pass:
    """One pass over the partitions. After an error it can be run again and continues.

    `merge` combines the results of two neighbours, the earlier one first. The progress bar shows `label`.
    """

    def __init__(self, work: Callable[..., Any], merge: Callable[[Any, Any], Any], label: str = "learning") -> None:
        self._work, self._label = work, label
        self._tree = MergeTree(merge)
        self._merged = 0
        #: Results that arrived before an earlier one, by partition number.
        self._early: dict[int, Any] = {}
        self._result: Any = None

    def run(self, engine: Engine, partitions: Sequence[Any], *shared: Any) -> Any:
        """The results of ``work(*shared, partition)``, merged in the order of the partitions."""
        if self._result is None:
            total, early = len(partitions), self._early
            missing = [n for n in range(self._merged, total) if n not in early]
            calls = {n: (self._work, n, partitions[n], *shared) for n in missing}
            with ProgressBar(self._label, total) as bar, closing(engine.results(calls, early)) as results:
                bar.update(total - len(missing))
                while self._merged < total:
                    try:
                        while self._merged not in early:
                            number, early[number] = next(results)
                            bar.update()
                    except WorkersLostError as error:
                        error.why += f" while {self._label}"
                        error.finished, error.total = self._merged + len(early), total
                        raise
                    self._tree.add(early.pop(self._merged))
                    self._merged += 1
            self._result = self._tree.result()
        return self._result


def perform(work: Callable[..., Any], number: int, given: Any, *shared: Any) -> Any:
    """Apply the work to one partition, in one thread; an error names the partition."""
    partition = given if isinstance(given, Partition) else GivenPartition(given)
    try:
        with one_blas_thread(tiles=1):
            return work(*shared, partition)
    except MemoryError:
        raise
    except Exception as error:
        raise PartitionError(f"part {number} ({partition.label}) failed: {error}") from error


def as_engine(client: Any, n_jobs: int | None = None, worker_timeout: float = WORKER_TIMEOUT) -> Engine:
    if client is None:
        return ProcessEngine(n_jobs)
    with required("clusters", "dask"):
        from distributed import Client
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client or None, got {type(client).__name__}")
    return DaskEngine(client, worker_timeout)


logger = logging.getLogger(__name__)

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

#: By default every process of a cluster monitors itself a hundred times per second, which slows down the work.
QUIET_CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "1s",
}


@contextmanager
def local_cluster(workers: int, *, processes: bool = True) -> Iterator[Any]:
    """A client of local workers with one thread each: processes, or threads of this process, which start faster."""
    with required("clusters", "dask"):
        distributed: Any = import_module("distributed")
    with import_module("dask.config").set(QUIET_CONFIG):
        options: dict[str, Any] = {"n_workers": workers, "processes": processes, "threads_per_worker": 1}
        options |= {"protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
        cluster = distributed.LocalCluster(**options)
        try:
            with distributed.Client(cluster) as client:
                yield client
        finally:
            started = list(cluster.workers.values())
            try:
                cluster.close()
            except (TimeoutError, OSError, RuntimeError) as error:
                # Not an error: the work is done.
                logger.warning("killing workers that did not stop: %s", error)
                # Threads have no process id, and neither have processes that ended.
                for pid in [getattr(worker, "pid", None) for worker in started]:
                    if pid is not None:
                        with suppress(ProcessLookupError):
                            os.kill(pid, KILL)
