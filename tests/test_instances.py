"""The list of instances is complete: a public class that no test sweeps is an error."""

import inspect

import pytest

import instances

BASES = [pytest.param(base, id=base.__name__) for base in instances.MARKET]


@pytest.mark.parametrize("base", BASES)
def test_every_public_class_is_on_the_market(base):
    package, entries = instances.MARKET[base]
    public = [getattr(package, name) for name in package.__all__]
    wanted = {thing for thing in public if inspect.isclass(thing) and issubclass(thing, base)}
    wanted = {thing for thing in wanted if not inspect.isabstract(thing)}
    missing = wanted - {type(thing) for _, thing in entries}
    assert not missing


@pytest.mark.parametrize("base", BASES)
def test_names_are_unique(base):
    names = [name for name, _ in instances.MARKET[base][1]]
    assert len(set(names)) == len(names)


def test_every_operator_valued_kernel_has_a_route():
    assert set(instances.ROUTES) == {name for name, _ in instances.OVKERNELS}
