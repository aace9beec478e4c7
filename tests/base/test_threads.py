"""BLAS has its threads back after the last caller exits, however calls overlap."""

import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from threadpoolctl import threadpool_limits

from interruptions import count_calls, interrupt
from ovk import (
    KAWV,
    OLOK,
    PKAWV,
    AutoStream,
    AutoStreamClassifier,
    NoveltyDetector,
    OLOKClassifier,
    OVKRidge,
    OVKRidgeCV,
    PKAWVClassifier,
)
from ovk.app.sessions import Settings, learn
from ovk.app.tables import open_records
from ovk.base import execution as _threads
from ovk.base.execution import one_blas_thread, tile_threads
from ovk.kernels import Gaussian, tiles
from ovk.online import add_features
from ovk.online.experts import expert_set as stage_experts
from ovk.operators import Identity


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(_threads, "_rows_left", 0)
    with threadpool_limits(2, user_api="blas"):
        if _threads._blas_threads() != 2:
            pytest.skip("BLAS cannot use two threads here")
        yield
        assert _threads._blas_threads() == 2
        assert not _threads._inside


class Watched(Gaussian, saved=False):
    """A kernel that notes how many threads BLAS has when it is called."""

    seen: list[int] = []

    def __call__(self, X, Z=None):
        self.seen.append(_threads._blas_threads())
        return super().__call__(X, Z)


@pytest.mark.parametrize(
    ("model", "rows", "threads"),
    [
        (OVKRidge(Watched(1.0)), 300, 1),
        (OVKRidge(Watched(1.0)), _threads.MAX_ROWS_FOR_ONE_THREAD + 1, 2),
        (OVKRidgeCV(Watched(1.0)), 300, 1),
        (KAWV(Watched(1.0)), 300, 1),
        (PKAWV(Watched(1.0)), 300, 1),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_small_problems_have_one_thread(model, rows, threads):
    X = np.random.default_rng(0).standard_normal((rows, 2))
    Watched.seen.clear()
    clone(model).fit(X, X[:, 0])
    assert threads in Watched.seen
    assert threads == 1 or 1 not in Watched.seen


#: Where the matrices of single rows are made: kernel values, and the choices of a stage.
PRODUCTS = [(tiles, "_one_row"), (stage_experts, "gaussian"), (stage_experts, "choose")]


@pytest.fixture
def threads_of_products(monkeypatch):
    """How many threads BLAS had at each product of a single row so far."""
    seen = []

    def watched(product):
        def call(*args, **kwargs):
            seen.append(_threads._blas_threads())
            return product(*args, **kwargs)

        return call

    for module, name in PRODUCTS:
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    return seen


@pytest.mark.parametrize(
    "model",
    [
        AutoStream(),
        AutoStreamClassifier(),
        OLOK(Gaussian(1.0)),
        KAWV(Gaussian(1.0)),
        PKAWV(Gaussian(1.0)),
        OLOKClassifier(Gaussian(1.0)),
        PKAWVClassifier(Gaussian(1.0)),
        NoveltyDetector(Gaussian(1.0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_single_rows_have_one_thread(model, threads_of_products):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = np.where(X[:, 0] > 0, 1, 0) if is_classifier(model) else X[:, 0]
    model = clone(model).fit(X, y)
    for call in (
        lambda: model.predict(X[:1]),
        lambda: model.predict(X[:1].tolist()),
        lambda: model.partial_fit(X[:1], y[:1]),
        lambda: model.predict(X[1:2]),
        lambda: model.partial_fit(X[1:2], y[1:2]),
        lambda: model.partial_fit(X[2:3].tolist(), y[2:3].tolist()),
    ):
        threads_of_products.clear()
        call()
        assert set(threads_of_products) == {1}


@pytest.mark.parametrize("model", [AutoStream(), AutoStreamClassifier()], ids=lambda model: type(model).__name__)
def test_new_features_and_classes_have_one_thread(model, threads_of_products):
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = clone(model).fit(X, np.where(X[:, 0] > 0, 1, 0))
    threads_of_products.clear()
    add_features(model, 1)
    assert set(threads_of_products) == {1}
    threads_of_products.clear()
    model.partial_fit(np.zeros((1, 3)), [2])
    assert set(threads_of_products) == {1}


@pytest.mark.parametrize("we_first", [True, False])
def test_calls_that_overlap_in_two_threads(we_first):
    inside, leave = threading.Barrier(2), threading.Event()

    def first():
        with one_blas_thread():
            inside.wait(600)
            leave.wait(600)

    other = threading.Thread(target=first)
    if not we_first:
        other.start()
        while not _threads._inside:
            pass
    with one_blas_thread():
        if we_first:
            other.start()
        inside.wait(600)
        # The other thread entered while we were inside, and leaves before us.
        leave.set()
        other.join(10)
        assert _threads._blas_threads() == 1
        assert tile_threads() == 2
    assert _threads._blas_threads() == 2


def test_the_thread_that_set_the_limit_may_leave_first():
    inside, leave = threading.Event(), threading.Event()

    def second():
        with one_blas_thread():
            inside.set()
            leave.wait(600)

    other = threading.Thread(target=second)
    with one_blas_thread():
        other.start()
        inside.wait(600)
    assert _threads._blas_threads() == 1
    leave.set()
    other.join(10)
    assert _threads._blas_threads() == 2


def interrupted():
    with one_blas_thread(), one_blas_thread(tiles=1):
        assert tile_threads() == 1
        raise KeyboardInterrupt


def test_nested_calls_and_errors():
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert tile_threads() == 2


def test_fits_in_eight_threads():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((700, 3)), rng.standard_normal((700, 2))
    model = OVKRidge(Gaussian(1.0) * Identity(), alpha=0.1)
    alone = model.fit(X, Y).predict(X[:5])
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: clone(model).fit(X, Y).predict(X[:5]), range(16)):
            np.testing.assert_allclose(found, alone, rtol=1e-9)


@pytest.mark.long
def test_two_sessions_at_a_time(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(1200)))

    def run(_):
        with open_records(path) as records:
            return learn(records, Settings(["y"])).result().mse[0]

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(run, range(4)))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_is_inside_has_all_threads():
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            inside.set()
            leave.wait(600)

    other = threading.Thread(target=hold)
    other.start()
    inside.wait(600)
    with warnings.catch_warnings():
        # Python 3.12 warns of forking a process with several threads, which is the point here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if _threads._blas_threads() == 2 and not _threads._inside else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    other.join(10)


def test_an_interruption_at_any_call_takes_the_limit_back():
    """Even in the line that takes it back."""
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = OLOK(Gaussian(1.0)).fit(X, X)
    calls = count_calls(lambda: model.partial_fit(X, X))
    for number in range(1, calls + 1):
        assert interrupt(lambda: model.partial_fit(X, X), number)
        assert _threads._blas_threads() == 2, number
        assert not _threads._inside, number
