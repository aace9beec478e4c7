"""A Dask cluster on this machine."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from ovk._extras import required

logger = logging.getLogger(__name__)

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

#: Every process of a cluster watches itself, a hundred times a second; with as many workers as processors that is time
#: taken from the work.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "1s",
}


@contextmanager
def local_cluster(workers: int, *, processes: bool = True) -> Iterator[Any]:
    """A client of so many workers with one thread each, reachable from this machine alone.

    Workers that do not leave when they are asked to are killed. That is no error: what was asked of them is done.

    Parameters
    ----------
    workers : how many
    processes : False for workers in threads of this process, which start at once
    """
    with required("clusters", "dask"):
        distributed: Any = import_module("distributed")
    with import_module("dask.config").set(QUIET):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            processes=processes,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            protocol="tcp://",
            host="127.0.0.1",
            silence_logs=50,
        )
        try:
            with distributed.Client(cluster) as client:
                yield client
        finally:
            _end(cluster)


def _end(cluster: Any) -> None:
    workers = list(cluster.workers.values())
    try:
        cluster.close()
    except (TimeoutError, OSError, RuntimeError) as error:
        logger.warning("workers did not leave and are killed: %s", error)
        # Those in threads have no number, and those that ended have none any more.
        for pid in [getattr(worker, "pid", None) for worker in workers]:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, KILL)
