"""The benchmark of long streams, short: sums over few rows drift as little, and forgetting forgets."""

from dataclasses import replace

import pytest

pytest.importorskip("benchmarks")

from benchmarks.long_streams import CHUNK, RUNS, long_run


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.twin])
def test_a_short_run(name):
    run = RUNS[name]
    # With the gap between the rows that a fresh learner sees and all rows that this one has seen.
    short = replace(run, memory=None if run.memory is None else min(run.memory, 12 * CHUNK))
    found = long_run(short, 20 * CHUNK)
    assert found["rows"] == 20 * CHUNK
    assert found["drift"] < 1e-8
    assert found["error_last"] < 1.1 * found["error_first"]
