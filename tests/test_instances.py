"""The list of instances is complete: a public class that no test sweeps is an error."""

import inspect

import pytest

import instances

PARAMETERS = [pytest.param(package, id=package.__name__) for package in instances.PACKAGES]


@pytest.mark.parametrize("package", PARAMETERS)
def test_every_public_class_is_on_the_market(package):
    base, entries = instances.PACKAGES[package]
    public = [getattr(package, name) for name in package.__all__]
    wanted = {thing for thing in public if inspect.isclass(thing) and issubclass(thing, base)}
    wanted = {thing for thing in wanted if not inspect.isabstract(thing)}
    missing = wanted - {type(thing) for _, thing in entries}
    assert not missing


@pytest.mark.parametrize("package", PARAMETERS)
def test_names_are_unique(package):
    names = [name for name, _ in instances.PACKAGES[package][1]]
    assert len(set(names)) == len(names)


def test_every_operator_valued_kernel_has_a_route():
    assert set(instances.ROUTES) == {name for name, _ in instances.OVKERNELS}
