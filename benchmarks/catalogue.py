"""All benchmarks by name."""

from __future__ import annotations

from importlib import import_module

from benchmarks.harness import Benchmark

#: Modules, in the order in which they run.
MODULES = (
    "gram",
    "ridge",
    "leave_one_out",
    "defaults",
    "sizes",
    "many_outputs",
    "output_structure",
    "streams",
    "sums_of_kernels",
    "movkl",
    "okvar",
    "multitask_svm",
    "iokr",
    "operators",
    "pivots",
    "online_click",
    "online_peers",
    "online_outputs",
    "second_order",
    "single_rows",
    "codrna",
    "certified",
    "household",
    "service",
    "cluster",
    "brokers",
    "reading",
)
BENCHMARKS: dict[str, Benchmark] = {}
for _module in MODULES:
    _found = import_module(f"benchmarks.{_module}").BENCHMARK
    BENCHMARKS[_found.name] = _found
