"""Results that many tests only need to have: made once per run, by one test process, and read by the others."""

import os
import pickle

import numpy as np
import pytest

from processes import wait_until


@pytest.fixture(scope="session")
def once(tmp_path_factory, request):
    """``once(name, make)`` is ``make()``, called by the first test process that asks; the others read a file."""
    directory = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        # Of all test processes together.
        directory = directory.parent

    def get(name, make):
        path, lock = directory / f"{name}.pickle", directory / f"{name}.lock"
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            wait_until(lambda: path.exists() or not lock.exists(), name)
            if not path.exists():
                return get(name, make)
            return pickle.loads(path.read_bytes())
        try:
            value = make()
            unfinished = path.with_suffix(".part")
            unfinished.write_bytes(pickle.dumps(value))
            unfinished.rename(path)
        except BaseException:
            # The others try it themselves, and fail with the same error.
            lock.unlink()
            raise
        return value

    return get


@pytest.fixture(scope="session")
def stream_of_numbers(once):
    """`AutoStream` on 900 rows of one output whose function changes at row 600."""

    def make():
        from ovk import AutoStream, progressive

        rng = np.random.default_rng(0)
        X = rng.standard_normal((900, 1))
        y = np.where(np.arange(900) < 600, 1.0, -1.0) * X[:, 0] + 0.3 * rng.standard_normal(900)
        return progressive(AutoStream(), X, y, intervals=0.9, keep="all", progress=False)

    return once("stream_of_numbers", make)


@pytest.fixture(scope="session")
def stream_of_classes(once, tmp_path_factory):
    """The saved session of 400 rows of three classes, and its predictions: (bytes of the model, lines)."""

    def make():
        from app.sessions.test_class_sessions import lines, run, table

        directory = tmp_path_factory.mktemp("stream_of_classes")
        run(table(directory / "t.csv"), save_to=directory / "m.ovk", predictions=directory / "parts")
        return (directory / "m.ovk").read_bytes(), lines(directory / "parts")

    return once("stream_of_classes", make)
