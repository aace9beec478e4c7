"""Partitions of Kafka, on the mock cluster of the client library, which lives in this process."""

import json

import pytest

import ovk as library
from brokers import csv_file, json_messages, table
from kafka_mock import Killed, Mock
from ovk.app.sessions import Settings, learn, merge_sessions
from ovk.app.tables import BrokerError, Gap, open_broker, open_records
from processes import PATIENCE, PausedRun, ovk

pytest.importorskip("confluent_kafka")

ROWS = table(1200, seed=2)


@pytest.fixture(scope="module")
def mock():
    return Mock()


def with_ids(rows, size):
    """Messages of rows with ids, a part of which comes again in the message behind."""
    listed = [{"id": i, **json.loads(message)[0]} for i, message in enumerate(json_messages(rows, 1))]
    order = [j for i in range(0, len(listed), size) for j in [*range(i, min(i + size, len(listed))), *range(i, i + 1)]]
    return [json.dumps([listed[j] for j in order[i : i + size]]).encode() for i in range(0, len(order), size)]


def settings():
    return Settings(["a", "b"], model="pkawv", warm_up=100, block=64, every=256)


def learned(address, folder, killed_at=None, **options):
    blocks = iter(range(10**6))

    def watch(progress):
        if next(blocks) == killed_at:
            raise Killed

    place = folder / "m.ovk"
    with open_broker(address, **options) as records:
        return learn(records, settings(), resume=place, predictions=folder / "parts", watch=watch)


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".csv"}


def same_model(one, two, folder):
    library.save(one.evaluator.model, folder / "one.ovk")
    library.save(two.evaluator.model, folder / "two.ovk")
    return (folder / "one.ovk").read_bytes() == (folder / "two.ovk").read_bytes()


def test_a_partition_teaches_what_a_file_does(mock, tmp_path):
    mock.publish("rows", with_ids(ROWS, 50))
    with open_records(csv_file(tmp_path / "t.csv", ROWS)) as records:
        whole = learn(records, settings(), predictions=tmp_path / "whole")
    address = f"kafka://{mock.hosts}/rows?partition=0"
    for killed_at in (3, 7):
        with pytest.raises(Killed):
            learned(address, tmp_path, killed_at, id_column="id")
    session = learned(address, tmp_path, id_column="id")
    assert session.offset == 1200
    assert session.position["repeated"] == 24
    assert parts(tmp_path / "parts") == parts(tmp_path / "whole")
    assert same_model(session, whole, tmp_path)
    mock.publish("rows", with_ids(table(1000, seed=3), 50))
    assert learned(address, tmp_path, id_column="id").offset == 1200


@pytest.mark.long
def test_killed_processes_change_no_byte(mock, tmp_path):
    rows = table(2000, seed=5)
    mock.publish("more", with_ids(rows, 50))
    with open_records(csv_file(tmp_path / "t.csv", rows)) as records:
        whole = learn(records, settings(), predictions=tmp_path / "whole")
    stream = [f"kafka://{mock.hosts}/more?partition=0", "--targets", "a,b", "--model", "pkawv", "--warm-up", "100"]
    stream += ["--block", "64", "--checkpoint", "256", "--id-column", "id"]
    stream += ["--resume", tmp_path / "m.ovk", "--predictions", tmp_path / "parts"]
    with PausedRun(tmp_path / "signs", [5], "stream", *stream) as run:
        run.wait(5)
        run.kill()
    assert 256 < library.load(tmp_path / "m.ovk").offset < 2000
    process = ovk("stream", *stream)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert parts(tmp_path / "parts") == parts(tmp_path / "whole")
    assert same_model(library.load(tmp_path / "m.ovk"), whole, tmp_path)


def test_partitions_that_begin_alike_merge_into_the_model_of_all_rows(mock, tmp_path):
    halves = table(400, seed=6), table(300, seed=7)
    for partition, rows in enumerate(halves):
        mock.publish("halves", json_messages(rows, 20), partition)
    sessions = []
    for partition in range(2):
        how = {"like": sessions[0]} if sessions else {"settings": settings()}
        with open_broker(f"kafka://{mock.hosts}/halves?partition={partition}") as records:
            sessions.append(learn(records, **{"settings": None, **how}))
    assert merge_sessions(sessions).evaluator.model.t_ == 700
    assert sessions[1].position["message"] == 15


def test_wrong_calls(mock):
    with pytest.raises(BrokerError, match="has no partition '77'"):
        open_broker(f"kafka://{mock.hosts}/rows?partition=77")
    with pytest.raises(BrokerError, match="partitions, which have no common order"):
        open_broker(f"kafka://{mock.hosts}/rows")
    with pytest.raises(BrokerError, match="must not hold a password"):
        open_broker("kafka://me:secret@127.0.0.1/rows")
    with pytest.raises(BrokerError, match=r"\?partition="):
        open_broker("kafka://127.0.0.1/rows?offset=3")


def test_no_broker(monkeypatch):
    from ovk.app.tables import kafka

    monkeypatch.setattr(kafka, "ANSWER", 0.5)
    with pytest.raises(BrokerError, match=r"no Kafka broker at 127\.0\.0\.1:1"):
        open_broker("kafka://127.0.0.1:1/rows")


def test_an_offset_that_is_gone_is_a_gap(mock, tmp_path, monkeypatch):
    """The mock keeps everything: that the beginning is gone is what its client is told here."""
    from ovk.app.tables.kafka import KafkaPartition

    mock.publish("old", json_messages(ROWS, 50))
    address = f"kafka://{mock.hosts}/old?partition=0"
    with pytest.raises(Killed):
        learned(address, tmp_path, 5)
    first = library.load(tmp_path / "m.ovk").position["message"]
    bounds = KafkaPartition.bounds
    monkeypatch.setattr(KafkaPartition, "bounds", lambda self: (15, bounds(self)[1]))
    with pytest.raises(Gap, match=f"messages {first} to 14 of"):
        learned(address, tmp_path)
    session = learned(address, tmp_path, accept_gap=True)
    assert session.position["lost"] == 15 - first
