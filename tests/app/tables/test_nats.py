"""A NATS stream gives the same model as a file with the same rows, whatever is killed."""

import json
import signal

import numpy as np
import pytest

import ovk as library
from brokers import NATSServer, certificates, csv_file, csv_messages, json_messages, table
from ovk.app.cli import main
from ovk.app.sessions import Settings, learn
from ovk.app.tables import BrokerError, MissingMessagesError, open_broker, open_records
from ovk.app.tables.brokers import credentials
from ovk.app.tables.jetstream import JetStream
from processes import PATIENCE, PausedRun, ovk, wait_until

SETTINGS = {"warm_up": 100, "block": 64, "every": 256, "max_bad": 1.0}
ROWS = table(1000)


class Killed(BaseException):
    """Simulates SIGKILL: no later code runs."""


def settings(**changes):
    return Settings(["a", "b"], **{**SETTINGS, **changes})


def parts(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".csv"}


def model_bytes(session, directory):
    library.save(session.evaluator.model, directory / "alone.ovk")
    return (directory / "alone.ovk").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The result for a file: bytes of model and predictions, and number of rows."""
    directory = tmp_path_factory.mktemp("whole")
    with open_records(csv_file(directory / "t.csv", ROWS)) as records:
        session = learn(records, settings(), predictions=directory / "parts")
    return model_bytes(session, directory), parts(directory / "parts"), session.offset


@pytest.fixture(scope="module")
def stream(server):
    """A stream of the same rows, 70 in a message."""
    server.publish("ROWS", json_messages(ROWS, 70))
    return f"{server.url}/ROWS"


def learned(address, directory, *, killed_at=None, resume=True, **options):
    """Learn a stream; killed after so many blocks."""
    blocks = iter(range(10**6))

    def watch(progress):
        if next(blocks) == killed_at:
            raise Killed

    with open_broker(address, **options) as records:
        place = directory / "m.ovk"
        return learn(
            records,
            settings(),
            save_to=place,
            resume=place if resume else None,
            predictions=directory / "parts",
            on_progress=watch,
        )


@pytest.mark.parametrize("form", ["json", "lines", "csv", pytest.param("one", marks=pytest.mark.long)])
def test_a_stream_teaches_what_a_file_does(server, whole, form, tmp_path):
    if form == "csv":
        messages = csv_messages(ROWS, 90)
    elif form == "lines":
        messages = [
            b"\n".join(json_messages(ROWS[i : i + 50], 1)).replace(b"[", b"").replace(b"]", b"")
            for i in range(0, 1000, 50)
        ]
    else:
        messages = json_messages(ROWS, 333 if form == "json" else 10)
    server.publish(f"FORM-{form}", messages)
    session = learned(f"{server.url}/FORM-{form}", tmp_path)
    assert (model_bytes(session, tmp_path), parts(tmp_path / "parts"), session.offset) == whole


@pytest.mark.parametrize("kills", [(3, 12), pytest.param((0, 5, 9), marks=pytest.mark.long)])
def test_a_checkpoint_inside_a_message_loses_nothing(stream, whole, kills, tmp_path):
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    learned(stream, undisturbed)
    for killed_at in kills:
        directory = tmp_path / str(killed_at)
        directory.mkdir()
        with pytest.raises(Killed):
            learned(stream, directory, killed_at=killed_at)
        with pytest.raises(Killed):
            learned(stream, directory, killed_at=2)
        session = learned(stream, directory)
        assert (directory / "m.ovk").read_bytes() == (undisturbed / "m.ovk").read_bytes()
        assert (model_bytes(session, directory), parts(directory / "parts"), session.offset) == whole


@pytest.mark.long
def test_killed_processes_and_a_killed_server_change_no_byte(server, tmp_path, capsys):
    rows = table(3000, seed=1)
    own = NATSServer(tmp_path / "server")
    messages = json_messages(rows, 50)
    ids = [str(i) for i in range(len(messages))]
    # Some are published twice; the server drops repeated ids.
    twice = [i for i in range(len(messages)) for _ in range(1 + (i % 20 == 7))]
    try:
        own.publish("ROWS", [messages[i] for i in twice], ids=[ids[i] for i in twice])
        common = ["--targets", "a,b", "--warm-up", "200", "--block", "64", "--checkpoint", "256", "--json"]
        with open_records(csv_file(tmp_path / "t.csv", rows)) as records:
            whole = learn(records, settings(warm_up=200, every=256), predictions=tmp_path / "file")
        model = tmp_path / "m.ovk"
        stream = [f"{own.url}/ROWS", *common, "--resume", model, "--predictions", tmp_path / "parts"]
        # Between predictions and model of a checkpoint, just after the server was killed.
        with PausedRun(tmp_path / "first", [2, 5], "stream", *stream) as run:
            run.wait(2)
            own.kill()
            own.start()
            run.go_on(2)
            run.wait(5)
            run.kill()
        # After a checkpoint.
        with PausedRun(tmp_path / "second", [4], "stream", *stream) as run:
            run.wait(4)
            run.kill()
        assert 256 < library.load(model).offset < 3000
        with pytest.raises(SystemExit) as ended:
            main(["stream", *map(str, stream)])
        out, err = capsys.readouterr()
        assert not ended.value.code, err
    finally:
        own.kill()
    assert json.loads(out)["rows"] == 3000
    assert parts(tmp_path / "parts") == parts(tmp_path / "file")
    assert model_bytes(library.load(model), tmp_path) == model_bytes(whole, tmp_path)


def test_a_server_that_goes_away_in_the_midst_is_waited_for(tmp_path, whole):
    own = NATSServer(tmp_path / "server")
    try:
        own.publish("ROWS", json_messages(ROWS, 10))
        blocks = iter(range(100))

        def watch(progress):
            if next(blocks) in (3, 8):
                own.kill()
                own.start()

        with open_broker(f"{own.url}/ROWS", reconnect_timeout=PATIENCE) as records:
            session = learn(records, settings(), predictions=tmp_path / "parts", on_progress=watch)
        assert (model_bytes(session, tmp_path), parts(tmp_path / "parts"), session.offset) == whole
        # If the server does not come back, learning fails, and progress is saved.
        with open_broker(f"{own.url}/ROWS", reconnect_timeout=0.5) as records:
            own.kill()
            with pytest.raises(BrokerError, match="has been unreachable"):
                learn(records, settings(), save_to=tmp_path / "m.ovk")
    finally:
        own.kill()


def test_rows_that_come_again_under_other_numbers_are_told_by_an_id(server, whole, tmp_path):
    listed = [{"id": f"r{i}", **json.loads(message)[0]} for i, message in enumerate(json_messages(ROWS, 1))]
    order = [j for i in range(0, 1000, 40) for j in [*range(i, i + 40), *range(i, i + 40, 9)]]
    messages = [json.dumps([listed[j] for j in order[i : i + 33]]).encode() for i in range(0, len(order), 33)]
    server.publish("IDS", messages)
    for killed_at in (None, 4):
        directory = tmp_path / str(killed_at)
        directory.mkdir()
        if killed_at:
            with pytest.raises(Killed):
                learned(f"{server.url}/IDS", directory, killed_at=killed_at, id_column="id", id_memory=50)
        session = learned(f"{server.url}/IDS", directory, id_column="id", id_memory=50)
        assert (model_bytes(session, directory), parts(directory / "parts"), session.offset) == whole
        assert session.position["repeated"] == len(order) - 1000
    with pytest.raises(ValueError, match="id_column must be that of the model, 'id'"):
        learned(f"{server.url}/IDS", directory)
    with pytest.raises(BrokerError, match="no column 'nix'"):
        learned(f"{server.url}/IDS", tmp_path, id_column="nix")


def test_a_gap_is_named(server, tmp_path):
    server.publish("GAP", json_messages(ROWS[:500], 20))
    with pytest.raises(Killed):
        learned(f"{server.url}/GAP", tmp_path, killed_at=4)
    server.publish("GAP", json_messages(ROWS[500:], 20))

    async def purge(context):
        await context.purge_stream("GAP", seq=31)

    server.run(purge)
    session = library.load(tmp_path / "m.ovk")
    first, kept = session.position["message"], session.offset
    with pytest.raises(MissingMessagesError, match=f"messages {first} to 30 of .* are gone"):
        learned(f"{server.url}/GAP", tmp_path)
    session = learned(f"{server.url}/GAP", tmp_path, accept_gap=True)
    assert session.position["lost"] == 31 - first
    # The rows read before the gap stay learned; 20 messages of 20 rows follow it.
    assert session.offset == kept + 400

    async def remove(context):
        await context.delete_msg("GAP", 35)

    server.run(remove)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with pytest.raises(MissingMessagesError, match=r"message 35 of .* is gone"):
        learned(f"{server.url}/GAP", fresh)

    async def anew(context):
        await context.delete_stream("GAP")

    server.run(anew)
    server.publish("GAP", json_messages(ROWS, 20))
    with pytest.raises(ValueError, match="recreated"):
        learned(f"{server.url}/GAP", tmp_path)


@pytest.mark.long
def test_a_slow_server_is_not_taken_for_one_that_lost_messages(server, whole, tmp_path, monkeypatch):
    server.publish("SLOW", json_messages(ROWS, 100))
    monkeypatch.setattr("ovk.app.tables.brokers.MAX_EMPTY_READS", 2)
    read, calls = JetStream.read, iter(range(10**6))
    monkeypatch.setattr(JetStream, "read", lambda self, place: [] if next(calls) % 6 else read(self, place))
    session = learned(f"{server.url}/SLOW", tmp_path)
    assert (model_bytes(session, tmp_path), parts(tmp_path / "parts"), session.offset) == whole

    async def remove(context):
        for number in (9, 10):
            await context.delete_msg("SLOW", number)

    monkeypatch.setattr(JetStream, "read", read)
    monkeypatch.setattr("ovk.app.tables.jetstream.FETCH_TIMEOUT", 0.2)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with open_broker(f"{server.url}/SLOW") as records:
        server.run(remove)
        with pytest.raises(MissingMessagesError, match=r"messages 9 to 10 of .* are gone"):
            learn(records, settings(), save_to=fresh / "m.ovk")
    # An incomplete block stays unread: the position is that of the last block.
    assert library.load(fresh / "m.ovk").offset == 768


def test_bad_messages_are_counted_and_named(server, tmp_path):
    good = json_messages(ROWS, 100)
    garbage = np.random.default_rng(0).integers(0, 256, 10_000_000, dtype=np.uint8).tobytes()
    deep = b"[" * 100_000
    bad = [b"hello", b"[1, 2]", b'{"x": 1}', garbage, deep, b'[{"u": "word", "v": 1, "a": {}, "b": 2}]']
    server.publish("BAD", [good[0], *bad, *good[1:]])
    session = learned(f"{server.url}/BAD", tmp_path)
    faults = dict(session.bad_rows)
    assert session.offset == 1000 + 7
    assert session.n_bad == 7
    assert "message 2, row 1: 'hello' is not JSON" in faults[101]
    assert "message 3, row 2: '2' is not a JSON object" in faults[103]
    assert "has none of the columns" in faults[104]
    assert "(10000000 bytes) is not JSON" in faults[105]
    assert "is not JSON" in faults[106]
    assert "'word' in column 'u' cannot be read (treated as missing)" in faults[107]


def test_wrong_calls_are_told_in_a_sentence(server, stream, tmp_path, monkeypatch, capsys):
    def refused(*arguments, env=()):
        with monkeypatch.context() as patch:
            for name, value in dict(env).items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main(["stream", *map(str, arguments)])
        err = capsys.readouterr().err
        assert ended.value.code == 2
        assert len(err.strip().splitlines()) == 1
        return err

    assert "no stream 'NIX'" in refused(f"{server.url}/NIX", "--targets", "a")
    assert "no NATS server answers at 127.0.0.1:1" in refused("nats://127.0.0.1:1/ROWS", "--targets", "a")
    assert "must not contain a password" in refused("nats://me:secret@127.0.0.1/ROWS", "--targets", "a")
    assert "--follow requires a broker" in refused(tmp_path / "t.csv", "--targets", "a", "--follow")
    assert "must be a directory" in refused(stream, "--targets", "a", "--predictions", f"{server.url}/P")
    assert "more than one subject" in refused(f"{stream}?subject=x&subject=y", "--targets", "a")
    closed = NATSServer(tmp_path / "closed", config="authorization { user: me, password: secret }\n")
    try:
        wrong = {"OVK_BROKER_USER": "me", "OVK_BROKER_PASSWORD": "wrong"}
        assert "denied access" in refused(f"{closed.url}/ROWS", "--targets", "a", env=wrong)
        (tmp_path / "who").write_text("# of the test\nuser = me\npassword = secret\n")
        assert "no stream 'ROWS'" in refused(
            f"{closed.url}/ROWS", "--targets", "a", env={"OVK_BROKER_FILE": str(tmp_path / "who")}
        )
    finally:
        closed.kill()
    (tmp_path / "who").write_text("name = me\n")
    with pytest.raises(BrokerError, match=r"line 1 of .* must read NAME = VALUE"):
        credentials({"OVK_BROKER_FILE": str(tmp_path / "who")})


def test_tls(tmp_path, monkeypatch):
    certificates(tmp_path)
    config = f'tls {{ cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem" }}\n'
    own = NATSServer(tmp_path / "server", config=config)
    try:
        monkeypatch.setenv("OVK_BROKER_CA", str(tmp_path / "cert.pem"))
        with pytest.raises(BrokerError, match="no stream 'ROWS'"):
            open_broker(f"{own.url}/ROWS")
        monkeypatch.setenv("OVK_BROKER_CA", str(tmp_path / "key.pem"))
        with pytest.raises(BrokerError, match="TLS certificates cannot be used"):
            open_broker(f"{own.url}/ROWS")
        monkeypatch.delenv("OVK_BROKER_CA")
        monkeypatch.setenv("OVK_BROKER_TLS", "1")
        with pytest.raises(BrokerError, match=r"TLS with the NATS server at .* failed"):
            open_broker(f"{own.url}/ROWS")
    finally:
        own.kill()


@pytest.mark.long
def test_a_stream_is_followed_until_a_signal(server, tmp_path):
    server.publish("LIVE", json_messages(ROWS[:300], 10))
    place = tmp_path / "m.ovk"
    arguments = ["--targets", "a,b", "--warm-up", "100", "--block", "64", "--save", place, "--follow"]
    process = ovk("stream", f"{server.url}/LIVE", *arguments)
    try:
        # A pause triggers a checkpoint, even after few rows.
        wait_until(lambda: place.exists() and library.load(place).offset == 300, "checkpoint in a pause", process)
        server.publish("LIVE", json_messages(ROWS[300:420], 10))
        wait_until(lambda: library.load(place).offset == 420, "checkpoint in a later pause", process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143, err
    assert library.load(place).offset == 420
    with open_broker(f"{server.url}/LIVE") as records:
        assert learn(records, None, resume=place).offset == 420


def test_a_subject_of_a_stream(server, tmp_path):
    for i, message in enumerate(json_messages(ROWS, 50)):
        server.publish("MIXED", [message], subject="MIXED.rows")
        if i % 3 == 0:
            server.publish("MIXED", [b"noise"], subject="MIXED.noise")
    session = learned(f"{server.url}/MIXED?subject=MIXED.rows", tmp_path)
    assert (session.offset, session.n_bad) == (1000, 0)


@pytest.mark.long
def test_another_stream_can_be_gone_on_with(server, stream, tmp_path):
    server.publish("MORE", json_messages(ROWS[:200], 30))
    learned(stream, tmp_path)
    with open_broker(f"{server.url}/MORE") as records, pytest.raises(ValueError, match="is not the stream"):
        learn(records, None, resume=tmp_path / "m.ovk")
    for _ in range(2):
        with open_broker(f"{server.url}/MORE") as records:
            session = learn(records, None, continue_with=tmp_path / "m.ovk")
        assert (session.earlier, session.offset) == (1000, 200)
    with open_records(csv_file(tmp_path / "t.csv", ROWS)) as file:
        learn(file, settings(), save_to=tmp_path / "f.ovk")
    with open_broker(stream) as records, pytest.raises(ValueError, match="from a file"):
        learn(records, None, resume=tmp_path / "f.ovk")
