"""Nystrom landmarks: agreement with exact regression, chunks, iterators and files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from batch.reference import DenseRidge, long_form
from memory import peak_memory
from ovk import OVKRidge
from ovk.batch.ridge import landmarks as module
from ovk.kernels import Gaussian, Laplacian, Matern
from ovk.operators import Dense, Identity, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, OperatorKernel

B = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
KERNELS = {
    "identity": Gaussian(0.8) * Identity(3),
    "dense": Matern(1.5, 0.8) * Dense(B),
    "low rank": Matern(1.5, 0.8) * LowRank([[1.0], [0.5], [-2.0]]),
    "sum": Gaussian(0.8) * Dense(B) + Laplacian(1.5) * Dense(np.diag([1.0, 2.0, 0.5])),
    "diagonal": Diagonal([Gaussian(0.5), Laplacian(1.0), Gaussian(0.5)]),
}
FORMS = {
    "complete": {},
    "holes": {"holes": True},
    "intercept and alphas": {"intercept": True, "per_output": True},
    "all with holes": {"holes": True, "weighted": True, "intercept": True, "per_output": True},
    "all complete": {"weighted": True, "intercept": True, "per_output": True},
}


class Projected(OperatorKernel):
    """The kernel induced by landmarks D: K(x, D) K(D, D)^+ K(D, z)."""

    def __init__(self, kernel, points):
        self.kernel, self.points = kernel, points

    output_dim = property(lambda self: self.kernel.output_dim)

    def gram(self, X, Z=None):
        left = self.kernel.gram(X, self.points).dense()
        right = left if Z is None else self.kernel.gram(Z, self.points).dense()
        inner = np.linalg.pinv(self.kernel.gram(self.points).dense(), rcond=1e-13, hermitian=True)
        return DenseGram(left @ inner @ right.T)


class DenseGram:
    def __init__(self, matrix):
        self.dense = lambda: matrix


def arguments(data, holes=False, weighted=False, intercept=False, per_output=False):
    Y = data.holes if holes else data.Y
    return Y, data.weight if weighted else None, np.array([0.2, 0.05, 0.4]) if per_output else 0.1, intercept


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_all_points_as_landmarks_equal_exact_regression(name, form, data):
    Y, weight, alpha, intercept = arguments(data, **FORMS[form])
    exact = OVKRidge(KERNELS[name], alpha=alpha, fit_intercept=intercept).fit(data.X, Y, weight)
    model = OVKRidge(KERNELS[name], alpha=alpha, fit_intercept=intercept, landmarks=data.X).fit(data.X, Y, weight)
    assert model.solver_info_.route == "Landmarks"
    mean, cov = model.predict(data.X_new, return_cov=True, of="posterior")
    expected, spread = exact.predict(data.X_new, return_cov=True, of="posterior")
    assert_allclose(mean, expected, rtol=0, atol=1e-6)
    assert_allclose(cov, spread, rtol=0, atol=1e-6)
    assert np.linalg.eigvalsh(cov).min() > -1e-8


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_few_landmarks_equal_regression_with_the_projected_kernel(name, form, data):
    Y, weight, alpha, intercept = arguments(data, **FORMS[form])
    points = data.X[::4]
    model = OVKRidge(KERNELS[name], alpha=alpha, fit_intercept=intercept, landmarks=points).fit(data.X, Y, weight)
    projected = Projected(KERNELS[name], points)
    slow = DenseRidge(projected, data.X, Y, alpha, weight, intercept=intercept)
    mean, cov = model.predict(data.X_new, return_cov=True, of="posterior")
    assert_allclose(mean, slow.predict(data.X_new), rtol=0, atol=1e-7)
    # Outside the span of the landmarks the variance is that of the prior.
    prior = KERNELS[name].diagonal_blocks(data.X_new)
    reached = projected.gram(data.X_new).dense().reshape(7, 3, 7, 3)[np.arange(7), :, np.arange(7), :]
    assert_allclose(cov, slow.covariance(data.X_new) + prior - reached, rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["holes", "all with holes"])
@pytest.mark.parametrize("name", ["identity", "dense", "low rank"])
def test_iterative_route_with_gaps(name, form, data, monkeypatch):
    Y, weight, alpha, intercept = arguments(data, **FORMS[form])
    model = OVKRidge(KERNELS[name], alpha=alpha, fit_intercept=intercept, landmarks=data.X[::4])
    expected = model.fit(data.X, Y, weight).predict(data.X_new)
    assert model.solver_info_.iterations == 0
    monkeypatch.setattr(module, "MAX_DENSE_UNKNOWNS", 2)
    model.fit(data.X, Y, weight)
    assert model.solver_info_.iterations > 0
    assert_allclose(model.predict(data.X_new), expected, rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match=r"at most 2 for the posterior covariance .*, got"):
        model.predict(data.X_new, return_std=True, of="posterior")


def test_iterative_route_warns_without_convergence(data, monkeypatch):
    monkeypatch.setattr(module, "MAX_DENSE_UNKNOWNS", 2)
    monkeypatch.setattr(module, "MAX_ITERATIONS", 2)
    with pytest.warns(ConvergenceWarning, match="within 2 iterations"):
        OVKRidge(KERNELS["dense"], alpha=0.1, landmarks=data.X[::4]).fit(data.X, data.holes)


@pytest.mark.parametrize("name", ["dense", "sum"])
def test_long_form_equals_nan_form(name, data):
    X, y, task = long_form(data.X, data.holes)
    model = OVKRidge(KERNELS[name], alpha=0.1, landmarks=data.X[::4], fit_intercept=True, chunk_size=7)
    wide = model.fit(data.X, data.holes).predict(data.X_new, return_cov=True, of="posterior")
    long = model.fit(X, y, task=task).predict(data.X_new, return_cov=True, of="posterior")
    assert_allclose(long[0], wide[0], rtol=1e-9)
    assert_allclose(long[1], wide[1], rtol=0, atol=1e-9)


def test_curl_free_with_landmarks(data):
    kernel = CurlFree(Gaussian(0.8))
    exact = OVKRidge(kernel, alpha=0.1).fit(data.X, data.holes[:, :2])
    model = OVKRidge(kernel, alpha=0.1, landmarks=25, random_state=0).fit(data.X, data.holes[:, :2])
    assert_allclose(model.predict(data.X_new), exact.predict(data.X_new), rtol=0, atol=1e-6)
    assert_allclose(model.jacobian(data.X_new), exact.jacobian(data.X_new), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["dense", "sum"])
@pytest.mark.parametrize("form", ["complete", "all with holes"])
def test_chunk_size_does_not_matter(name, form, data):
    Y, weight, alpha, intercept = arguments(data, **FORMS[form])
    results = [
        OVKRidge(KERNELS[name], alpha, fit_intercept=intercept, landmarks=9, random_state=0, chunk_size=size)
        .fit(data.X, Y, weight)
        .predict(data.X_new)
        for size in (4096, 1, 6)
    ]
    assert_allclose(results[1], results[0], rtol=0, atol=1e-10)
    assert_allclose(results[2], results[0], rtol=0, atol=1e-10)


def chunks(*arrays, size=6):
    return (tuple(A[i : i + size] for A in arrays) for i in range(0, len(arrays[0]), size))


@pytest.mark.parametrize("name", ["dense", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_iterator_equals_arrays(name, weighted, data):
    arrays = (data.X, data.holes, data.weight) if weighted else (data.X, data.holes)
    model = OVKRidge(KERNELS[name], alpha=0.1, landmarks=data.X[::4], fit_intercept=True)
    expected = model.fit(*arrays).predict(data.X_new, return_std=True, of="posterior")
    found = model.fit(chunks(*arrays)).predict(data.X_new, return_std=True, of="posterior")
    assert_allclose(found, expected, rtol=1e-9)


def test_iterator_of_sparse_and_one_dimensional_chunks(data):
    model = OVKRidge(Gaussian(0.8), alpha=0.1, landmarks=8, random_state=0)
    stream = ((sparse.csr_array(X), y) for X, y in chunks(data.X, data.Y[:, 0]))
    prediction = model.fit(stream).predict(data.X_new)
    assert prediction.shape == (7,)
    assert_allclose(prediction, model.fit(chunks(data.X, data.Y[:, 0])).predict(data.X_new), rtol=1e-9)


def test_landmarks_of_an_iterator_come_from_its_rows(data):
    model = OVKRidge(Gaussian(0.8), landmarks=5, random_state=0).fit(chunks(data.X, data.Y))
    assert model.X_fit_.shape == (5, 2)
    assert all((point == data.X).all(axis=1).any() for point in model.X_fit_)


def test_an_output_may_be_missing_in_a_whole_chunk(data):
    Y = data.Y.copy()
    Y[:6, 1], Y[6:12] = np.nan, np.nan
    model = OVKRidge(KERNELS["dense"], alpha=0.1, landmarks=data.X[::4], fit_intercept=True)
    expected = model.fit(data.X, Y).predict(data.X_new)
    assert_allclose(model.fit(chunks(data.X, Y)).predict(data.X_new), expected, rtol=1e-9)


def test_a_chunk_may_have_no_weight(data):
    weight = np.where(np.arange(25) < 6, 0.0, data.weight)
    model = OVKRidge(KERNELS["dense"], alpha=0.1, landmarks=data.X[::4])
    expected = model.fit(data.X, data.Y, weight).predict(data.X_new)
    assert_allclose(model.fit(chunks(data.X, data.Y, weight)).predict(data.X_new), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_mapped_arrays(dtype, data, tmp_path):
    maps = []
    for name, A in (("X", data.X), ("Y", data.holes)):
        file = np.memmap(tmp_path / name, dtype=dtype, mode="w+", shape=A.shape)
        file[:] = A
        file.flush()
        maps.append(np.memmap(tmp_path / name, dtype=dtype, mode="r", shape=A.shape))
    model = OVKRidge(KERNELS["dense"], alpha=0.1, landmarks=9, random_state=0, chunk_size=5)
    expected = model.fit(*(np.asarray(A, dtype=float) for A in maps)).predict(data.X_new)
    assert_allclose(model.fit(*maps).predict(data.X_new), expected, rtol=1e-9)


def test_memory_is_that_of_a_chunk():
    n, size, p = 200_000, 2000, 6

    def stream():
        rng = np.random.default_rng(0)
        for _ in range(n // size):
            X = rng.standard_normal((size, p))
            yield X, np.column_stack([X[:, 0], np.sin(X[:, 1])])

    model = OVKRidge(Gaussian(2.0) * MixedEffect(0.5), landmarks=10, random_state=0)
    limit = 0.2 * n * (p + 2) * 8
    assert peak_memory(lambda: model.fit(stream()), limit) < limit
    X = np.random.default_rng(1).standard_normal((50, p))
    assert model.score(X, np.column_stack([X[:, 0], np.sin(X[:, 1])])) > 0.3


def test_repeated_landmarks_are_left_out(data):
    model = OVKRidge(Gaussian(0.8), alpha=0.1, landmarks=np.repeat(data.X[:5], 2, axis=0)).fit(data.X, data.Y)
    once = OVKRidge(Gaussian(0.8), alpha=0.1, landmarks=data.X[:5]).fit(data.X, data.Y)
    assert len(model.X_fit_) == 5
    assert_allclose(model.predict(data.X_new), once.predict(data.X_new), rtol=1e-7)


@pytest.mark.parametrize("graph", [False, True])
def test_a_refit_forgets_which_rows_were_learned_before(data, graph):
    model = OVKRidge(Gaussian(0.8), landmarks=5, random_state=0)
    model.fit(data.X, data.Y, np.r_[0.0, np.ones(len(data.X) - 1)])
    assert model.learned_rows_.tolist() == [False] + [True] * (len(data.X) - 1)
    if graph:
        model.set_params(alpha_graph=0.1).fit(data.X, data.Y)
    else:
        model.fit(iter([(data.X, data.Y)]))
    assert model.learned_rows_ is None


def test_random_state_draws_the_landmarks(data):
    def points(state):
        return OVKRidge(Gaussian(0.8), landmarks=5, random_state=state).fit(data.X, data.Y).X_fit_

    assert_allclose(points(0), points(0), rtol=0, atol=0)
    assert_allclose(points(np.random.default_rng(0)), points(np.random.default_rng(0)), rtol=0, atol=0)
    assert not np.array_equal(points(0), points(1))


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda d: iter([]), "iterator of chunks must contain at least one chunk"),
        (lambda d: iter([d.X]), r"chunk 0 must be a tuple \(X, Y\).*got ndarray"),
        (lambda d: iter([(d.X, d.Y), (d.X,)]), "chunk 1 must be a tuple"),
        (lambda d: iter([(d.X, d.Y), (d.X, d.Y[:, :2])]), "chunk 1 must have 3 outputs, as the first chunk, got 2"),
        (lambda d: iter([(d.X, d.Y), (d.X[:, :1], d.Y)]), "1 features.*expecting 2"),
        (lambda d: iter([(d.X, d.Y[:5])]), "inconsistent numbers of samples"),
        (lambda d: iter([(d.X, np.where([True, False, False], np.nan, d.Y))]), "output 0 is nan in all rows"),
        (lambda d: iter([(d.X, d.Y, -d.weight)]), "Negative"),
        (lambda d: iter([(d.X, np.where(d.Y > 0, np.inf, d.Y))]), "infinity"),
    ],
)
def test_bad_chunks(stream, message, data):
    model = OVKRidge(Gaussian(0.8), landmarks=5, random_state=0).fit(data.X, data.Y)
    before = model.predict(data.X_new)
    with pytest.raises(ValueError, match=message):
        model.fit(stream(data))
    assert_allclose(model.predict(data.X_new), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"landmarks": 0}, "landmarks must be an integer >= 1, got 0"),
        ({"landmarks": -3}, "landmarks must be an integer >= 1, got -3"),
        ({"landmarks": 2.5}, "landmarks must be an integer, 'rpcholesky' or points with 2 features"),
        ({"landmarks": "many"}, "landmarks must be an integer, 'rpcholesky' or points with 2 features"),
        ({"landmarks": np.ones((4, 3))}, r"landmarks must .* 2 features, got shape \(4, 3\)"),
        ({"landmarks": np.empty((0, 2))}, r"landmarks must .* 2 features, got shape \(0, 2\)"),
        ({"landmarks": np.full((4, 2), np.nan)}, "landmarks must be finite"),
        ({"landmarks": 5, "chunk_size": 0}, "chunk_size must be an integer >= 1, got 0"),
    ],
)
def test_bad_parameters(params, message, data):
    with pytest.raises(ValueError, match=message):
        OVKRidge(Gaussian(0.8), **params).fit(data.X, data.Y)


def test_iterator_needs_landmarks(data):
    with pytest.raises(ValueError, match="iterator of chunks only with landmarks"):
        OVKRidge().fit(iter([(data.X, data.Y)]))


class Broken(Gaussian):
    """A kernel with nan between distant points, or everywhere."""

    def __init__(self, length_scale=1.0, *, everywhere=False):
        super().__init__(length_scale)
        self.everywhere = everywhere

    def __call__(self, X, Z=None):
        K = super().__call__(X, Z)
        far = np.abs(X[:, :1] - (X if Z is None else Z)[:, 0]) > 3.0
        return np.where(far | self.everywhere, np.nan, K)


def test_a_kernel_that_is_not_finite_raises():
    """It used to give features without any landmark, and predict the mean."""
    X = np.linspace(0, 1, 40)[:, None]
    model = OVKRidge(Broken(1.0, everywhere=True), landmarks=10, random_state=0)
    with pytest.raises(ValueError, match="not finite at the landmarks"):
        model.fit(X, np.sin(X))
    assert not hasattr(model, "kernel_")
    far = np.concatenate([X, [[7.0]]])
    with pytest.raises(ValueError, match="1 of 41 rows have nan or inf, the first is row 40"):
        OVKRidge(Broken(1.0), landmarks=X[:10]).fit(far, np.sin(far))
