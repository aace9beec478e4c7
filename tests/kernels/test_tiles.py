"""Evaluation in tiles: threads, forks, edges of tiles, very small and very large inputs."""

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from ovk.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, Tanimoto, tiles
from ovk.kernels.tiles import MAX_TILE_ENTRIES, over_rows, radial

STATIONARY = [Gaussian(1.5), Matern(1.5, 1.5), Matern(0.5, 1.5), Laplacian(1.5)]


def row_by_row(kernel, X, Z):
    """The formula, one row at a time."""
    if isinstance(kernel, Laplacian):
        return np.array([np.exp(-np.abs(x - Z).sum(axis=1) / kernel.length_scale) for x in X])
    s = np.array([((x - Z) ** 2).sum(axis=1) for x in X]) / kernel.length_scale**2
    return kernel.profile(s)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
@pytest.mark.parametrize(
    "shape", [(511, 512), (512, 512), (513, 512), (1025, 300), (3, 90_000), (2, MAX_TILE_ENTRIES + 1)]
)
def test_around_the_edges_of_a_tile(kernel, shape):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    assert_allclose(kernel(X, Z), row_by_row(kernel, X, Z), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(300, 1000), (64, 4096), (65, 4097), (3, 9000), (0, 5), (5, 0), (1, 1)])
def test_products_around_the_edges_of_a_tile(shape, threads):
    rng = np.random.default_rng(0)
    X, Z, W = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2)), rng.standard_normal((shape[1], 3))
    for kernel in (Gaussian(1.5), Matern(1.5, [1.5, 0.5])):
        with threadpool_limits(threads, user_api="blas"):
            product = kernel.product(X, Z, W)
            some = kernel.product(X, Z, W, since := np.sort(rng.integers(0, shape[1] + 1, shape[0])))
        G = kernel(X, Z)
        assert_allclose(product, G @ W, rtol=1e-10, atol=1e-10)
        G *= np.arange(shape[1]) >= since[:, None]
        assert_allclose(some, G @ W, rtol=1e-10, atol=1e-10)


def test_products_in_several_threads_do_not_share_their_scratch():
    rng = np.random.default_rng(0)
    X, Z, W = rng.standard_normal((200, 3)), rng.standard_normal((500, 3)), rng.standard_normal((500, 2))
    kernels = [Gaussian(scale) for scale in (0.5, 1.0, 2.0, 4.0)]
    expected = [kernel(X, Z) @ W for kernel in kernels]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for product, value in zip(pool.map(lambda k: k.product(X, Z, W), kernels), expected, strict=True):
                assert_allclose(product, value, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [511, 512, 513, 700])
def test_the_diagonal_is_exact_in_every_tile(n):
    X = np.random.default_rng(0).standard_normal((n, 3)) * 100.0
    assert (np.diagonal(Gaussian(1.5)(X)) == 1.0).all()
    assert (np.diagonal(Matern(0.5, 1.5)(X)) == 1.0).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("n", "width", "tile"), [(1, 10, 4), (7, 3, 6), (10, 1, 3), (100, 7, 50), (5, 1, 100), (0, 3, 2)]
)
def test_every_row_is_visited_once(monkeypatch, threads, n, width, tile):
    monkeypatch.setattr(tiles, "MAX_TILE_ENTRIES", tile)
    visits, lock = np.zeros(n, dtype=int), threading.Lock()

    def work(start, stop):
        assert 0 <= start <= stop <= n
        with lock:
            visits[start:stop] += 1

    with threadpool_limits(threads, user_api="blas"):
        over_rows(work, n, width)
    assert (visits == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_come_out_and_the_limit_is_taken_back(monkeypatch, threads):
    monkeypatch.setattr(tiles, "MAX_TILE_ENTRIES", 20)

    def work(start, stop):
        if start > 0:
            raise ZeroDivisionError

    with threadpool_limits(threads, user_api="blas"):
        before = threadpool_info()
        with pytest.raises(ZeroDivisionError):
            over_rows(work, 10, 10)
        assert threadpool_info() == before


def test_two_threads_and_one_agree():
    X = np.random.default_rng(0).standard_normal((900, 4))
    for kernel in STATIONARY:
        with threadpool_limits(1, user_api="blas"):
            one = kernel(X)
        with threadpool_limits(2, user_api="blas"):
            two = kernel(X)
            again = kernel(X)
        assert_allclose(two, one, rtol=1e-7, atol=1e-14)
        assert np.array_equal(two, again)


@pytest.mark.long
def test_a_forked_child_can_use_the_pool():
    """The child inherits the parent's pool without its threads: waiting for them would never end."""
    script = """
        import multiprocessing, warnings
        import numpy as np
        from threadpoolctl import threadpool_limits
        from ovk.kernels import Gaussian
        from ovk.kernels.tiles import _pool

        X = np.random.default_rng(0).standard_normal((800, 3))

        def child(queue):
            with threadpool_limits(2, user_api="blas"):
                queue.put(float(Gaussian(1.0)(X).sum()))

        if __name__ == "__main__":
            with threadpool_limits(2, user_api="blas"):
                here = float(Gaussian(1.0)(X).sum())
            assert _pool.cache_info().currsize == 1, "the parent did not use the pool"
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process = context.Process(target=child, args=(queue,), daemon=True)
                process.start()
            there = queue.get(timeout=600)
            process.join(timeout=600)
            assert process.exitcode == 0 and abs(here - there) < 1e-9 * here
    """
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("no fork on this system")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kernel", [*STATIONARY, Linear(), Polynomial(2), Tanimoto()], ids=repr)
def test_no_rows_and_one_row(kernel):
    none, one, some = np.zeros((0, 3)), np.ones((1, 3)), np.ones((4, 3))
    assert kernel(none).shape == (0, 0)
    assert kernel(none, some).shape == (0, 4)
    assert kernel(some, none).shape == (4, 0)
    assert kernel.diag(none).shape == (0,)
    assert kernel(one).shape == (1, 1)
    assert kernel(one)[0, 0] == kernel.diag(one)[0]
    assert kernel(one, some).shape == (1, 4)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4, 1e6])
def test_far_from_the_origin(offset):
    rng = np.random.default_rng(0)
    # Offsets and steps that floating point represents exactly: only the evaluation can lose digits.
    X = rng.integers(-1000, 1000, size=(40, 3)) / 1024.0 + offset
    Z = rng.integers(-1000, 1000, size=(30, 3)) / 1024.0 + offset
    for kernel in (Gaussian(0.5), Matern(2.5, 0.5)):
        assert_allclose(kernel(X, Z), row_by_row(kernel, X, Z), rtol=1e-12)
        assert_allclose(kernel(X), row_by_row(kernel, X, X), rtol=1e-12)


def test_float32_far_from_the_origin():
    X = (np.random.default_rng(0).integers(-100, 100, size=(20, 2)) / 128.0 + 1e4).astype(np.float32)
    assert_allclose(Gaussian(0.5)(X), row_by_row(Gaussian(0.5), X.astype(float), X.astype(float)), rtol=1e-12)


def test_duplicated_rows():
    X = np.repeat(np.random.default_rng(0).standard_normal((5, 3)) * 50.0, 2, axis=0)
    G = Gaussian(1.0)(X)
    assert (np.diagonal(G) == 1.0).all()
    assert_allclose(G[::2, 1::2].diagonal(), 1.0, atol=1e-11)
    assert (G <= 1.0).all()


def test_repeated_rows_of_sparse_inputs_are_at_distance_zero():
    """The square root of a rounded zero is 1e-8, which a rough kernel shows."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 30)) < 0.5, rng.random((40, 30)), 0.0)
    X[7] = 0.0
    close = X + 1e-9 * (X > 0)
    for kernel in (Matern(0.5, 3.0), Matern(1.5, 3.0)):
        twice = kernel(sparse.csr_array(np.concatenate([X, X])))
        assert_allclose(np.diagonal(twice[:40, 40:]), 1.0, rtol=0, atol=1e-15)
        found = kernel(sparse.csr_array(X), sparse.csr_array(close))
        assert_allclose(found, row_by_row(kernel, X, close), rtol=0, atol=1e-14)


def test_values_never_exceed_one():
    """Rounding can leave a squared distance below zero; a kernel value above one would not be a kernel's."""
    X = np.random.default_rng(0).standard_normal((200, 5)) * 1e3
    assert Gaussian(1e4)(X, X.copy()).max() <= 1.0
    assert Gaussian(1e4)(sparse.csr_array(X), sparse.csr_array(X)).max() <= 1.0


def test_the_profile_sees_half_distances():
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    seen = []
    radial(X, None, 2.0, lambda h: seen.append(h.copy()))
    assert_allclose(seen[0], [[0.0, -3.125], [-3.125, 0.0]])


def test_slices_and_transposes_are_fine():
    X = np.random.default_rng(0).standard_normal((6, 40))
    view = X.T[::2, ::-1]
    for kernel in (*STATIONARY, Linear()):
        assert_allclose(kernel(view), kernel(view.copy()), rtol=1e-12)
