"""All benchmarks by name."""

from __future__ import annotations

from benchmarks import codrna, gram, leave_one_out, many_outputs, ridge, second_order
from benchmarks.harness import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (gram, ridge, leave_one_out, many_outputs, codrna, second_order)
}
