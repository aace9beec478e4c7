"""The project as a user meets it: names, examples, the demo, the README."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import ovk
from ovk.base.state import registered

ROOT = Path(__file__).parent.parent
PACKAGES = [
    *("curves", "kernels", "operators", "ovkernels", "objectives", "solvers", "features", "online", "structured"),
    *("evaluation", "datasets", "plotting", "persistence", "app.tables", "app.sessions", "app.parallel", "app.report"),
    *("app.serve", "app.serve.mlflow", "app.cli", "online.theory"),
]


def output_names_of(module):
    """What a package without a list of its names defines itself."""
    things = vars(module).items()
    return [name for name, thing in things if getattr(thing, "__module__", "") == module.__name__ and name[0] != "_"]


def public_names():
    for package in PACKAGES:
        module = importlib.import_module(f"ovk.{package}")
        for name in getattr(module, "__all__", None) or output_names_of(module):
            yield f"{package}.{name}", getattr(module, name)
    for name in ovk.__all__:
        yield name, getattr(ovk, name)


PUBLIC = [(name, thing) for name, thing in public_names() if inspect.isclass(thing) or inspect.isfunction(thing)]

#: Contracts and records: there is nothing to run before somebody implements or returns one.
WITHOUT_EXAMPLE = {
    "ChangedClassError", "ErrorBound", "NewerFormatError", "NotDifferentiableError", "OperatorKernel",
    "OutputOperator", "ScalarKernel", "SessionMismatchError", "SingularSystemError", "TableModel", "TruncationWarning",
    "UnknownClassError",
}  # fmt: skip


def test_every_public_name_says_what_it_is_with_an_example():
    for name, thing in PUBLIC:
        text = inspect.getdoc(thing)
        assert text, name
        assert name.split(".")[-1] in WITHOUT_EXAMPLE or ">>>" in text, name


README = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)


#: Packages of extras, which take long to import.
HEAVY = {
    "dask",
    "distributed",
    "matplotlib",
    "mlflow",
    "networkx",
    "numba",
    "pandas",
    "pyarrow",
    "river",
    "starlette",
    "typer",
}


def modules_loaded_by(statement):
    code = f"import sys, sklearn.base; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_ovk_loads_none_of_its_parts():
    loaded = {name for name in modules_loaded_by("import ovk") if name.startswith("ovk")}
    assert loaded == {"ovk", "ovk._startup", "ovk._version"}


def test_the_names_of_ovk_load_nothing_heavy_that_scikit_learn_does_not():
    assert not HEAVY & modules_loaded_by("from ovk import *")


def test_a_name_that_ovk_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'OVKRigde'"):
        _ = ovk.OVKRigde
    assert set(ovk.__all__) <= set(dir(ovk))


def test_plots_are_looked_for_in_the_wrong_place():
    with pytest.raises(AttributeError, match=r"from ovk\.plotting import PredictionDisplay"):
        _ = ovk.PredictionDisplay
    # Tools that look for names, such as those that make documentation, get an answer and no error.
    assert not hasattr(ovk, "PredictionDisplay")
    assert hasattr(importlib.import_module("ovk.plotting"), "PredictionDisplay")


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(README)))
def test_every_block_of_the_readme_runs_in_a_new_process(number):
    """Names load their packages: nothing may depend on what was imported before."""
    subprocess.run([sys.executable, "-c", README[number]], capture_output=True, check=True)


def test_every_class_can_be_loaded_by_name():
    from ovk.base.parameters import Parameters
    from ovk.base.state import lookup, public_name

    for name, thing in PUBLIC:
        if inspect.isclass(thing) and issubclass(thing, Parameters):
            assert lookup(public_name(thing)) is thing, name


def test_no_public_class_name_stands_twice():
    classes = {}
    for _, thing in PUBLIC:
        if inspect.isclass(thing):
            classes.setdefault(thing.__name__, set()).add(thing)
    assert not {name: found for name, found in classes.items() if len(found) > 1}


def test_few_of_our_classes_stand_above_an_estimator():
    for name in ovk.__all__:
        getattr(ovk, name)
    for cls in registered():
        if issubclass(cls, BaseEstimator) and hasattr(cls, "fit") and cls.__module__.startswith("ovk."):
            above = [base.__name__ for base in cls.__mro__[1:] if base.__module__.startswith("ovk.")]
            assert len(above) <= 4, (cls.__name__, above)


def test_no_lower_bound_allows_a_version_with_a_known_vulnerability():
    """The first versions without them; `make audit` looks for further ones."""
    fixed = {"h11": (0, 16), "starlette": (1, 3, 1), "orjson": (3, 11, 6), "distributed": (2026, 1, 1)}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, version in fixed.items():
        bounds = re.findall(rf'"{name}>=([\d.]+)', text)
        assert [tuple(map(int, bound.split("."))) >= version for bound in bounds] == [True], name
