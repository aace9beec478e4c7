"""Packages of ovk are imported when a file names one of their classes; other names in files are not imported."""

import subprocess
import sys

import pytest

import ovk
from ovk.app.sessions import Settings
from ovk.persistence import UnknownClassError
from ovk.structured import Jaccard


@pytest.mark.long
@pytest.mark.parametrize(
    ("package", "value"),
    [("ovk.app.sessions", Settings(["y"], lags=[1])), ("ovk.structured", Jaccard())],
)
def test_an_object_loads_in_a_process_that_imported_ovk_alone(package, value, path):
    ovk.save(value, path)
    code = f"import sys, ovk; assert {package!r} not in sys.modules; print(ovk.load(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout == f"{value}\n"


def test_a_name_that_nobody_registered_is_not_imported(tmp_path, monkeypatch):
    ovk.save(Settings(["y"]), tmp_path / "settings.ovk")
    import importlib

    from ovk.base import state as _registry

    asked = []
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name, *rest: asked.append(name) or real(name, *rest))
    monkeypatch.setattr(_registry, "_CLASSES", {})
    with pytest.raises(UnknownClassError, match=r"sessions\.Settings"):
        ovk.load(tmp_path / "settings.ovk")
    assert asked == ["ovk.app.sessions"]
