"""Errors for objects that cannot be saved state where they are and what to do; no file is changed."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import pathlib
import types
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

from ovk.persistence import NotSavableError, load, save
from persistence.toys import Kernel, Ridge

Point = collections.namedtuple("Point", "x y")


class Color(enum.IntEnum):
    RED = 1


@dataclass
class Plain:
    x: int = 1


REFUSED = {
    "lambda": (lambda x: x, "is a function, and loading"),
    "builtin": (max, "is a function, and loading"),
    "ufunc": (np.exp, "is a function, and loading"),
    "method": ([].append, "is a function, and loading"),
    "partial": (functools.partial(max, 1), "is a function, and loading"),
    "class": (Kernel, "pass an instance"),
    "numpy scalar type": (np.float32, "store its name"),
    "object": (object(), "Parameters subclass"),
    "path": (pathlib.Path("x"), "plain value"),
    "estimator": (LinearRegression(), r"register\(LinearRegression\)"),
    "dataclass": (Plain(), r"register\(Plain\)"),
    "namedtuple": (Point(1, 2), r"convert it with tuple\("),
    "enum": (Color.RED, r"convert it with int\("),
    "ordered dict": (collections.OrderedDict(a=1), r"convert it with dict\("),
    "generator": ((x for x in "a"), "plain value"),
    "masked": (np.ma.array([1, 2], mask=[0, 1]), "filled"),
    "lil": (sparse.lil_array((2, 2)), "tocsr"),
    "long double": (np.zeros(2, np.longdouble), "float64"),
    "long double scalar": (np.longdouble(1), "float64"),
    "record array": (np.zeros(2, [("a", "f8")]), "float64"),
    "dtype": (np.dtype("f8"), "store its name"),
    "complex": (1j, "plain value"),
    "complex array": (np.ones(2, complex), "float64"),
    "complex scalar": (np.complex64(1), "float64"),
    "range": (range(3), r"convert it with list\("),
    "deque": (collections.deque([1]), r"convert it with list\("),
    "mapping": (types.MappingProxyType({}), r"convert it with dict\("),
    "slice": (slice(3), "plain value"),
    "long integer": (10**1000, "more than 1,000 digits"),
    "negative long integer": (-(10**1000), "more than 1,000 digits"),
    "key of a long integer": ({(1, 10**5000): 1}, "more than 1,000 digits"),
    "keys of one hash": ({i * (2**61 - 1): i for i in range(101)}, "same hash"),
    "elements of one hash": (set(itertools.product((-1, -2), repeat=7)), "same hash"),
    "string dtype": (np.array(["a"], dtype=np.dtypes.StringDType()), "str"),
    "object array": (np.array([object()]), "plain value"),
    "key": ({Plain: 1}, "key"),
    "nested key": ({(1, (Kernel,)): 1}, "key"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    value, advice = REFUSED[name]
    model = Ridge(Kernel(transforms=[1, (value,)]))
    with pytest.raises(NotSavableError, match=advice) as caught:
        save(model, tmp_path / "model.ovk")
    assert str(caught.value).startswith("Ridge.kernel.transforms[1][0]")
    assert " cannot be saved: it " in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert list(tmp_path.iterdir()) == []


def test_the_path_through_dicts_and_fitted_attributes(tmp_path):
    model = Ridge()
    model.parts_ = {"a b": [0, {3: max}]}
    with pytest.raises(NotSavableError, match=r"^Ridge\.parts_\['a b'\]\[1\]\[3\] cannot be saved: it is a function"):
        save(model, tmp_path / "model.ovk")


def test_a_bit_generator_of_someone_elses(tmp_path):
    class Mine(np.random.PCG64):
        pass

    with pytest.raises(NotSavableError, match=r"draws from Mine.*PCG64"):
        save(np.random.Generator(Mine()), tmp_path / "model.ovk")


def test_cycles(tmp_path):
    loop = []
    loop.append({"x": (loop,)})
    with pytest.raises(
        NotSavableError, match=r"^list\[0\]\['x'\]\[0\] cannot be saved: it contains itself.*break the cycle"
    ):
        save(loop, tmp_path / "model.ovk")
    model = Ridge()
    model.self_ = model
    with pytest.raises(NotSavableError, match=r"^Ridge\.self_ .* contains itself"):
        save(model, tmp_path / "model.ovk")
    shared = [1]
    save([shared, shared], tmp_path / "model.ovk")
    assert load(tmp_path / "model.ovk") == [[1], [1]]


def chain(depth):
    kernel = Kernel(1.0)
    for _ in range(depth - 1):
        kernel = Kernel(kernel)
    return kernel


def test_depth(tmp_path):
    save(chain(99), tmp_path / "model.ovk")
    load(tmp_path / "model.ovk")
    for depth in (101, 5000):
        with pytest.raises(NotSavableError, match="100 levels"):
            save(chain(depth), tmp_path / "model.ovk")


def test_depth_of_the_call_stack(tmp_path):
    def deep(levels):
        return save(chain(99), tmp_path / "model.ovk") if levels == 0 else deep(levels - 1)

    with pytest.raises(NotSavableError, match="too deeply"):
        deep(800)
    assert list(tmp_path.iterdir()) == []


def test_parameters_beyond_the_header_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("ovk.persistence.container.MAX_HEADER_BYTES", 10_000)
    with pytest.raises(NotSavableError, match="NumPy arrays"):
        save(list(range(10_000)), tmp_path / "model.ovk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_more_lists_than_can_be_read_quickly(tmp_path):
    save([[]] * 150_000, tmp_path / "model.ovk")
    assert len(load(tmp_path / "model.ovk")) == 150_000
    with pytest.raises(NotSavableError, match="100,000 small lists"):
        save([[]] * 210_000, tmp_path / "other.ovk")
    save([np.zeros(100_000), [[]] * 210_000, "[" * 1_000_000], tmp_path / "model.ovk")
    load(tmp_path / "model.ovk")
