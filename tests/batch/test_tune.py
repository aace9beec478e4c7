"""tune: gradients of every kernel and route, and recovery of known hyper-parameters."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

import instances
import reference
from batch.reference import leave_out_errors, long_form, with_holes
from ovk import FunctionalRidge, OVKRidge, OVKRidgeCV, load, save, tune
from ovk.base import check_targets
from ovk.batch.tuning.tune import Search, TuningCriterion, bounds, parameters, read, with_low_rank, write
from ovk.curves import Grid
from ovk.kernels import Gaussian, Laplacian, Linear, Matern
from ovk.operators import Cluster, Dense, Identity, Integral, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, DivFree, Separable

rng = np.random.default_rng(0)
X = rng.standard_normal((9, instances.P))
Y = rng.standard_normal((9, instances.D))

# Without derivatives in any parameter, or with a parameter at which there are none.
WITHOUT = {"transformable-functions"}


def search(kernel, Y, criterion="evidence", leave_out="row", task=None, X=X, shared=False):
    targets = check_targets(Y, len(X), None, task, X, instances.D if task is not None else None)
    return Search(
        TuningCriterion(X, targets, criterion, leave_out, centred=False),
        kernel.resolve(X, instances.D),
        0.1,
        shared=shared,
    )


def check_gradient(found):
    vector = found.start
    value, gradient = found.objective(vector)
    assert np.isfinite(value)
    for j in range(len(vector)):
        step = np.eye(len(vector))[j]
        slope = reference.derivative(lambda s, step=step: found.objective(vector + s * step)[0], 0.0, h=1e-3)
        assert_allclose(gradient[j], slope, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize("kernel", instances.each(instances.OVKERNELS, without=WITHOUT))
def test_gradient_of_the_evidence(kernel):
    check_gradient(search(kernel, Y))


@pytest.mark.parametrize(
    "kernel", instances.each(instances.OVKERNELS, only={"separable-ard", "sum-not-commuting", "curl-free"})
)
@pytest.mark.parametrize("leave_out", ["row", "entry"])
@pytest.mark.parametrize("holes", [False, True])
def test_gradient_of_leave_one_out(kernel, leave_out, holes):
    check_gradient(search(kernel, with_holes(Y) if holes else Y, "loo", leave_out))


@pytest.mark.parametrize("form", ["holes", "long", "shared noise"])
def test_gradient_with_other_forms_of_outputs(form):
    kernel = Matern(2.5, [0.8, 1.5, 2.5]) * LowRank(
        [[1.0], [0.5], [2.0]], diag=[0.3, 0.2, 0.1]
    ) + Linear() * MixedEffect(0.4)
    if form == "long":
        rows, y, task = long_form(X, with_holes(Y))
        check_gradient(search(kernel, y, task=task, X=rows))
    else:
        check_gradient(search(kernel, with_holes(Y) if form == "holes" else Y, shared=form == "shared noise"))


@pytest.mark.parametrize("kernel", instances.each(instances.OVKERNELS, without=WITHOUT))
def test_parameters_come_back_as_they_were(kernel):
    kernel = kernel.resolve(X, instances.D)
    tuned = parameters(kernel, X)
    vector = read(kernel, tuned)
    copy = write(kernel, tuned, vector)
    assert_allclose(copy.gram(X).dense(), kernel.gram(X).dense(), rtol=1e-12)
    moved = write(kernel, tuned, vector + 0.01)
    assert_allclose(read(moved, tuned), vector + 0.01, rtol=1e-12)
    assert_allclose(read(kernel, tuned), vector, rtol=0, atol=0)


def planted(n=150, length=0.6, noise=(0.1, 0.3, 0.5), seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    W = np.array([[1.0], [-1.5], [0.7]])
    T = W @ W.T + 0.1 * np.eye(3)
    K = Gaussian(length)(X) + 1e-10 * np.eye(n)
    F = np.linalg.cholesky(K) @ rng.standard_normal((n, 3)) @ np.linalg.cholesky(T).T
    return X, F + rng.standard_normal((n, 3)) * noise, T


@pytest.mark.parametrize("holes", [False, True])
def test_the_evidence_finds_width_operator_and_noise(holes):
    X, Y, T = planted()
    Y = with_holes(Y, 0.4) if holes else Y
    model = tune(OVKRidge(Gaussian()), X, Y, rank=1, restarts=2, random_state=0)
    assert 0.45 < model.kernel_.kernel.length_scale < 0.8
    assert_allclose(np.sqrt(model.alpha_), [0.1, 0.3, 0.5], rtol=0.25)
    found = model.kernel_.operator.dense()
    correlation = np.corrcoef(found.ravel(), T.ravel())[0, 1]
    assert correlation > 0.95
    assert model.tuning_.value <= model.tuning_.start
    assert model.tuning_.value == min(model.tuning_.restarts)
    assert model.tuning_.names == ["kernel__length_scale", "operator__W", "operator__diag"]


def test_tuning_does_not_change_the_model_and_fits_the_same_as_by_hand():
    X, Y, _ = planted(60)
    model = OVKRidge(Gaussian("median") * Identity(), 0.2)
    tuned = tune(model, X, Y, rank=1, restarts=1)
    assert model.kernel.kernel.length_scale == "median"
    assert not hasattr(model, "kernel_")
    again = OVKRidge(tuned.kernel, tuned.alpha).fit(X, Y)
    assert_allclose(tuned.predict(X), again.predict(X), rtol=1e-12)


def test_leave_one_out_beats_where_it_starts():
    X, Y, _ = planted(40)
    operator = LowRank([[0.5], [0.5], [0.5]], diag=[0.5, 0.5, 0.5])
    start = OVKRidge(Gaussian(2.0) * operator, 0.5, fit_intercept=False)
    tuned = tune(start, X, Y, "loo", restarts=1)
    assert tuned.tuning_.value < 0.7 * tuned.tuning_.start
    again = OVKRidge(tuned.kernel_, tuned.alpha_, fit_intercept=False)
    slow = leave_out_errors(lambda X, Y, w: clone(again).fit(X, Y, w), X, Y)
    assert_allclose(tuned.tuning_.value, slow.mean(), rtol=1e-6)


def test_coregionalisation_with_two_terms():
    """A short and a long wave with different operators: two terms fit better than one."""
    rng = np.random.default_rng(0)
    n = 100
    X = np.sort(rng.uniform(0, 10, (n, 1)), axis=0)
    short, long = (np.linalg.cholesky(Gaussian(s)(X) + 1e-9 * np.eye(n)) @ rng.standard_normal(n) for s in (0.4, 3.0))
    Y = np.column_stack([short + long, short - long]) + 0.1 * rng.standard_normal((n, 2))
    one = tune(OVKRidge(Gaussian(1.0)), X, Y, rank=2, restarts=1)
    two = tune(OVKRidge(Gaussian(0.5) * Identity() + Gaussian(2.0) * Identity()), X, Y, rank=1, restarts=1)
    assert two.tuning_.value < one.tuning_.value - 5
    lengths = sorted(part.kernel.length_scale for part in two.kernel_.kernels)
    assert lengths[0] < 0.7
    assert lengths[1] > 1.5


def test_fields_and_terms_have_weights():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (40, 2))
    Y = X + 0.05 * rng.standard_normal((40, 2))  # a gradient: curl-free
    model = tune(OVKRidge(1.0 * CurlFree(Gaussian(1.0)) + 1.0 * DivFree(Gaussian(1.0))), X, Y, restarts=1)
    assert model.kernel_.weights[0] > 10 * model.kernel_.weights[1]


def test_long_form_equals_nan_form():
    X, Y, _ = planted(50)
    holes = with_holes(Y)
    kernel = Gaussian(1.0) * MixedEffect(0.3)
    wide = tune(OVKRidge(kernel), X, holes, restarts=1)
    rows, y, task = long_form(X, holes)
    long = tune(OVKRidge(kernel), rows, y, task=task, restarts=1)
    assert_allclose(long.tuning_.value, wide.tuning_.value, rtol=1e-5)
    assert_allclose(long.predict(X), wide.predict(X), atol=1e-2)


def test_shared_noise_intercept_and_bounds():
    X, Y, _ = planted(40)
    start = OVKRidge(Gaussian(1.0) * Cluster("aab", 0.5, 0.1), fit_intercept=True)
    model = tune(start, X, Y + 100, noise="shared", restarts=2, random_state=0)
    assert isinstance(model.alpha_, float)
    assert 0 <= model.kernel_.operator.between <= model.kernel_.operator.within < 1
    assert_allclose(model.predict(X).mean(axis=0), 100, atol=2)


def test_saved_and_loaded(tmp_path):
    X, Y, _ = planted(30)
    model = tune(OVKRidge(Laplacian(1.0)), X, Y, rank=1, restarts=1)
    save(model, tmp_path / "tuned.ovk")
    loaded = load(tmp_path / "tuned.ovk")
    assert_allclose(loaded.predict(X), model.predict(X), rtol=0, atol=0)
    assert loaded.tuning_ == model.tuning_


def test_a_low_rank_start_has_the_variances_of_the_outputs():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 9.0]])
    kernel = with_low_rank(Gaussian(1.0) * Identity(3) + Linear() * MixedEffect(0.5, 3), covariance, 1)
    assert isinstance(kernel.kernels[0].operator, LowRank)
    assert isinstance(kernel.kernels[1].operator, MixedEffect)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"criterion": "aic"}, "criterion must be 'evidence' or 'loo', got 'aic'"),
        ({"noise": "none"}, "noise must be 'output' or 'shared', got 'none'"),
        ({"leave_out": "all"}, "leave_out must be 'row' or 'entry', got 'all'"),
        ({"rank": 9}, "rank must be at most the number of outputs 3, got 9"),
        ({"restarts": 0}, "restarts must be an integer >= 1, got 0"),
        ({"model": OVKRidgeCV()}, "model must be an OVKRidge or a FunctionalRidge, got OVKRidgeCV"),
        ({"model": OVKRidge(landmarks=5)}, "does not support landmarks"),
        ({"model": OVKRidge(CurlFree(Gaussian(1.0))), "rank": 1}, "rank requires a kernel k"),
    ],
)
def test_bad_arguments(arguments, message):
    options = {"model": OVKRidge(Separable(Gaussian(1.0), Dense(np.eye(3)))), "X": X, "Y": Y, **arguments}
    with pytest.raises(ValueError, match=message):
        tune(options.pop("model"), options.pop("X"), options.pop("Y"), **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_curves_are_tuned_in_the_coordinates_of_their_grid():
    times = np.linspace(0.0, 1.0, 5)
    curves = np.sin(4 * times + X[:, :1]) + 0.1 * np.random.default_rng(0).standard_normal((len(X), 5))
    how = {"restarts": 1, "max_iter": 5}
    found = tune(FunctionalRidge(Gaussian(1.0) * Integral(), grid=times), X, curves, **how)
    roots = Grid(times).roots()
    plain = tune(OVKRidge(Gaussian(1.0) * Integral(grid=times)), X, curves * roots, **how)
    assert_allclose(found.predict(X), plain.predict(X) / roots, rtol=1e-6)
    assert found.tuning_.value == pytest.approx(plain.tuning_.value)


def test_too_many_values_for_a_matrix(monkeypatch):
    monkeypatch.setattr("ovk.batch.tuning.tune.MAX_DENSE_VALUES", 10)
    with pytest.raises(ValueError, match="at most 10 observed values, got 18"):
        tune(OVKRidge(Gaussian(1.0)), X, with_holes(Y), restarts=1)


# ------------------------------------------------------------------------------------------------------- never worse


def test_outputs_that_are_mostly_zero_are_never_worse_than_the_start():
    """95% zeros: repeated values without noise drive the evidence to the lower bound of the noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    Y = np.where(rng.random((80, 2)) < 0.05, rng.exponential(size=(80, 2)), 0.0)
    Y[:2] = 1.0
    model = OVKRidge(Gaussian(1.0), 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned = tune(model, X, Y, restarts=1, random_state=0)
    start, found = tuned.tuning_.left_out
    assert tuned.tuning_.kept == ("tuned" if found <= start else "start")
    kept = np.mean(np.mean(tuned.loo_residuals() ** 2, axis=0) / Y.var(axis=0))
    assert_allclose(kept, min(start, found), rtol=1e-6)
    assert (tuned.alpha_ > 1e-5 * Y.var(axis=0)).all()


def test_the_start_is_kept_with_a_warning(monkeypatch):
    X, Y, _ = planted(30)
    found = iter([np.full(3, 0.1), np.full(3, 0.2)])
    monkeypatch.setattr("ovk.batch.tuning.tune.loo_errors", lambda model: next(found))
    with pytest.warns(UserWarning, match="the initial settings were kept"):
        model = tune(OVKRidge(Gaussian(0.7), 0.05), X, Y, restarts=1, max_iter=50)
    assert model.tuning_.kept == "start"
    assert model.kernel_.kernel.length_scale == 0.7


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_tuned_parameters_do_not_depend_on_the_order_of_rows(thin):
    """Bit for bit: a search amplifies differences in rounding."""
    draw = np.random.default_rng(0)
    inputs = np.where(draw.random((25, 3)) < 0.5, draw.uniform(-2, 2, (25, 3)), 0.0)
    outputs = np.sin(inputs[:, :2]) + 0.1 * draw.standard_normal((25, 2))
    found = []
    for rows in (np.arange(25), draw.permutation(25)):
        targets = check_targets(outputs[rows], 25, None, None, inputs[rows])
        suits = TuningCriterion(sparse.csr_array(inputs[rows]) if thin else inputs[rows], targets, "evidence")
        one = Search(suits, (Matern(0.5, 1.0) * Identity(2)).resolve(inputs, 2), 0.1, shared=True)
        found.append(one.run([one.start], 20)[0])
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "in a sum"])
def test_within_and_between_stay_on_their_sides_of_the_mean(nested):
    kernel = Gaussian(1.0) * Cluster([0, 0, 1], within=0.6, between=0.2)
    kernel = Gaussian(2.0) * Identity(3) + kernel if nested else kernel
    tuned = parameters(kernel, np.zeros((2, 1)))
    limits = dict(zip([one.name for one in tuned], bounds(kernel, tuned, read(kernel, tuned)), strict=True))
    prefix = "kernels[1]__operator" if nested else "operator"
    assert_allclose(limits[f"{prefix}__within"], (0.4, 1.0), atol=2e-6)
    assert_allclose(limits[f"{prefix}__between"], (0.0, 0.4))
