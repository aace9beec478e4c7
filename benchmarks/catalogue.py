"""All benchmarks by name."""

from __future__ import annotations

from importlib import import_module

from benchmarks.harness import Benchmark

#: Modules, in the order in which they run.
MODULES = (
    "gram",
    "ridge",
    "leave_one_out",
    "many_outputs",
    "output_structure",
    "movkl",
    "okvar",
    "multitask_svm",
    "iokr",
    "online_click",
    "online_peers",
    "online_outputs",
    "second_order",
    "codrna",
    "certified",
    "household",
)
BENCHMARKS: dict[str, Benchmark] = {}
for _module in MODULES:
    _found = import_module(f"benchmarks.{_module}").BENCHMARK
    BENCHMARKS[_found.name] = _found
