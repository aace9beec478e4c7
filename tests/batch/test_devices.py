"""Arrays of other libraries: array-api-strict on a simulated device, where hidden copies to NumPy fail, and torch."""

import inspect
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from ovk import (
    IOKR,
    OKVAR,
    OLOK,
    AutoStream,
    FunctionalRidge,
    FunctionalRidgeCV,
    OperatorRidge,
    OVKClassifier,
    OVKRidge,
    OVKRidgeCV,
    VectorField,
)
from ovk.base import DeviceMatrix, backend
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
from ovk.operators import Identity, Integral, MixedEffect

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


def dispatched(monkeypatch, name):
    """The library, or a skipped test where it, or scikit-learn's dispatch, is not available."""
    pytest.importorskip("array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    try:
        with sklearn.config_context(array_api_dispatch=True):
            return Library(name)
    except ImportError as error:  # SciPy 1.13
        pytest.skip(str(error))


@pytest.fixture(params=["array-api-strict", "torch"])
def library(request, monkeypatch):
    # NumPy computes with tensors on the processor; here torch does, as on a device.
    monkeypatch.setattr(backend, "shares_memory", lambda A: False)
    return dispatched(monkeypatch, request.param)


@pytest.fixture
def tensors(monkeypatch):
    """Torch, whose tensors are on the processor."""
    return dispatched(monkeypatch, "torch").xp


@pytest.fixture
def dispatch(library):
    with sklearn.config_context(array_api_dispatch=True):
        yield


def close(found, expected, atol=1e-10):
    """NumPy's relative tolerance of 1e-7 would hide errors of most predictions."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


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


@pytest.mark.parametrize("estimator", [VectorField, OVKClassifier, OLOK, AutoStream, OKVAR])
def test_an_estimator_that_does_not_run_on_devices_says_so(library, dispatch, estimator):
    X, Y, *_ = data()
    with pytest.raises(TypeError, match=rf"{estimator.__name__} does not run on a device.*array_api_dispatch=False"):
        estimator().fit(library.array(X), library.array(Y))


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
    close(library.numpy(model.predict(library.array(new))), expected.predict(new))
    close(model.dual_coef_, expected.dual_coef_)
    assert type(model.X_fit_) is np.ndarray
    assert abs(model.score(library.array(X), library.array(Y)) - expected.score(X, Y)) < 1e-10


def test_a_single_output_keeps_its_shape(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(alpha=0.1).fit(library.array(X), library.array(Y[:, 0]))
    expected = OVKRidge(alpha=0.1).fit(X, Y[:, 0]).predict(new)
    close(library.numpy(model.predict(library.array(new))), expected)


@pytest.mark.pairwise
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(1.5, 2.0), Laplacian(2.0), Polynomial(2)], ids=repr)
@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5)], ids=repr)
@pytest.mark.parametrize(
    "how", [{}, {"solver": "eigen"}, {"alpha": [1e-3, 2e-3, 1e-3]}, {"landmarks": 50, "random_state": 0}]
)
def test_single_precision_is_corrected(library, dispatch, gaps, kernel, operator, how):
    X, Y, w, new = (A.astype(np.float32) for A in data(100, gaps=gaps))
    model = OVKRidge(**{"kernel": kernel * operator, "alpha": 1e-3, **how})
    expected = sklearn.clone(model).fit(X, Y, w)
    model.fit(*(library.array(A, "float32") for A in (X, Y, w)))
    found = library.numpy(model.predict(library.array(new, "float32")))
    assert found.dtype == np.float32
    # Only the prediction has rounding errors of single precision, in proportion to the coefficients.
    scale = np.abs(expected.dual_coef_).sum(axis=0).max()
    close(model.dual_coef_, expected.dual_coef_, atol=1e-7 * scale)
    largest = max(float(kernel.diag(A).max()) for A in (X, new))
    close(found, expected.predict(new), atol=2e-7 * largest * scale)
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
    close(loaded.predict(new), expected, atol=1e-12)
    np.testing.assert_array_equal(library.numpy(loaded.predict(library.array(new))), expected)


def test_other_methods_compute_on_the_host_and_return_to_the_device(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1).fit(library.array(X), library.array(Y))
    expected = OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1).fit(X, Y)
    for how in ({"return_std": True}, {"return_cov": True}, {"return_std": True, "of": "posterior"}):
        pairs = zip(model.predict(library.array(new), **how), expected.predict(new, **how), strict=True)
        for found, values in pairs:
            close(library.numpy(found), values)
    task = np.arange(7) % 3
    found = model.predict(library.array(new), task=library.array(task))
    close(library.numpy(found), expected.predict(new, task=task))
    close(library.numpy(model.jacobian(library.array(new))), expected.jacobian(new))
    regions, others = (each.predict_interval(at) for each, at in ((model, library.array(new)), (expected, new)))
    close(library.numpy(regions.lower), others.lower)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["jackknife", "jackknife+", "cv+"])
@pytest.mark.parametrize(
    "model",
    [OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1), OVKRidge(Matern(1.5) * MixedEffect(0.5), 0.1), OVKRidgeCV()],
    ids=repr,
)
def test_eigenvectors_of_intervals_are_computed_on_the_device(library, dispatch, model, method, weighted):
    X, Y, w, new = data(30)
    model, expected = agree(library, sklearn.clone(model), X, Y, new, **({"sample_weight": w} if weighted else {}))
    found = model.predict_interval(library.array(new), method=method)
    assert isinstance(model._memo["left out"][1].left_out.pairs.Q, DeviceMatrix)
    values = expected.predict_interval(new, method=method)
    for name in ("predictions", "lower", "upper"):
        close(library.numpy(getattr(found, name)), getattr(values, name))
    # The same functions serve inputs on the host, and copies of the model do not hold them.
    close(model.predict_interval(new, method=method).lower, values.lower)
    copy = pickle.loads(pickle.dumps(model))
    close(copy.predict_interval(new, method=method).lower, values.lower)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["jackknife", "jackknife+", "cv+"])
@pytest.mark.parametrize(
    "model",
    [
        OVKRidge(Laplacian(2.0) * MixedEffect(0.5), 0.1),
        OVKRidgeCV([Gaussian(1.0) * Identity(), Matern(1.5, 2.0) * Identity()], [1e-2, 1e-1]),
    ],
    ids=repr,
)
def test_intervals_with_missing_outputs_agree_with_numpy(library, dispatch, model, method, weighted):
    X, Y, w, new = data(30, gaps=True)
    model, expected = agree(library, sklearn.clone(model), X, Y, new, **({"sample_weight": w} if weighted else {}))
    found, values = (
        model.predict_interval(library.array(new), method=method),
        expected.predict_interval(new, method=method),
    )
    for name in ("predictions", "lower", "upper"):
        close(library.numpy(getattr(found, name)), getattr(values, name))


class Delegated(RegressorMixin, BaseEstimator):
    """A model inside another: scikit-learn's check also expects fitted arrays on the device, and ours are NumPy's."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, X, y, sample_weight=None):
        how = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.model_ = sklearn.clone(self.model).fit(X, y, **how)
        return self

    def predict(self, X):
        return self.model_.predict(X)


CHECKED = [
    OVKRidge(alpha=0.1),
    OVKRidge(alpha=0.1, landmarks=5, random_state=0),
    OVKRidgeCV(),
    FunctionalRidge(alpha=0.1),
    FunctionalRidgeCV(),
    OperatorRidge(),
]


@pytest.mark.parametrize("model", CHECKED, ids=repr)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_methods_pass_the_checks_of_scikit_learn(library, model, precision):
    from sklearn.utils import estimator_checks

    where = ("torch", "cpu") if library.name == "torch" else ("array_api_strict", "device1")
    check = estimator_checks.check_array_api_input
    # Before 1.8 scikit-learn checked array-api-strict on its default device only.
    given = {"device_name": where[1]} if "device_name" in inspect.signature(check).parameters else {}
    # With values, and not types: NumPy arrays of single precision give predictions of double precision.
    check("Delegated", Delegated(model), where[0], dtype_name=precision, check_values=True, **given)


@pytest.mark.parametrize("model", CHECKED[:-1], ids=repr)
@pytest.mark.parametrize("outputs", [("numpy", "cpu"), ("array_api_strict", "CPU_DEVICE"), ("torch", "cpu")])
def test_outputs_and_weights_may_be_of_another_library_than_inputs(library, model, outputs):
    from sklearn.utils import estimator_checks

    check = getattr(estimator_checks, "check_array_api_mixed_inputs", None)
    if check is None:
        pytest.skip("this version of scikit-learn does not check mixed inputs")
    given = ("torch", "cpu") if library.name == "torch" else ("array_api_strict", "device1")
    where = {
        name: estimator_checks.NamespaceAndDevice(*place)
        for name, place in (("X_ns_and_device", given), ("other_ns_and_device", outputs))
    }
    check("Delegated", Delegated(model), **where, check_values=True)


def test_models_work_in_pipelines_and_searches_on_a_device(library, dispatch):
    X, Y, _, new = data()
    model = make_pipeline(MinMaxScaler(), OVKRidge(Gaussian(1.0), 0.1))
    agree(library, model, X, Y, new)
    if library.name == "torch":
        # Searches index arrays with NumPy's, which array-api-strict rejects.
        search = GridSearchCV(model, {"ovkridge__alpha": [0.01, 0.1, 1.0]}, cv=3, error_score="raise")
        found, expected = agree(library, search, X, Y, new)
        close(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


ON_THE_PROCESSOR = [
    OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1),
    OVKRidge(Periodic(Gaussian(1.0)), 0.1),
    OVKRidge(Gaussian(1.0), 0.1, loss="huber"),
    OVKRidge(Gaussian(1.0), 0.1, alpha_graph=0.1),
    OVKRidge(Gaussian(1.0), 0.1, landmarks=10, random_state=0),
    OVKRidgeCV(),
    FunctionalRidge(alpha=0.1),
    FunctionalRidgeCV(input_grid=[0.0, 0.5, 1.0]),
    OperatorRidge(),
    IOKR([Gaussian(1.0), Linear()], alpha=0.1),
]


@pytest.mark.parametrize("model", ON_THE_PROCESSOR, ids=repr)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_numpy_computes_with_tensors_on_the_processor(tensors, model, precision):
    """All settings work, also those that do not run on other devices, and only results become tensors."""
    X, Y, _, new = (A.astype(precision) for A in data(d=4))
    expected = sklearn.clone(model).fit(X, Y)
    with sklearn.config_context(array_api_dispatch=True):
        model = sklearn.clone(model).fit(tensors.as_tensor(X), tensors.as_tensor(Y))
        method = "weights" if isinstance(model, IOKR) else "predict"
        found = getattr(model, method)(tensors.as_tensor(new))
    assert isinstance(found, tensors.Tensor)
    assert str(found.dtype) == f"torch.{precision}"
    # In single precision only the result is rounded.
    at = getattr(expected, method)(new)
    np.testing.assert_allclose(found.numpy(), at, rtol=1e-6 if precision == "float32" else 1e-12, atol=1e-12)


def test_tensors_on_the_processor_are_not_copied(tensors):
    from ovk.features import FourierMap

    X, Y, _, new = data()
    features = FourierMap.from_kernel(Gaussian(1.0), 20, 3, 0)
    with sklearn.config_context(array_api_dispatch=True):
        model = OVKRidge(Gaussian(1.0), 0.1).fit(tensors.as_tensor(X), tensors.as_tensor(Y))
        assert isinstance(features.transform(tensors.as_tensor(X)), tensors.Tensor)
        intervals = model.predict_interval(tensors.as_tensor(new))
    assert np.shares_memory(model.X_fit_, X)
    close(intervals.upper.numpy(), OVKRidge(Gaussian(1.0), 0.1).fit(X, Y).predict_interval(new).upper)
    assert not isinstance(model._memo["left out"][1].left_out.pairs.Q, DeviceMatrix)


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


def test_what_happens_to_an_array_on_a_device_leaves_a_read_only_one_as_it_was(library, dispatch):
    """A factorisation overwrites its matrix."""
    A = np.array([[4.0, 2.0], [2.0, 3.0]])
    A.flags.writeable = False
    there = DeviceMatrix(library.array(np.zeros((1, 1)))).like(A)
    np.testing.assert_allclose(backend.cholesky(there, 0.0).host(), np.linalg.cholesky(A))
    np.testing.assert_allclose(backend.cholesky(there, 1.0).host(), np.linalg.cholesky(A + np.eye(2)))
    np.testing.assert_array_equal(A, [[4.0, 2.0], [2.0, 3.0]])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [None, 2])
def test_triangular_systems_on_a_device(library, dispatch, transposed, columns):
    rng = np.random.default_rng(0)
    L, B = np.tril(rng.standard_normal((4, 4))) + 3.0 * np.eye(4), rng.standard_normal((4, columns or 1))
    B = B if columns else B[:, 0]
    there = DeviceMatrix(library.array(L))
    found = backend.solve_triangular(there, B, transposed=transposed)
    close((L.T if transposed else L) @ found, B, atol=1e-12)
    np.testing.assert_allclose(backend.square_norms_of_inverse(there), (np.linalg.inv(L) ** 2).sum(axis=0))


@pytest.mark.parametrize("exact", [False, True])
def test_distances_on_a_device(library, dispatch, exact):
    rng = np.random.default_rng(0)
    X, Z, scale = 5.0 + rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), np.array([1.0, 2.0, 0.5])
    both = (DeviceMatrix(library.array(A)) for A in (X, Z))
    found = library.numpy(backend.squared_distances(*both, scale, exact=exact))
    np.testing.assert_allclose(found, (((X[:, None] - Z) / scale) ** 2).sum(axis=2), rtol=1e-12)


def agree(library, model, X, Y, new, atol=1e-10, **how):
    """Fit on the host and on the device; the two models, after checking that predictions agree."""
    expected = sklearn.clone(model).fit(X, Y, **how)
    model.fit(library.array(X), library.array(Y), **{name: library.array(value) for name, value in how.items()})
    close(library.numpy(model.predict(library.array(new))), expected.predict(new), atol=atol)
    return model, expected


def test_many_missing_outputs_are_solved_iteratively(library, dispatch, monkeypatch):
    monkeypatch.setattr("ovk.solvers.solver_choice.MAX_DENSE_UNKNOWNS", 10)
    X, Y, _, new = data(gaps=True)
    model, _ = agree(library, OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1), X, Y, new)
    assert model.solver_info_.route == "ConjugateGradient"


@pytest.mark.pairwise
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("leave_out", ["row", "entry"])
@pytest.mark.parametrize("operators", [None, [MixedEffect(0.2), MixedEffect(0.8)]])
@pytest.mark.parametrize("kernels", [[Gaussian(1.0), Matern(1.5, 2.0)], [Laplacian(2.0), Linear() + Polynomial(2)]])
@pytest.mark.parametrize("alpha_per_target", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_agrees_with_numpy(
    library, dispatch, gaps, leave_out, operators, kernels, alpha_per_target, repeated, weighted
):
    X, Y, w, new = data(30, gaps=gaps)
    if repeated:
        X[:5] = X[5:10]
    model = OVKRidgeCV(
        [kernel * Identity() for kernel in kernels],
        np.logspace(-3, 1, 5),
        operators=operators,
        leave_out=leave_out,
        alpha_per_target=alpha_per_target,
        tol=0.0,
    )
    model, expected = agree(library, model, X, Y, new, **({"sample_weight": w} if weighted else {}))
    np.testing.assert_allclose(model.errors_, expected.errors_, rtol=1e-10)
    assert model.kernel_ == expected.kernel_ or repr(model.kernel_) == repr(expected.kernel_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_automatic_choice_agrees_with_numpy(library, dispatch, gaps, weighted):
    X, Y, w, new = data(30, d=2, gaps=gaps)
    model, expected = agree(library, OVKRidgeCV(), X, Y, new, **({"sample_weight": w} if weighted else {}))
    assert model.choice_.names == expected.choice_.names


@pytest.mark.pairwise
@pytest.mark.parametrize("landmarks", [10, "rpcholesky", data()[0][::4]])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[3], KERNELS[-1]], ids=repr)
@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5)], ids=repr)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_landmarks_agree_with_numpy(library, dispatch, landmarks, kernel, operator, gaps, weighted):
    X, Y, w, new = data(gaps=gaps)
    model = OVKRidge(kernel * operator, 0.1, landmarks=landmarks, chunk_size=15, random_state=0)
    agree(library, model, X, Y, new, **({"sample_weight": w} if weighted else {}))


def test_chunks_on_a_device_agree_with_numpy(library, dispatch):
    X, Y, _, new = data()
    model = OVKRidge(Gaussian(1.0), 0.1, landmarks=X[::4])
    expected = sklearn.clone(model).fit(X, Y).predict(new)
    model.fit((library.array(X[rows]), library.array(Y[rows])) for rows in (slice(0, 20), slice(20, 40)))
    close(library.numpy(model.predict(library.array(new))), expected)


def test_the_benchmark_prints_ratios(capsys, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed: group test-torch")
    pytest.importorskip("array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    from benchmarks.device import main

    main(["--device", "cpu", "--rows", "60", "--rounds", "1"])
    assert "OVKRidge, torch" in capsys.readouterr().out


@pytest.mark.parametrize("how", [{}, {"landmarks": data()[0][::4]}], ids=["exact", "landmarks"])
def test_long_form_agrees_with_numpy(library, dispatch, how):
    X, Y, _, new = data()
    task = np.arange(40) % 3
    agree(library, OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.1, **how), X, Y[np.arange(40), task], new, task=task)


CURVES = [
    FunctionalRidge(Gaussian(1.0) * Integral(), 0.1),
    FunctionalRidge(Matern(1.5) * Integral(), 0.1, fit_intercept=False, solver="eigen"),
    FunctionalRidgeCV(alphas=[1e-3, 1e-1]),
    FunctionalRidgeCV([Gaussian(1.0), Laplacian(2.0)], [1e-2], operators=[Integral(), Identity()]),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("model", CURVES, ids=repr)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_curves_agree_with_numpy(library, dispatch, model, gaps, weighted):
    X, Y, w, new = data(20, d=6, gaps=gaps)
    model, expected = agree(library, sklearn.clone(model), X, Y, new, **({"sample_weight": w} if weighted else {}))
    there = library.array(new)
    for how in ({"grid": [0.1, 0.55]}, {"grid": [0.1, 0.55], "return_std": True}, {"return_cov": True}):
        found, values = model.predict(there, **how), expected.predict(new, **how)
        pairs = zip(found, values, strict=True) if isinstance(values, tuple) else [(found, values)]
        for one, other in pairs:
            close(library.numpy(one), other)
    close(library.numpy(model.jacobian(there)), expected.jacobian(new))
    for how in ({}, {"grid": [0.1, 0.55]}):
        found, values = model.predict_interval(there, **how), expected.predict_interval(new, **how)
        close(library.numpy(found.upper), values.upper)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        OVKRidgeCV([Gaussian(1.0) * Identity(), Matern(1.5) * Identity()], [1e-2, 1e-1], tol=0.0),
        OVKRidgeCV(),
        FunctionalRidgeCV([Gaussian(1.0), Laplacian(2.0)], [1e-2, 1e-1]),
    ],
    ids=repr,
)
def test_leave_one_out_of_single_precision_is_in_double_precision(library, dispatch, model, gaps):
    X, Y, w, new = (A.astype(np.float32) for A in data(40, d=4, gaps=gaps))
    expected = sklearn.clone(model).fit(X, Y, sample_weight=w)
    model = sklearn.clone(model).fit(*(library.array(A, "float32") for A in (X, Y, w)))
    np.testing.assert_allclose(model.errors_, expected.errors_, rtol=1e-9)
    scale = np.abs(expected.dual_coef_).sum(axis=0).max()
    close(model.dual_coef_, expected.dual_coef_, atol=1e-7 * scale)
    found = library.numpy(model.predict(library.array(new, "float32")))
    assert found.dtype == np.float32
    # Kernels with a penalised intercept are large.
    largest = float(expected.kernel_.as_separable().scalar.diag(expected.X_fit_).max())
    units = expected.grid_.roots().min() if isinstance(model, FunctionalRidgeCV) else 1.0
    close(found, expected.predict(new), atol=2e-7 * largest * scale / units)
    intervals = model.predict_interval(library.array(new, "float32"))
    close(library.numpy(intervals.upper), expected.predict_interval(new).upper, atol=2e-7 * scale / units)


def test_curves_in_single_precision(library, dispatch):
    X, Y, _, new = (A.astype(np.float32) for A in data(60, d=6))
    expected = FunctionalRidge(Gaussian(1.0) * Integral(), 0.1).fit(X, Y)
    model = FunctionalRidge(Gaussian(1.0) * Integral(), 0.1).fit(*(library.array(A, "float32") for A in (X, Y)))
    found = library.numpy(model.predict(library.array(new, "float32")))
    scale = np.abs(expected.dual_coef_).sum(axis=0).max() / expected.grid_.roots().min()
    assert found.dtype == np.float32
    close(found, expected.predict(new), atol=2e-7 * scale)


def test_input_curves_do_not_run_on_devices(library, dispatch):
    X, Y, *_ = data()
    with pytest.raises(ValueError, match="on a device does not support input_grid"):
        FunctionalRidgeCV(input_grid=[0.0, 0.5, 1.0]).fit(library.array(X), library.array(Y))


OPERATORS = [
    OperatorRidge(),
    OperatorRidge([Gaussian(1.5), Linear() + Polynomial(2)], [1e-3, 1e-2], decay=1.0, groups=2),
    OperatorRidge(Gaussian(1.5), 1e-3, decay=1.0, solver="cg", rank=20),
    OperatorRidge(Matern(1.5), 1e-3, decay=1.0, output_grid=np.linspace(0.0, 1.0, 6)),
]


@pytest.mark.parametrize("model", OPERATORS, ids=repr)
@pytest.mark.parametrize("gaps", [False, True])
def test_operators_agree_with_numpy(library, dispatch, model, gaps):
    X, Y, _, new = data(60, d=6, gaps=gaps)
    # "cg" stops at a relative residual of 1e-8.
    atol = 1e-8 if model.solver == "cg" else 1e-10
    model, expected = agree(library, sklearn.clone(model), X, Y, new, atol=atol)
    assert type(model.Z_fit_) is type(model.dual_coef_) is np.ndarray
    assert [repr(kernel) for kernel in model.kernels_] == [repr(kernel) for kernel in expected.kernels_]
    there = library.array(new)
    pairs = [
        *zip(model.predict(there, return_std=True), expected.predict(new, return_std=True), strict=True),
        *zip(model.predict_bands(there), expected.predict_bands(new), strict=True),
        (model.jacobian(there), expected.jacobian(new)),
        (model.derivative(there, there), expected.derivative(new, new)),
    ]
    if model.output_grid is not None:
        pairs.append((model.predict(there, grid=[0.1, 0.55]), expected.predict(new, grid=[0.1, 0.55])))
    for found, values in pairs:
        close(library.numpy(found), values, atol=atol)


def test_operators_of_single_precision_are_fitted_in_double_precision(library, dispatch):
    X, Y, _, new = (A.astype(np.float32) for A in data(40))
    expected = OperatorRidge().fit(X, Y)
    model = OperatorRidge().fit(library.array(X, "float32"), library.array(Y, "float32"))
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-6, atol=1e-6)
    found = library.numpy(model.predict(library.array(new, "float32")))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.predict(new), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"kernel": Periodic(Gaussian(1.0))}, "the kernel Periodic"), ({"dtype": "float32"}, "dtype='float32'")],
)
def test_settings_of_operators_that_do_not_run_on_devices_say_so(library, dispatch, options, message):
    X, Y, *_ = data()
    with pytest.raises(ValueError, match=f"on a device does not support {message}"):
        OperatorRidge(**options).fit(library.array(X), library.array(Y))


@pytest.mark.parametrize("entries", [1, 1 << 24])
@pytest.mark.parametrize("rank", [5, 1000])
@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.3, 0.2]])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(0.5), Polynomial(2)], ids=repr)
def test_tiles_agree_with_the_stored_matrix(library, dispatch, monkeypatch, entries, rank, alpha, kernel):
    for name in ("MAX_ENTRIES", "MAX_DEVICE_ENTRIES"):
        monkeypatch.setattr(f"ovk.batch.ridge.ridge_system.{name}", entries)
    monkeypatch.setattr("ovk.batch.ridge.ridge_system.MAX_RANK", rank)
    X, Y, w, new = data(80)
    expected = OVKRidge(kernel * MixedEffect(0.5), alpha).fit(X, Y, w).predict(new)
    model = OVKRidge(kernel * MixedEffect(0.5), alpha, solver="tiles")
    model, numpy = agree(library, model, X, Y, new, sample_weight=w)
    close(numpy.predict(new), expected)
    assert model.solver_info_.route == numpy.solver_info_.route == "Tiles"


@pytest.mark.parametrize(
    ("options", "gaps", "message"),
    [
        ({}, True, "solver='tiles' requires complete outputs"),
        ({"alpha": 0.0}, False, "alpha must be positive with solver='tiles'"),
        ({"loss": "huber"}, False, "solver='tiles' requires loss='squared'"),
        ({"kernel": Gaussian(1.0) * Identity() + Linear() * MixedEffect(0.5)}, False, "requires a kernel k \\* T"),
    ],
)
def test_tiles_say_what_they_need(options, gaps, message):
    X, Y, *_ = data(gaps=gaps)
    with pytest.raises(ValueError, match=message):
        OVKRidge(**{"alpha": 0.1, **options}, solver="tiles").fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        IOKR(Gaussian(1.0), alpha=0.1),
        IOKR(Matern(1.5), alpha=[1e-3, 1e-2], fit_intercept=True),
        IOKR(Linear() + Polynomial(2), Gaussian(1.0), alpha=0.1),
        IOKR(Gaussian(1.0), Gaussian(1.0), alpha=0.1, landmarks=10, random_state=0),
        IOKR(Gaussian(1.0), Gaussian(1.0), alpha=0.1, output_landmarks=15, random_state=0),
    ],
    ids=repr,
)
def test_scores_of_structured_outputs_agree_with_numpy(library, dispatch, model):
    from ovk.structured import PerExample

    X, Y, _, new = data()
    expected = sklearn.clone(model).fit(X, Y)
    model.fit(library.array(X), library.array(Y))
    there = library.array(new)
    close(library.numpy(model.weights(there)), expected.weights(new))
    found = library.numpy(model.decision_function(there, library.array(Y)))
    close(found, expected.decision_function(new, Y))
    each = PerExample([Y[i : i + 3] for i in range(len(new))])
    pairs = zip(model.decision_function(there, each), expected.decision_function(new, each), strict=True)
    for one, other in pairs:
        close(library.numpy(one), other)
    np.testing.assert_array_equal(model.predict(there, Y), expected.predict(new, Y))
    assert abs(model.score(library.array(X), library.array(Y)) - expected.score(X, Y)) < 1e-8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": [Gaussian(1.0), Linear()]}, "a list of kernels"),
        ({"alpha_graph": 0.1}, "alpha_graph"),
        ({"alpha": [0.1, 1.0], "landmarks": 10}, "landmarks with several alphas"),
        ({"kernel": Periodic(Gaussian(1.0))}, "the kernel Periodic"),
    ],
)
def test_structured_settings_that_do_not_run_on_devices_say_so(library, dispatch, options, message):
    X, Y, *_ = data()
    with pytest.raises(ValueError, match=f"on a device does not support {message}"):
        IOKR(**options).fit(library.array(X), library.array(Y))
    with pytest.raises(TypeError, match="IOKR does not run on a device"):
        IOKR(alpha=0.1, landmarks=10, output_landmarks=10).partial_fit(library.array(X), library.array(Y))


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Gaussian(np.array([1.0, 2.0, 3.0])), Matern(2.5, 1.0)], ids=repr)
def test_fourier_features_agree_with_numpy(library, dispatch, kernel):
    from ovk.features import FourierMap

    X = data()[0]
    features = FourierMap.from_kernel(kernel, 20, 3, 0)
    close(library.numpy(features.transform(library.array(X))), features.transform(X), atol=1e-14)
    single = library.numpy(features.transform(library.array(X, "float32")))
    assert single.dtype == np.float32
    # Phases of up to 30 are rounded to single precision.
    close(single, features.transform(X), atol=1e-5)
    with sklearn.config_context(array_api_dispatch=False):
        np.testing.assert_array_equal(features.transform(library.array(X)), features.transform(X))


@pytest.mark.parametrize("model", [OVKRidge(Gaussian(1.0) * MixedEffect(0.5), 0.01), IOKR(Gaussian(1.0), alpha=0.01)])
def test_tiles_and_structured_outputs_in_single_precision(library, dispatch, model):
    X, Y, _, new = (A.astype(np.float32) for A in data(60))
    model = model.set_params(solver="tiles") if isinstance(model, OVKRidge) else model
    expected = sklearn.clone(model).fit(X, Y)
    model = sklearn.clone(model).fit(library.array(X, "float32"), library.array(Y, "float32"))
    scale = np.abs(expected.dual_coef_).sum(axis=0).max()
    close(model.dual_coef_, expected.dual_coef_, atol=1e-7 * scale)
    method = "predict" if isinstance(model, OVKRidge) else "weights"
    found = library.numpy(getattr(model, method)(library.array(new, "float32")))
    assert found.dtype == np.float32
    close(found, getattr(expected, method)(new), atol=2e-7 * scale)
