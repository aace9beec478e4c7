"""All benchmarks by name."""

from __future__ import annotations

from importlib import import_module

from benchmarks import gram, leave_one_out, many_outputs, movkl, ridge
from benchmarks.harness import Benchmark

#: Modules, in the order in which they run.
MODULES = (
    "gram",
    "ridge",
    "leave_one_out",
    "many_outputs",
    "online_click",
    "online_peers",
    "online_outputs",
    "certified",
    "iokr",
)
BENCHMARKS: dict[str, Benchmark] = {}
for _module in MODULES:
    _found = import_module(f"benchmarks.{_module}").BENCHMARK
    BENCHMARKS[_found.name] = _found
from benchmarks import codrna, gram, leave_one_out, many_outputs, ridge

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK for module in (gram, ridge, leave_one_out, many_outputs, codrna)
    module.BENCHMARK.name: module.BENCHMARK for module in (gram, ridge, leave_one_out, many_outputs, movkl)
}
