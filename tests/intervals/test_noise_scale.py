"""Intervals with a learned scale of the noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import OVKRidge, OVKRidgeCV
from ovk.intervals import noise_scale
from ovk.kernels import Gaussian
from ovk.solvers import SeparableLeaveOneOut, eigenpairs


def noisy(n, rng, d=2):
    """The noise grows tenfold along the second input."""
    X = rng.uniform(-1, 1, (n, 2))
    scale = 0.1 * 10 ** (0.5 + 0.5 * X[:, 1:])
    return X, np.sin(2 * X[:, :1]) + scale * rng.standard_normal((n, d))


def check_by_refitting(found, X, loo, weight, together):
    """A missing residual has the mean of the known logarithms of its output."""
    assert found.strength.all()
    squares, kernel = loo.residuals**2 / loo.variances, Gaussian(1.0)
    logs = 0.5 * np.log(squares + 0.01 * np.nanmedian(squares, axis=0))
    logs = np.nan_to_num(logs - np.nanmean(logs, axis=0))
    for j in np.flatnonzero(found.strength):
        alpha = float(found.logs.alpha[j])
        for i in (0, 7, 50):
            others = np.arange(len(X)) != i if together is None else together != together[i]
            ridge = OVKRidge(kernel, alpha).fit(X[others], logs[others, j], None if weight is None else weight[others])
            assert_allclose(found.left_out[i, j], np.exp(found.strength[j] * ridge.predict(X[[i]])[0]), rtol=1e-8)
        ridge = OVKRidge(kernel, alpha).fit(X, logs[:, j], weight)
        assert_allclose(found.at(kernel(X[:3], X))[:, j], np.exp(found.strength[j] * ridge.predict(X[:3])), rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("blocks", [False, True], ids=["rows", "blocks"])
@pytest.mark.parametrize("gaps", [False, True], ids=["", "gaps"])
def test_the_scale_of_a_row_by_refitting_without_it(weighted, blocks, gaps):
    rng = np.random.default_rng(0)
    X, Y = noisy(120, rng)
    weight = rng.uniform(0.5, 2.0, 120) if weighted else None
    together = np.arange(120) // 2 if blocks else None
    kernel = Gaussian(1.0)
    G = kernel(X) if weight is None else kernel(X) * np.sqrt(np.outer(weight, weight))
    loo = SeparableLeaveOneOut(eigenpairs(G), Y, np.eye(2), 0.1, weight, together=together)
    if gaps:
        loo.residuals[::3, 0] = np.nan
    check_by_refitting(noise_scale(eigenpairs(G), loo, weight, together), X, loo, weight, together)


@pytest.mark.parametrize("gaps", [False, True], ids=["", "gaps"])
def test_the_scale_of_a_weighted_model(gaps):
    rng = np.random.default_rng(6)
    X, Y = noisy(120, rng)
    if gaps:
        Y[::7, 0] = np.nan
    weight = rng.uniform(0.5, 2.0, 120)
    model = OVKRidgeCV(Gaussian(1.0), [0.1], omegas=[0.0]).fit(X, Y, weight)
    check_by_refitting(model._noise_scale(None), X, model._leave_out(None, None).left_out, weight, None)


def scores(regions, Y):
    return np.mean(regions.width + 20 * np.maximum(regions.lower - Y, 0) + 20 * np.maximum(Y - regions.upper, 0))


def test_intervals_follow_the_noise():
    rng = np.random.default_rng(1)
    (X, Y), (new, truth) = noisy(400, rng), noisy(2000, rng)
    model = OVKRidgeCV(metric=False).fit(X, Y)
    constant = OVKRidge(model.kernel_, model.alpha_).fit(model.X_fit_, Y).predict_interval(model.inputs_(new))
    adaptive = model.predict_interval(new)
    assert scores(adaptive, truth) < 0.9 * scores(constant, truth)
    loud = new[:, 1] > 0
    for half in (loud, ~loud):
        assert abs(adaptive.contains(truth)[half].mean() - 0.9) < 0.04
    assert constant.contains(truth)[~loud].mean() > 0.95
    for region in ("box", "ellipsoid"):
        joint = model.predict_interval(new, region=region).contains(truth)
        assert abs(joint.mean() - 0.9) < 0.04
        assert abs(joint[loud].mean() - 0.9) < 0.06


def test_intervals_of_several_levels_are_nested():
    X, Y = noisy(200, np.random.default_rng(2))
    model = OVKRidgeCV(Gaussian(1.0)).fit(X, Y)
    narrow, wide = model.predict_interval(X, 0.5), model.predict_interval(X, 0.95)
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()


def test_missing_outputs_and_groups():
    rng = np.random.default_rng(3)
    X, Y = noisy(300, rng)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    new, truth = noisy(1000, rng)
    model = OVKRidgeCV(Gaussian(1.0)).fit(X, Y)
    for groups in (None, np.arange(300) // 3):
        regions = model.predict_interval(new, groups=groups)
        assert abs(regions.contains(truth).mean() - 0.9) < 0.04
        width = regions.width.mean(axis=1)
        assert width[new[:, 1] > 0.5].mean() > 2 * width[new[:, 1] < -0.5].mean()


@pytest.mark.parametrize("n", [40, 150])
def test_few_rows_or_even_noise_keep_a_constant_scale(n):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (n, 2))
    Y = np.sin(2 * X) + 0.2 * rng.standard_normal((n, 2)) if n > 50 else noisy(n, rng)[1]
    kernel = Gaussian(1.0)
    loo = SeparableLeaveOneOut(eigenpairs(kernel(X)), Y, np.eye(2), 0.1)
    assert noise_scale(eigenpairs(kernel(X)), loo, None, None) is None


@pytest.mark.parametrize("method", ["jackknife+", "cv+"])
def test_methods_with_a_guarantee_do_not_use_the_scale(method):
    X, Y = noisy(120, np.random.default_rng(5))
    model = OVKRidgeCV(Gaussian(1.0)).fit(X, Y)
    ridge = OVKRidge(model.kernel_, model.alpha_).fit(X, Y)
    found, expected = (each.predict_interval(X[:9], method=method) for each in (model, ridge))
    assert_allclose(found.upper, expected.upper)
