"""Every response is documented in /openapi.json, whatever the request."""

import json
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from benchmarks.service_fuzz import fuzzed_requests
from hypothesis import HealthCheck, settings

from ovk.app.serve import Tokens, create_app
from serving_rows import rows

TOKEN = "an-admin-token-of-sixteen"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client(client_of, tmp_path):
    return client_of("point", "labels", data=tmp_path, tokens=Tokens({TOKEN: {"admin"}, "p" * 20: {"learn"}}))


def operations(description):
    return {
        (method.upper(), path): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }


def check_documented(description, reply, method, url):
    """The status of a response, its media type and the keys of its JSON."""
    assert reply.status_code < 500, reply.text
    path = url.split("?")[0]
    [operation] = [
        operation
        for (known, pattern), operation in operations(description).items()
        if known == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path)
    ]
    content = operation["responses"][str(reply.status_code)]["content"]
    kind = reply.headers["content-type"].split(";")[0]
    assert kind in content, (method, url, reply.status_code)
    if kind == "application/json":
        assert set(content[kind]["schema"].get("required", ())) <= set(reply.json())


def test_the_description_is_that_of_the_routes(client):
    description = client.get("/openapi.json", headers=BEARER).json()
    routes = {(method, route.path) for route in client.app.routes for method in route.methods - {"HEAD"}}
    assert set(operations(description)) == routes
    # Names of models are for clients that may predict.
    assert '"labels"' in json.dumps(description)
    for headers in ({}, {"Authorization": "Bearer " + "p" * 20}):
        assert '"labels"' not in client.get("/openapi.json", headers=headers).text
    operation = description["paths"]["/v2/models/{model}/infer"]["post"]
    allowed = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert set(allowed) == {"id", "parameters", "inputs", "outputs", "rows"}
    assert set(allowed["parameters"]["properties"]) == {
        "level",
        "await_label",
        "binary_data_output",
        "priority",
        "timeout",
    }
    assert operation["security"] == [{"token": ["predict"]}]


def test_boolean_parameters_are_checked_by_their_schema(client):
    body = {"rows": [[0, 0, 0]], "parameters": {"binary_data_output": 1}}
    reply = client.post("/v2/models/point/infer", json=body, headers=BEARER)
    assert (reply.status_code, "true or false" in reply.text) == (400, True)


def test_every_response_is_documented(client):
    description = client.get("/openapi.json").json()
    X, Y = (table.tolist() for table in rows(2))
    for method, path in operations(description):
        if path.endswith("/events"):
            continue  # without an end
        for model, version in (("point", "1"), ("labels", "2"), ("nobody", "1")):
            url = path.replace("{model}", model).replace("{version}", version)
            for headers in (BEARER, {}, {"Authorization": "Bearer " + "p" * 20}, {**BEARER, "Origin": "http://evil"}):
                bodies = [None, {"rows": X}, {"rows": X, "targets": Y}, {"instances": X}, {"name": "point"}]
                if headers != BEARER:
                    bodies = [{}]
                for body in bodies if method == "POST" else [None]:
                    reply = client.request(method, url, headers=headers, json=body)
                    check_documented(description, reply, method, url)
                if method == "POST":
                    reply = client.post(url, headers={**headers, "Content-Type": "text/plain"}, content=b"x")
                    check_documented(description, reply, method, url)
    for one in fuzzed_requests(100, ["point", "labels"], np.random.default_rng(0)):
        if one.kind != "path":
            reply = client.request(one.method, one.path, content=one.body, headers={**one.headers, **BEARER})
            check_documented(description, reply, one.method, one.path)


@pytest.mark.long
def test_schemathesis_finds_nothing_undocumented(models, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schemathesis = pytest.importorskip("schemathesis")
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi import checks

        app = create_app(
            [models / "point.ovk", models / "labels.ovk"], data=tmp_path, tokens=Tokens({TOKEN: {"admin"}})
        )
        app.state.server.open()
        wanted = [
            not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ]
        schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=BEARER)
        statuses = Counter()
        for result in schema.exclude(path_regex="events$").get_all_operations():
            operation = result.ok()

            @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @schemathesis_given(operation)
            def attempt(case):
                statuses[case.call_and_validate(headers=BEARER, checks=wanted).status_code] += 1

            attempt()
        app.state.server.close()
    assert statuses.total() > 500
    assert min(statuses[200], statuses[400]) > 50


def schemathesis_given(operation):
    """Requests that follow the description, and requests that do not."""
    from hypothesis import given
    from schemathesis import GenerationMode

    return given(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    )
