"""The table of learners without settings, from results of the benchmark."""

import numpy as np
from benchmarks.streams_table import COLUMNS, mean_ranks, table


def case(name, errors):
    scores = {f"error: {learner}": error for learner, error in errors.items()}
    contenders = [{"name": learner, "cpu_seconds": 0.5} for learner in errors]
    return {"name": name, "settings": {"n": 1000}, "scores": scores, "contenders": contenders}


def test_ranks_are_over_streams_that_all_were_run_on_and_ties_are_shared():
    rising = dict(zip(COLUMNS, np.arange(1.0, len(COLUMNS) + 1), strict=True))
    tied = {**rising, "river ARF": 1.0}
    ranks = mean_ranks({"a": rising, "b": tied, "c": {"ovk": 9.0}})
    assert ranks["ovk"] == (1 + 1.5) / 2
    assert ranks["river ARF"] == (2 + 1.5) / 2
    assert ranks["no change"] == len(COLUMNS)


def test_the_best_error_stands_out_and_gaps_stay_empty():
    errors = {"ovk": 0.2, "river HAT": 0.1, "no change": float("nan")}
    complete = dict.fromkeys(COLUMNS, 1.0)
    lines = table([case("new", errors), case("all", complete), case("ours alone", {"ovk": 0.3})]).splitlines()
    assert lines[2] == "| new | 0.2 |  |  | **0.1** |  |  |  | diverged |"
    assert not any("ours alone" in line for line in lines)
    assert lines[-1].split(" | ")[1] == "2,000"
