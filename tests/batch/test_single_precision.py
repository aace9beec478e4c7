"""Single precision: the solutions of double precision with a quarter of the memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import ovk
from memory import peak_memory
from ovk import OVKClassifier, OVKRidge, OVKRidgeCV
from ovk.batch.ridge.ridge_system import MAX_ENTRIES
from ovk.kernels import Gaussian, Linear, Matern
from ovk.operators import Dense
from ovk.ovkernels import CurlFree

RNG = np.random.default_rng(0)
#: Inputs that single precision holds exactly, so that both solve the same problem.
X = RNG.standard_normal((90, 2)).astype(np.float32).astype(np.float64)
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * RNG.standard_normal((90, 2))
WEIGHT = RNG.uniform(0.5, 2.0, 90)
COUPLED = Matern(1.5, 2.0) * Dense([[1.0, 0.5], [0.5, 2.0]])


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", ""])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("alpha", [1.0, 1e-6, [0.1, 1e-4]], ids=["large", "small", "each"])
def test_the_solution_is_that_of_double_precision(alpha, weight, intercept):
    one, other = (
        OVKRidge(COUPLED, alpha, fit_intercept=intercept, dtype=dtype).fit(X, Y, weight)
        for dtype in ("float64", "float32")
    )
    assert other.solver_info_.route == "SinglePrecision"
    assert 0 < other.solver_info_.iterations < 20
    assert other.X_fit_.dtype == np.float32
    assert_allclose(other.predict(X + 0.1), one.predict(X + 0.1), rtol=0, atol=1e-9)
    if intercept:
        assert_allclose(other.intercept_, one.intercept_, atol=1e-8)


def test_a_ridge_below_the_rounding_of_single_precision():
    """The factor needs jitter, which the iterations correct."""
    one, other = (OVKRidge(Gaussian(2.0), 1e-7, dtype=dtype).fit(X, Y) for dtype in ("float64", "float32"))
    assert other.solver_info_.jitter > 0
    assert_allclose(other.predict(X), one.predict(X), rtol=0, atol=1e-5)


def test_a_system_that_does_not_converge_is_reported(monkeypatch):
    monkeypatch.setattr("ovk.batch.ridge.ridge_system.MAX_REFINEMENTS", 2)
    with pytest.warns(ConvergenceWarning, match="did not reach tol=1e-12 within 2 iterations.*dtype='float64'"):
        OVKRidge(Gaussian(2.0), 1e-6, dtype="float32").fit(X, Y)


def test_it_takes_a_quarter_of_the_memory():
    n, rng = 2000, np.random.default_rng(1)
    rows, y = rng.standard_normal((n, 2)), rng.standard_normal(n)

    def peak(dtype):
        return peak_memory(lambda: OVKRidge(Matern(1.5, 1.0), 1.0, dtype=dtype).fit(rows, y), tries=1)

    double, single = peak("float64"), peak("float32")
    assert double > 1.9 * 8 * n**2
    # A quarter, and a few rows of the kernel in double precision.
    assert single < 0.25 * double + 8 * 8 * MAX_ENTRIES


def test_inputs_may_be_sparse_and_outputs_flat():
    thin = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    one, other = (OVKRidge(Linear(), 0.5, dtype=dtype).fit(thin, Y[:, 0]) for dtype in ("float64", np.float32))
    assert_allclose(other.predict(thin), one.predict(thin), atol=1e-8)


def test_methods_of_a_fitted_model_work(tmp_path):
    one, other = (OVKRidge(COUPLED, 0.1, dtype=dtype).fit(X, Y) for dtype in ("float64", "float32"))
    for found, expected in zip(other.predict(X[:5], return_std=True), one.predict(X[:5], return_std=True), strict=True):
        assert_allclose(found, expected, rtol=1e-6)
    assert_allclose(other.predict_interval(X[:5]).upper, one.predict_interval(X[:5]).upper, rtol=1e-6)
    ovk.save(other, tmp_path / "model.ovk")
    again = ovk.load(tmp_path / "model.ovk")
    assert again.dtype == "float32"
    assert again.X_fit_.dtype == np.float32
    assert np.array_equal(again.predict(X), other.predict(X))


def test_everything_is_chosen_as_in_double_precision():
    one, other = (OVKRidgeCV(dtype=dtype).fit(X, Y) for dtype in ("float64", "float32"))
    assert other.choice_.names == one.choice_.names
    assert other.X_fit_.dtype == np.float32
    assert_allclose(other.predict(X), one.predict(X), atol=1e-4)
    label = X[:, 0] > 0
    assert OVKClassifier(Gaussian(1.0), 0.1, dtype="float32").fit(X, label).score(X, label) > 0.9


@pytest.mark.parametrize(
    ("model", "outputs", "message"),
    [
        (OVKRidge(dtype="float16"), Y, "dtype must be 'float64' or 'float32', got 'float16'"),
        (OVKRidge(dtype="big"), Y, "dtype must be 'float64' or 'float32', got 'big'"),
        (OVKRidge(CurlFree(Gaussian(1.0)), dtype="float32"), Y, "requires a kernel k [*] T"),
        (OVKRidge("precomputed", dtype="float32"), None, "requires a kernel k [*] T"),
        (
            OVKRidge(dtype="float32"),
            np.where((WEIGHT[:, None] > 1.8) & [True, False], np.nan, Y),
            "requires complete outputs",
        ),
        (OVKRidge(alpha=0.0, dtype="float32"), Y, "alpha must be positive .*, got 0.0"),
        (OVKRidge(loss="huber", dtype="float32"), Y, "does not support loss"),
        (OVKRidge(solver="eigen", dtype="float32"), Y, "does not support solver"),
        (OVKRidge(alpha_graph=1.0, dtype="float32"), Y, "does not support alpha_graph"),
    ],
)
def test_options_that_single_precision_does_not_support_raise(model, outputs, message):
    rows = np.eye(90) if outputs is None else X
    with pytest.raises(ValueError, match=message):
        model.fit(rows, Y if outputs is None else outputs)
    assert not hasattr(model, "kernel_")


def test_numbers_beyond_single_precision_raise():
    with pytest.raises(ValueError, match=r"X has values up to .*e[+]200, beyond the range.*: scale X"):
        OVKRidge(Linear(), dtype="float32").fit(X * 1e200, Y)
