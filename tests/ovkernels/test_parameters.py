"""Resolving, cloning and saving kernels; errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist
from sklearn.base import clone

import instances
import ovk
from ovk.base.parameters import equal
from ovk.kernels import Gaussian, Linear, Matern
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, DivFree, Separable, Transformable, as_operator_kernel
from ovk.persistence import NotSavableError

EVERY = instances.each(instances.OVKERNELS)
X = instances.inputs(None, 6)
MEDIAN = float(np.median(pdist(X)))


@pytest.mark.parametrize("K", EVERY)
def test_clone(K):
    copy = clone(K)
    assert copy is not K
    assert equal(copy, K)
    assert equal(type(K)(**K.get_params(deep=False)), K)


@pytest.mark.parametrize("K", EVERY)
def test_save_and_load(K, tmp_path):
    if "functions" in repr(K) or (isinstance(K, Transformable) and K.transforms and callable(K.transforms[0])):
        with pytest.raises(NotSavableError):
            ovk.save(K, tmp_path / "kernel")
        return
    ovk.save(K, tmp_path / "kernel")
    again = ovk.load(tmp_path / "kernel")
    assert equal(again, K)
    assert np.array_equal(again.gram(X).dense(), K.gram(X).dense())


@pytest.mark.parametrize("K", EVERY)
def test_resolve_keeps_what_is_known(K):
    before = clone(K)
    resolved = K.resolve(X, instances.D)
    assert resolved.output_dim in (instances.D, None)
    assert np.array_equal(resolved.gram(X).dense(), K.gram(X).dense())
    assert equal(K, before)


@pytest.mark.parametrize("K", EVERY)
def test_resolve_with_another_number_of_outputs(K):
    with pytest.raises(ValueError, match="Y has 4"):
        K.resolve(X, 4)


@pytest.mark.parametrize(
    "K",
    [
        Gaussian() * Identity(),
        Separable("gaussian", MixedEffect(0.3)),
        Gaussian() * MixedEffect(0.3) + Matern(2.5) * Identity(),
        2.0 * (Gaussian() * Identity()),
        1.5 * (Gaussian() * MixedEffect(0.3) + Linear() * Identity()),
        Gaussian() * Identity() & Linear() * MixedEffect(0.3),
        Diagonal([Gaussian(), "linear", Gaussian(2.0)]),
        Transformable(Gaussian()),
        CurlFree(Gaussian()),
        0.5 * DivFree(Matern(2.5)) + CurlFree(Gaussian()),
    ],
    ids=lambda K: type(K).__name__,
)
def test_resolve_learns_without_changing(K):
    before = clone(K)
    resolved = K.resolve(X, 3)
    assert equal(K, before)
    with pytest.raises(ValueError, match=r"learned from training inputs|not known yet"):
        K.gram(X)
    assert resolved.gram(X).output_dim == 3
    again = resolved.resolve(2.0 * X, 3)
    assert equal(again, resolved)


def test_what_resolve_learns():
    assert Separable("gaussian", Identity()).resolve(X, 3).kernel.length_scale == pytest.approx(MEDIAN)
    assert CurlFree(Gaussian()).resolve(X, 3).kernel.length_scale == pytest.approx(MEDIAN)
    assert CurlFree(Gaussian()).resolve(X, 3).dims == 3
    # The distances of what the kernel sees: coordinates of all outputs together.
    coordinates = Transformable(Gaussian()).resolve(X, 3).kernel.length_scale
    assert coordinates == pytest.approx(np.median(pdist(X.T.reshape(-1, 1))))


def test_as_operator_kernel():
    K = CurlFree(Gaussian(1.0))
    assert as_operator_kernel(K) is K
    assert equal(as_operator_kernel(Linear()), Separable(Linear(), Identity()))
    with pytest.raises(ValueError, match=r"kernel must be a kernel, got the operator Identity.*: pass k \* T"):
        as_operator_kernel(Identity(2))
    with pytest.raises(ValueError, match="kernel must be one of"):
        as_operator_kernel("nonsense")


# ----------------------------------------------------------------------------------------------------- errors


def test_operators_that_are_none():
    with pytest.raises(ValueError, match=r"operator must be an output operator .ovk\.operators., got 'identity'"):
        Separable(Gaussian(1.0), "identity").resolve(X, 3)


def test_unknown_number_of_outputs():
    with pytest.raises(ValueError, match="Identity requires output_dim"):
        (Gaussian(1.0) * Identity()).gram(X)


@pytest.mark.parametrize("combine", [lambda a, b: a + b, lambda a, b: a & b])
@pytest.mark.parametrize(
    "other", [Gaussian(1.0) * Identity(1), Gaussian(1.0) * Dense(np.eye(2)), CurlFree(Gaussian(1.0))]
)
def test_kernels_of_different_outputs_do_not_combine(combine, other):
    K = combine(Linear() * Identity(4), other)
    with pytest.raises(ValueError, match=r"must have the same number of outputs, got \[4, [123]\]"):
        K.gram(X)
    with pytest.raises(ValueError, match="Y has 4"):
        K.resolve(X, 4)


def test_transforms_that_do_not_fit():
    with pytest.raises(ValueError, match=r"transforms\[1\] must have 3 columns, one for each input, got 2"):
        Transformable(Gaussian(1.0), [np.eye(3), np.eye(2)]).gram(X)
    with pytest.raises(ValueError, match=r"transforms\[0\] must map \(n, p\) inputs to \(n, q\), got \(6,\)"):
        Transformable(Gaussian(1.0), [lambda x: x[:, 0]]).gram(X)
    with pytest.raises(ValueError, match="one output per input, but X has 3 features and Y has 2"):
        Transformable(Gaussian(1.0)).resolve(X, 2)


@pytest.mark.parametrize("kind", [CurlFree, DivFree])
def test_fields_that_make_no_sense(kind):
    with pytest.raises(ValueError, match="as many outputs as inputs, but X has 3 features and Y has 2 outputs"):
        kind(Gaussian(1.0)).resolve(X, 2)
    with pytest.raises(ValueError, match="and dims=2"):
        kind(Gaussian(1.0), dims=2).resolve(X, 3)
    with pytest.raises(ValueError, match="at least 2 dimensions, got 1"):
        kind(Gaussian(1.0)).resolve(X[:, :1], 1)
    with pytest.raises(ValueError, match="must be Gaussian, Matern or RationalQuadratic, got Linear"):
        kind(Linear()).resolve(X, 3)
    with pytest.raises(ValueError, match="must be Gaussian, Matern or RationalQuadratic, got 'gaussian'"):
        kind("gaussian").gram(X)
    with pytest.raises(ValueError, match="must be greater than 1, got 1"):
        kind(Matern(1, 1.0)).gram(X)
    with pytest.raises(ValueError, match="must be a single number here, got 3 numbers"):
        kind(Gaussian(np.ones(3))).gram(X)
    with pytest.raises(ValueError, match="learned from training inputs"):
        kind(Gaussian()).gram(X)


def test_diagonal_of_nothing():
    with pytest.raises(ValueError, match="kernels must have at least one kernel, got none"):
        Diagonal([]).gram(X)


def test_negative_factors():
    with pytest.raises(ValueError, match=r"weights must be non-negative and finite, got \[-2.0\]"):
        (-2.0 * CurlFree(Gaussian(1.0))).gram(X)


def test_a_factor_of_zero_is_the_zero_kernel():
    assert_allclose((0.0 * CurlFree(Gaussian(1.0))).gram(X).dense(), 0.0)
