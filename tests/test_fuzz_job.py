"""The first tries of every job of ``make fuzz``."""

import pytest
from fuzz.__main__ import JOBS, run

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", JOBS)
def test_the_first_tries(name):
    few = {"tables of CSV and JSON": 12, "interruptions": 30, "types and layouts": 25, "HTTP requests": 400}
    tries = few.get(name, 60)
    count, failed = run(JOBS[name][0], seed=1, tries=tries)
    assert count == tries
    assert not failed
