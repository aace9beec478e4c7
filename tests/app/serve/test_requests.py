"""Valid and invalid requests, and the messages for invalid ones."""

import numpy as np
import orjson
import pytest

from ovk.app.serve.access import RequestError
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows, TensorSpec, read_frame, read_rows, write_tensors
from processes import wait_until
from serving_rows import rows

ROW = rows(1)[0].tolist()


def learn(client, X, Y):
    """Learn rows and wait for it."""
    reply = client.post("/v2/models/point/learn", json={"rows": X.tolist(), "targets": Y.tolist()})
    line = f'ovk_sequence{{model="point"}} {float(reply.json()["sequence"])}'
    wait_until(lambda: line in client.get("/metrics").text, "the rows")


@pytest.mark.parametrize(
    ("address", "body", "words"),
    [
        ("infer", {"level": 0.9}, "'level' belongs inside 'parameters': \"parameters\": {\"level\": ...}"),
        ("infer", {"await_label": True}, "'await_label' belongs inside 'parameters'"),
        (
            "infer",
            {"output": []},
            "unknown key 'output': allowed keys are id, parameters, inputs, outputs, rows; did you",
        ),
        ("learn", {"target": [[1, 2]]}, "did you mean 'targets'?"),
        (
            "learn",
            {"weight": [1]},
            "allowed keys are id, parameters, rows, inputs, infer_id, targets",
        ),
        ("promote", {"nmae": "point"}, "did you mean 'name'?"),
        ("/invocations", {"level": 0.9}, "'level' belongs inside 'params'"),
        ("/invocations", {"parameters": {"level": 0.9}}, "did you mean 'params'?"),
        (
            "infer",
            {"parameters": {"foo": 1}},
            "unknown parameter 'foo' in parameters; allowed here: level, await_label, binary_data_output",
        ),
        ("infer", {"parameters": {"levle": 0.9}}, "did you mean 'level'?"),
        ("infer", {"parameters": {"await_label": 1}}, "await_label must be true or false, got 1"),
        ("infer", {"parameters": {"await_label": "true"}}, 'await_label must be true or false, got "true"'),
        ("infer", {"outputs": [{"name": "mean", "parameters": {"classification": 1}}]}, "allowed here: binary_data"),
        ("learn", {"targets": [[1, 2]], "parameters": {"foo": 1}}, "unknown parameter 'foo'"),
        ("/invocations", {"params": {"foo": 1}}, "unknown parameter 'foo' in params; allowed here: level"),
        ("/invocations", {"params": {"await_label": True}}, "only /v2/models/NAME/infer takes it"),
    ],
)
def test_a_key_that_nobody_would_read_is_refused(client_of, tmp_path, address, body, words):
    client = client_of("point", data=tmp_path)
    path = address if address.startswith("/") else f"/v2/models/point/{address}"
    whole = {"instances" if address == "/invocations" else "rows": ROW, **body}
    reply = client.post(path, json=body if address == "promote" else whole)
    assert reply.status_code == 400
    assert words in reply.json().get("error", reply.json().get("message"))


def test_the_protocols_own_keys_are_taken(client_of):
    inputs = [{"name": "X", "shape": [1, 3], "datatype": "FP64", "data": ROW}]
    body = {"id": "a", "parameters": {"priority": 1}, "inputs": inputs, "outputs": [{"name": "mean"}]}
    assert client_of("point").post("/v2/models/point/infer", json=body).status_code == 200


def test_intervals_without_ends_are_explained(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    body = {"rows": ROW, "parameters": {"level": 0.95}}
    note = "interval bounds are null where an output has too few known outcomes: level 0.95 requires 19"
    reply = client.post("/v2/models/point/infer", json=body).json()
    assert (reply["outputs"][1]["data"], reply["parameters"]["note"]) == ([None, None], note)
    asked = {"instances": ROW, "params": {"level": 0.95}}
    assert client.post("/invocations", json=asked).json()["note"] == note
    X, Y = rows(19, seed=60)
    learn(client, X[:18], Y[:18])
    assert client.post("/v2/models/point/infer", json=body).json()["parameters"]["note"] == note
    learn(client, X[18:], Y[18:])
    reply = client.post("/v2/models/point/infer", json=body).json()
    assert "note" not in reply["parameters"]
    assert None not in reply["outputs"][1]["data"]
    assert "note" not in client.post("/invocations", json=asked).json()


@pytest.mark.parametrize("name", ["ridge", "point"])
def test_a_model_that_never_has_intervals_says_so(client_of, name):
    client = client_of(name)
    note = (
        "this model has no intervals here: they are computed from rows learned in service, and this service does not "
        "learn"
    )
    reply = client.post(f"/v2/models/{name}/infer", json={"rows": ROW, "parameters": {"level": 0.9}}).json()
    assert (reply["outputs"][1]["data"], reply["parameters"]["note"]) == ([None, None], note)
    assert client.post("/invocations", json={"instances": ROW, "params": {"level": 0.9}}).json()["note"] == note


def test_targets_that_are_large_but_have_squares_are_learned(client_of, tmp_path):
    client = client_of("table", data=tmp_path)
    body = {"rows": [{"word": "red", "x": 0.5}], "targets": [{"a": 1e140, "b": 1.0}]}
    assert client.post("/v2/models/table/learn", json=body).status_code == 202
    body["targets"][0]["a"] = 1.1e140
    assert client.post("/v2/models/table/learn", json=body).status_code == 400
    metrics = client.get("/metrics").text
    assert 'ovk_rows_rejected_total{model="table"} 1.0' in metrics


@pytest.mark.parametrize("name", ["point", "table"])
def test_a_level_that_no_interval_can_ever_have_is_refused(client_of, name):
    body = {"rows": [{"word": "red", "x": 0.5}] if name == "table" else ROW, "parameters": {"level": 0.9999}}
    reply = client_of(name).post(f"/v2/models/{name}/infer", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"] == (
        "intervals of level 0.9999 require the errors of 9,999 rows, and only the last 2,000 are kept: the highest "
        "level is 0.9995"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"rows": [[0, 0, 0]] * 3, "targets": [[0, 0]]},
            "the request has 3 rows but 1 target: send one target for each row",
        ),
        (
            {"rows": [[0, 0, 0]], "targets": [[0, 0]] * 2},
            "the request has 1 row but 2 targets: send one target for each row",
        ),
        ({"rows": [], "targets": [[0, 0]]}, "rows must contain at least one row"),
        (
            {"rows": [[0, 0, 0]] * 21, "targets": [[0, 0]] * 21},
            "the request contains 21 rows; at most 20 are allowed (--max-rows): send several requests",
        ),
        (
            {"rows": [[0, 0, 0]] * 3, "targets": [[0, 0], [0, None], [0, -1e300]]},
            "target 'y1' of row 3 must be at most 1e+140 in magnitude, got -1e+300: send null if it is unknown",
        ),
        (
            {"rows": [[0, 0, 0]], "targets": [{"y0": 1}]},
            "column 'y1' is missing: send null for unknown values; the request has 'y0'",
        ),
        (
            {"rows": [[0, 0, 0]] * 2, "targets": [[0, 0]] * 2, "id": "a" * 4000},
            "the body is larger than 4,000 bytes (--max-body): send several requests",
        ),
    ],
)
def test_messages_say_what_is_wrong(client_of, tmp_path, body, words):
    client = client_of("point", data=tmp_path, limits={"rows": 20, "body": 4000})
    assert client.post("/v2/models/point/learn", json=body).json()["error"] == words


@pytest.mark.parametrize(
    ("level", "found"), [("0.9", "the string '0.9': write it without quotes"), (None, "null"), (True, "true"), (2, "2")]
)
def test_a_level_that_is_no_level_is_shown(client_of, level, found):
    body = {"rows": ROW, "parameters": {"level": level}}
    reply = client_of("point").post("/v2/models/point/infer", json=body)
    assert reply.json() == {"error": f"level must be a number between 0 and 1, got {found}"}


def test_replies_end_their_line(client_of):
    client = client_of("point")
    for reply in (client.get("/v2"), client.get("/v2/models/nobody"), client.post("/invocations", json={})):
        assert reply.content.endswith(b"}\n")


def test_what_users_sent_is_for_the_owner_of_the_directory_alone(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    learn(client, *rows(5))
    client_of.close(client)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "point").iterdir()}
    assert set(modes.values()) == {0o600}
    assert "checkpoint.ovk" in modes


def test_rows_of_every_form_and_what_is_written_of_them():
    assert read_rows([{"a": 1, "b": None}, {"a": 2, "b": 3}], "rows").names == ("a", "b")
    frame = read_frame({"dataframe_split": {"columns": ["a", "b"], "data": [[1, "x"], [2, None]]}})
    again = RequestRows.decode(frame.encode())
    assert (again.names, again.columns[1], len(again)) == (("a", "b"), ["x", None], 2)
    np.testing.assert_array_equal(again.columns[0], [1.0, 2.0])
    for values in ({"x": [[1, 2], [3, 4]]}, {"x": [1], "z": [1, 2]}):
        with pytest.raises(RequestError):
            read_frame({"inputs": values})
    np.testing.assert_array_equal(read_frame({"inputs": {"x": [[1], [2]]}}).columns[0], [1.0, 2.0])
    spec = TensorSpec("mean", "FP64", [-1, 2], ["kitchen", "a, b"])
    [tensor], _ = write_tensors([(spec, np.array([[1.0, np.inf]]))], {})
    assert orjson.dumps(tensor["data"]) == b"[1.0,null]"
    assert tensor["parameters"]["columns"] == 'kitchen,"a, b"'


def test_the_contents_of_an_entry_tell_it_from_others_whatever_its_id():
    X = RequestRows.of_matrix(np.ones((2, 3)))
    one, other = Entry("id 1", X, X), Entry("id 2", X, X)
    assert Entry.decode(one.encode()).id == "id 1"
    assert one.digest == other.digest != Entry("id 1", X, RequestRows.of_matrix(np.zeros((2, 3)))).digest
