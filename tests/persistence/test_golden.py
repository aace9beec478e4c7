"""Golden files load, give the answers that they hold, and are written again as they are.

`regenerate.py` lists what each file contains and how it is tested.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import random

import numpy as np
import pytest

from ovk.base.state import APPLICATION_PACKAGES, State, lookup, public_name, registered
from ovk.persistence import ChangedClassError, CorruptFileError, UnknownClassError, load, save
from persistence.regenerate import CASES, DIRECTORY, golden_file, is_estimator
from persistence.toys import edited_manifests, parts_of, same, write

every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def golden(name, tmp_path):
    path = tmp_path / f"{name}.ovk"
    path.write_bytes(gzip.decompress(golden_file(name).read_bytes()))
    return path


def own_classes():
    """The concrete classes of ovk that a file may name."""
    return [cls for cls in registered() if cls.__module__.startswith("ovk.") and not inspect.isabstract(cls)]


def test_every_estimator_has_a_golden_file():
    estimators = {cls.__name__ for cls in own_classes() if is_estimator(cls)}
    assert CASES.keys() == estimators | {
        "Checkpoint",
        "OnlineMovKL-sums",
        "Session",
        "Session of classes",
        "TableModel",
        "TableModel of classes",
        "parts",
        "states",
        "values",
    }
    assert {path.name for path in DIRECTORY.iterdir()} == {golden_file(name).name for name in CASES}


@every_case
def test_answers_are_those_of_the_model_that_was_saved(name, golden):
    loaded = load(golden)
    answers = CASES[name][1](loaded["model"])
    assert len(answers) == len(loaded["answers"])
    for answer, expected in zip(answers, loaded["answers"], strict=True):
        np.testing.assert_allclose(answer, expected, rtol=1e-7, atol=1e-9)
    if name == "values":
        assert same(loaded["model"], CASES[name][0]())


def content(path):
    """Format and tree of a file, with digests in place of arrays: two models may share one, until they are loaded."""
    _, manifest, _ = parts_of(path)
    arrays, tree = manifest["arrays"], json.dumps(manifest["value"])
    return manifest["format"], json.loads(tree, object_hook=lambda node: arrays.get(str(node.get("array")), node))


@every_case
def test_saved_again_the_content_is_the_same(name, golden, tmp_path):
    save(load(golden), tmp_path / "again.ovk")
    assert content(tmp_path / "again.ovk") == content(golden)


def objects(node):
    """Class, parameters and fitted attributes of all objects in the tree of a file, by name."""
    if isinstance(node, dict):
        if list(node) == ["object"]:
            found = node["object"]
            yield found["class"], frozenset(found["parameters"]), frozenset(found["state"])
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from objects(part)


@every_case
def test_a_model_that_is_fitted_now_has_the_same_parameters_and_attributes(name, golden, tmp_path):
    save({"model": CASES[name][0]()}, tmp_path / "now.ovk")
    now, then = (set(objects(parts_of(path)[1]["value"])) for path in (tmp_path / "now.ovk", golden))
    assert now == then


def test_golden_files_name_every_class_and_public_classes_only(tmp_path):
    named, path = set(), tmp_path / "model.ovk"
    for name in CASES:
        path.write_bytes(gzip.decompress(golden_file(name).read_bytes()))
        named.update(one[0] for one in objects(parts_of(path)[1]["value"]))
    ours = {public_name(cls) for cls in own_classes()}
    assert ours - named == {"kernels.Function"}  # which cannot be saved
    for name in named & ours:
        package, _, own = name.rpartition(".")
        home = f"ovk.app.{package}" if package in APPLICATION_PACKAGES else f"ovk.{package}"
        assert getattr(importlib.import_module(home), own) is lookup(name)
    assert all(name.startswith(("persistence.toys.", "sklearn.gaussian_process.kernels.")) for name in named - ours)


def heirs(cls):
    return {one for heir in cls.__subclasses__() for one in (heir, *heirs(heir))}


def test_golden_files_hold_every_private_state(tmp_path, monkeypatch):
    built, path, build = set(), tmp_path / "model.ovk", State._build.__func__
    monkeypatch.setattr(State, "_build", classmethod(lambda cls, state: built.add(cls) or build(cls, state)))
    for name in CASES:
        path.write_bytes(gzip.decompress(golden_file(name).read_bytes()))
        load(path)
    states = {cls for cls in heirs(State) if cls.__module__.startswith("ovk.") and not inspect.isabstract(cls)}
    assert states == built


@every_case
@pytest.mark.parametrize("tries", [5, pytest.param(30, marks=pytest.mark.long)])
def test_golden_files_with_a_strange_state(name, golden, tries, tmp_path):
    """Files with matching digests but arbitrary content either raise an error or load as an object."""
    header, manifest, data = parts_of(golden)
    changed = tmp_path / "changed.ovk"
    failed = 0
    for edited in edited_manifests(manifest["value"], tries, random.Random(name)):
        write(changed, header, json.dumps({**manifest, "value": edited}, separators=(",", ":")), data)
        try:
            load(changed)
        except (CorruptFileError, UnknownClassError, ChangedClassError):
            failed += 1
    assert failed > tries // 6
