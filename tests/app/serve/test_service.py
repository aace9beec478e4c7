"""One served model without HTTP: queue, shutdown, and restart after a crash."""

import asyncio
import errno
import os
import time

import numpy as np
import pytest

import ovk
from ovk.app.serve import Limits
from ovk.app.serve.access import RequestError
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.service import ModelService
from processes import PATIENCE
from serving_rows import rows


def entry(name, X, Y):
    return Entry(name, RequestRows.of_matrix(X), RequestRows.of_matrix(Y))


@pytest.fixture
def service_of(models, tmp_path):
    """Opens services of one directory, one after the other."""
    opened = []

    def make():
        service = ModelService("point", models / "point.ovk", (), tmp_path / "point", Limits(seconds=PATIENCE))
        opened.append(service)
        service.open()
        return service

    yield make
    for service in opened:
        service.close()


def submitted(service, entries, *, then_stop=False):
    """The replies to entries that are submitted simultaneously."""

    async def run():
        waiting = [asyncio.ensure_future(service.queue.submit(one)) for one in entries]
        await asyncio.sleep(0)  # all of them are in the queue now
        if then_stop:
            service.queue.stop()
        return await asyncio.gather(*waiting)

    return asyncio.run(run())


def test_what_waits_at_the_end_is_answered_and_learned(service_of, models):
    service = service_of()
    X, Y = rows(50, seed=40)
    parts = [slice(10 * k, 10 * k + 10) for k in range(5)]
    receipts = submitted(service, [entry(str(k), X[p], Y[p]) for k, p in enumerate(parts)], then_stop=True)
    assert [receipt.sequence for receipt in receipts] == [1, 2, 3, 4, 5]
    with pytest.raises(RequestError, match="shutting down"):
        submitted(service, [entry("late", X, Y)])
    service.close()
    found = ovk.load(service.directory / "checkpoint.ovk")
    twin = ovk.load(models / "point.ovk")
    for part in parts:
        twin.predict_then_learn(X[part], Y[part])
    assert (found.sequence, found.rows) == (5, 50)
    np.testing.assert_array_equal(found.model.predict(X), twin.predict(X))


def test_an_id_that_comes_again_before_the_first_was_answered_is_one_record(service_of):
    service = service_of()
    X, Y = rows(10, seed=41)
    receipts = submitted(service, [entry("once", X, Y), entry("once", X, Y), entry("other", X, Y)])
    assert [receipt.sequence for receipt in receipts] == [1, 1, 2]


@pytest.mark.parametrize("lost", [1, 30])
def test_a_torn_record_is_cut_off_at_the_next_start(service_of, caplog, lost):
    service = service_of()
    X, Y = rows(20, seed=42)
    service._checkpoint = lambda: None  # as if the process was killed before one
    for k in (0, 1):
        submitted(service, [entry(str(k), X[10 * k : 10 * k + 10], Y[10 * k : 10 * k + 10])])
    service.close()
    [segment] = service.log.segments()
    segment.write_bytes(segment.read_bytes()[:-lost])
    again = service_of()
    assert (again.state.sequence, again.state.rows) == (1, 10)
    assert "incomplete record removed" in caplog.text
    # The second one was not acknowledged: its client repeats it, and it gets the same number.
    assert submitted(again, [entry("1", X[10:], Y[10:])])[0] == (2, 10)


def killed(service, X, Y):
    """Learn rows, stop without a checkpoint, and make the last checkpoint 73 seconds old."""
    service._checkpoint = lambda: None
    submitted(service, [entry("a", X, Y)])
    service.close()
    place = service.directory / "checkpoint.ovk"
    os.utime(place, (time.time() - 73, time.time() - 73))
    return place


def test_a_checkpoint_keeps_the_records_that_wait_to_be_learned(service_of):
    service = service_of()
    X, Y = rows(30, seed=45)
    submitted(service, [entry("0", X[:10], Y[:10])], then_stop=True)
    for thread in service._threads:
        thread.join()
    # Two more records, each in a segment of its own, are acknowledged but not learned yet.
    for k in (1, 2):
        service.log.full = True
        service.log.append([entry(str(k), X[10 * k : 10 * k + 10], Y[10 * k : 10 * k + 10]).encode()])
    service._checkpoint()
    service._checkpoint = lambda: None  # as if the process was killed here
    service.close()
    again = service_of()
    assert (again.state.sequence, again.state.rows) == (3, 30)


def test_a_process_that_is_killed_again_and_again_writes_checkpoints(service_of):
    place = killed(service_of(), *rows(20, seed=43))
    again = service_of()
    # It is older than a minute, so the replayed record is saved before the first request.
    assert (ovk.load(place).sequence, again.saved_sequence) == (1, 1)
    assert time.time() - again.saved_at < 73


def test_the_age_of_a_checkpoint_is_that_of_its_file(service_of, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    killed(service_of(), *rows(20, seed=44))
    # Neither a restart nor a failed checkpoint makes the file newer.
    monkeypatch.setattr("ovk.app.serve.service.save", full)
    again = service_of()
    assert (again.state.sequence, again.saved_sequence) == (1, 0)
    assert time.time() - again.saved_at >= 73
    assert again._until_checkpoint() > 1
