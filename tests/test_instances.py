"""The list of instances is complete: an exported class that no test sweeps is an error."""

import inspect

import pytest

import instances
from ovk.solvers import KnownEigen

BASES = [pytest.param(base, id=base.__name__) for base in instances.MARKET]


@pytest.mark.parametrize("base", BASES)
def test_every_exported_class_is_on_the_market(base):
    package, entries = instances.MARKET[base]
    exported = [thing for thing in vars(package).values() if inspect.isclass(thing) and issubclass(thing, base)]
    wanted = {thing for thing in exported if not inspect.isabstract(thing)} - {KnownEigen}
    missing = wanted - {type(thing) for _, thing in entries}
    assert not missing


@pytest.mark.parametrize("base", BASES)
def test_names_are_unique(base):
    names = [name for name, _ in instances.MARKET[base][1]]
    assert len(set(names)) == len(names)


def test_every_operator_valued_kernel_has_a_route():
    assert set(instances.ROUTES) == {name for name, _ in instances.OVKERNELS}
