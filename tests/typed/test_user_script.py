"""A user's program: it runs here, and `make lint` checks its types."""

import runpy
import tomllib
from pathlib import Path

SCRIPT = Path(__file__).parent / "user_script.py"


def test_the_program_runs(capsys):
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out


def test_its_types_are_checked_strictly():
    root = Path(__file__).parents[2]
    checks = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert checks["strict"]
    assert str(SCRIPT.relative_to(root)) in checks["files"]
