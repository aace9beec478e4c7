"""The JSON of requests: what two parsers would read differently is rejected."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ovk.app.serve import Tokens
from ovk.app.serve.access import RequestError
from ovk.app.serve.protocol import parse_json


def refusal(content):
    with pytest.raises(RequestError) as found:
        parse_json(content)
    assert found.value.status == 400
    return str(found.value)


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1, "a": 1}',
        '{"a": 1, "a" : 2}',
        '{"rows": [{"x": 1, "y": 2}, {"x": 1, "x": 2}]}',
        r'{"a": 1, "\u0061": 2}',
        '{"a": ":", "a": 2}',
        '{"a": {"b": 1}, "a": 2}',
        r'{"a": "\u003a", "a": 1}',
        r'{"b": "\u003a\u003a", "a": {"c": 1}, "a": 1}',
        '{"": 1, "": 2}',
        '{"é:": 1, "é:": 2}',
    ],
)
def test_a_key_that_occurs_twice_is_refused(content):
    assert "twice" in refusal(content.encode())


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]}',
        '{"at": "12:00:00", "b": ["::", {"c:": ":"}]}',
        r'{"a": "\u003a", "b": ":", "c": "\":\""}',
        '{"a": "b\\\\", "c": "{\\"x\\": 1}"}',
        "{}",
        '{"a": -0.0, "b": 1e308, "c": 18446744073709551615, "d": "é\\n\\u00e9", "e": [true, false, null]}',
        '{"a": ' + "[" * 15 + "]" * 15 + "}",
    ],
)
def test_other_objects_are_read_as_by_the_standard_library(content):
    found = parse_json(content.encode())
    assert found == json.loads(content)
    assert repr(found) == repr(json.loads(content))


@pytest.mark.parametrize("also", ["", r', "b": "\u003a"'])
def test_integers_beyond_64_bits_become_doubles(also):
    for text in ("18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"):
        found = parse_json(f'{{"a": {text}{also}}}'.encode())["a"]
        assert (type(found), found) == (float, float(text))
    for text in ("18446744073709551615", "-9223372036854775808"):
        assert parse_json(f'{{"a": {text}{also}}}'.encode())["a"] == int(text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": NaN}', "NaN, which is not valid JSON: use null"),
        (b'{"a": [1, -Infinity]}', "-Infinity, which is not valid JSON"),
        (b'{"a": 1e400}', "in the range of doubles"),
        (b'{"a": 1' + b"0" * 400 + b"}", "in the range of doubles"),
        (b'{"a": ' + b"9" * 5000 + b"}", "in the range of doubles"),
        (b'{"a": ' + b"[" * 16 + b"]" * 16 + b"}", "more than 16 levels"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "more than 16 levels"),
        (b"[1]", "must be a JSON object, got list"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(content, words):
    assert words in refusal(content)


def texts(strings):
    """JSON texts of objects, nested, with few different keys."""
    scalars = st.sampled_from(["1", "-2.5e3", "true", "null", '""', '":"', r'"\u003a"', '"{["', r'"\":"', '"12:00"'])
    objects = st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '":"', r'"\u0061"', '"}"']), strings), max_size=3)
    return scalars | st.one_of(
        objects.map(lambda pairs: "{" + ", ".join(f"{key} : {value}" for key, value in pairs) + "}"),
        st.lists(strings, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
    )


@settings(deadline=None, max_examples=300)
@given(st.recursive(st.just("0"), texts, max_leaves=12))
def test_both_readers_agree(text):
    """The reference is the standard library with a check of every object."""

    def distinct(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    text = f'{{"x": {text}}}'
    try:
        expected = json.loads(text, object_pairs_hook=distinct)
    except AssertionError:
        assert "twice" in refusal(text.encode())
    else:
        assert parse_json(text.encode()) == expected


TENSOR = {"name": "X", "shape": [1, 3], "datatype": "FP64"}


@pytest.mark.parametrize(
    "body",
    [
        {"rows": [[True, 0, 0]], "targets": [[0, 0]]},
        {"rows": [[0, 0, 0]], "targets": [[True, 0]]},
        {"rows": [[0, 0, 0]], "targets": [{"y0": False, "y1": 0}]},
        {"rows": [{"x0": True, "x1": 0, "x2": 0}], "targets": [[0, 0]]},
        {"inputs": [{**TENSOR, "data": [True, 0, 0]}], "targets": [[0, 0]]},
    ],
)
def test_true_is_no_number(client_of, tmp_path, body):
    client = client_of("point", data=tmp_path)
    reply = client.post("/v2/models/point/learn", json=body)
    assert reply.status_code == 400
    assert "number" in reply.json()["error"]


@pytest.mark.parametrize("datatype", [[], {}, None, 1])
def test_a_datatype_that_is_no_string_is_refused(client_of, datatype):
    """Regression: found by schemathesis, an internal error."""
    body = {"inputs": [{**TENSOR, "datatype": datatype, "data": [0, 0, 0]}]}
    reply = client_of("point").post("/v2/models/point/infer", json=body)
    assert (reply.status_code, "datatype must be one of" in reply.text) == (400, True)


def test_tensors_of_booleans_are_numbers(client_of, tmp_path):
    client = client_of("point", data=tmp_path)
    tensor = {**TENSOR, "datatype": "BOOL", "data": [True, False, True]}
    asked = client.post("/v2/models/point/infer", json={"inputs": [tensor]})
    expected = client.post("/v2/models/point/infer", json={"rows": [[1, 0, 1]]})
    assert asked.json()["outputs"] == expected.json()["outputs"]


def test_a_file_of_tokens_that_others_can_read_or_change_is_reported(tmp_path, caplog):
    path = tmp_path / "tokens"
    path.write_text("predict " + "p" * 20 + "\n")
    for mode, expected in ((0o600, 0), (0o640, 1), (0o604, 1), (0o620, 1), (0o602, 1), (0o711, 0)):
        path.chmod(mode)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            Tokens.read(path)
        assert len(caplog.records) == expected
