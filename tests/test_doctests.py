"""The examples in docstrings. The test that runs the examples of a module imports it; collecting tests does not."""

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
    for base, package in ((ROOT / "src", "ovk"), (ROOT, "reproduce"))
    for path in sorted((base / package).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]
#: Modules whose packages may be missing, or warn when they are imported.
OPTIONAL = {"ovk.online.river": "river", "ovk.app.serve.mlflow": "mlflow.pyfunc"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tmp_path, monkeypatch):
    for package, needed in OPTIONAL.items():
        if name.startswith(package):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    output = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        # Classes that an example defines and registers are none of the library's.
        test.globs["__name__"] = "__main__"
        runner.run(test, out=output.append)
    assert not runner.failures, "".join(output)
    assert runner.tries, "the examples were not found"
