"""``python -m fuzz``: all jobs in turn, and a table of tries and failures."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from fuzz import dtypes, learning, model_files, requests, tables

Job = Callable[[np.random.Generator], Iterator[str | None]]

#: Jobs, and the property that each checks.
JOBS: dict[str, tuple[Job, str]] = {
    "damaged model files": (model_files.tries, "`load` rejects them with a named error"),
    "tables of CSV and JSON": (tables.tries, "a documented exit code and one sentence, and a model that loads"),
    "HTTP requests": (requests.tries, "no failure of the server, a refusal in one sentence, and nothing learned"),
    "interruptions": (learning.interruptions, "the learner is as it was, and goes on as if nothing had happened"),
    "reading while learning": (learning.threads, "every prediction is that of a state between two learning calls"),
    "types and layouts": (dtypes.tries, "the predictions of the same numbers in 64 bits, or a named error"),
}

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- fuzz: written by make fuzz -->", "<!-- end of fuzz -->"


def run(job: Job, seed: int, *, seconds: float | None = None, tries: int | None = None) -> tuple[int, list[str]]:
    """Number of tries, limited by time or number, and the failures."""
    end = np.inf if seconds is None else time.monotonic() + seconds
    count, failed = 0, []
    source = job(np.random.default_rng(seed))
    try:
        for fault in islice(source, tries):
            count += 1
            if fault is not None:
                failed.append(f"try {count} of seed {seed}: {fault}")
            if time.monotonic() > end:
                break
    finally:
        source.close()
    return count, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for all jobs together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(JOBS), nargs="+")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options = parser.parse_args(arguments)
    names = [name for name in JOBS if options.only is None or name in options.only]
    rows, faults = [], []
    for name in names:
        job, law = JOBS[name]
        count, failed = run(job, options.seed, seconds=options.seconds / len(names))
        rows.append(f"| {name} | {law} | {count:,} | {len(failed):,} |")
        faults += failed
        print(f"{name}: {count:,} tried, {len(failed):,} failed", flush=True)
        for fault in failed[:5]:
            print(f"  {fault[:500]}", flush=True)
    if options.write:
        head = ["| what is tried | what must hold | tried | failed |", "|---|---|---:|---:|"]
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join([*head, *rows]) + f"\n{END}{after}", encoding="utf-8")
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
