"""What all tests share."""

import os
import signal
import sys
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

from designs import pairwise

pytest_plugins = ["shared"]

# No window may open in a test.
os.environ.setdefault("MPLBACKEND", "Agg")

# No law may fail because the machine is slow. What Hypothesis itself chooses for continuous integration stays.
settings.register_profile("ovk", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ovk")

# A shell that runs the tests in the background has them ignore Ctrl-C, which tests of interruptions send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the tests marked `pairwise`, `make test` runs combinations in which every pair of parameters occurs."""
    groups = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pairwise"):
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        kept = set(pairwise([tuple(map(id, item.callspec.params.values())) for item in group]))
        for k, item in enumerate(group):
            if k not in kept:
                item.add_marker("long")


def pytest_runtest_teardown():
    """Close figures: at 20 of them matplotlib warns, and a later test fails that draws one more."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def need():
    """``need(load, ...)`` calls a loader, or skips the test with the loader's own message."""
    from reproduce.data import DatasetNotFound

    def call(load, *args, **kwargs):
        try:
            return load(*args, **kwargs)
        except DatasetNotFound as missing:
            pytest.skip(str(missing))

    return call
