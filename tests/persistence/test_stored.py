"""`load` checks the types, shapes and numbers that each class declares, and names the attribute that is wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

import ovk
from ovk.base.parameters import Parameters
from ovk.base.state import check_stored
from ovk.kernels import Gaussian
from ovk.operators import Identity
from ovk.persistence import CorruptFileError, load, save
from persistence.mutations import golden_content, mutated_files, outcome
from persistence.regenerate import CASES, X, Y
from persistence.toys import forge

K = Gaussian(0.5) * Identity()
#: A learner, the path to an attribute, and a value that it cannot have.
WRONG = {
    "a number instead of an array": ("ridge", "dual_coef_", 3.0),
    "nan": ("ridge", "dual_coef_", np.full((30, 2), np.nan)),
    "rows that do not match": ("ridge", "dual_coef_", np.zeros((29, 2))),
    "outputs that do not match": ("ridge", "intercept_", np.zeros(3)),
    "an axis too many": ("ridge", "intercept_", np.zeros((1, 2))),
    "an axis too many at the end": ("ridge", "intercept_", np.zeros((2, 1))),
    "letters": ("ridge", "dual_coef_", np.full((30, 2), "a")),
    "None": ("ridge", "kernel_", None),
    "text for an integer": ("ridge", "n_outputs_", "2"),
    "an infinite number in a list": (
        "olok",
        "support_.arrays",
        (np.full((1, 2), np.inf), np.zeros((1, 1, 2)), np.zeros(1)),
    ),
    "arrays of several lengths": ("olok", "support_.arrays", (np.zeros((1, 2)), np.zeros((2, 1, 2)), np.zeros(1))),
    "text for a private number": ("olok", "progress_.scale", "x"),
    "a scale of another width": ("auto", "mixture_.seen", np.zeros(5)),
    "a list instead of its items": ("auto", "mixture_.experts", None),
    "an index beyond the end": ("classifier", "label_numbers_", np.full((30, 1), 7)),
    "panels of another size": ("kawv", "triangles_", None),
    "an integer for a learner": ("novelty", "learner_", 2**70),
    "a kernel for a number": ("operator", "decays_", [Gaussian(1.0)]),
    "a kernel for a penalty": ("ridge", "alpha_", Gaussian(1.0)),
    "a number for a kernel": ("operator", "kernels_", [3]),
    "text for a grid": ("operator", "inputs_.grid", "x"),
    "None for the largest value": ("movkl", "largest_", None),
}


def learner(name):
    labels = np.where(X[:, 0] > 0, "a", "b")
    return {
        "ridge": lambda: ovk.OVKRidge(K, 0.1).fit(X, Y),
        "olok": lambda: ovk.OLOK(K, truncation=5, warm_up=0).partial_fit(X, Y),
        "auto": lambda: ovk.AutoStream().partial_fit(X, Y),
        "classifier": lambda: ovk.OVKClassifier(Gaussian(0.5)).fit(X, labels),
        "kawv": lambda: ovk.KAWV(K).partial_fit(X, Y),
        "movkl": lambda: ovk.OnlineMovKL([K]).partial_fit(X, Y),
        "novelty": lambda: ovk.NoveltyDetector(Gaussian(0.5)).fit(X),
        "operator": lambda: ovk.OperatorRidge([Gaussian(1.5)], [0.1]).fit(X, Y),
    }[name]()


@pytest.mark.parametrize("case", WRONG)
def test_the_error_names_the_attribute(case, path):
    name, way, value = WRONG[case]
    model = learner(name)
    *owners, attribute = way.split(".")
    owner = model
    for one in owners:
        owner = vars(owner)[one]
    vars(owner)[attribute] = value
    save(model, path)
    with pytest.raises(CorruptFileError, match=rf"{attribute}"):
        load(path)


def test_inputs_of_a_kernel_are_finite(path):
    model = learner("kawv")
    model.rows_.arrays[0][0] = np.nan
    save(model, path)
    with pytest.raises(CorruptFileError, match=r"KAWV\.rows_ must have finite inputs"):
        load(path)


@dataclass
class Declared(Parameters, saved=False):
    _stored = {"a_": "n p", "b_": "n | None", "c_": "2 *", "d_": ("p", "n nan", ...)}

    p: int = 2
    q: int = 0


Declared.__module__ = "ovk.tests"
GOOD = {"p": 2, "a_": np.zeros((3, 2)), "b_": None, "c_": np.zeros((2, 7, 1)), "d_": (np.zeros(2), np.full(3, np.nan))}


@pytest.mark.parametrize(
    "change",
    [{"p": 3}, {"b_": np.zeros(2)}, {"b_": 1.0}, {"c_": np.zeros((3, 1))}, {"d_": (np.zeros(2), np.zeros(2))},
     {"d_": [np.zeros(2)]}, {"d_": (np.zeros(2), np.full(3, np.inf))}, {"a_": None}, {"e_": np.inf}, {"p": True},
     {"a_": np.zeros((3, 2, 1))}, {"b_": np.zeros((3, 1))}, {"a_": np.zeros(3)}, {"c_": np.array(1.0)},
     {"q": 2**63}, {"q": -(2**63) - 1}, {"q": 1.0}],
)  # fmt: skip
def test_the_table_of_a_class(change):
    for integer in (0, 2**63 - 1, -(2**63)):
        check_stored(Declared, GOOD | {"q": integer})
    with pytest.raises(ValueError, match=rf"Declared\.[{''.join(change)}abd]_?\b must be"):
        check_stored(Declared, GOOD | change)


@pytest.mark.parametrize("kernel", [Gaussian(np.float32(2.0)), Gaussian([1, 2]), Gaussian("median"), Gaussian(2)])
def test_what_users_pass_is_still_read(kernel, path):
    save(ovk.OVKRidge(kernel, np.float64(0.1)).fit(X.astype("f4"), Y[:, 0].astype("f4")), path)
    load(path).predict(X)


def test_classes_of_others_may_hold_anything(path):
    from persistence.toys import Ridge

    save(Ridge().fit(np.full((2, 2), np.nan), np.inf * np.ones((3, 1))), path)
    assert np.isnan(load(path).X_).all()


#: What these answer may be infinite or nan: intervals after few rows, and the inputs of a table with gaps.
UNBOUNDED = ("ACI", "COP", "ConformalPID", "RollingConformal", "StronglyAdaptive", "Preparation")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("values", "parts")])
@pytest.mark.parametrize("tries", [8, pytest.param(100, marks=pytest.mark.long)])
def test_mutated_files_are_refused_or_answer_with_numbers(name, tries, path):
    golden, faults = golden_content(name), []
    for what in mutated_files(golden["model"], path, tries, random.Random(f"{name} {tries}")):
        found = outcome(name, path, golden["answers"], finite=name not in UNBOUNDED)
        faults += [] if found is None else [f"{what}: {found}"]
    # A table does not relate attributes of different objects, nor numbers to each other: a few files in a hundred pass
    # it and fail later.
    assert len(faults) <= tries // 30, faults


#: Integers with which a loop would not end, or a division fail.
COUNTS = {
    "Session": ("pause", "_left", "step", "left", "per"),
    "PKAWV": ("_left", "per"),
    "AutoStream": ("block",),
    "OLOK": ("block_size_",),
}


@pytest.mark.parametrize(("name", "attribute"), [(name, one) for name, many in COUNTS.items() for one in many])
def test_counts_that_no_model_has(name, attribute, path):
    save(golden_content(name)["model"], path)

    def edit(node):
        if isinstance(node, list) and len(node) == 2 and node[0] == attribute:
            node[1] = -1
        if isinstance(node, dict) and attribute in node:
            node[attribute] = -1
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            edit(part)

    forge(path, lambda manifest, header: edit(manifest["value"]))
    with pytest.raises(CorruptFileError, match=rf"\.{attribute} must be"):
        load(path)
