"""``python -m benchmarks``: ovk against other libraries and the bare computation, as tables and JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Settings, limited, run_benchmark
from benchmarks.machine import describe
from benchmarks.report import summary

LATEST = Path(__file__).resolve().parent / "results" / "latest.json"
#: The results that the documentation shows.
PUBLISHED = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.json"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    size = result.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="small sizes, minutes less")
    size.add_argument("--long", dest="size", action="store_const", const="long", help="more rounds and splits")
    size.add_argument("--toy", dest="size", action="store_const", const="toy", help="does it run: made-up data")
    result.set_defaults(size="default")
    result.add_argument("--only", choices=sorted(BENCHMARKS), nargs="+", help="these benchmarks only")
    result.add_argument("--threads", type=int, help="limit the threads of BLAS (steadier on a busy machine)")
    result.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    result.add_argument("--output", type=Path, default=LATEST, help="JSON file (default: %(default)s)")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write. Missed targets are reported, but are not an error."""
    options = parser().parse_args(arguments)
    settings = Settings(options.size, options.threads, not options.no_memory)
    with limited(settings.threads):
        machine = describe()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_average'][0]:.1f}")
    if machine["load_average"][0] > 0.5:
        print("the machine is busy: --threads 1 compares processor time, which that disturbs least")
    print(", ".join(f"{name} {version}" for name, version in machine["packages"].items()))
    results: list[dict[str, Any]] = []
    report = {"machine": machine, "settings": asdict(settings), "benchmarks": results}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in BENCHMARKS:
        if options.only is None or name in options.only:
            results.append(run_benchmark(BENCHMARKS[name], settings, lambda text: print(text, flush=True)))
            machine["load_average_after"] = describe()["load_average"]
            # A run takes hours, so results are written after each benchmark.
            options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(summary(results))
    print(f"\nwritten to {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
