"""Kafka partitions on the in-process mock cluster of the client library."""

import json

import pytest
from numpy.testing import assert_allclose

import ovk as library
from brokers import NAMES, csv_file, json_messages, table
from kafka_mock import Killed, Mock
from ovk.app.cli import main
from ovk.app.sessions import Settings, learn, merge_sessions
from ovk.app.tables import Batch, BrokerError, MissingMessagesError, open_broker, open_records
from processes import PATIENCE, PausedRun, ovk, wait_until

pytest.importorskip("confluent_kafka")

ROWS = table(1200, seed=2)


@pytest.fixture(scope="module")
def mock():
    return Mock()


def with_ids(rows, size):
    """Messages of rows with ids, some of which the next message repeats."""
    listed = [{"id": i, **json.loads(message)[0]} for i, message in enumerate(json_messages(rows, 1))]
    order = [j for i in range(0, len(listed), size) for j in [*range(i, min(i + size, len(listed))), *range(i, i + 1)]]
    return [json.dumps([listed[j] for j in order[i : i + size]]).encode() for i in range(0, len(order), size)]


def settings():
    return Settings(["a", "b"], model="pkawv", warm_up=100, block=64, every=256)


def learned(address, directory, killed_at=None, **options):
    blocks = iter(range(10**6))

    def watch(progress):
        if next(blocks) == killed_at:
            raise Killed

    place = directory / "m.ovk"
    with open_broker(address, **options) as records:
        return learn(records, settings(), resume=place, predictions=directory / "parts", on_progress=watch)


def parts(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".csv"}


def same_model(one, two, directory):
    library.save(one.evaluator.model, directory / "one.ovk")
    library.save(two.evaluator.model, directory / "two.ovk")
    return (directory / "one.ovk").read_bytes() == (directory / "two.ovk").read_bytes()


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
    with PausedRun(tmp_path / "signs", [5], "stream", *stream) as paused:
        paused.wait(5)
        paused.kill()
    assert 256 < library.load(tmp_path / "m.ovk").offset < 2000
    process = ovk("stream", *stream)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert parts(tmp_path / "parts") == parts(tmp_path / "whole")
    assert same_model(library.load(tmp_path / "m.ovk"), whole, tmp_path)


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def predictions(session, rows):
    session.preparation.bind(NAMES, predict=True)
    batch = Batch([list(map(repr, column)) for column in rows.T], list(range(len(rows))), [])
    return session.predictor().predict(batch).F


def test_partitions_are_learned_one_by_one_and_merged(mock, tmp_path, capsys):
    """The commands of the page on brokers: the merged model equals that of all rows, also after a continuation."""
    halves = table(400, seed=6), table(300, seed=7)
    for partition, rows in enumerate(halves):
        mock.publish("halves", json_messages(rows[:250], 20), partition)
    address, parts = f"kafka://{mock.hosts}/halves", [tmp_path / f"part{i}.ovk" for i in range(2)]
    first = ["--targets", "a,b", "--model", "pkawv", "--warm-up", 100, "--block", 64]
    assert run("stream", address, *first) == 2
    refused = capsys.readouterr().err
    assert f"{address} has the partitions 0, 1, 2, 3, which have no common order" in refused
    assert f"ovk stream '{address}?partition=0' --model pkawv --save first.ovk" in refused
    assert "--template first.ovk" in refused
    assert "then ovk merge" in refused
    for added in (False, True):
        if added:
            for partition, rows in enumerate(halves):
                mock.publish("halves", json_messages(rows[250:], 20), partition)
        assert run("stream", f"{address}?partition=0", *first, "--resume", parts[0]) == 0
        assert run("stream", f"{address}?partition=1", "--template", parts[0], "--resume", parts[1]) == 0
    assert run("stream", f"{address}?partition=2", "--template", parts[0], "--resume", tmp_path / "part2.ovk") == 3
    assert "partition=2 has no rows yet" in capsys.readouterr().err
    assert run("merge", *parts, "--save", tmp_path / "all.ovk") == 0
    merged = library.load(tmp_path / "all.ovk")
    assert [library.load(part).position["message"] for part in parts] == [21, 16]
    # One session that learns the rows of both, one after the other.
    files = [csv_file(tmp_path / f"{i}.csv", rows) for i, rows in enumerate(halves)]
    with open_records(files[0]) as records:
        learn(records, settings(), save_to=tmp_path / "whole.ovk")
    with open_records(files[1]) as records:
        whole = learn(records, None, continue_with=tmp_path / "whole.ovk")
    new = table(20, seed=9)
    assert_allclose(predictions(merged, new), predictions(whole, new), rtol=0, atol=1e-10)
    assert merged.evaluator.model.t_ == whole.evaluator.model.t_ == 700


@pytest.mark.long
def test_partitions_are_followed_until_a_signal(mock, tmp_path):
    address, parts = f"kafka://{mock.hosts}/live", [tmp_path / f"part{i}.ovk" for i in range(2)]
    mock.publish("live", json_messages(table(300, seed=6), 20))
    first = ["--targets", "a,b", "--model", "pkawv", "--warm-up", 100, "--block", 64]
    assert run("stream", f"{address}?partition=0", *first, "--resume", parts[0]) == 0
    processes = [
        ovk("stream", f"{address}?partition=0", "--resume", parts[0], "--follow"),
        ovk("stream", f"{address}?partition=1", "--template", parts[0], "--resume", parts[1], "--follow"),
    ]
    try:
        for partition, n in enumerate((340, 40)):
            mock.publish("live", json_messages(table(40, seed=8 + partition), 20), partition)
            part, process = parts[partition], processes[partition]
            wait_until(lambda part=part, n=n: part.exists() and library.load(part).offset == n, "rows", process)
    finally:
        for process in processes:
            process.terminate()
        ends = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    assert [process.returncode for process in processes] == [143, 143], ends
    assert merge_sessions(map(library.load, parts)).evaluator.model.t_ == 380


@pytest.mark.long
def test_kills_while_rows_begin_to_arrive_in_another_partition(mock, tmp_path):
    """Both readers are killed, the first one while the second partition gets its first rows."""
    rows, ends = (table(600, seed=10), table(400, seed=11)), []
    mock.publish("added", json_messages(rows[0], 20))
    for name in ("killed", "whole"):
        directory = tmp_path / name
        directory.mkdir()
        address, models = f"kafka://{mock.hosts}/added", [directory / f"{k}.ovk" for k in range(2)]
        settings = ["--targets", "a,b", "--model", "pkawv", "--warm-up", "100", "--block", "64", "--checkpoint", "128"]
        runs = [
            [f"{address}?partition=0", *settings, "--resume", models[0]],
            [f"{address}?partition=1", "--template", models[0], "--resume", models[1]],
        ]
        for k, words in enumerate(runs):
            if name == "killed":
                with PausedRun(directory / f"signs{k}", [2], "stream", *words) as paused:
                    paused.wait(2)
                    if not k:
                        mock.publish("added", json_messages(rows[1], 20), partition=1)
                    paused.kill()
                assert 0 < library.load(models[k]).offset < len(rows[k])
            assert run("stream", *words) == 0
        ends.append(list(map(library.load, models)))
    for killed, whole in zip(*ends, strict=True):
        assert (killed.offset, killed.position["message"]) == (whole.offset, whole.position["message"])
        assert same_model(killed, whole, tmp_path)
    assert merge_sessions(ends[0]).evaluator.model.t_ == 1000


def test_wrong_calls(mock):
    with pytest.raises(BrokerError, match="has no partition '77'"):
        open_broker(f"kafka://{mock.hosts}/rows?partition=77")
    with pytest.raises(BrokerError, match="the partitions 0, 1, 2, 3, which have no common order"):
        open_broker(f"kafka://{mock.hosts}/rows")
    for other in ("1", "0", "00"):
        with pytest.raises(BrokerError, match="more than one partition"):
            open_broker(f"kafka://{mock.hosts}/rows?partition=0&partition={other}")
    with pytest.raises(BrokerError, match="has no partition '00'"):
        open_broker(f"kafka://{mock.hosts}/rows?partition=00")
    with pytest.raises(BrokerError, match="form must be 'csv' or 'jsonl'"):
        open_broker(f"kafka://{mock.hosts}/rows?partition=0", form="parquet")
    with pytest.raises(BrokerError, match="must not contain a password"):
        open_broker("kafka://me:secret@127.0.0.1/rows")
    with pytest.raises(BrokerError, match="the only parameter of the address is 'partition'"):
        open_broker("kafka://127.0.0.1/rows?offset=3")


def test_no_broker(monkeypatch):
    from ovk.app.tables import kafka

    monkeypatch.setattr(kafka, "ANSWER_TIMEOUT", 0.5)
    with pytest.raises(BrokerError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"):
        open_broker("kafka://127.0.0.1:1/rows")


def test_an_offset_that_is_gone_is_a_gap(mock, tmp_path, monkeypatch):
    """The mock deletes nothing, so the test changes what the client reports."""
    from ovk.app.tables.kafka import KafkaPartition

    mock.publish("old", json_messages(ROWS, 50))
    address = f"kafka://{mock.hosts}/old?partition=0"
    with pytest.raises(Killed):
        learned(address, tmp_path, 5)
    first = library.load(tmp_path / "m.ovk").position["message"]
    bounds = KafkaPartition.bounds
    monkeypatch.setattr(KafkaPartition, "bounds", lambda self: (15, bounds(self)[1]))
    with pytest.raises(MissingMessagesError, match=f"messages {first} to 14 of"):
        learned(address, tmp_path)
    session = learned(address, tmp_path, accept_gap=True)
    assert session.position["lost"] == 15 - first
