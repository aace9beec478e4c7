"""Every benchmark runs at toy size, and its JSON has the declared fields."""

import importlib.util
import json

import numpy as np
import pytest

if importlib.util.find_spec("benchmarks") is None:
    pytest.skip("benchmarks are not part of this installation", allow_module_level=True)

from benchmarks.__main__ import main
from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Check, Contender, Settings, interleave, run_benchmark
from benchmarks.memory import peak_mib

# himalaya calls scikit-learn in ways that it deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::Warning:himalaya")

#: Benchmarks that run nowhere without their rivals.
PEERS = {"leave_one_out": "himalaya"} | dict.fromkeys(["streams", "online_peers", "single_rows", "codrna"], "river")
MACHINE = {
    "date",
    "cores",
    "cpu",
    "system",
    "python",
    "packages",
    "blas",
    "load_average",
    "load_average_after",
}
CASE = {"name", "settings", "threads", "clock", "rounds", "contenders", "scores", "checks"}
ROW = {"name", "seconds", "cpu_seconds", "ours_over_this", "peak_mib", "all_seconds"}
CHECK = {"target", "value", "bound", "at_least", "met"}


@pytest.mark.long
@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_each_benchmark_at_toy_size(name, tmp_path, capsys):
    if name in PEERS:
        pytest.importorskip(PEERS[name], reason="this peer comes with the group bench")
    output = tmp_path / "results" / "toy.json"
    assert main(["--toy", "--threads", "1", "--no-memory", "--only", name, "--output", str(output)]) == 0
    report = json.loads(output.read_text())
    assert set(report) == {"machine", "settings", "benchmarks"}
    assert set(report["machine"]) == MACHINE
    assert report["settings"] == {"size": "toy", "threads": 1, "memory": False}
    [benchmark] = report["benchmarks"]
    assert benchmark["name"] == name
    assert benchmark["skipped"] is None
    assert benchmark["cases"]
    for case in benchmark["cases"]:
        assert set(case) == CASE
        assert len(case["contenders"]) >= 2
        assert case["contenders"][0]["ours_over_this"] == 1.0
        assert all(set(row) == ROW and row["seconds"] == min(row["all_seconds"]) for row in case["contenders"])
        assert case["checks"]
        assert all(set(check) == CHECK for check in case["checks"])
    printed = capsys.readouterr().out
    assert f"== {name}" in printed
    assert "targets met" in printed


@pytest.mark.long
def test_memory_is_that_of_a_process_of_its_own():
    """The limit holds two arrays of 2000 x 2000 doubles at quick size, 61 MiB; this process has held more."""
    held = np.ones(30_000_000)
    peak = peak_mib("gram", "p=8 threads=1", "limit: exp + GEMM", Settings("quick"))
    assert held[-1] == 1.0
    assert 60.0 < peak < 150.0


def test_the_loop_that_olok_is_compared_with_makes_the_same_predictions():
    result = run_benchmark(BENCHMARKS["online_click"], Settings("toy", threads=1, memory=False), lambda text: None)
    for case in result["cases"]:
        assert case["scores"]["largest difference to the loop"] < 1e-12


def test_without_the_data_the_benchmark_is_skipped_with_the_loaders_message(monkeypatch):
    monkeypatch.delenv("OVK_DATA", raising=False)
    shown = []
    result = run_benchmark(BENCHMARKS["ridge"], Settings("quick", memory=False), shown.append)
    assert result["cases"] == []
    assert "OVK_DATA" in result["skipped"]
    assert result["skipped"] in shown[-1]


def test_contenders_take_turns():
    order = []
    contenders = [Contender("a", lambda: order.append("a")), Contender("b", order.append, lambda: ("b",))]
    timings = interleave(contenders, 3)
    assert order == ["a", "b"] * 3
    assert [len(timing.wall) for timing in timings.values()] == [3, 3]


def test_a_target_is_met_from_the_right_side():
    assert Check("at most", 1.0, 1.3).met
    assert not Check("at most", 1.4, 1.3).met
    assert Check("at least", 12.0, 10.0, at_least=True).met
    assert not Check("at least", 9.0, 10.0, at_least=True).met
