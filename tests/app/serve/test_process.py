"""The server process with real clients: killed, out of disk space, and stopped."""

import json
import logging
import re
import resource
import signal
import subprocess
import sys
import warnings

import httpx
import numpy as np
import pytest
from benchmarks.service_process import ServerProcess
from benchmarks.service_trials import fuzz_trial, kill_trial

import ovk
from ovk.app.serve import create_app
from ovk.app.serve.log import Entry, Log
from processes import PATIENCE
from serving_rows import rows, table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    tritonclient = pytest.importorskip("tritonclient.http")
    scoring = pytest.importorskip("mlflow.pyfunc.scoring_server.client")


def test_httpx(server, models):
    X, Y = rows(20, seed=11)
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        assert client.get("/v2/health/ready").status_code == 200
        body = {"id": "httpx", "rows": X.tolist(), "targets": Y.tolist()}
        assert client.post("/v2/models/point/learn", json=body).status_code == 202
        with client.stream("GET", "/v2/models/point/events") as events:
            first = next(line for line in events.iter_lines() if line)
        shown = json.loads(first.removeprefix("data: "))
        assert set(shown["errors"]) <= {"point", "wide", "last value", "running mean"}
        reply = client.post("/v2/models/point/infer", content=b"{", headers={"Content-Type": "application/json"})
        assert reply.status_code == 400


def test_tritons_client_with_binary_tensors(server, models):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patient = {"connection_timeout": PATIENCE, "network_timeout": PATIENCE}
        client = tritonclient.InferenceServerClient(f"127.0.0.1:{server.port}", **patient)
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("table")
        assert client.get_server_metadata()["name"] == "ovk"
        metadata = client.get_model_metadata("table")
        lines = table(3, seed=12)
        words = tritonclient.InferInput("word", [3], "BYTES")
        words.set_data_from_numpy(np.array([line[0] for line in lines], dtype=object))
        x = tritonclient.InferInput("x", [3], "FP64")
        x.set_data_from_numpy(np.array([line[1] for line in lines]))
        plain = tritonclient.InferRequestedOutput("mean", binary_data=False)
        binary = client.infer("table", [words, x]).as_numpy("mean")
        text = client.infer("table", [words, x], outputs=[plain]).as_numpy("mean")
        client.close()
    assert [one["name"] for one in metadata["inputs"]] == ["word", "x"]
    session = ovk.load(models / "table.ovk")
    from ovk.app.tables import Batch

    session.preparation.bind(["word", "x"], predict=True)
    batch = Batch([[line[0] for line in lines], [line[1] for line in lines]], [1, 2, 3], [])
    np.testing.assert_array_equal(binary, session.predictor().predict(batch).F)
    np.testing.assert_array_equal(text, binary)


def test_mlflows_client(server, models):
    import pandas as pd

    client = scoring.ScoringServerClient("127.0.0.1", server.port)
    client.wait_server_ready(timeout=PATIENCE)
    assert client.get_version() == ovk.__version__
    X, _ = rows(3, seed=13)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    found = client.invoke(frame).get_predictions()
    assert list(found.columns) == ["y0", "y1"]
    assert len(found) == 3


def test_a_line_of_the_log_is_json():
    from ovk.app.serve.run import JsonLines

    record = logging.makeLogRecord({"msg": "checkpoint", "levelname": "INFO", "created": 0.0, "rows": 5})
    wanted = '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "checkpoint", "rows": 5}'
    assert JsonLines().format(record) == wanted


def test_a_directory_is_served_by_one_process(models, tmp_path):
    first, second = (create_app([models / "point.ovk"], data=tmp_path).state.server for _ in range(2))
    first.open()
    with pytest.raises(ValueError, match="another process uses"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_an_address_that_others_reach_needs_tokens(models, capsys, monkeypatch):
    from ovk.app.cli import main

    # If the address were accepted, the test should fail, not serve.
    monkeypatch.setattr("ovk.app.serve.serve", lambda *arguments, **options: True)
    with pytest.raises(SystemExit) as end:
        main(["serve", str(models / "point.ovk"), "--host", "0.0.0.0"])
    assert end.value.code == 2
    assert "--tokens" in capsys.readouterr().err


def test_tokens_that_others_can_read_are_a_line_of_the_log(models, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("predict " + "p" * 20 + "\n")
    tokens.chmod(0o644)
    with ServerProcess([models / "point.ovk", "--tokens", tokens], snapshot_of=True) as server:
        assert server.terminate() == 0
        assert not server.other
        [warning] = [line for line in server.lines if line["level"] == "warning"]
    assert warning["event"] == "other users can read or change the file of tokens"
    assert (warning["file"], warning["remedy"]) == (str(tokens), f"chmod 600 {tokens}")


def test_a_log_that_is_damaged_in_the_middle_is_a_refusal_to_start(models, tmp_path, capsys, monkeypatch):
    from ovk.app.cli import main

    monkeypatch.setattr("ovk.app.serve.run.log_as_json", lambda: None)  # it would change the loggers of other tests

    app = create_app([models / "point.ovk"], data=tmp_path).state.server
    app.open()
    app.close()
    log = Log(tmp_path / "point")
    for k in range(3):
        log.append([Entry(str(k), promote="point").encode()])
    log.close()
    [path] = log.segments()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(SystemExit) as end:
        main(["serve", str(models / "point.ovk"), "--data", str(tmp_path), "--port", "0"])
    err = capsys.readouterr().err
    assert end.value.code == 4
    assert re.search(rf"{path} is damaged at offset \d+", err)
    assert path.read_bytes() == content


@pytest.mark.long
def test_sigterm_ends_a_start_in_good_order(models, tmp_path):
    """A replay of the log can take long."""
    code = """
import os, signal, sys
from ovk.app.cli import main
from ovk.app.serve.service import ModelService

def terminated(self, origin):
    os.kill(os.getpid(), signal.SIGTERM)

ModelService._from_files = terminated
main(sys.argv[1:])
"""
    arguments = ["serve", models / "point.ovk", "--data", tmp_path / "data", "--port", "0"]
    found = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert found.returncode == 0, found.stderr
    line = json.loads(found.stderr)
    assert (line["event"], line["reason"]) == ("stopped", "SIGTERM before listening")


def test_sigterm_ends_a_start_in_good_order_while_packages_are_imported():
    code = "import os, signal, sys; sys.orig_argv = ['python', '-m', 'ovk', {0!r}, 'm.ovk']; import ovk; "
    code += "os.kill(os.getpid(), signal.SIGTERM)"
    for command, ends in {"serve": 0, "stream": -signal.SIGTERM}.items():
        found = subprocess.run([sys.executable, "-c", code.format(command)], capture_output=True, timeout=PATIENCE)
        assert found.returncode == ends
        assert found.stderr == (b"" if ends else b"ovk: terminated before the service started\n")


def test_a_checkpoint_that_cannot_be_written_at_the_end_is_told_by_the_exit_code(models, tmp_path):
    X, Y = rows(20, seed=16)
    with ServerProcess([models / "point.ovk", "--data", tmp_path], snapshot_of=True) as server:
        body = {"id": "a", "rows": X.tolist(), "targets": Y.tolist()}
        assert httpx.post(f"{server.url}/v2/models/point/learn", json=body, timeout=PATIENCE).status_code == 202
        server.limit_files(3000)
        assert server.terminate() == 1
        failed, stopped = server.lines[-2:]
    assert (failed["event"], failed["file"]) == (
        "the checkpoint cannot be written",
        str(tmp_path / "point" / "checkpoint.ovk"),
    )
    assert (stopped["event"], stopped["models"]) == ("stopped without a checkpoint", ["point"])
    with ServerProcess([models / "point.ovk", "--data", tmp_path], snapshot_of=True) as server:
        assert server.terminate() == 0
    assert ovk.load(tmp_path / "point" / "checkpoint.ovk").rows == 20


@pytest.mark.long
def test_a_start_that_finds_no_room_names_the_file(models, tmp_path):
    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    command = [sys.executable, "-m", "ovk", "serve", models / "point.ovk", "--data", tmp_path, "--port", "0"]
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE, preexec_fn=little)
    assert found.returncode == 4
    words = " ".join(found.stderr.split())
    assert words.replace(" ", "") == f"ovk: {tmp_path}/point/checkpoint.ovk: file too large".replace(" ", "")


def test_a_port_that_is_taken_is_said_so(server):
    from ovk.app.serve.run import _listening

    with pytest.raises(OSError, match="cannot listen at 127"), _listening("127.0.0.1", server.port):
        pass


def test_kills_lose_nothing_and_learn_nothing_twice(tmp_path):
    found = kill_trial(tmp_path, rows=400, kills=2, checkpoint=100, snapshot_of=True)
    assert found["every_request_once"]
    assert found["rows"] == found["acknowledged_rows"] == 400
    assert found["learner_equal"]
    assert found["checkpoint_equal"]
    assert found["log_equal"]
    assert found["exit_code"] == 0


def test_strange_requests_change_nothing(tmp_path):
    """A thousand requests; ``python -m benchmarks.service_trials --only fuzz`` sends five thousand."""
    found = fuzz_trial(tmp_path, 1000, snapshot_of=True)
    assert found["server_errors"] == 0
    assert set(found["statuses"]) <= {0, 200, 400, 401, 404, 405, 413, 415}
    assert found["state_equal"]
    assert found["grown_mb"] < 8
    assert found["exit_code"] == 0


def test_a_full_disk_refuses_rows_and_goes_on_predicting(models, tmp_path):
    X, Y = rows(400, seed=14)
    with (
        ServerProcess([models / "point.ovk", "--data", tmp_path], snapshot_of=True) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
    ):

        def learn(k):
            part = slice(20 * k, 20 * k + 20)
            body = {"id": str(k), "rows": X[part].tolist(), "targets": Y[part].tolist()}
            return client.post("/v2/models/point/learn", json=body).status_code

        server.limit_files(3000)
        codes = [learn(k) for k in range(6)]
        assert codes[0] == 202
        assert codes[-1] == 507
        inputs = [{"name": "X", "shape": [1, 3], "datatype": "FP64", "data": X[0].tolist()}]
        assert client.post("/v2/models/point/infer", json={"inputs": inputs}).status_code == 200
        server.limit_files(None)
        assert [learn(k) for k in range(6)] == [202] * 6
        assert server.terminate() == 0
    found = ovk.load(tmp_path / "point" / "checkpoint.ovk")
    ids = [identifier for identifier, *_ in found.history.requests()]
    assert (found.rows, sorted(ids)) == (120, list("012345"))
    twin = ovk.load(models / "point.ovk")
    for number in ids:
        part = slice(20 * int(number), 20 * int(number) + 20)
        twin.predict_then_learn(X[part], Y[part])
    np.testing.assert_array_equal(found.model.predict(X), twin.predict(X))


def test_without_its_packages_the_service_says_what_to_install():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('starlette', 'uvicorn', 'prometheus_client'))); "
        "import ovk.app.serve; from ovk.app.cli import main; main(['serve', 'm.ovk'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 5
    assert found.stderr.startswith("ovk: serving requires the extra 'serve' of ovk: pip install starlette uvicorn")
