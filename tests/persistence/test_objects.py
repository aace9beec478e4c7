"""Objects of registered classes: saved attributes and errors."""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.preprocessing import Binarizer

from ovk import kernels, operators
from ovk.base.parameters import Parameters, Registered
from ovk.persistence import (
    ChangedClassError,
    CorruptFileError,
    NotSavableError,
    UnknownClassError,
    load,
    register,
    save,
)
from persistence.toys import Budgeted, Kernel, Record, Ridge, Window, forge, parts_of, same, trip


def fitted(cls=Ridge):
    rng = np.random.default_rng(1)
    return cls(Kernel(2.0, ["a"]), lambda_=0.5).fit(rng.standard_normal((5, 3)), rng.standard_normal((5, 2)))


def test_an_unfitted_estimator(path):
    model = Ridge(Kernel(2.0), labels=("a", None))
    assert same(trip(model, path), model)


def test_a_fitted_estimator_goes_on_as_if_nothing_had_happened(path):
    model = fitted()
    model.draw()
    loaded = trip(model, path)
    assert same(loaded, model)
    assert np.array_equal(loaded.draw(), model.draw())
    assert "_scratch" not in vars(loaded)


def test_a_parameter_with_a_trailing_underscore_is_a_parameter(path):
    save(fitted(), path)
    node = parts_of(path)[1]["value"]["object"]
    assert "lambda_" in node["parameters"]
    assert "lambda_" not in node["state"]


def test_a_generator_that_two_objects_draw_from(path):
    rng, old = np.random.default_rng(0), np.random.RandomState(0)
    first, second, kernel, a, b = trip([rng, rng, Kernel(rng), old, old], path)
    assert first is second is kernel.scale
    assert a is b
    assert first.random() == rng.random()


def test_private_state_of_base_classes_is_kept(path):
    model = fitted(Budgeted)
    model._count = 7
    loaded = trip(model, path)
    assert loaded._count == 7
    assert same(loaded._rng, model._rng)


def test_a_subclass_of_the_users_is_registered_by_itself(path):
    class Mine(Kernel):
        def __init__(self, scale=1.0, transforms=(), power=2):
            super().__init__(scale, transforms)
            self.power = power

    assert same(trip(Mine(power=3), path), Mine(power=3))


def test_dataclasses(path):
    assert trip(Window(3, 0.25), path) == Window(3, 0.25)
    assert same(trip(Record(np.arange(3), "x"), path), Record(np.arange(3), "x"))


def test_kernels_and_operators_of_the_library(path):
    B = np.array([[2.0, 1.0], [1.0, 2.0]])
    model = {
        "kernel": kernels.Gaussian(2.0) * kernels.Linear() + 0.5 * kernels.Matern(length_scale=2.0),
        "operator": operators.Dense(B),
    }
    model["operator"].eigh()  # fills its memory, which is not saved
    loaded = trip(model, path)
    X = np.random.default_rng(0).standard_normal((4, 3))
    assert np.array_equal(loaded["kernel"](X), model["kernel"](X))
    assert np.array_equal(loaded["operator"].dense(), B)
    assert repr(loaded["kernel"]) == repr(model["kernel"])


def test_registered_classes_from_elsewhere(path):
    for cls in (gp.RBF, gp.WhiteKernel, gp.Sum, gp.Product, gp.ConstantKernel, gp.Exponentiation):
        register(cls)
    kernel = 2.0 * gp.RBF([1.0, 2.0], (1e-3, 1e3)) ** 2 + gp.WhiteKernel(0.1, "fixed")
    assert trip(kernel, path) == kernel


def test_a_fitted_estimator_from_elsewhere(path):
    register(Binarizer)
    X = np.random.default_rng(0).standard_normal((5, 3))
    binarizer = Binarizer(threshold=0.5).fit(X)
    loaded = trip(binarizer, path)
    assert loaded.n_features_in_ == 3
    assert np.array_equal(loaded.transform(X), binarizer.transform(X))


def test_an_unknown_class_is_named(path):
    save([Kernel()], path)
    forge(path, lambda manifest, header: manifest["value"][0]["object"].update({"class": "os.system"}))
    with pytest.raises(UnknownClassError, match=r"'os\.system'.*import the module that defines it first"):
        load(path)


def test_a_class_from_a_script_is_named_with_its_cure(path):
    save(Kernel(), path)
    forge(path, lambda manifest, header: manifest["value"]["object"].update({"class": "__main__.Kernel"}))
    with pytest.raises(UnknownClassError, match="run the script or notebook that defines it"):
        load(path)


@pytest.mark.parametrize("name", ["_rng", "coef_", "fit", "__class__", "__dict__", "_scratch", "X"])
def test_parameters_that_the_class_does_not_have(name, path):
    save(Kernel(), path)
    forge(path, lambda manifest, header: manifest["value"]["object"]["parameters"].update({name: 1}))
    with pytest.raises(ChangedClassError, match=f"unknown parameter '{name}'"):
        load(path)


@pytest.mark.parametrize("name", ["_scratch", "fit", "lambda_", "__class__", "__dict__", "__init__", "X", "_"])
def test_state_that_the_class_does_not_have(name, path):
    save(fitted(), path)
    forge(path, lambda manifest, header: manifest["value"]["object"]["state"].update({name: 1}))
    with pytest.raises(ChangedClassError, match=f"unknown fitted attribute '{name}'"):
        load(path)


def test_a_dataclass_has_no_state(path):
    save(Window(3), path)
    forge(path, lambda manifest, header: manifest["value"]["object"]["state"].update({"x": 1}))
    with pytest.raises(ChangedClassError, match="unknown fitted attribute 'x'") as caught:
        load(path)
    assert "model.ovk" in caught.value.__notes__[0]


def test_a_parameter_that_the_file_lacks_takes_its_default(path):
    save(Kernel(3.0), path)
    forge(path, lambda manifest, header: manifest["value"]["object"]["parameters"].pop("transforms"))
    assert same(load(path), Kernel(3.0))


def test_what_a_constructor_refuses_is_a_corrupt_file(path):
    save(Record(1, "allowed"), path)
    forge(path, lambda m, header: m["value"]["object"]["parameters"].update({"note": "forbidden"}))
    with pytest.raises(CorruptFileError, match="must not be forbidden"):
        load(path)
    save(Window(1), path)
    forge(path, lambda manifest, header: manifest["value"]["object"]["parameters"].pop("size"))
    with pytest.raises(ChangedClassError, match="lacks the parameter 'size'"):
        load(path)


def test_an_object_of_a_class_that_was_redefined(path):
    def define():
        class Twice(Parameters):
            pass

        return Twice()

    old, new = define(), define()
    with pytest.raises(NotSavableError, match="earlier definition"):
        save(old, path)
    save(new, path)
    assert isinstance(load(path), type(new))


def test_a_registered_class_without_known_parameters(path):
    class Silent(Registered):
        pass

    with pytest.raises(NotSavableError, match="has no known parameters"):
        save(Silent(), path)


def test_a_constructor_that_needs_more_than_is_kept(path):
    @dataclass
    class Seeded(Registered):
        size: int
        seed: InitVar[int]

    with pytest.raises(NotSavableError, match=r"also requires \['seed'\]"):
        save(Seeded(1, 2), path)
