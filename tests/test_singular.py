"""No error of LAPACK leaves the library: a system that cannot be solved has its own error."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ovk import KAWV, OLOK, PKAWV, MovKL, OutputKernelRidge, OVKRidge, OVKRidgeCV
from ovk.kernels import Function, Gaussian
from ovk.operators import MixedEffect
from ovk.solvers import SingularSystemError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal((30, 2))


class Failing(Gaussian):
    """A kernel for which LAPACK fails."""

    broken = False

    def __call__(self, X, Z=None):
        if type(self).broken:
            raise np.linalg.LinAlgError("SVD did not converge")
        return super().__call__(X, Z)

    def product(self, *arguments):
        self(X)
        return super().product(*arguments)


@pytest.fixture
def broken(monkeypatch):
    return lambda: monkeypatch.setattr(Failing, "broken", True)


@pytest.mark.parametrize(
    "model",
    [
        OVKRidge(Failing(1.0)),
        OVKRidgeCV(Failing(1.0)),
        OutputKernelRidge(Failing(1.0)),
        MovKL([Failing(1.0) * MixedEffect(0.5)]),
        OLOK(Failing(1.0)),
        KAWV(Failing(1.0)),
        PKAWV(Failing(1.0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_failure_of_lapack_is_named_and_leaves_the_model_as_it_was(model, broken):
    model = clone(model).fit(X, Y)
    before = {name: value for name, value in vars(model).items() if np.isscalar(value)}
    broken()
    with pytest.raises(SingularSystemError, match=r"cannot be solved .SVD did not converge.: increase alpha") as caught:
        model.fit(X + 1.0, Y)
    assert type(model).__name__ in str(caught.value)
    assert {name: value for name, value in vars(model).items() if np.isscalar(value)} == before


@pytest.mark.parametrize("model", [OVKRidge, OVKRidgeCV])
def test_a_kernel_that_is_not_finite_is_the_one_to_blame(model):
    kernel = Function(lambda X, Z: np.full((len(X), len(Z)), np.nan))
    with pytest.raises(SingularSystemError, match="kernel values must be finite"):
        model(kernel).fit(X, Y)
    with pytest.raises(ValueError, match=r"OLOK failed at step 1: the kernel value K\(x, x\) is nan"):
        OLOK(kernel).fit(X, Y)


@pytest.mark.parametrize("model", [OVKRidge(), OLOK()], ids=str)
def test_a_missing_value_of_pandas_in_a_series_is_named(model):
    y = pd.Series([1.0] * 29 + [pd.NA], dtype=object)
    with pytest.raises(
        TypeError, match=r"y must contain numbers, but it contains <NA> in row 29: .* write missing numbers as nan"
    ):
        clone(model).fit(X, y)
