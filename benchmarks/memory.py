"""Peak memory of one contender: ``python -m benchmarks.memory BENCHMARK CASE CONTENDER SIZE`` prints KiB.

The number is the peak resident set after preparing and running the contender once, minus that before, which includes
Python, imports and data. It includes allocations of BLAS and LAPACK. On Linux it is ``VmHWM``, because ``ru_maxrss`` of
a new process starts at the peak of its parent.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Settings, limited

STATUS = Path("/proc/self/status")


def peak_mib(benchmark: str, case: str, contender: str, settings: Settings) -> float:
    """Peak memory of a contender in MiB, measured in a separate process."""
    command = [sys.executable, "-m", "benchmarks.memory", benchmark, case, contender, settings.size]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    if done.returncode != 0:
        raise RuntimeError(f"measuring the memory of {contender!r} failed:\n{done.stderr}")
    return int(done.stdout.split()[-1]) / 1024


def _peak() -> int:
    """Peak resident set of this process in KiB."""
    if STATUS.exists():
        return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    # In bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def main(benchmark: str, case: str, contender: str, size: str) -> None:
    from benchmarks import catalogue

    settings = Settings(size=size)  # type: ignore[arg-type]
    chosen = next(c for c in catalogue.BENCHMARKS[benchmark].cases(settings) if c.name == case)
    work = next(c for c in chosen.contenders if c.name == contender)
    before = _peak()
    with limited(chosen.threads):
        (work.light or work.run)(*(work.prepare() if work.prepare else ()))
    print(_peak() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
