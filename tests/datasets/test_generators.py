"""Laws of the generators: shapes, reproducibility, and vanishing curl and divergence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ovk.datasets import BumpField, make_stream, make_vector_field
from ovk.datasets.generators import as_generator


def jacobian(field, X, step=1e-5):
    """J[n, i, j] = d field_i / d x_j at the rows of X, by central differences."""
    shifts = step * np.eye(X.shape[1])
    return np.stack([(field(X + s) - field(X - s)) / (2 * step) for s in shifts], axis=-1)


@pytest.mark.parametrize("make", [make_stream, make_vector_field])
def test_reproducible_by_every_kind_of_random_state(make):
    for state in (
        lambda: 3,
        lambda: np.int64(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(3),
    ):
        X, y = make(20, noise=0.1, random_state=state(), return_X_y=True)
        again = make(20, noise=0.1, random_state=state())
        np.testing.assert_array_equal(X, again.data)
        np.testing.assert_array_equal(y, again.target)
    assert not np.array_equal(X, make(20, random_state=4).data)
    assert not np.array_equal(make(20).data, make(20).data)


@pytest.mark.parametrize("state", [-1, 0.5, "seed", True])
def test_invalid_random_state(state):
    with pytest.raises(ValueError, match="random_state must be"):
        as_generator(state)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", ["curl_free", "div_free", "mixed"])
def test_parts_have_no_curl_and_no_divergence(kind, dims):
    sample = make_vector_field(40, kind=kind, n_dims=dims, random_state=0)
    J = jacobian(sample.field.curl_free, sample.data)
    np.testing.assert_allclose(J, J.swapaxes(1, 2), atol=1e-7)
    J = jacobian(sample.field.div_free, sample.data)
    np.testing.assert_allclose(np.trace(J, axis1=1, axis2=2), 0, atol=1e-7)
    np.testing.assert_array_equal(sample.curl_free, sample.field.curl_free(sample.data))
    np.testing.assert_array_equal(sample.div_free, sample.field.div_free(sample.data))
    np.testing.assert_allclose(sample.target, sample.curl_free + sample.div_free)
    assert sample.curl_free.any() == (kind != "div_free")
    assert sample.div_free.any() == (kind != "curl_free")


@pytest.mark.parametrize("dims", [2, 3])
def test_parts_are_not_trivial(dims):
    sample = make_vector_field(40, n_dims=dims, random_state=1)
    J = jacobian(sample.field.curl_free, sample.data)
    assert np.abs(np.trace(J, axis1=1, axis2=2)).max() > 0.1
    J = jacobian(sample.field.div_free, sample.data)
    assert np.abs(J - J.swapaxes(1, 2)).max() > 0.1


def test_gradient_is_that_of_the_potential():
    field = make_vector_field(1, kind="curl_free", n_dims=3, random_state=2).field

    def potential(X):
        squared = ((X[:, None, :] - field.centres) ** 2).sum(axis=-1)
        return (np.exp(-squared / (2 * field.length_scale**2)) @ field.potential)[:, None]

    X = np.random.default_rng(0).uniform(-1, 1, (30, 3))
    np.testing.assert_allclose(field(X), jacobian(potential, X)[:, 0], atol=1e-8)


def test_speed_and_mixture():
    grid = np.stack(np.meshgrid(*[np.linspace(0, 5, 15)] * 2), axis=-1).reshape(-1, 2)
    field = make_vector_field(5, mixture=0.25, box=(0, 5), length_scale=1, random_state=0).field
    speed = [np.sqrt((part(grid) ** 2).sum(axis=1).mean()) for part in (field.curl_free, field.div_free)]
    np.testing.assert_allclose(speed, [0.25, 0.75])


def test_field_depends_on_the_seed_alone():
    few, many = (make_vector_field(n, noise=s, random_state=7, box=(2, 3)) for n, s in [(3, 0.0), (500, 0.1)])
    np.testing.assert_array_equal(few.field(many.data), many.field(many.data))
    assert np.std(many.target - many.field(many.data)) == pytest.approx(0.1, rel=0.1)
    assert 2 <= many.data.min() <= many.data.max() <= 3


def test_field_survives_pickling():
    sample = make_vector_field(10, random_state=0)
    copy = pickle.loads(pickle.dumps(sample.field))
    np.testing.assert_array_equal(copy(sample.data), sample.target)


def test_field_checks_its_points():
    field = BumpField(np.zeros((1, 2)), np.ones(1), np.zeros((1, 1)), 1.0)
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\), got \(4, 3\)"):
        field(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (make_stream, {"n_samples": 0}, "n_samples must be an integer"),
        (make_stream, {"noise": -1}, "noise must be"),
        (make_vector_field, {"kind": "rotating"}, "kind must be one of 'curl_free', 'div_free', 'mixed'"),
        (make_vector_field, {"n_dims": 4}, "n_dims must be 2 or 3"),
        (make_vector_field, {"mixture": 2}, r"mixture must be a number in \[0, 1\]"),
        (make_vector_field, {"box": (1, 0)}, "box must be"),
        (make_vector_field, {"box": (0, np.inf)}, "box must be"),
        (make_vector_field, {"length_scale": 0.01}, "length_scale must be at least .*, 1/30 of the box, got 0.01"),
    ],
)
def test_invalid_arguments(make, wrong, message):
    with pytest.raises(ValueError, match=message):
        make(**wrong)


def test_outliers_are_a_share_of_the_vectors_and_do_not_change_the_field():
    plain = make_vector_field(100, random_state=0)
    sample = make_vector_field(100, outliers=0.6, random_state=0)
    assert sample.inlier.sum() == 40
    assert plain.inlier.all()
    np.testing.assert_array_equal(sample.target[sample.inlier], plain.target[sample.inlier])
    x = np.array([[0.1, 0.2]])
    np.testing.assert_array_equal(sample.field(x), plain.field(x))
    with pytest.raises(ValueError, match="outliers"):
        make_vector_field(10, outliers=1.5)
