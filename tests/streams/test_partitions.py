"""Several partitions learned by one command: on the mock of Kafka's client, and on subjects of a NATS server."""

import json

import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk as library
from brokers import NAMES, NATSServer, csv_file, csv_messages, json_messages, table
from kafka_mock import Killed, Mock
from ovk.app.cli import main
from ovk.app.sessions import Settings, learn, learn_partitions, merge_sessions
from ovk.app.tables import Batch, BrokerError, Gap, open_broker, open_partitions, open_records
from processes import PATIENCE, PausedRun, ovk, wait_until

pytest.importorskip("confluent_kafka")

#: Rows of the partitions 0, 1 and 2; the topics of the mock have a fourth one, which stays empty.
SIZES = (500, 30, 700)
ROWS = [table(n, seed=20 + i) for i, n in enumerate(SIZES)]

WARM_UP = ["--warm-up", "100", "--block", "64", "--checkpoint", "256"]


@pytest.fixture(scope="module")
def mock():
    mock = Mock()
    for partition, rows in enumerate(ROWS):
        mock.publish("rows", json_messages(rows, 20), partition)
    return mock


@pytest.fixture(scope="module")
def address(mock):
    return f"kafka://{mock.hosts}/rows"


def settings(**others):
    return Settings(["a", "b"], **{"model": "pkawv", "warm_up": 100, "block": 64, "every": 256, **others})


def learned(address, folder, killed_at=None, asked=None, **options):
    """The session of a topic, saved in folder/m.ovk."""
    blocks = iter(range(10**6))

    def watch(progress):
        if next(blocks) == killed_at:
            raise Killed

    with open_partitions(address, **options) as partitions:
        return learn_partitions(
            partitions, asked or settings(), resume=folder / "m.ovk", predictions=folder / "parts", watch=watch
        )


def contents(folder):
    """Every byte of the model and of the predictions, but not the manifests, which name their folder."""
    kept = [path for path in sorted(folder.rglob("*")) if path.suffix in (".ovk", ".csv")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def whole(address, tmp_path_factory):
    """An undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    learned(address, folder)
    return contents(folder)


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def predictions(session, rows):
    session.preparation.bind(NAMES, predict=True)
    return session.predict(Batch([list(map(repr, column)) for column in rows.T], list(range(len(rows))), [])).F


def test_the_model_is_that_of_all_rows(address, tmp_path):
    """The warm-up is what the first rows of all partitions teach, and every other row is learned once."""
    session = learned(address, tmp_path)
    loaded = library.load(tmp_path / "m.ovk")
    assert list(loaded.partitions) == ["warm-up", *(f"kafka rows[{i}]" for i in range(4))]
    assert [one.offset for one in loaded.partitions.values()] == [0, *SIZES, 0]
    assert [one.position["message"] for one in list(loaded.partitions.values())[1:]] == [25, 2, 35, 0]
    assert (session.offset, session.evaluator.n_rows, session.result().untested) == (sum(SIZES), sum(SIZES), 130)
    # One after the other, with the columns, the scaling and the features of the same warm-up.
    library.save(loaded.partitions["warm-up"], tmp_path / "one.ovk")
    for i, (rows, share) in enumerate(zip(ROWS[::2], (50, 50), strict=True)):
        with open_records(csv_file(tmp_path / f"{i}.csv", rows[share:])) as records:
            alone = learn(records, None, continue_with=tmp_path / "one.ovk")
    new = table(20, seed=9)
    assert_allclose(predictions(session, new), predictions(alone, new), rtol=0, atol=1e-9)
    assert_array_equal(predictions(session, new), predictions(loaded, new))


def test_predictions_are_those_of_each_partition(address, whole, tmp_path):
    lines = {name: content.decode().count("\n") - 1 for name, content in whole.items() if name.endswith(".csv")}
    rows = {i: sum(n for name, n in lines.items() if f"partition-{i}" in name) for i in range(4)}
    assert rows == {0: 450, 1: 0, 2: 650, 3: 0}


@pytest.mark.parametrize("killed_at", [0, 5])
def test_a_run_that_is_killed_ends_in_the_same_bytes(address, whole, tmp_path, killed_at):
    with pytest.raises(Killed):
        learned(address, tmp_path, killed_at)
    learned(address, tmp_path)
    assert contents(tmp_path) == whole


@pytest.mark.long
def test_killed_processes_change_no_byte(address, tmp_path):
    def stream(folder):
        folder = tmp_path / folder
        places = ["--resume", folder / "m.ovk", "--predictions", folder / "parts"]
        return ["stream", address, "--targets", "a,b", *WARM_UP, *places]

    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
    assert run(*stream("undisturbed")) == 0
    # While manifests are written, between predictions and the model, and behind the first checkpoint.
    for renames in (2, 6, 8):
        with PausedRun(tmp_path / f"signs{renames}", [renames], *stream("killed")) as process:
            process.wait(renames)
            process.kill()
    process = ovk(*stream("killed"))
    text, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "all 4 partitions, merged" in text
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
def test_the_order_in_which_partitions_are_read_changes_no_byte(address, whole, tmp_path, monkeypatch, order):
    """Blocks of one partition may all come before those of another, or between them."""
    from ovk.app.sessions import runs

    def one_after_the_other(files, watch, stop):
        (file,) = files
        for i in (*order, 3):
            alone = runs.ModelFile([file.runs[i]], None)
            alone.checkpoint = file.checkpoint
            in_turns([alone], watch, stop)

    in_turns = runs._learn
    monkeypatch.setattr(runs, "_learn", one_after_the_other)
    learned(address, tmp_path)
    assert contents(tmp_path) == whole


def test_rows_that_come_later_are_learned_from_where_each_partition_was(mock, tmp_path):
    address = f"kafka://{mock.hosts}/later"
    first, more = [rows[:300] for rows in ROWS], [rows[300:] for rows in ROWS]
    for partition, rows in enumerate(first):
        mock.publish("later", json_messages(rows, 20), partition)
    learned(address, tmp_path)
    for partition, rows in enumerate(more):
        mock.publish("later", json_messages(rows, 20), partition)
    assert learned(address, tmp_path).offset == sum(SIZES)
    # The partition that was empty.
    mock.publish("later", csv_messages(table(100, seed=5), 20), 3)
    session = learned(address, tmp_path)
    assert (session.offset, session.partitions["kafka later[3]"].offset) == (sum(SIZES) + 100, 100)
    before = contents(tmp_path)
    learned(address, tmp_path)
    assert contents(tmp_path) == before


def shown(monkeypatch, numbers):
    """Let the topic have only these partitions: those of the mock are always four."""
    from ovk.app.tables.kafka import KafkaPartition

    monkeypatch.setattr(KafkaPartition, "_partitions", lambda self: list(numbers))


def test_a_partition_that_appears_later_is_picked_up(address, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        shown(patch, [0, 1])
        assert learned(address, tmp_path).offset == 530
    session = learned(address, tmp_path)
    assert (session.offset, session.evaluator.model.t_) == (sum(SIZES), sum(SIZES))
    shown(monkeypatch, [0, 2])
    with pytest.raises(ValueError, match=r"was learning 'kafka rows\[1\]', 'kafka rows\[3\]', which .* does not have"):
        learned(address, tmp_path)


def test_a_topic_that_had_one_partition(address, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        shown(patch, [0])
        with open_broker(address) as records:
            learn(records, settings(), resume=tmp_path / "m.ovk")
    session = learned(address, tmp_path)
    assert (session.offset, session.evaluator.model.t_) == (sum(SIZES), sum(SIZES))


def test_rows_that_a_new_partition_has_lost_are_a_gap(address, tmp_path, monkeypatch):
    from ovk.app.tables.kafka import KafkaPartition

    with monkeypatch.context() as patch:
        shown(patch, [0, 1])
        learned(address, tmp_path)
    bounds = KafkaPartition.bounds
    late = {"2": 7}
    monkeypatch.setattr(KafkaPartition, "bounds", lambda self: (late.get(self.part, 0), bounds(self)[1]))
    with pytest.raises(Gap, match=r"messages 0 to 6 of .*partition=2"):
        learned(address, tmp_path)
    session = learned(address, tmp_path, accept_gap=True)
    assert session.partitions["kafka rows[2]"].position["lost"] == 7
    assert session.offset == sum(SIZES) - 140


def test_what_cannot_be_merged_is_learned_partition_by_partition(address, tmp_path):
    asked = settings(model="olok")
    with pytest.raises(Killed):
        learned(address, tmp_path, 5, asked)
    found = learned(address, tmp_path, asked=asked)
    assert {name: session.offset for name, session in found.items()} == dict(zip("012", SIZES, strict=True))
    for name in "012":
        folder = tmp_path / name
        folder.mkdir()
        with open_broker(f"{address}?partition={name}") as records:
            learn(records, asked, save_to=folder / "m.ovk", predictions=folder / "parts")
        assert (tmp_path / f"m-{name}.ovk").read_bytes() == (folder / "m.ovk").read_bytes()
        assert contents(tmp_path / "parts" / f"partition-{name}") == contents(folder / "parts")


def rows_in(*files):
    return sum(library.load(file).offset for file in files if file.exists())


@pytest.mark.long
def test_partitions_are_followed_until_a_signal(mock, tmp_path):
    """Whichever partition rows come to; one that has too few for a learner of its own keeps nobody waiting."""
    first = [rows[:n] for rows, n in zip(ROWS, (200, 5, 200), strict=True)]
    topics = {"merged": ("m.ovk",), "olok": tuple(f"m-{name}.ovk" for name in "012")}
    processes = {}
    for model, names in topics.items():
        (tmp_path / model).mkdir()
        for partition, rows in enumerate(first):
            mock.publish(model, json_messages(rows, 20), partition)
        stream = [f"kafka://{mock.hosts}/{model}", "--targets", "a,b", *WARM_UP, "--follow"]
        stream += ["--resume", tmp_path / model / "m.ovk", *(["--model", model] if model == "olok" else [])]
        files = [tmp_path / model / name for name in names]
        processes[model] = ovk("stream", *stream), files
    try:
        for model, (process, files) in processes.items():
            expected = sum(map(len, first)) - (5 if model == "olok" else 0)
            wait_until(lambda files=files, n=expected: rows_in(*files) == n, f"rows of {model}", process)
            mock.publish(model, json_messages(ROWS[1][5:] + 1.0, 20), 1)
            if model == "olok":
                mock.publish(model, json_messages(table(100, seed=8), 20), 1)
            more = len(ROWS[1]) - 5 if model == "merged" else len(ROWS[1]) + 100
            wait_until(lambda files=files, n=expected + more: rows_in(*files) == n, f"more rows of {model}", process)
    finally:
        for process, _ in processes.values():
            process.terminate()
        ends = [process.communicate(timeout=PATIENCE)[1] for process, _ in processes.values()]
    assert [process.returncode for process, _ in processes.values()] == [143, 143], ends
    assert "430 rows are safe" in ends[0]


@pytest.mark.long
def test_the_command_says_which_model_answers(address, tmp_path, capsys):
    stream = ["stream", address, "--targets", "a,b", *WARM_UP]
    assert run(*stream, "--save", tmp_path / "m.ovk", "--report", tmp_path / "m.html") == 0
    assert "all 4 partitions, merged; along the way each row was predicted by the model of its own" in (
        capsys.readouterr().out
    )
    file = csv_file(tmp_path / "new.csv", table(10, seed=3))
    assert run("predict", tmp_path / "m.ovk", file, "--out", tmp_path / "p.csv") == 0
    capsys.readouterr()
    for _ in range(2):
        assert run(*stream, "--resume", tmp_path / "o.ovk", "--model", "olok") == 0
        found = capsys.readouterr()
        assert "partition 2, with a learner of its own, since OLOK cannot be merged" in found.out
        assert f"model: {tmp_path / 'o-2.ovk'}" in found.out
    # The model keeps its settings.
    assert run("stream", address, "--resume", tmp_path / "o.ovk", "--json") == 0
    assert {name: one["rows"] for name, one in json.loads(capsys.readouterr().out)["partitions"].items()} == dict(
        zip("012", SIZES, strict=True)
    )


def test_wrong_calls(address, tmp_path, capsys):
    model = tmp_path / "m.ovk"
    learned(address, tmp_path)
    assert run("stream", address, "--continue-with", model) == 2
    assert "has 4 partitions: begin them with --like" in capsys.readouterr().err
    assert run("stream", f"{address}?partition=0", "--resume", model) == 3
    assert "was learning 'kafka rows[0]', 'kafka rows[1]'" in capsys.readouterr().err
    assert run("stream", address, "--targets", "a,b", "--predictions", "-") == 3
    assert "cannot be printed as one table" in capsys.readouterr().err
    with pytest.raises(BrokerError, match="4 partitions, which have no common order"):
        open_broker(address)
    with pytest.raises(BrokerError, match="names partition '1' twice"):
        open_partitions(f"{address}?partition=1&partition=1")
    with open_partitions(f"{address}?partition=3&partition=1") as partitions:
        assert partitions.names == ["1", "3"]
        with pytest.raises(ValueError, match="does not have"):
            learn_partitions(partitions, None, resume=model)
    with open_partitions(f"{address}?partition=3") as partitions, pytest.raises(BrokerError, match="no messages yet"):
        learn(next(iter(partitions)), settings())


def test_a_model_that_learned_other_rows_is_no_longer_that_of_its_partitions(address, tmp_path):
    learned(address, tmp_path)
    with open_records(csv_file(tmp_path / "t.csv", ROWS[0])) as records:
        session = learn(records, None, continue_with=tmp_path / "m.ovk")
    assert (session.evaluator.model.t_, session.partitions) == (sum(SIZES) + 500, {})


def test_partitions_that_begin_like_a_model_add_to_it(address, tmp_path):
    with open_records(csv_file(tmp_path / "t.csv", table(300, seed=1))) as records:
        other = learn(records, settings())
    with open_partitions(address) as partitions:
        session = learn_partitions(partitions, None, like=other, save_to=tmp_path / "m.ovk")
    assert session.evaluator.model.t_ == sum(SIZES)
    assert merge_sessions([other, session]).evaluator.model.t_ == sum(SIZES) + 300
    assert learned(address, tmp_path).offset == sum(SIZES)


def test_lags_look_back_in_their_own_partition(address, tmp_path):
    asked = settings(lags=[1])
    with pytest.raises(Killed):
        learned(address, tmp_path, 4, asked)
    session = learned(address, tmp_path, asked=asked)
    ends = {name: one.preparation.lags_.past_ for name, one in session.partitions.items() if one.offset}
    for i in range(3):
        assert_allclose(ends[f"kafka rows[{i}]"], ROWS[i][-1:, 2:])


def test_subjects_of_a_stream_and_predictions_that_name_them(tmp_path):
    server = NATSServer(tmp_path / "nats")
    try:
        for name, rows in zip("xy", ROWS, strict=False):
            server.publish("S", json_messages(rows, 20), subject=f"S.{name}")
        server.publish("P", [])
        address = f"{server.url}/S?subject=S.x&subject=S.y"
        whole = learned(address, tmp_path)
        with open_partitions(address) as partitions:
            learn_partitions(partitions, settings(), predictions=f"{server.url}/P.rows")
        rows = [row for message in server.messages("P") for row in json.loads(message)]
    finally:
        server.kill()
    assert whole.offset == 530
    assert {name: sum(row["partition"] == name for row in rows) for name in ("S.x", "S.y")} == {"S.x": 400, "S.y": 0}
