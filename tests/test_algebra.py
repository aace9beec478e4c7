"""The table of what may be added and multiplied."""

import numpy as np
import pytest

from ovk.base.parameters import Algebra, combine, rule
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, Identity
from ovk.ovkernels import CurlFree


class Thing(Algebra):
    pass


class Special(Thing):
    pass


class Other(Algebra):
    pass


@rule("+", Thing, Thing)
def _(a, b):
    return "things"


@rule("+", Special, Thing)
def _(a, b):
    return "special"


@rule("*", float, Thing)
def _(factor, thing):
    return (factor, thing)


def test_the_nearest_rule_applies():
    assert Thing() + Thing() == "things"
    assert Thing() + Special() == "special"
    assert Special() + Thing() == "special"
    assert Special() + Special() == "special"


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.float32(2), np.int8(2), np.uint64(2)])
def test_every_number_becomes_a_float(number):
    thing = Thing()
    factor, same = number * thing
    assert type(factor) is float
    assert factor == 2.0
    assert same is thing


def test_a_rule_for_two_kinds_of_things_holds_in_either_order():
    thing = Thing()
    assert thing * 2.0 == 2.0 * thing == (2.0, thing)
    assert repr(Identity(2) * Gaussian(1.0)) == repr(Gaussian(1.0) * Identity(2))


def test_a_sum_may_start_from_zero():
    thing = Thing()
    assert 0 + thing is thing
    assert sum([thing]) is thing
    assert sum([Special(), Thing()]) == "special"


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: Thing() + Other(),
        lambda: Other() + Thing(),
        lambda: Thing() * Thing(),
        lambda: Thing() & Thing(),
        lambda: 1 + Thing(),
        lambda: "a" + Thing(),
        lambda: Thing() + None,
        lambda: np.ones(3) * Thing(),
        lambda: np.ones(3) + Thing(),
        lambda: Thing() * np.ones(3),
        lambda: 1j * Thing(),
        lambda: Gaussian(1.0) + Identity(2),
        lambda: Gaussian(1.0) + 1.0,
        lambda: Identity(2) * Identity(2),
        lambda: Identity(2) + Identity(2),
        lambda: 2.0 * Identity(2),
        lambda: Gaussian(1.0) + Gaussian(1.0) * Identity(2),
        lambda: Linear() & Linear(),
        lambda: CurlFree(Gaussian(1.0)) * Dense(np.eye(2)),
        lambda: "2" * Gaussian(1.0),
    ],
)
def test_what_has_no_rule_is_a_type_error(attempt):
    with pytest.raises(TypeError):
        attempt()


def test_combine_says_when_it_does_not_know():
    assert combine("+", Thing(), 3) is NotImplemented
    assert combine("-", Thing(), Thing()) is NotImplemented
