"""Public objects write their private objects as plain state."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from ovk.base.parameters import Parameters, Registered
from ovk.base.state import State, StateError, lookup, public_name
from ovk.persistence import ChangedClassError, CorruptFileError, NotSavableError, inspect, load, save
from persistence.toys import Kernel, forge, parts_of, trip


@dataclass
class Factor(State):
    L: np.ndarray


class Memory(State, ABC):
    """Has heirs, of which a file names the kind."""

    @abstractmethod
    def rows(self): ...


@dataclass
class Everything(Memory, kind="all rows"):
    count: int

    def rows(self):
        return self.count


@dataclass
class Latest(Memory, kind="last rows"):
    size: int
    counts: list = field(default_factory=list)

    def rows(self):
        return min(self.size, sum(self.counts))


@dataclass
class Solver(State):
    """Nests private objects, lists of them and None, and has an attribute that is not an argument."""

    memory: Memory
    factors: list[Factor]
    factor: Factor | None = None
    _state_classes: ClassVar = {"memory": Memory, "factors": Factor, "factor": Factor}
    _saved_state: ClassVar = ("steps",)

    def __post_init__(self):
        self.steps = 0
        if self.factors == []:
            raise ValueError("factors must not be empty")


class Counter(State):
    """Not a dataclass: what it lists is its state."""

    _saved_state = ("count", "rng")

    def __init__(self, seed):
        self.count, self.rng = 0, np.random.default_rng(seed)


class Learner(Parameters):
    _saved_state = ("_counter",)
    _state_classes: ClassVar = {"solver_": Solver, "_counter": Counter}

    def __init__(self, kernel=None, rate=0.5):
        self.kernel = kernel
        self.rate = rate

    def fit(self, memory):
        self._counter = Counter(3)
        self.solver_ = Solver(memory, [Factor(np.eye(2)), Factor(np.ones((1, 1)))])
        self.solver_.steps = 7
        self.scale_ = 2.0
        return self


@dataclass
class Log(Registered, State):
    """Public, but made of private parts."""

    factor: Factor
    _state_classes: ClassVar = {"factor": Factor}


@pytest.mark.parametrize("memory", [Everything(3), Latest(5, [1, 2])])
def test_private_objects_are_built_by_their_holder(memory, path):
    model = Learner(Kernel(2.0)).fit(memory)
    loaded = trip(model, path)
    assert loaded.solver_.memory == memory
    assert [part.L.tolist() for part in loaded.solver_.factors] == [[[1, 0], [0, 1]], [[1]]]
    assert loaded.solver_.factor is None
    assert loaded.solver_.steps == 7
    assert loaded._counter.rng.random() == model._counter.rng.random()
    assert loaded.scale_ == 2.0


def test_the_file_names_the_public_classes_alone(path):
    save(Learner(Kernel(2.0)).fit(Everything(3)), path)
    assert re.findall(r"'class': '([^']*)'", str(parts_of(path)[1])) == [public_name(Learner), public_name(Kernel)]
    for private in (Factor, Memory, Everything, Latest, Solver, Counter):
        assert lookup(public_name(private)) is None
    assert inspect(path).state["solver_"]["memory"] == {"kind": "all rows", "count": 3}


def test_a_public_object_that_is_all_state(path):
    assert np.array_equal(trip(Log(Factor(np.arange(3))), path).factor.L, np.arange(3))


def test_a_private_object_that_nobody_writes_is_refused(path):
    model = Learner()
    model.other_ = Factor(np.eye(2))
    with pytest.raises(NotSavableError, match=r"Learner\.other_ cannot be saved: it is an object of class .*Factor"):
        save(model, path)


def solver(manifest):
    """The entries of the solver's state in the tree of a saved learner."""
    return manifest["value"]["object"]["state"]["solver_"]["dict"]


def changed(name, value):
    def change(manifest, header):
        for pair in solver(manifest):
            if pair[0] == name:
                pair[1] = value

    return change


STRANGE = {
    "another kind": ("memory", {"dict": [["kind", "no rows"], ["count", 3]]}, ChangedClassError, "kind 'no rows'"),
    "no kind": ("memory", {"dict": [["count", 3]]}, ChangedClassError, "unknown kind None"),
    "a kind that is no text": ("memory", {"dict": [["kind", []]]}, ChangedClassError, r"unknown kind \[\]"),
    "more than it has": ("factor", {"dict": [["L", 1], ["__class__", 2]]}, ChangedClassError, "attribute '__class__'"),
    "less than it has": ("factor", {"dict": []}, ChangedClassError, "lacks the attribute 'L'"),
    "no entries": ("factor", 5, ChangedClassError, "must be a mapping, got int"),
    "an object": ("memory", {"object": {"class": "persistence.toys.Kernel", "parameters": {}, "state": {}}},
                  ChangedClassError, "got Kernel"),
    "what the constructor refuses": ("factors", [], CorruptFileError, "must not be empty"),
    "nothing in the place of numbers": ("factors", [[{"dict": [["K", None]]}]], ChangedClassError, "attribute 'K'"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_strange_states(name, path):
    entry, value, error, message = STRANGE[name]
    save(Learner().fit(Everything(3)), path)
    forge(path, changed(entry, value))
    with pytest.raises(error, match=message) as caught:
        load(path)
    assert "model.ovk" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


def test_entries_that_are_unknown_or_missing_are_named(path):
    save(Learner().fit(Everything(3)), path)
    forge(path, lambda manifest, header: solver(manifest).append(["speed", 1]))
    with pytest.raises(ChangedClassError, match="unknown attribute 'speed' of Solver"):
        load(path)
    save(Learner().fit(Everything(3)), path)
    forge(path, lambda manifest, header: solver(manifest).pop())
    with pytest.raises(ChangedClassError, match="lacks the attribute 'steps' of Solver"):
        load(path)


def test_an_object_with_the_state_of_another():
    model, copy = Learner().fit(Everything(3)), Learner()
    copy.load_state(model.state())
    assert copy.solver_ == model.solver_
    with pytest.raises(StateError, match="unknown fitted attribute 'rate'"):
        copy.load_state({"rate": 3})


def test_a_parameter_called_state(path):
    class Machine(Parameters):
        def __init__(self, state=None):
            self.state = state

    machine = Machine("on")
    machine.count_ = 3
    loaded = trip(machine, path)
    assert (loaded.state, loaded.count_) == ("on", 3)
