"""Kernels print as they are written."""

import numpy as np
import pytest
from scipy import sparse

import instances
from ovk import OLOK, OVKRidge, curves, kernels, operators, ovkernels
from ovk.base.parameters import Parameters, equal
from ovk.kernels import Gaussian, Linear, Matern, Polynomial
from ovk.operators import Identity, MixedEffect
from ovk.ovkernels import CurlFree, DivFree, WeightedSum

NAMES = {
    **{name: thing for package in (curves, kernels, operators, ovkernels) for name, thing in vars(package).items()},
    "array": np.array,
    "linspace": np.linspace,
}


def is_plain(value):
    """Whether a value can be written: no functions, sparse matrices or objects of others."""
    if isinstance(value, Parameters):
        return all(is_plain(part) for part in value.get_params(deep=False).values())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    return not (callable(value) or sparse.issparse(value)) and isinstance(
        value, (int, float, str, type(None), np.ndarray, dict, Parameters)
    )


EVERY = [
    pytest.param(thing, id=f"{name}")
    for name, thing in [*instances.KERNELS, *instances.OPERATORS, *instances.OVKERNELS]
    if is_plain(thing)
]


@pytest.mark.parametrize("thing", EVERY)
def test_evaluates_to_an_equal_object(thing):
    with np.printoptions(precision=17, floatmode="unique", threshold=10_000):
        assert equal(eval(repr(thing), dict(NAMES)), thing)


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Gaussian(2.0) * MixedEffect(0.5), "Gaussian(2.0) * MixedEffect(0.5)"),
        (Gaussian(), "Gaussian()"),
        (Identity(), "Identity()"),
        (Matern(2.5, length_scale=3.0), None),
        (2.0 * Gaussian(1.0) * Identity(), "2.0 * Gaussian(1.0) * Identity()"),
        (2.0 * (Gaussian(1.0) * Identity()), "2.0 * Gaussian(1.0) * Identity()"),
        ((Gaussian(1.0) + Linear()) * Identity(), "(Gaussian(1.0) + Linear()) * Identity()"),
        (2.0 * (Gaussian(1.0) * Linear()), "2.0 * (Gaussian(1.0) * Linear())"),
        (Gaussian(1.0) + (Linear() + Gaussian(2.0)), "Gaussian(1.0) + (Linear() + Gaussian(2.0))"),
        (
            Gaussian(1.0) * Identity() + Linear() * MixedEffect(0.3),
            "Gaussian(1.0) * Identity() + Linear() * MixedEffect(0.3)",
        ),
        (CurlFree(Gaussian(1.0)) + 0.5 * DivFree(Linear()), "CurlFree(Gaussian(1.0)) + 0.5 * DivFree(Linear())"),
        (1.0 * CurlFree(Gaussian(1.0)), "1.0 * CurlFree(Gaussian(1.0))"),
        (
            1.0 * CurlFree(Gaussian(1.0)) + DivFree(Gaussian(2.0)),
            "1.0 * CurlFree(Gaussian(1.0)) + DivFree(Gaussian(2.0))",
        ),
        (
            (Gaussian(1.0) * Identity() + Linear() * Identity()) & Linear() * MixedEffect(0.5),
            "(Gaussian(1.0) * Identity() + Linear() * Identity()) & Linear() * MixedEffect(0.5)",
        ),
        (
            Linear() * Identity() & (Gaussian(1.0) * Identity() & Polynomial(2) * Identity()),
            None,
        ),
        (
            WeightedSum([Linear() * Identity(), Gaussian(1.0) * Identity()], [0.5, 2.0]),
            "WeightedSum([Linear() * Identity(), Gaussian(1.0) * Identity()], [0.5, 2.0])",
        ),
    ],
)
def test_reads_like_the_mathematics(thing, text):
    if text is not None:
        assert repr(thing) == text
    assert equal(eval(repr(thing), dict(NAMES)), thing)


def test_estimators_show_their_kernels_so():
    assert (
        repr(OVKRidge(Gaussian(2.0) * Identity(), alpha=0.1))
        == "OVKRidge(kernel=Gaussian(2.0) * Identity(), alpha=0.1)"
    )
    assert repr(OVKRidge()) == "OVKRidge()"
    wide = OLOK(Gaussian(2.0) * MixedEffect(0.25) + Matern(1.5, 2.0) * Identity(), alpha=0.001, loss="huber")
    assert all(len(line) <= 80 for line in repr(wide).split("\n"))
    assert repr(wide).replace("\n     ", " ").startswith("OLOK(kernel=Gaussian(2.0) * MixedEffect(0.25) + Matern(")


def test_long_grids_are_written_in_short():
    regular = Gaussian(2.0) * operators.Integral(grid=curves.Grid(np.linspace(0.0, 24.0, 60), period=25.0))
    assert "Grid(points=linspace(0.0, 24.0, 60), period=25.0)" in repr(regular)
    assert equal(eval(repr(regular), dict(NAMES)), regular)
    assert repr(curves.Grid(np.linspace(0.0, 1.0, 60) ** 2)) == "Grid(points=<60 numbers, 0 to 1>)"
    assert repr(curves.Grid(np.array([0.0, 0.5]))) == "Grid(points=array([0. , 0.5]))"
