"""The benchmark of long streams, short: sums over few rows drift as little, and forgetting forgets."""

from dataclasses import replace

import pytest

pytest.importorskip("benchmarks")

from benchmarks.long_streams import CHUNK, DEFAULTS, RUNS, by_tenths, long_run


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.twin])
def test_a_short_run(name):
    run = RUNS[name]
    # With the gap between the rows that a fresh learner sees and all rows that this one has seen.
    short = replace(run, memory=None if run.memory is None else min(run.memory, 12 * CHUNK))
    found = long_run(short, 20 * CHUNK)
    assert found["rows"] == 20 * CHUNK
    assert found["drift"] < 1e-8
    assert found["error_last"] < 1.1 * found["error_first"]


def test_tenths_of_learners_without_arguments():
    assert sorted(DEFAULTS) == ["AutoStream()", "OLOK()", "PKAWV()"]
    lines = by_tenths(DEFAULTS["PKAWV()"], 20 * CHUNK).splitlines()
    errors = [float(line.split()[2]) for line in lines[1:11]]
    assert errors[-1] < 1.1 * errors[1] < 0.1
    assert lines[-1].strip().startswith(f"{20 * CHUNK:,} rows; last tenth over the second: time ")
