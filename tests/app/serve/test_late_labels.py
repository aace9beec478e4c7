"""Delayed labels, of all outputs or one by one: each row is learned once."""

import asyncio
import errno
import threading

import httpx
import numpy as np
import pytest
from benchmarks.service_process import ServerProcess

import ovk
from ovk.app.serve import Checkpoint, Limits
from ovk.app.serve.access import RequestError
from ovk.app.serve.checkpoint import learn_log
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.service import ModelService
from processes import PATIENCE, wait_until
from serving_rows import rows

INFER, LEARN = "/v2/models/point/infer", "/v2/models/point/learn"


def wait(client, identifier, X, **options):
    """Request a prediction that waits for labels."""
    body = {"id": identifier, "rows": X.tolist(), "parameters": {"await_label": True}}
    return client.post(INFER, json=body, **options)


def ask(client, identifier, X):
    """Predict rows that wait for labels."""
    reply = wait(client, identifier, X)
    assert reply.status_code == 200, reply.text


def label(client, identifier, **outputs):
    """Send the labels of some outputs."""
    names = list(outputs)
    targets = [dict(zip(names, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    return client.post(LEARN, json={"infer_id": identifier, "targets": targets})


def rows_learned(client):
    text = client.get("/metrics").text
    return float(text.partition('ovk_rows_learned_total{model="point"} ')[2].split("\n")[0])


def learned_by_twin(models, X, Y):
    twin = ovk.load(models / "point.ovk")
    twin.predict_then_learn(X, Y)
    return twin.predict(X)


def check_learned(directory, models, X, Y, records):
    """The checkpoint has learned these rows once, and so has one that replays the log."""
    found = ovk.load(directory / "point" / "checkpoint.ovk")
    assert (found.sequence, found.rows, len(found.history.partial)) == (records, len(X), 0)
    np.testing.assert_array_equal(found.model.predict(X), learned_by_twin(models, X, Y))
    again = learn_log(
        Checkpoint.start({"point": ovk.load(models / "point.ovk")}, found.origin), Log(directory / "point")
    )
    ovk.save(again, directory / "again.ovk")
    assert (directory / "again.ovk").read_bytes() == (directory / "point" / "checkpoint.ovk").read_bytes()


def test_outputs_that_are_labelled_one_after_the_other_are_learned_together(client_of, models, tmp_path):
    client = client_of("point", data=tmp_path, keep_log=True)
    X, Y = rows(4, seed=50)
    ask(client, "late", X)
    first = label(client, "late", y0=Y[:, 0])
    wanted = {"id": "label of late: y0", "sequence": 1, "rows": 4, "outputs": ["y0"]}
    assert (first.status_code, first.json()) == (202, wanted)
    assert label(client, "late", y0=Y[:, 0]).json() == wanted
    changed = label(client, "late", y0=Y[:, 0] + 1)
    assert changed.status_code == 409
    assert "infer_id 'late' was labelled with other values before (record 1)" in changed.json()["error"]
    assert rows_learned(client) == 0
    # Partly labelled rows cannot be replaced by others, but the same rows can be predicted again.
    assert wait(client, "late", X + 1).status_code == 409
    ask(client, "late", X)
    assert label(client, "late", y1=Y[:, 1]).json()["sequence"] == 2
    wait_until(lambda: rows_learned(client) == 4, "both labels")
    gone = label(client, "late", y0=Y[:, 0], y1=Y[:, 1])
    assert gone.status_code == 404
    for words in ("already labelled", "lost in a restart", "send rows and targets together"):
        assert words in gone.json()["error"]
    client_of.close(client)
    check_learned(tmp_path, models, X, Y, records=2)


def test_null_says_that_an_output_stays_unknown(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    X, Y = rows(1, seed=51)
    ask(client, "late", X)
    assert label(client, "late", y0=Y[:, 0], y1=[None]).status_code == 202
    wait_until(lambda: rows_learned(client) == 1, "the row")
    second = label(client, "late", y0=[None], y1=Y[:, 1])
    assert second.status_code == 409
    assert "omit outputs that are not known yet instead of sending null" in second.json()["error"]


def test_an_output_has_one_label_whatever_the_id(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    X, Y = rows(1, seed=52)
    ask(client, "late", X)
    assert label(client, "late", y0=Y[:, 0]).status_code == 202
    body = {"id": "mine", "infer_id": "late", "targets": Y.tolist()}
    reply = client.post(LEARN, json=body)
    assert reply.status_code == 409
    assert "already has labels of y0" in reply.json()["error"]
    assert client.post(LEARN, json={**body, "rows": X.tolist()}).status_code == 400
    unknown = label(client, "late", y7=Y[:, 0])
    assert (unknown.status_code, "column 'y0' is missing" in unknown.json()["error"]) == (400, True)


@pytest.mark.long
def test_what_came_is_learned_when_the_time_has_passed(client_of, models, tmp_path):
    client = client_of("point", data=tmp_path, keep_log=True, limits={"label_seconds": 2.0})
    X, Y = rows(3, seed=53)
    ask(client, "late", X)
    assert label(client, "late", y0=Y[:, 0]).status_code == 202
    wait_until(lambda: rows_learned(client) == 3, "end of the time")
    assert label(client, "late", y1=Y[:, 1]).status_code == 404
    client_of.close(client)
    Y[:, 1] = np.nan
    check_learned(tmp_path, models, X, Y, records=2)


def test_what_came_is_learned_when_there_is_no_room_for_more(client_of, tmp_path):
    X, Y = rows(3, seed=54)
    client = client_of("point", data=tmp_path, limits={"label_bytes": 2 * RequestRows.of_matrix(X).nbytes})
    for name in ("a", "b"):
        ask(client, name, X)
    assert label(client, "a", y0=Y[:, 0]).status_code == 202
    assert rows_learned(client) == 0
    ask(client, "c", X)
    wait_until(lambda: rows_learned(client) == 3, "end of the room")


def test_a_kill_between_two_labels_loses_neither(models, tmp_path):
    X, Y = rows(4, seed=55)
    arguments = [models / "point.ovk", "--data", tmp_path, "--keep-log"]

    def started():
        return ServerProcess(arguments, snapshot_of=True)

    def client_for(server):
        return httpx.Client(base_url=server.url, timeout=PATIENCE)

    with started() as server, client_for(server) as client:
        ask(client, "late", X)
        ask(client, "unlabelled", X)
        assert label(client, "late", y0=Y[:, 0]).status_code == 202
        server.kill()
    with started() as server, client_for(server) as client:
        # In the log now, in the checkpoint after the restart.
        assert label(client, "unlabelled", y0=Y[:, 0]).status_code == 404
        assert label(client, "late", y0=Y[:, 0]).json()["sequence"] == 1
        assert server.terminate() == 0
    assert len(ovk.load(tmp_path / "point" / "checkpoint.ovk").history.partial) == 1
    with started() as server, client_for(server) as client:
        assert label(client, "late", y1=Y[:, 1]).json()["sequence"] == 2
        assert server.terminate() == 0
    check_learned(tmp_path, models, X, Y, records=2)


@pytest.fixture
def service(models, tmp_path):
    one = ModelService("point", models / "point.ovk", (), tmp_path / "point", Limits(seconds=PATIENCE))
    one.open()
    yield one
    one.close()


def part(identifier, X, name, values):
    targets = RequestRows.named([name], [np.asarray(values)])
    return Entry(identifier, RequestRows.of_matrix(X), targets, label_of="late", partial=True)


def test_of_two_labels_at_once_the_first_is_learned(service):
    X, Y = rows(2, seed=56)
    service.queue.wait_for_label("late", RequestRows.of_matrix(X))
    entries = [Entry(name, RequestRows.of_matrix(X), RequestRows.of_matrix(Y), label_of="late") for name in "ab"]

    async def both():
        return await asyncio.gather(*map(service.queue.submit, entries), return_exceptions=True)

    first, second = asyncio.run(both())
    assert first == (1, 2)
    assert isinstance(second, RequestError)
    assert second.status == 409
    service.close()
    assert service.state.rows == 2


def test_the_same_id_with_other_contents_is_refused_while_the_first_is_written(service):
    X, Y = rows(2, seed=57)
    entries = [Entry("a", RequestRows.of_matrix(X), RequestRows.of_matrix(Y + k)) for k in (0, 0, 1)]

    async def all_of_them():
        return await asyncio.gather(*map(service.queue.submit, entries), return_exceptions=True)

    *same, other = asyncio.run(all_of_them())
    assert same == [(1, 2), (1, 2)]
    assert other.status == 409


def test_a_label_that_could_not_be_stored_may_come_again(service, monkeypatch):
    X, Y = rows(2, seed=58)
    service.queue.wait_for_label("late", RequestRows.of_matrix(X))

    def full(self, records):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Log, "append", full)
        with pytest.raises(RequestError, match="could not be stored"):
            asyncio.run(service.queue.submit(part("a", X, "y0", Y[:, 0])))
    for name, column in zip(("y0", "y1"), Y.T, strict=True):
        asyncio.run(service.queue.submit(part(name, X, name, column)))
    service.close()
    assert (service.state.rows, len(service.queue.ledger)) == (2, 0)


def test_an_id_of_another_prediction_is_refused_as_an_id(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    X, Y = rows(1, seed=59)
    for name in ("a", "b"):
        ask(client, name, X)
    body = {"id": "mine", "infer_id": "a", "targets": Y.tolist()}
    assert client.post(LEARN, json=body).status_code == 202
    reply = client.post(LEARN, json={**body, "infer_id": "b"})
    assert (reply.status_code, "id 'mine' was used before" in reply.json()["error"]) == (409, True)


def test_rows_that_wait_are_not_replaced(client_of, models, tmp_path):
    client = client_of("point", data=tmp_path, keep_log=True)
    X, Y = rows(2, seed=60)
    first = wait(client, "z", X)
    refused = wait(client, "z", X[::-1])
    assert refused.status_code == 409
    assert "id 'z' is taken: other rows wait for labels under it" in refused.json()["error"]
    assert "use a unique id for each prediction" in refused.json()["error"]
    again = wait(client, "z", X)
    assert (again.status_code, again.json()) == (200, first.json())
    # A prediction that does not wait changes nothing, whatever its id.
    assert client.post(INFER, json={"id": "z", "rows": X[:1].tolist()}).status_code == 200
    assert label(client, "z", y0=Y[:, 0], y1=Y[:, 1]).status_code == 202
    client_of.close(client)
    check_learned(tmp_path, models, X, Y, records=1)


def test_only_a_token_that_may_learn_makes_predictions_wait(client_of, tmp_path):
    """Rows that wait are learned with the label of any client."""
    secrets = {scopes: scopes[0] * 20 for scopes in ("predict", "learn,predict", "admin")}
    (tmp_path / "tokens").write_text("".join(f"{scopes} {secret}\n" for scopes, secret in secrets.items()))
    client = client_of("point", data=tmp_path / "data", tokens=tmp_path / "tokens")
    X, _ = rows(1, seed=61)
    for scopes, secret in secrets.items():
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.post(INFER, json={"id": "z", "rows": X.tolist()}, headers=headers).status_code == 200
        reply = wait(client, scopes, X, headers=headers)
        assert reply.status_code == (403 if scopes == "predict" else 200)
        if scopes == "predict":
            assert "await_label requires learning, which this token does not allow" in reply.json()["error"]
    waiting = 'ovk_waiting_for_labels{model="point"} 2.0'
    assert waiting in client.get("/metrics", headers={"Authorization": f"Bearer {secrets['predict']}"}).text


@pytest.mark.parametrize("own", [None, "mine"])
def test_the_id_of_a_prediction_that_was_labelled_is_not_used_again(client_of, tmp_path, own):
    """Labels are identified by prediction id, so labels of other rows would look like a repetition."""
    X, Y = rows(2, seed=62)
    body = {"infer_id": "w1", "targets": Y[:1].tolist(), **({"id": own} if own else {})}
    client = client_of("point", data=tmp_path)
    ask(client, "w1", X[:1])
    first = client.post(LEARN, json=body)
    assert first.status_code == 202
    for restarted in (False, True):
        for other in (X[1:], X[:1]):
            refused = wait(client, "w1", other)
            assert refused.status_code == 409
            assert "id 'w1' is taken: its rows were labelled (record 1)" in refused.json()["error"]
        assert client.post(LEARN, json=body).json() == first.json()
        if not restarted:
            client_of.close(client)
            client = client_of("point", data=tmp_path)
    wait_until(lambda: rows_learned(client) == 1, "the row")


def test_rows_whose_label_is_on_its_way_are_not_replaced_either(service, monkeypatch):
    """Even if they were dropped for lack of memory."""
    X, Y = rows(2, seed=64)
    real, free = Log.append, threading.Event()

    def slow(self, records):
        assert free.wait(PATIENCE)
        return real(self, records)

    monkeypatch.setattr(Log, "append", slow)
    service.queue.wait_for_label("late", RequestRows.of_matrix(X))

    async def run():
        label = asyncio.ensure_future(service.queue.submit(part("a", X, "y0", Y[:, 0])))
        await asyncio.sleep(0)
        service.queue.ledger._drop("late")
        try:
            with pytest.raises(RequestError, match="rows were labelled"):
                service.queue.wait_for_label("late", RequestRows.of_matrix(X + 1))
        finally:
            free.set()
        return await label

    assert asyncio.run(run()) == (1, 2)
