"""Files of earlier releases load, hold what they held, and go on.

Beside every ``golden/<name>.ovk`` stands ``golden/<name>.py`` with a function `make()` that returns the value
that was saved, and, where equality of parts is not the right question (a model's predictions, say), a
function `check(loaded)` that asserts what must hold. ``python tests/persistence/regenerate.py`` writes the
files that are missing, and never one that exists: a golden file that a new release cannot read is a bug of
the release.
"""

from __future__ import annotations

import importlib
import json
import random
import runpy
from pathlib import Path

import pytest

from ovk._registry import lookup
from ovk._state import merged
from ovk.persistence import ChangedClass, CorruptFile, UnknownClass, inspect, load
from ovk.persistence.objects import constructor_arguments
from persistence.toys import edited_manifests, parts_of, same, write

FILES = sorted((Path(__file__).parent / "golden").glob("*.ovk"))
files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_there_are_golden_files():
    scripts = {path.stem for path in (Path(__file__).parent / "golden").glob("*.py")}
    assert FILES
    assert {path.stem for path in FILES} == scripts


@files
def test_golden_files_load(path):
    expectation = runpy.run_path(str(path.with_suffix(".py")))
    loaded = load(path)
    if "check" in expectation:
        expectation["check"](loaded)
    else:
        assert same(loaded, expectation["make"]())
    assert inspect(path).format == 1


def objects(node):
    """All objects in the tree of a file."""
    if isinstance(node, dict):
        if list(node) == ["object"]:
            yield node["object"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from objects(part)


@files
def test_golden_files_name_public_classes_only(path):
    for name in {one["class"] for one in objects(parts_of(path)[1]["value"])}:
        package, _, own = name.rpartition(".")
        if package != "persistence.toys":
            home = importlib.import_module(f"ovk.{package}")
            assert own in home.__all__, name
            assert getattr(home, own) is lookup(name)


@files
def test_golden_files_say_everything(path):
    """A parameter that came later than the file has a value that gives the behaviour of before."""
    for one in objects(parts_of(path)[1]["value"]):
        cls = lookup(one["class"])
        missing = constructor_arguments(cls).keys() - one["parameters"].keys() - one["state"].keys()
        assert missing <= merged(cls, "_defaults_for_old_files").keys(), one["class"]


@files
@pytest.mark.parametrize("tries", [15, pytest.param(60, marks=pytest.mark.long)])
def test_golden_files_with_a_strange_state(path, tries, tmp_path):
    """Whatever stands in a file, loading it says so or gives an object: the digests fit, the content need not."""
    header, manifest, data = parts_of(path)
    changed = tmp_path / "changed.ovk"
    failed = 0
    for edited in edited_manifests(manifest["value"], tries, random.Random(path.stem)):
        write(changed, header, json.dumps({**manifest, "value": edited}, separators=(",", ":")), data)
        try:
            load(changed)
        except (CorruptFile, UnknownClass, ChangedClass):
            failed += 1
    assert failed > tries // 6
