"""Files of earlier releases load, and hold what they held.

Beside every ``golden/<name>.ovk`` stands ``golden/<name>.py`` with a function `make()` that returns the value
that was saved, and, where equality of parts is not the right question (a model's predictions, say), a
function `check(loaded)` that asserts what must hold. ``python tests/persistence/regenerate.py`` writes the
files that are missing, and never one that exists: a golden file that a new release cannot read is a bug of
the release.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ovk.persistence import inspect, load
from persistence.toys import same

FILES = sorted((Path(__file__).parent / "golden").glob("*.ovk"))


def test_there_are_golden_files():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_files_load(path):
    expectation = runpy.run_path(str(path.with_suffix(".py")))
    loaded = load(path)
    if "check" in expectation:
        expectation["check"](loaded)
    else:
        assert same(loaded, expectation["make"]())
    assert inspect(path).format == 1
