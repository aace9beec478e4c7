"""Inspecting a file without loading it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from ovk._version import __version__
from ovk.persistence import StoredArray, StoredObject, inspect, load, save
from persistence.toys import Kernel, Ridge, Window, forge


@pytest.fixture
def model():
    return Ridge(Kernel(2.0, (Window(3),)), labels={"a": [1, 2]}).fit(np.ones((4, 3)), np.ones((4, 2), "f4"))


def test_what_is_inside(model, path):
    save(model, path)
    contents = inspect(path)
    assert contents.class_name == "persistence.toys.Ridge"
    assert contents.version == __version__
    assert contents.format == 1
    assert contents.parameters["lambda_"] == 1.0
    assert contents.parameters["labels"] == {"a": [1, 2]}
    kernel = contents.parameters["kernel"]
    assert isinstance(kernel, StoredObject)
    assert kernel.class_name == "persistence.toys.Kernel"
    assert kernel.parameters["transforms"][0].parameters == {"size": 3, "step": 0.5}
    assert contents.state["n_features_in_"] == 3
    assert contents.state["coef_"] == StoredArray("Ridge.coef_", (4, 2), np.dtype("f4"), 32)
    assert [(array.name, array.shape) for array in contents.arrays] == [
        ("Ridge.X_", (4, 3)),
        ("Ridge.coef_", (4, 2)),
    ]
    text = str(contents)
    assert text.startswith(f"persistence.toys.Ridge (ovk {__version__}, format 1)\n")
    assert "kernel = persistence.toys.Kernel(scale=2.0, transforms=(persistence.toys.Window(" in text
    assert max(map(len, text.splitlines())) < 130
    assert "Ridge.X_: float64 (4, 3)" in text


def test_arrays_are_not_read(model, path):
    save(model, path)
    expected = str(inspect(path))
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert str(inspect(path)) == expected


def test_classes_need_not_be_known(path):
    save(Kernel(3.0), path)
    forge(path, lambda manifest, header: manifest["value"]["object"].update({"class": "absent.Kernel"}))
    assert inspect(path).class_name == "absent.Kernel"


def test_plain_values_sparse_matrices_and_generators(path):
    value = {
        "matrix": sparse.csr_array(np.eye(3)),
        "random": np.random.RandomState(0),
        "dates": np.zeros(2, "M8[D]"),
    }
    save(value, path)
    contents = inspect(path)
    assert contents.class_name == "dict"
    assert contents.parameters == contents.state == {}
    assert contents.value["matrix"].class_name == "csr_array"
    assert contents.value["matrix"].parameters["shape"] == (3, 3)
    assert contents.value["random"].class_name == "numpy.random.RandomState"
    assert contents.value["dates"].dtype == np.dtype("M8[D]")
    assert list(load(path)) == list(contents.value)
