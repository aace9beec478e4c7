"""Workers that die repeatedly or all at once: the fit ends, and a continued fit does not read finished parts again."""

import asyncio
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ovk import OVKRidge
from ovk.app.parallel import WorkersLostError, fit
from ovk.app.parallel.engines import WORKER_TIMEOUT, DaskEngine, local_cluster
from ovk.kernels import Gaussian
from processes import PATIENCE, wait_until

dask = pytest.importorskip("dask")
get_mp_context = pytest.importorskip("distributed.utils").get_mp_context

PARTS = 6
ESTIMATOR = OVKRidge(Gaussian(1.0), 0.1, landmarks=np.linspace(-2, 2, 12).reshape(6, 2))


def watched(number, directory, held=(), deadly=()):
    """Rows in two chunks. The sample reads the first; a learner writes a file, then waits or dies on request."""
    rng = np.random.default_rng(number)
    X = rng.uniform(-2, 2, (40, 2))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]])
    yield X[:20], Y[:20]
    directory = Path(directory)
    (directory / f"{number} {os.getpid()} {uuid4()}").touch()
    if number in deadly and not (directory / "harmless").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while number in held and not (directory / "free").exists() and not took_permit(directory):
        time.sleep(0.01)
    yield X[20:], Y[20:]


def took_permit(directory):
    """Take a permit to continue with one part, if there is one."""
    try:
        (directory / "permit").unlink()
    except FileNotFoundError:
        return False
    return True


def parts_in(directory, **options):
    return [partial(watched, number, str(directory), **options) for number in range(PARTS)]


def expected(tmp_path):
    """What one process learns."""
    directory = tmp_path / "alone"
    directory.mkdir()
    return fit(ESTIMATOR, parts_in(directory)).dual_coef_


def reads(directory, but=()):
    """How often each part was read for learning, except by some processes."""
    found = [tuple(map(int, path.name.split()[:2])) for path in Path(directory).glob("* * *")]
    return Counter(number for number, pid in found if pid not in but)


def kill(client, but=()):
    """Kill all workers at once; returns their process ids."""
    pids = {nanny.pid for nanny in client.cluster.workers.values()} - {None, *but}
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def all_back(client, dead):
    """Whether every worker has been restarted; a worker killed earlier than that would not be."""
    nannies = client.cluster.workers.values()
    return not {None, *dead} & {n.pid for n in nannies} and {n.worker_address for n in nannies} == set(client.ncores())


def wait_while(fitting, condition, what):
    """Wait for a condition while the fit is running."""
    wait_until(lambda: fitting.done() or condition(), what)
    if fitting.done():
        pytest.fail(f"the fit ended before {what}: {fitting.exception()!r}")


@pytest.fixture
def own_client():
    """Two workers forked from a process with all imports, so that they restart quickly."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "ovk.app.parallel"])
        with local_cluster(2) as client:
            yield client


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "read"
    path.mkdir()
    return path


@pytest.fixture
def background():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def arrived(monkeypatch):
    """Counts the results that arrive from a cluster."""
    real, found = DaskEngine._result, []

    def result(*arguments):
        found.append(real(*arguments))
        return found[-1]

    monkeypatch.setattr(DaskEngine, "_result", staticmethod(result))
    return found


def test_workers_that_never_return_end_the_fit_and_what_is_finished_is_kept(
    own_client, directory, tmp_path, background, arrived
):
    """Workers are killed after each restart, once the sample and the sums of one part have arrived."""
    (directory / "permit").touch()
    fitting = background.submit(fit, ESTIMATOR, parts_in(directory, held=range(PARTS)), own_client, worker_timeout=0.5)
    killed = set()
    try:
        wait_while(fitting, partial(in_the_midst, own_client, directory, arrived, killed, 1), "work on a second part")
        while not fitting.done():
            killed |= kill(own_client, but=killed)
            time.sleep(0.01)
    finally:
        (directory / "free").touch()
    error = fitting.exception()
    assert isinstance(error, WorkersLostError)
    assert len(killed) > 2
    assert error.finished == 1
    assert str(error) == (
        "no worker for 0.5 s (worker_timeout) while learning; 1 of 6 parts are finished: start workers and continue "
        "with error.resume(client), or here: error.resume()"
    )
    before = reads(directory)
    assert_array_equal(error.resume().dual_coef_, expected(tmp_path))
    check_read_again(before, reads(directory), error)


def check_read_again(before, after, error):
    """Exactly the parts that were not finished are read again."""
    assert sum(after[number] == before[number] for number in range(PARTS)) == error.finished < error.total


def test_a_part_whose_readers_die_again_and_again_ends_the_fit(own_client, directory, tmp_path):
    # Allow fewer dead workers per part than usual, to save time.
    own_client.cluster.scheduler.allowed_failures = 1
    with pytest.raises(WorkersLostError, match=r"workers died repeatedly on part \d \(partial\)") as raised:
        fit(ESTIMATOR, parts_in(directory, deadly=(4,)), own_client)
    error = raised.value
    before = reads(directory)
    (directory / "harmless").touch()
    own_client.wait_for_workers(1, timeout=PATIENCE)
    model = error.resume(own_client)
    assert_array_equal(model.dual_coef_, expected(tmp_path))
    check_read_again(before, reads(directory), error)


def test_a_scheduler_that_does_not_answer_ends_the_fit(client, directory, background, monkeypatch):
    """Such as a stopped process, whose connection stays open."""

    async def silent(*arguments, **options):
        while not (directory / "free").exists():
            await asyncio.sleep(0.01)
        return {}

    parts = parts_in(directory, held=range(PARTS))
    monkeypatch.setattr("ovk.app.parallel.engines.SCHEDULER_TIMEOUT", 0.1)
    monkeypatch.setitem(client.cluster.scheduler.handlers, "ncores", silent)
    fitting = background.submit(fit, ESTIMATOR, parts, client, worker_timeout=0.1)
    try:
        assert isinstance(fitting.exception(PATIENCE), WorkersLostError)
    finally:
        (directory / "free").touch()


def in_the_midst(client, directory, arrived, dead, finished):
    """Whether all workers are back and work on a part while others are finished."""
    at_work = len(arrived) == PARTS + finished and reads(directory, but=dead).total() > finished
    return at_work and all_back(client, dead)


def test_simultaneous_kills_in_a_row_change_no_bit(own_client, directory, tmp_path, background, arrived):
    """All workers are killed at once, twice, each time within a part and with more parts finished."""
    fitting = background.submit(fit, ESTIMATOR, parts_in(directory, held=range(PARTS)), own_client)
    dead = set()
    try:
        for finished in range(2):
            ready = partial(in_the_midst, own_client, directory, arrived, dead, finished)
            wait_while(fitting, ready, f"work when {finished} parts are finished")
            dead |= kill(own_client)
            (directory / "permit").touch()
    finally:
        (directory / "free").touch()
    assert_array_equal(fitting.result(PATIENCE).dual_coef_, expected(tmp_path))
    assert len(dead) == 4


def test_the_leave_one_out_pass_continues_as_well(directory, tmp_path):
    """Without a cluster; a finished pass does not run again."""
    alphas = [0.01, 1.0]
    whole = fit(ESTIMATOR, parts_in(tmp_path), alphas=alphas)
    with pytest.raises(WorkersLostError, match="a process died, possibly out of memory, while testing") as raised:
        fit(
            ESTIMATOR,
            [partial(second_time, number, str(directory)) for number in range(PARTS)],
            n_jobs=2,
            alphas=alphas,
        )
    learned = {number: reads(directory)[number] for number in range(PARTS)}
    (directory / "harmless").touch()
    model = raised.value.resume()
    assert_array_equal(model.loo_errors_, whole.loo_errors_)
    assert_array_equal(model.dual_coef_, whole.dual_coef_)
    assert all(reads(directory)[number] <= learned[number] + 1 for number in range(PARTS))


def second_time(number, directory):
    """Rows; the second complete reading of part 3 kills its process."""
    again = number == 3 and reads(directory)[number] > 0
    return watched(number, directory, deadly=(3,) if again else ())


def test_the_time_to_wait_is_checked():
    assert WORKER_TIMEOUT == 120
    with pytest.raises(ValueError, match="worker_timeout must be positive and finite, got 0"):
        fit(ESTIMATOR, [], worker_timeout=0)


def hungry(number, directory):
    """Rows of a part; the third one fills the memory of a worker until there is a file."""
    yield from watched(number, directory)
    held = []
    while number == 2 and not (Path(directory) / "harmless").exists():
        held.append(np.ones(1 << 22))  # 32 MB
        time.sleep(0.02)


@pytest.mark.long
def test_a_part_beyond_the_memory_limit_of_dask_ends_the_fit(directory, tmp_path):
    """The nanny kills such a worker; the others finish their parts, and the error names the part."""
    distributed = pytest.importorskip("distributed")
    quick = {"distributed.worker.multiprocessing-method": "forkserver", "distributed.scheduler.allowed-failures": 1}
    parts = [partial(hungry, number, str(directory)) for number in range(PARTS)]
    with dask.config.set(quick):
        get_mp_context().set_forkserver_preload(["distributed", "ovk.app.parallel"])
        options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        with (
            distributed.LocalCluster(n_workers=2, memory_limit="900MB", **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            with pytest.raises(WorkersLostError, match=r"on part 2 \(partial\), possibly out of memory") as raised:
                fit(ESTIMATOR, parts, client)
            assert raised.value.finished < PARTS
            (directory / "harmless").touch()
            client.wait_for_workers(1, timeout=PATIENCE)
            model = raised.value.resume(client)
    assert_array_equal(model.dual_coef_, expected(tmp_path))
