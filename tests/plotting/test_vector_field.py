"""Fields drawn as arrows and as stream lines."""

import numpy as np
import pytest

from ovk import VectorField
from ovk.datasets import make_vector_field
from ovk.plotting import VectorFieldDisplay


@pytest.fixture
def fitted():
    sample = make_vector_field(40, random_state=0)
    return sample, VectorField(alpha=0.01, criterion=None).fit(sample.data, sample.target)


@pytest.mark.parametrize("style", ["quiver", "stream"])
def test_the_field_on_the_grid(fitted, style):
    sample, model = fitted
    display = VectorFieldDisplay.from_estimator(model, sample.data, sample.target, grid=7, style=style)
    corner = model.predict(np.array([[display.x[2], display.y[5]]]))[0]
    np.testing.assert_allclose(display.vectors[5, 2], corner)
    assert display.ax_.get_title() == "field"


def test_parts_add_up_on_the_grid(fitted):
    _, model = fitted
    whole, *parts = (
        VectorFieldDisplay.from_estimator(model, part=part, plot=False).vectors
        for part in (None, "curl-free", "div-free", "rest")
    )
    np.testing.assert_allclose(sum(parts), whole, atol=1e-10)


def test_outliers_are_drawn_as_crosses(fitted):
    sample, model = fitted
    model.inliers_ = np.arange(40) % 4 > 0
    display = VectorFieldDisplay.from_estimator(model, sample.data, sample.target)
    crosses = [line for line in display.ax_.lines if line.get_marker() == "x"]
    assert len(crosses[0].get_xdata()) == 10


def test_a_plane_of_a_field_in_space_and_collinear_points():
    sample = make_vector_field(30, n_dims=3, random_state=0)
    model = VectorField(alpha=0.01, criterion=None).fit(sample.data, sample.target)
    display = VectorFieldDisplay.from_estimator(model, height=0.3, grid=5, plot=False)
    np.testing.assert_allclose(
        display.vectors[1, 2], model.predict(np.array([[display.x[2], display.y[1], 0.3]]))[0, :2]
    )
    line = np.column_stack([np.linspace(0, 1, 8), np.zeros(8)])
    flat = VectorField(alpha=0.01, criterion=None).fit(line, line + 1)
    VectorFieldDisplay.from_estimator(flat, grid=6)


def test_errors_for_fields_that_cannot_be_drawn(fitted):
    _, model = fitted
    with pytest.raises(ValueError, match="style must be"):
        VectorFieldDisplay.from_estimator(model, style="contour")
    X = np.random.default_rng(0).standard_normal((20, 4))
    other = VectorField(alpha=0.1, criterion=None).fit(X, X)
    with pytest.raises(ValueError, match="2 or 3 dimensions, got 4"):
        VectorFieldDisplay.from_estimator(other)
