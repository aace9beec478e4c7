"""The request history against a plain list, and the ledger restored from it."""

import asyncio

import numpy as np
import pytest

from ovk.app.serve import Limits, ledger
from ovk.app.serve.ledger import BLOCK_SIZE, MAX_ANSWERED, History, LearnReply, Ledger
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows


@pytest.fixture
def loop():
    one = asyncio.new_event_loop()
    yield one
    one.close()


def label(identifier, prediction, *names, partial=True):
    rows = RequestRows.of_matrix(np.ones((1, 3)))
    targets = RequestRows.named(names, [np.ones(1) for _ in names])
    return Entry(identifier, rows, targets, label_of=prediction, partial=partial)


def test_the_last_ones_are_known_and_older_states_stay_as_they_are():
    everything, history, early = [], History(), None
    for k in range(MAX_ANSWERED + 3 * BLOCK_SIZE):
        entry = Entry(f"request {k}", promote=f"{k:x}", label_of=f"prediction {k}" if k % 3 else None)
        history, _ = history.after(k + 1, entry, ["y"])
        everything.append((f"request {k}", k + 1, 0, entry.digest, entry.label_of or ""))
        if k == BLOCK_SIZE + 3:
            early, then = history, list(everything)
    assert list(early.requests()) == then
    kept = list(history.requests())
    assert MAX_ANSWERED <= len(kept) <= MAX_ANSWERED + BLOCK_SIZE
    assert kept == everything[-len(kept) :]
    assert list(History.from_state(history.state()).requests()) == kept


def test_an_id_may_be_used_again_when_its_label_is_forgotten(monkeypatch, loop):
    """The reply to a label and the id of its prediction are forgotten at the same time."""
    monkeypatch.setattr(ledger, "MAX_ANSWERED", 3)
    history, rows = History(), RequestRows.of_matrix(np.ones((1, 3)))

    def taken(one, prediction):
        try:
            one.wait(prediction, rows)
        except ledger.RequestError as error:
            return str(error).split(";")[0]
        one._drop(prediction)
        return None

    live = Ledger(Limits(), ["y0", "y1"], history, print)
    entries = [label(f"label {k}", "w1" if k <= 2 else f"other {k}", f"y{k % 2}") for k in range(1, 6)]
    for k, one in enumerate(entries, start=1):
        if k != 2:
            live.wait(one.label_of, rows)
        live.queued(one, loop.create_future())
        live.stored(one, LearnReply(k, 1))
        history, _ = history.after(k, one, ["y0", "y1"])
        if k >= 2:
            assert taken(live, "w1") == (None if k == 5 else "id 'w1' is taken: its rows were labelled (record 2)")
            assert live.find(entries[1]) == (None if k == 5 else LearnReply(2, 1))
    again = Ledger(Limits(), ["y0", "y1"], History(history.answered), print)
    assert [taken(again, name) for name in ("w1", "other 5")] == [
        None,
        "id 'other 5' is taken: its rows were labelled (record 5)",
    ]


def test_a_label_that_failed_leaves_those_that_were_stored(loop):
    """A failed request leaves the state of its prediction unchanged."""
    expired = []
    live = Ledger(Limits(label_bytes=1000), ["y0", "y1"], History(), expired.append)
    rows = RequestRows.of_matrix(np.ones((1, 3)))
    live.wait("late", rows)
    first, second = label("a", "late", "y0"), label("b", "late", "y1")
    for one in (first, second):
        live.queued(one, loop.create_future())
    live.stored(first, LearnReply(1, 1))
    live.failed(second)
    assert live.find(first) == LearnReply(1, 1)
    assert live.find(second) is None
    live.queued(second, loop.create_future())
    live.wait("large", RequestRows.of_matrix(np.ones((50, 3))))
    assert (expired, len(live)) == (["late"], 0)
