"""Responses of all routes, in this process: tensors, frames, learning, delayed labels, promotion."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ovk
from ovk.app.serve import Checkpoint
from ovk.app.serve.checkpoint import learn_log
from ovk.app.serve.log import Log
from ovk.app.serve.status import view
from processes import wait_until
from serving_rows import rows, table


def tensor(name, values, datatype="FP64"):
    values = np.asarray(values)
    return {"name": name, "shape": list(values.shape), "datatype": datatype, "data": values.tolist()}


def outputs(reply):
    assert reply.status_code == 200, reply.text
    return {one["name"]: np.array(one["data"], dtype=float).reshape(one["shape"]) for one in reply.json()["outputs"]}


def learn_all(client, model, X, Y, size=10, prefix="request"):
    for k, start in enumerate(range(0, len(X), size)):
        part = slice(start, start + size)
        body = {"id": f"{prefix} {k}", "rows": X[part].tolist(), "targets": Y[part].tolist()}
        reply = client.post(f"/v2/models/{model}/learn", json=body)
        assert reply.status_code == 202, reply.text
    return reply.json()


def wait_until_learned(client, model, sequence):
    line = f'ovk_sequence{{model="{model}"}} {float(sequence)}'
    wait_until(lambda: line in client.get("/metrics").text, f"record {sequence}")


def test_health_and_metadata(client_of):
    client = client_of("table", "point")
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/point/ready", "/ping"):
        assert client.get(path).status_code == 200
    assert client.get("/version").text == ovk.__version__
    assert client.get("/v2").json()["extensions"][0] == "binary_tensor_data"
    found = client.get("/v2/models/table").json()
    assert [(one["name"], one["datatype"]) for one in found["inputs"]] == [("word", "BYTES"), ("x", "FP64")]
    assert [one["name"] for one in found["outputs"]] == ["mean", "lower", "upper"]
    assert [one["name"] for one in client.get("/v2/models/point").json()["outputs"]] == [
        "mean",
        "std",
        "lower",
        "upper",
    ]
    refusal = client.get("/v2/models/nobody")
    assert refusal.status_code == 404
    assert refusal.json() == {"error": "there is no model 'nobody': models are table, point"}
    assert client.get("/v2/models/point/infer").status_code == 405


def test_predictions_of_a_learner_in_tensors(client_of, models):
    client, model = client_of("point"), ovk.load(models / "point.ovk")
    X, _ = rows(7, seed=1)
    body = {"id": "q", "inputs": [tensor("X", X)], "outputs": [{"name": "std"}, {"name": "mean"}]}
    reply = client.post("/v2/models/point/infer", json=body)
    mean, std = model.predict(X, return_std=True)
    found = outputs(reply)
    np.testing.assert_array_equal(found["mean"], mean)
    np.testing.assert_array_equal(found["std"], std)
    assert reply.json()["id"] == "q"
    # The same as bytes, both ways, in single precision.
    content = X.astype("<f4").tobytes()
    described = {
        "name": "X",
        "shape": list(X.shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(content)},
    }
    head = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    reply = client.post("/v2/models/point/infer", content=head + content, headers=headers)
    size = int(reply.headers["inference-header-content-length"])
    given = json.loads(reply.content[:size])["outputs"][0]
    assert given["parameters"]["binary_data_size"] == len(reply.content) - size
    values = np.frombuffer(reply.content[size:], "<f8").reshape(given["shape"])
    np.testing.assert_array_equal(values, model.predict(X.astype(np.float32)))


def test_clients_may_name_the_version(client_of):
    client = client_of("point")
    body = {"inputs": [tensor("X", rows(2)[0])]}
    plain = client.post("/v2/models/point/infer", json=body).json()
    assert client.post("/v2/models/point/versions/1/infer", json=body).json() == plain
    assert client.get("/v2/models/point/versions/1").json()["versions"] == ["1"]
    assert client.get("/v2/models/point/versions/1/ready").status_code == 200
    refusal = client.post("/v2/models/point/versions/2/infer", json=body)
    assert (refusal.status_code, "only version of this model is 1" in refusal.json()["error"]) == (404, True)


def test_predictions_of_a_session_with_words_lags_and_intervals(client_of, models):
    client, session = client_of("table"), ovk.load(models / "table.ovk")
    lines = table(4, seed=3)
    inputs = [tensor("word", [line[0] for line in lines], "BYTES"), tensor("x", [line[1] for line in lines])]
    found = outputs(client.post("/v2/models/table/infer", json={"inputs": inputs, "parameters": {"level": 0.8}}))
    from ovk.app.tables import Batch

    session.preparation.bind(["word", "x"], predict=True)
    batch = Batch([[line[0] for line in lines], [line[1] for line in lines]], [1, 2, 3, 4], [])
    twin = session.predictor().predict(batch, 0.8)
    np.testing.assert_array_equal(found["mean"], twin.F)
    np.testing.assert_allclose(found["upper"] - found["mean"], np.broadcast_to(twin.widths, twin.F.shape))
    # A missing number is null; an unknown word has no level.
    inputs = [tensor("word", ["green"], "BYTES"), {"name": "x", "shape": [1], "datatype": "FP64", "data": [None]}]
    assert np.isfinite(outputs(client.post("/v2/models/table/infer", json={"inputs": inputs}))["mean"]).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"wrod": "red", "x": 1.0},
            "column 'word' is missing; the request has 'wrod', 'x'; rename 'wrod' to 'word'?",
        ),
        (
            {"x": 1.0, "WORD": "red"},
            "column 'word' is missing; the request has 'x', 'WORD'; rename 'WORD' to 'word'?",
        ),
        ({"n": 1.0, "x": 1.0}, "column 'word' is missing; the request has 'n', 'x'"),
        ({"word": "red", "x": "abc"}, "row 1: 'abc' in column 'x' cannot be read"),
    ],
)
def test_a_cell_or_a_column_that_is_wrong_is_named(client_of, row, message):
    client = client_of("table")
    assert client.post("/v2/models/table/infer", json={"rows": [row]}).json() == {"error": message}
    reply = client.post("/invocations", json={"dataframe_records": [row]})
    assert reply.json() == {"error_code": "BAD_REQUEST", "message": message}


# The service orders the columns by name and passes a matrix, so scikit-learn sees no names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("width", [1, 2])
def test_an_estimator_that_knows_its_columns_by_name_does_not_take_others(client_of, models, width):
    X, Y = rows(60)
    frame = pd.DataFrame(X[:, :width], columns=["load", "hour"][:width])
    name = f"frame{width}"
    model = ovk.OVKRidge(alpha=0.1).fit(frame, Y)
    ovk.save(model, models / f"{name}.ovk")
    client, address = client_of(name), f"/v2/models/{name}/infer"
    record = dict(reversed(list(frame.iloc[0].items())))
    found = outputs(client.post(address, json={"rows": [record]}))["mean"]
    np.testing.assert_array_equal(found, model.predict(frame[:1]))
    as_matrix = outputs(client.post(address, json={"inputs": [tensor("X", frame[:1])]}))["mean"]
    np.testing.assert_array_equal(as_matrix, found)
    record["laod"] = record.pop("load")
    assert client.post(address, json={"rows": [record]}).json() == {
        "error": "column 'load' is missing; the request has "
        + ("'hour', 'laod'" if width == 2 else "'laod'")
        + "; rename 'laod' to 'load'?"
    }


@pytest.mark.parametrize("name", ["ridge", "pipeline"])
def test_an_estimator_without_names_does_not_take_names_that_it_cannot_know(client_of, models, name):
    """The order of the keys must not decide which column is which."""
    X, Y = rows(60)
    if name == "pipeline":
        model = make_pipeline(StandardScaler(), ovk.OVKRidge(alpha=0.1)).fit(X, Y)
        ovk.save(model, models / "pipeline.ovk")
    client, address = client_of(name), f"/v2/models/{name}/infer"
    words = (
        "this model was fitted without column names: send each row as a list of 3 numbers, in the order of "
        "fitting, or name them 'x0', 'x1', 'x2'; the request has 'wall', 'roof', 'area'"
    )
    record = dict(zip(["wall", "roof", "area"], X[0].tolist(), strict=True))
    assert client.post(address, json={"rows": [record]}).json() == {"error": words}
    assert client.post("/invocations", json={"dataframe_records": [record]}).json()["message"] == words
    tensors = [tensor(column, [value]) for column, value in record.items()]
    assert client.post(address, json={"inputs": tensors}).status_code == 400
    wanted = outputs(client.post(address, json={"rows": X[:1].tolist()}))["mean"]
    for order in ([0, 1, 2], [2, 0, 1]):
        named = {f"x{j}": float(X[0, j]) for j in order}
        np.testing.assert_array_equal(outputs(client.post(address, json={"rows": [named]}))["mean"], wanted)


def test_a_matrix_of_one_column_is_known_by_its_tensor(client_of, models):
    X, Y = rows(60)
    ovk.save(ovk.OVKRidge(alpha=0.1).fit(X[:, :1], Y), models / "narrow.ovk")
    client, address = client_of("narrow"), "/v2/models/narrow/infer"
    for name, status in {"X": 200, "x0": 200, "load": 400}.items():
        assert client.post(address, json={"inputs": [tensor(name, X[:2, :1])]}).status_code == status


def test_replies_name_their_columns_and_rows_are_taken_as_in_learning(client_of):
    client = client_of("table", "labels")
    inputs = [tensor("word", ["red"], "BYTES"), tensor("x", [0.5])]
    found = client.post("/v2/models/table/infer", json={"inputs": inputs, "parameters": {"level": 0.9}}).json()
    # Parameters of the protocol are strings, numbers and booleans, not lists.
    assert [one["parameters"] for one in found["outputs"]] == [{"columns": "a,b"}] * 3
    rows = {"rows": [{"word": "red", "x": 0.5}], "parameters": {"level": 0.9}}
    assert client.post("/v2/models/table/infer", json=rows).json() == found
    body = {"rows": rows_of(3), "outputs": [{"name": "label"}, {"name": "probability", "parameters": {}}]}
    label, probability = client.post("/v2/models/labels/infer", json=body).json()["outputs"]
    assert "parameters" not in label
    assert probability["parameters"] == {"columns": "down,up"}


def rows_of(n):
    return rows(n)[0].tolist()


def test_labels_and_batch_estimators(client_of, models):
    client = client_of("labels", "ridge")
    X, _ = rows(5, seed=2)
    reply = client.post("/v2/models/labels/infer", json={"inputs": [tensor("X", X)]})
    assert reply.json()["outputs"][0]["datatype"] == "BYTES"
    assert reply.json()["outputs"][0]["data"] == ovk.load(models / "labels.ovk").predict(X).tolist()
    ridge = outputs(client.post("/v2/models/ridge/infer", json={"inputs": [tensor("X", X)]}))
    np.testing.assert_array_equal(ridge["mean"], ovk.load(models / "ridge.ovk").predict(X))
    refusal = client.post("/v2/models/labels/infer", json={"inputs": [tensor("X", X)], "outputs": [{"name": "mean"}]})
    assert refusal.status_code == 400
    assert "among label" in refusal.json()["error"]


def test_mlflows_four_forms(client_of, models):
    client, model = client_of("point"), ovk.load(models / "point.ovk")
    X, _ = rows(3, seed=4)
    names = ["x0", "x1", "x2"]
    records = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    wanted = [dict(zip(["y0", "y1"], row, strict=True)) for row in model.predict(X).tolist()]
    forms = [
        {"dataframe_split": {"columns": names, "data": X.tolist()}},
        {"dataframe_records": records},
        {"instances": X.tolist()},
        {"inputs": X.tolist()},
        {"inputs": dict(zip(names, X.T.tolist(), strict=True))},
    ]
    for form in forms:
        reply = client.post("/invocations", json=form)
        assert reply.json() == {"predictions": wanted}, form
    # Columns are matched by name.
    turned = {"dataframe_split": {"columns": names[::-1], "data": X[:, ::-1].tolist()}, "params": {"level": 0.9}}
    assert client.post("/invocations", json=turned).json()["predictions"][0]["y0"] == wanted[0]["y0"]
    assert client.post("/invocations", json={}).json()["error_code"] == "BAD_REQUEST"


@pytest.mark.parametrize("name", ["point", "table", "labels"])
def test_what_is_learned_is_what_the_log_holds(client_of, models, tmp_path, name):
    """The final checkpoint is byte-identical to a replay of the log."""
    client = client_of(name, data=tmp_path, keep_log=True, limits={"checkpoint_rows": 40})
    if name == "table":
        lines = table(100, seed=5)
        for k in range(10):
            part = lines[10 * k : 10 * k + 10]
            body = {
                "id": str(k),
                "rows": [{"word": word, "x": x} for word, x, _, _ in part],
                "targets": [{"a": a, "b": None} for _, _, a, _ in part],
            }
            assert client.post("/v2/models/table/learn", json=body).status_code == 202
    else:
        X, Y = rows(100, seed=5)
        targets = np.where(X[:, 0] > 0, "up", "down") if name == "labels" else Y
        learn_all(client, name, X, targets)
    client_of.close(client)
    found = ovk.load(tmp_path / name / "checkpoint.ovk")
    assert (found.sequence, found.rows) == (10, 100)
    again = learn_log(Checkpoint.start({name: ovk.load(models / f"{name}.ovk")}, found.origin), Log(tmp_path / name))
    ovk.save(again, tmp_path / "again.ovk")
    assert (tmp_path / "again.ovk").read_bytes() == (tmp_path / name / "checkpoint.ovk").read_bytes()
    if name == "point":  # and the learner is the same as without a service
        twin = ovk.load(models / "point.ovk")
        for start in range(0, 100, 10):
            twin.predict_then_learn(X[start : start + 10], Y[start : start + 10])
        np.testing.assert_array_equal(found.model.predict(X), twin.predict(X))
        errors = np.sqrt(np.mean((_progressive(models, X, Y) - Y) ** 2, axis=0))
        np.testing.assert_allclose(found.scores.up_to_date().errors()["point"], errors)


def _progressive(models, X, Y):
    twin = ovk.load(models / "point.ovk")
    parts = range(0, len(X), 10)
    return np.vstack([twin.predict_then_learn(X[s : s + 10], Y[s : s + 10]) for s in parts])


@pytest.mark.long
@pytest.mark.parametrize("name", ["point", "table", "ridge"])
def test_the_coverage_that_is_shown_is_that_of_the_intervals_that_were_served(client_of, models, tmp_path, name):
    """Rows are predicted and learned one by one; each is scored with the interval that was served."""
    shadows = {"ridge": [models / "point.ovk"]} if name == "ridge" else None
    client, inside = client_of(name, data=tmp_path, shadows=shadows), []
    lines, (X, Y) = table(60, seed=15), rows(60, seed=15)
    for k in range(60):
        row, target = X[k].tolist(), Y[k] * (1 + k / 20)  # growing errors
        if name == "table":
            word, x, *target = lines[k]
            row, target = {"word": word, "x": x}, np.array(target) * (1 + k / 500)
        asked = {"rows": [row], "parameters": {"level": 0.9}}
        _, lower, upper = outputs(client.post(f"/v2/models/{name}/infer", json=asked)).values()
        inside.append(np.where(np.isnan(lower), np.nan, (lower <= target) & (target <= upper)))
        body = {"rows": [row], "targets": [target.tolist()]}
        wait_until_learned(client, name, client.post(f"/v2/models/{name}/learn", json=body).json()["sequence"])
    served = np.nanmean(inside, axis=0)[0]
    assert (served > 0.2).all()
    assert (served < 0.99).any()
    np.testing.assert_array_equal(view(client.app.state.server.services[name])["coverage"], served)


def test_a_repeated_id_gets_the_first_reply_and_is_learned_once(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    X, Y = rows(10, seed=6)
    body = {"id": "once", "rows": X.tolist(), "targets": Y.tolist()}
    first = client.post("/v2/models/point/learn", json=body)
    again = client.post("/v2/models/point/learn", json=body)
    assert first.json() == again.json() == {"id": "once", "sequence": 1, "rows": 10}
    # Other contents under the same id are rejected.
    for change in ({"rows": X[:3].tolist(), "targets": Y[:3].tolist()}, {"targets": (Y + 1e-9).tolist()}):
        other = client.post("/v2/models/point/learn", json={**body, **change})
        assert other.status_code == 409
        assert "id 'once' was used before for other contents (record 1)" in other.json()["error"]
        assert "use a unique id" in other.json()["error"]
    wait_until_learned(client, "point", 1)
    assert 'ovk_rows_learned_total{model="point"} 10.0' in client.get("/metrics").text


def test_labels_that_come_later(client_of, tmp_path):
    client = client_of("point", data=tmp_path / "patient")
    X, Y = rows(4, seed=7)
    body = {"inputs": [tensor("X", X)], "parameters": {"await_label": True}}
    identifier = client.post("/v2/models/point/infer", json=body).json()["id"]
    label = {"infer_id": identifier, "targets": Y.tolist()}
    assert client.post("/v2/models/point/learn", json={**label, "targets": Y[:2].tolist()}).status_code == 400
    reply = client.post("/v2/models/point/learn", json=label)
    assert reply.json()["rows"] == 4
    assert client.post("/v2/models/point/learn", json=label).json() == reply.json()
    client = client_of("point", data=tmp_path / "impatient", limits={"label_seconds": 0.05})
    late = client.post("/v2/models/point/infer", json=body).json()["id"]
    time.sleep(0.1)
    assert client.post("/v2/models/point/learn", json={"infer_id": late, "targets": Y.tolist()}).status_code == 404


def test_a_shadow_learns_the_same_rows_and_is_promoted(client_of, models, tmp_path):
    client = client_of("point", data=tmp_path, shadows={"point": [models / "wide.ovk", models / "ridge.ovk"]})
    X, Y = rows(60, seed=8)
    learn_all(client, "point", X, Y)
    reply = client.post("/v2/models/point/promote", json={"name": "wide"})
    assert reply.status_code == 202
    assert client.post("/v2/models/point/promote", json={"name": "nobody"}).status_code == 400
    wait_until_learned(client, "point", reply.json()["sequence"])
    answer = client.post("/v2/models/point/infer", json={"inputs": [tensor("X", X[:5])]})
    twin = ovk.load(models / "wide.ovk")
    for start in range(0, 60, 10):
        twin.predict_then_learn(X[start : start + 10], Y[start : start + 10])
    np.testing.assert_array_equal(outputs(answer)["mean"], twin.predict(X[:5]))
    assert answer.json()["parameters"]["active"] == "wide"
    metrics = client.get("/metrics").text
    assert 'ovk_active{learner="wide",model="point"} 1.0' in metrics
    assert 'learner="ridge",model="point",output="y0"' in metrics
    # The promotion is in the log, so a restart restores it.
    client_of.close(client)
    assert ovk.load(tmp_path / "point" / "checkpoint.ovk").active.name == "wide"


def test_a_reader_sees_whole_blocks(client_of, models, tmp_path):
    """Each prediction equals that of a learner after the record that the response names."""
    client = client_of("point", data=tmp_path)
    X, Y = rows(200, seed=9)
    probe, twin = X[:1], ovk.load(models / "point.ovk")
    at = {0: twin.predict(probe)}
    for k in range(20):
        twin.predict_then_learn(X[10 * k : 10 * k + 10], Y[10 * k : 10 * k + 10])
        at[k + 1] = twin.predict(probe)
    seen = set()

    def look():
        reply = client.post("/v2/models/point/infer", json={"inputs": [tensor("X", probe)]})
        sequence = reply.json()["parameters"]["sequence"]
        np.testing.assert_array_equal(outputs(reply)["mean"], at[sequence])
        seen.add(sequence)

    look()
    for k in range(20):
        learn_all(client, "point", X[10 * k : 10 * k + 10], Y[10 * k : 10 * k + 10], prefix=f"block {k}")
        look()
    wait_until_learned(client, "point", 20)
    look()
    assert {0, 20} <= seen


def test_without_a_directory_nothing_is_learned(client_of):
    X, Y = rows(2)
    body = {"id": "a", "rows": X.tolist(), "targets": Y.tolist()}
    reply = client_of("point").post("/v2/models/point/learn", json=body)
    assert reply.status_code == 409
    assert "--data" in reply.json()["error"]


@pytest.mark.parametrize("name", ["ridge", "fitted"])
def test_a_model_that_cannot_learn_says_so(client_of, tmp_path, name):
    client = client_of(name, data=tmp_path)
    X, Y = rows(6)
    row = [{"word": "red", "x": 0.5}] if name == "fitted" else X[:1].tolist()
    reply = client.post(f"/v2/models/{name}/learn", json={"id": "a", "rows": row, "targets": Y[:1].tolist()})
    assert reply.status_code == 409
    assert reply.json()["error"].startswith("this model was fitted to one batch and does not learn:")
    later = client.post(f"/v2/models/{name}/infer", json={"rows": row, "parameters": {"await_label": True}})
    assert (later.status_code, later.json()) == (409, reply.json())
    assert client.get(f"/v2/models/{name}").json()["parameters"]["learns"] is False
    assert f'ovk_rows_learned_total{{model="{name}"}} 0.0' in client.get("/metrics").text
    assert view(client.app.state.server.services[name])["predicts_only"] == reply.json()["error"]


def test_a_model_that_cannot_learn_may_answer_while_a_shadow_learns(client_of, models, tmp_path):
    client = client_of("ridge", data=tmp_path, shadows={"ridge": [models / "point.ovk"]})
    X, Y = rows(20, seed=8)
    wait_until_learned(client, "ridge", learn_all(client, "ridge", X, Y)["sequence"])
    assert client.get("/v2/models/ridge").json()["parameters"]["learns"] is True
    shown = view(client.app.state.server.services["ridge"])
    assert [(one["name"], one["learns"]) for one in shown["learners"]] == [("ridge", False), ("point", True)]


def test_metrics_say_what_they_are_and_what_has_no_checkpoint_has_no_age_of_one(client_of, tmp_path):
    age, durable = "ovk_checkpoint_age_seconds{", client_of("point", data=tmp_path).get("/metrics").text
    assert age in durable
    assert "# HELP ovk_interval_coverage Share of recent outcomes in the 90% interval served" in durable
    assert "# HELP ovk_rolling_error RMSE of recent rows (classification: error rate)." in durable
    assert age not in client_of("point").get("/metrics").text


def test_another_model_does_not_take_over_a_directory(client_of, models, tmp_path):
    client_of.close(client_of("point", data=tmp_path))
    other = tmp_path / "other" / "point.ovk"
    other.parent.mkdir()
    other.write_bytes((models / "wide.ovk").read_bytes())
    from ovk.app.serve import create_app

    with pytest.raises(ValueError, match="is not a checkpoint of"):
        create_app([other], data=tmp_path).state.server.open()


def test_a_learner_without_standard_deviations_offers_none(client_of, models):
    X, Y = rows(60)
    ovk.save(ovk.AutoStream().fit(X, Y), models / "auto.ovk")
    client = client_of("auto")
    assert "std" not in [one["name"] for one in client.get("/v2/models/auto").json()["outputs"]]
    asked = {"inputs": [tensor("X", X[:1])], "outputs": [{"name": "std"}]}
    assert client.post("/v2/models/auto/infer", json=asked).status_code == 400
