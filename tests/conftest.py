"""What all tests share."""

import os

import pytest

from ovk.datasets import DatasetNotFound

# No window may open in a test.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def need():
    """``need(load, ...)`` calls a loader, or skips the test with the loader's own message."""

    def call(load, *args, **kwargs):
        try:
            return load(*args, **kwargs)
        except DatasetNotFound as missing:
            pytest.skip(str(missing))

    return call
