"""Kernels are parameter objects: cloned, set, shown, pickled and saved without loss."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import instances
import ovk
from ovk.base.parameters import equal
from ovk.kernels import Function, Gaussian, Linear
from ovk.persistence import NotSavableError

EVERY = instances.each(instances.KERNELS)


@pytest.mark.parametrize("kernel", EVERY)
def test_clone(kernel):
    copy = clone(kernel)
    assert copy is not kernel
    assert equal(copy, kernel)


@pytest.mark.parametrize("kernel", EVERY)
def test_parameters_build_the_same_kernel(kernel):
    assert equal(type(kernel)(**kernel.get_params(deep=False)), kernel)


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS, without={"function"}))
def test_pickle(kernel):
    assert equal(pickle.loads(pickle.dumps(kernel)), kernel)


@pytest.mark.parametrize("kernel", EVERY)
def test_save_and_load(kernel, tmp_path):
    if isinstance(kernel, Function):
        with pytest.raises(NotSavableError):
            ovk.save(kernel, tmp_path / "kernel")
        return
    ovk.save(kernel, tmp_path / "kernel")
    assert equal(ovk.load(tmp_path / "kernel"), kernel)


@pytest.mark.parametrize(
    "kernel", instances.each(instances.KERNELS, only={"gaussian", "matern-3/2", "sum", "nested", "scaled"})
)
def test_repr_builds_the_kernel(kernel):
    assert equal(eval(repr(kernel), {**vars(ovk.kernels), "array": np.array}), kernel)


@pytest.mark.parametrize("kernel", EVERY)
def test_resolve_never_changes_a_kernel(kernel):
    before = clone(kernel)
    assert kernel.resolve(instances.inputs(kernel, 6)) is kernel
    assert equal(kernel, before)


def test_nested_parameters():
    kernel = 2.0 * (Gaussian(1.0) + Linear())
    assert kernel.get_params()["kernel__left__length_scale"] == 1.0
    kernel.set_params(factor=3.0, kernel__left__length_scale=0.5)
    assert equal(kernel, 3.0 * (Gaussian(0.5) + Linear()))
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        kernel.set_params(kernel__left__width=1.0)


def test_replace_leaves_the_original():
    kernel = Gaussian(1.0) + Linear()
    changed = kernel.replace(left__length_scale=2.0)
    assert kernel.left.length_scale == 1.0
    assert changed.left.length_scale == 2.0


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS))
def test_gradient_products(kernel):
    X = instances.inputs(kernel, 7)
    weights = np.random.default_rng(3).standard_normal((7, 7))
    weights += weights.T
    found = kernel.gradient_product(weights, X)
    expected = {name: np.tensordot(change, weights, axes=2) for name, change in kernel.gradient(X).items()}
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
