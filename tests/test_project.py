"""The project as a user meets it: names, examples, the demo, the README."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import ovk

ROOT = Path(__file__).parent.parent
ROOMS = [
    *("curves", "kernels", "operators", "grams", "ovkernels", "losses", "penalties", "schedules", "metrics"),
    *("solvers", "features", "online", "structured", "streams", "evaluation", "sessions", "datasets", "plotting"),
    *("persistence", "reproduce", "cli"),
]


def own_names(module):
    """What a room without a list of its names defines itself."""
    things = vars(module).items()
    return [name for name, thing in things if getattr(thing, "__module__", "") == module.__name__ and name[0] != "_"]


def public_names():
    for room in ROOMS:
        module = importlib.import_module(f"ovk.{room}")
        for name in getattr(module, "__all__", None) or own_names(module):
            yield f"{room}.{name}", getattr(module, name)
    for name in ovk.__all__:
        yield name, getattr(ovk, name)


PUBLIC = [(name, thing) for name, thing in public_names() if inspect.isclass(thing) or inspect.isfunction(thing)]

#: Contracts and records: there is nothing to run before somebody implements or returns one.
WITHOUT_EXAMPLE = {
    "Contents", "Decoupled", "Display", "Entry", "Gram", "OperatorKernel", "OutputOperator", "Result", "Rotated",
    "Row", "ScalarKernel", "SingularSystem", "Solution", "Solver", "SolverInfo", "Spectrum", "Stacked", "ByOutput",
    "Stationary", "NotDifferentiable", "entry", "reproduction", "run", "DatasetNotFound", "DatasetCorrupt", "Baseline",
    "Selection", "FeaturePlan", "StreamFeatures", "Dictionary", "FixedFeatures",
    "Chunk", "Chunks", "ErrorBound", "LearnerErrors", "OnlineLearner", "Truncation", "Loss", "Penalty", "Schedule",
    "Minimum", "ProximalInfo", "Basis", "CurveOperator",
    "Candidates", "Decoder", "FeatureRegressor", "KernelTree", "NodeKernel", "ObjectKernel",
    "Conformal", "Spectral",
    "Batch", "Fitted", "Predictions", "Prepared", "Progress", "Records",
    "ChangedClass", "NewerFormat", "StoredArray", "StoredObject", "UnknownClass",
}  # fmt: skip


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_every_public_name_says_what_it_is_with_an_example(name, thing):
    text = inspect.getdoc(thing)
    assert text
    if name.split(".")[-1] not in WITHOUT_EXAMPLE:
        assert ">>>" in text


def test_the_readmes_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    space = {}
    for block in blocks:
        exec(block, space)
    out = capsys.readouterr().out
    assert out.startswith("0.9")
    assert "5,000 rows predicted, then learned" in out


def test_every_class_can_be_loaded_by_name():
    from ovk._params import Parameters
    from ovk._registry import lookup, public_name

    for name, thing in PUBLIC:
        if inspect.isclass(thing) and issubclass(thing, Parameters):
            assert lookup(public_name(thing)) is thing, name
