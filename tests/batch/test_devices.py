"""Arrays of other libraries: array-api-strict on a simulated device, where hidden copies to NumPy fail, and torch."""

import numpy as np
import pytest
import sklearn

from ovk import OVKRidge, OVKRidgeCV, VectorField
from ovk.kernels import (
    Function,
    Gaussian,
    Intercept,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    OnColumns,
    Periodic,
    Polynomial,
    RationalQuadratic,
)
from ovk.operators import Identity, MixedEffect

KERNELS = [
    Gaussian(),
    Gaussian(np.array([1.0, 2.0, 3.0])),
    Matern(0.5),
    Matern(2.5, 2.0),
    Laplacian(),
    RationalQuadratic(),
    Polynomial(2),
    Linear() + Intercept(2.0),
    0.5 * Gaussian(1.0) * Linear(),
    OnColumns(Gaussian(1.0), [0, 2]) + Mapped(Matern(1.5), np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])),
]


class Library:
    def __init__(self, name):
        self.name = name
        if name == "torch":
            self.xp = pytest.importorskip("torch", reason="torch is not installed: group test-torch")
        else:
            self.xp = pytest.importorskip("array_api_strict")

    def array(self, A, dtype="float64"):
        A = np.asarray(A)
        dtype = getattr(self.xp, dtype) if A.dtype.kind == "f" else None
        device = "cpu" if self.name == "torch" else self.xp.Device("device1")
        return self.xp.asarray(A, dtype=dtype, device=device)

    def numpy(self, A):
        """A as NumPy, after checking that it is an array of this library on the right device."""
        if self.name == "torch":
            assert isinstance(A, self.xp.Tensor)
            return A.numpy()
        assert A.device == self.xp.Device("device1")
        return np.asarray(A.to_device(self.xp.Device("CPU_DEVICE")))


@pytest.fixture(params=["array-api-strict", "torch"])
def library(request, monkeypatch):
    pytest.importorskip("array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    try:
        with sklearn.config_context(array_api_dispatch=True):
            return Library(request.param)
    except ImportError as error:  # SciPy 1.13
        pytest.skip(str(error))


@pytest.fixture
def dispatch(library):
    with sklearn.config_context(array_api_dispatch=True):
        yield


def data(n=40, d=3, gaps=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    Y = np.sin(X @ rng.standard_normal((3, d))) + 0.1 * rng.standard_normal((n, d))
    if gaps:
        Y[rng.random((n, d)) < 0.3] = np.nan
    return X, Y, rng.uniform(0.5, 2.0, n), rng.standard_normal((7, 3))


def test_without_dispatch_arrays_are_copied_to_numpy(library):
    X, Y, w, new = data()
    model = OVKRidge(alpha=0.1).fit(library.array(X), library.array(Y), sample_weight=library.array(w))
    found = model.predict(library.array(new))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, OVKRidge(alpha=0.1).fit(X, Y, sample_weight=w).predict(new))


def test_an_estimator_that_does_not_run_on_devices_says_so(library, dispatch):
    X, Y, *_ = data()
    with pytest.raises(TypeError, match=r"VectorField does not run on a device.*array_api_dispatch=False"):
        VectorField().fit(library.array(X), library.array(Y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": Function(lambda x, z: x @ z.T)}, "the kernel Function"),
        ({"kernel": Matern(0.7)}, "the kernel Matern"),
        ({"kernel": Periodic(Gaussian(1.0))}, "the kernel Periodic"),
        ({"loss": "huber"}, "loss='huber'"),
        ({"dtype": "float32"}, "dtype='float32'"),
        ({"solver": "cg"}, "solver='cg'"),
        ({"alpha_graph": 1.0}, "alpha_graph"),
    ],
)
def test_settings_that_do_not_run_on_devices_say_so(library, dispatch, options, message):
    X, Y, *_ = data()
    with pytest.raises(ValueError, match=f"on a device does not support {message}"):
        OVKRidge(**options).fit(library.array(X), library.array(Y))


@pytest.mark.pairwise
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5)], ids=repr)
@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.3, 0.2]])
@pytest.mark.parametrize("solver", ["cholesky", "eigen"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_ridge_agrees_with_numpy(library, dispatch, kernel, operator, alpha, solver, intercept, weighted, gaps):
    X, Y, w, new = data(gaps=gaps)
    how = {"sample_weight": w} if weighted else {}
    model = OVKRidge(kernel * operator, alpha, solver=solver, fit_intercept=intercept)
    expected = sklearn.clone(model).fit(X, Y, **how)
    model.fit(library.array(X), library.array(Y), **{name: library.array(value) for name, value in how.items()})
    np.testing.assert_allclose(library.numpy(model.predict(library.array(new))), expected.predict(new), atol=1e-10)
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-9)
    assert type(model.X_fit_) is np.ndarray
    assert abs(model.score(library.array(X), library.array(Y)) - expected.score(X, Y)) < 1e-10


def test_a_single_output_keeps_its_shape(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(alpha=0.1).fit(library.array(X), library.array(Y[:, 0]))
    expected = OVKRidge(alpha=0.1).fit(X, Y[:, 0]).predict(new)
    np.testing.assert_allclose(library.numpy(model.predict(library.array(new))), expected, atol=1e-10)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5)], ids=repr)
@pytest.mark.parametrize(
    "how", [{}, {"solver": "eigen"}, {"alpha": [1e-3, 2e-3, 1e-3]}, {"landmarks": 50, "random_state": 0}]
)
def test_single_precision_is_corrected(library, dispatch, gaps, operator, how):
    X, Y, w, new = (A.astype(np.float32) for A in data(100, gaps=gaps))
    model = OVKRidge(**{"kernel": Gaussian(1.0) * operator, "alpha": 1e-3, **how})
    expected = sklearn.clone(model).fit(X, Y, w)
    model.fit(*(library.array(A, "float32") for A in (X, Y, w)))
    found = library.numpy(model.predict(library.array(new, "float32")))
    assert found.dtype == np.float32
    # Only the prediction has rounding errors of single precision, in proportion to the coefficients.
    scale = np.abs(expected.dual_coef_).sum(axis=0).max()
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-7 * scale)
    np.testing.assert_allclose(found, expected.predict(new), atol=2e-7 * scale)
    if "landmarks" not in how:
        assert model.X_fit_.dtype == np.float32
    if not (gaps or "solver" in how or "landmarks" in how):
        assert model.solver_info_.route == "SinglePrecision"


def test_a_model_moves_between_host_and_devices(library, dispatch, tmp_path):
    import ovk

    X, Y, _, new = data()
    model = OVKRidge(Gaussian(1.0), 0.1).fit(library.array(X), library.array(Y))
    expected = library.numpy(model.predict(library.array(new)))
    ovk.save(model, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    np.testing.assert_allclose(loaded.predict(new), expected, atol=1e-12)
    np.testing.assert_array_equal(library.numpy(loaded.predict(library.array(new))), expected)


def test_other_methods_compute_on_the_host_and_return_to_the_device(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1).fit(library.array(X), library.array(Y))
    expected = OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1).fit(X, Y)
    for how in ({"return_std": True}, {"return_cov": True}, {"return_std": True, "of": "posterior"}):
        pairs = zip(model.predict(library.array(new), **how), expected.predict(new, **how), strict=True)
        for found, values in pairs:
            np.testing.assert_allclose(library.numpy(found), values, atol=1e-10)
    task = np.arange(7) % 3
    found = model.predict(library.array(new), task=library.array(task))
    np.testing.assert_allclose(library.numpy(found), expected.predict(new, task=task), atol=1e-10)
    np.testing.assert_allclose(library.numpy(model.jacobian(library.array(new))), expected.jacobian(new), atol=1e-10)
    regions, others = (each.predict_interval(at) for each, at in ((model, library.array(new)), (expected, new)))
    np.testing.assert_allclose(library.numpy(regions.lower), others.lower, atol=1e-10)


def test_errors_about_inputs_are_those_of_numpy(library, dispatch):
    X, Y, *_ = data()
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN: fill missing inputs"):
        OVKRidge().fit(library.array(bad), library.array(Y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        OVKRidge().fit(library.array(X), library.array(Y[:-1]))
    with pytest.raises(ValueError, match="expecting 3 features"):
        OVKRidge().fit(library.array(X), library.array(Y)).predict(library.array(X[:, :2]))


def agree(library, model, X, Y, new, atol=1e-10, **how):
    """Fit on the host and on the device; the two models, after checking that predictions agree."""
    expected = sklearn.clone(model).fit(X, Y, **how)
    model.fit(library.array(X), library.array(Y), **{name: library.array(value) for name, value in how.items()})
    np.testing.assert_allclose(library.numpy(model.predict(library.array(new))), expected.predict(new), atol=atol)
    return model, expected


def test_many_missing_outputs_are_solved_iteratively(library, dispatch, monkeypatch):
    monkeypatch.setattr("ovk.solvers.solver_choice.MAX_DENSE_UNKNOWNS", 10)
    X, Y, _, new = data(gaps=True)
    model, _ = agree(library, OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1), X, Y, new, atol=1e-9)
    assert model.solver_info_.route == "MissingOutputs"


@pytest.mark.pairwise
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("leave_out", ["row", "entry"])
@pytest.mark.parametrize("operators", [None, [MixedEffect(0.2), MixedEffect(0.8)]])
@pytest.mark.parametrize("alpha_per_target", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_agrees_with_numpy(
    library, dispatch, gaps, leave_out, operators, alpha_per_target, repeated, weighted
):
    X, Y, w, new = data(30, gaps=gaps)
    if repeated:
        X[:5] = X[5:10]
    model = OVKRidgeCV(
        [Gaussian(1.0) * Identity(), Matern(1.5, 2.0) * Identity()],
        np.logspace(-3, 1, 5),
        operators=operators,
        leave_out=leave_out,
        alpha_per_target=alpha_per_target,
        tol=0.0,
    )
    model, expected = agree(library, model, X, Y, new, **({"sample_weight": w} if weighted else {}))
    np.testing.assert_allclose(model.errors_, expected.errors_, rtol=1e-10)
    assert model.kernel_ == expected.kernel_ or repr(model.kernel_) == repr(expected.kernel_)


@pytest.mark.parametrize("gaps", [False, True])
def test_the_automatic_choice_agrees_with_numpy(library, dispatch, gaps):
    X, Y, _, new = data(30, d=2, gaps=gaps)
    model, expected = agree(library, OVKRidgeCV(), X, Y, new)
    assert model.choice_.names == expected.choice_.names


@pytest.mark.pairwise
@pytest.mark.parametrize("landmarks", [10, "rpcholesky", data()[0][::4]])
@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5)], ids=repr)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_landmarks_agree_with_numpy(library, dispatch, landmarks, operator, gaps, weighted):
    X, Y, w, new = data(gaps=gaps)
    model = OVKRidge(Gaussian(1.0) * operator, 0.1, landmarks=landmarks, chunk_size=15, random_state=0)
    agree(library, model, X, Y, new, **({"sample_weight": w} if weighted else {}))


def test_chunks_on_a_device_agree_with_numpy(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(Gaussian(1.0), 0.1, landmarks=X[::4])
    expected = sklearn.clone(model).fit(X, Y).predict(new)
    model.fit((library.array(X[rows]), library.array(Y[rows])) for rows in (slice(0, 20), slice(20, 40)))
    np.testing.assert_allclose(library.numpy(model.predict(library.array(new))), expected, atol=1e-10)


def test_the_benchmark_prints_ratios(capsys, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed: group test-torch")
    pytest.importorskip("array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    from benchmarks.device import main

    main(["--device", "cpu", "--rows", "60", "--rounds", "1"])
    assert "OVKRidge, torch" in capsys.readouterr().out
