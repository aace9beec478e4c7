"""The market is complete: a public class that no test sweeps is an error."""

import inspect

import pytest

import market

PARAMETERS = [pytest.param(room, id=room.__name__) for room in market.ROOMS]


@pytest.mark.parametrize("room", PARAMETERS)
def test_every_public_class_is_on_the_market(room):
    base, entries = market.ROOMS[room]
    public = [getattr(room, name) for name in room.__all__]
    wanted = {thing for thing in public if inspect.isclass(thing) and issubclass(thing, base)}
    wanted = {thing for thing in wanted if not inspect.isabstract(thing)}
    missing = wanted - {type(thing) for _, thing in entries}
    assert not missing


@pytest.mark.parametrize("room", PARAMETERS)
def test_names_are_unique(room):
    names = [name for name, _ in market.ROOMS[room][1]]
    assert len(set(names)) == len(names)


def test_every_operator_valued_kernel_has_a_route():
    assert set(market.ROUTES) == {name for name, _ in market.OVKERNELS}
