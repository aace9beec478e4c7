"""All benchmarks by name."""

from __future__ import annotations

from benchmarks import (
    certified,
    gram,
    leave_one_out,
    many_outputs,
    online_click,
    online_outputs,
    online_peers,
    ridge,
)
from benchmarks.harness import Benchmark

_MODULES = (
    gram,
    ridge,
    leave_one_out,
    many_outputs,
    online_click,
    online_peers,
    online_outputs,
    certified,
)
BENCHMARKS: dict[str, Benchmark] = {module.BENCHMARK.name: module.BENCHMARK for module in _MODULES}
from benchmarks import gram, iokr, leave_one_out, many_outputs, ridge

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK for module in (gram, ridge, leave_one_out, many_outputs, iokr)
}
