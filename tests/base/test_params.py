"""Parameter objects: comparison, copies and caching."""

from copy import copy as copy_of

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from ovk.base.parameters import Parameters, cached, equal
from ovk.base.state import lookup, public_name, register
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense


class Toy(Parameters):
    def __init__(self, a=1.0, b=None):
        self.a = a
        self.b = b

    @cached
    def value(self):
        """What takes long."""
        self.calls = getattr(self, "calls", 0) + 1
        return [self.a]


SAME = [
    (None, None),
    (1.0, 1.0),
    (1, 1.0),
    (np.float64(2.0), 2.0),
    ("a", "a"),
    (True, True),
    ([1.0, [2.0]], (1.0, [2.0])),
    (np.arange(3), np.arange(3.0)),
    ({"a": 1}, {"a": 1}),
    (sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(2))),
    (Gaussian(1.0) + Linear(), Gaussian(1.0) + Linear()),
    ([Gaussian(np.ones(2))], [Gaussian(np.ones(2))]),
]
DIFFERENT = [
    (None, 0),
    (1.0, 2.0),
    (True, 1),
    ("1", 1),
    ([1.0], [1.0, 2.0]),
    (np.arange(3), np.arange(4)),
    (np.arange(3), [0, 1, 2]),
    (sparse.csr_array(np.eye(2)), np.eye(2)),
    (sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(3))),
    (sparse.csr_array(np.eye(2)), sparse.csr_array(2 * np.eye(2))),
    (Gaussian(1.0), Linear()),
    (Gaussian(1.0), 1.0),
    (Gaussian(1.0) + Linear(), Linear() + Gaussian(1.0)),
    (Dense(np.eye(2)), Dense(2 * np.eye(2))),
]


@pytest.mark.parametrize(("a", "b"), SAME, ids=str)
def test_equal(a, b):
    assert equal(a, b)
    assert equal(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=str)
def test_not_equal(a, b):
    assert not equal(a, b)
    assert not equal(b, a)


def test_memory_lasts_as_long_as_the_parameters():
    toy = Toy(1.0, b=np.ones(2))
    first = toy.value()
    assert toy.value() is first
    toy.a = 1.0
    assert toy.value() is first
    toy.a = 2.0
    assert toy.value() == [2.0]
    toy.set_params(a=3.0)
    assert toy.value() == [3.0]
    toy.b = np.ones(2)  # another array, though it holds the same numbers
    toy.value()
    assert toy.calls == 4
    assert toy.value.__name__ == "value"
    assert toy.value.__doc__ == "What takes long."


def test_memory_is_not_shared_or_carried():
    toy = Toy([1])
    toy.value()
    for copy in (clone(toy), copy_of(toy)):
        assert "_memo" not in vars(copy)
    assert "_memo" not in toy.__getstate__()
    other = Toy(5.0)
    assert other.value() == [5.0]


def test_replace():
    toy = Toy(Gaussian(1.0))
    changed = toy.replace(a__length_scale=2.0, b="x")
    assert (changed.a.length_scale, changed.b) == (2.0, "x")
    assert (toy.a.length_scale, toy.b) == (1.0, None)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        toy.replace(c=1)


def test_names_of_classes_are_rooms_not_files():
    assert public_name(Gaussian) == "kernels.Gaussian"
    assert lookup("kernels.Gaussian") is Gaussian
    assert lookup(public_name(Toy)) is Toy
    assert lookup("kernels.Nothing") is None
    assert register(Toy) is Toy
