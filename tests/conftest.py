"""What all tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

from ovk.datasets import DatasetNotFound

# No window may open in a test.
os.environ.setdefault("MPLBACKEND", "Agg")

# No law may fail because the machine is slow. What Hypothesis itself chooses for continuous integration stays.
settings.register_profile("ovk", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ovk")


@pytest.fixture
def need():
    """``need(load, ...)`` calls a loader, or skips the test with the loader's own message."""

    def call(load, *args, **kwargs):
        try:
            return load(*args, **kwargs)
        except DatasetNotFound as missing:
            pytest.skip(str(missing))

    return call
