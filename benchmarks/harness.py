"""Fair measurements on a shared machine.

Contenders of a case run in turn, and the fastest round of each counts, so that a disturbance affects one round and not
one contender. Targets are ratios within a run, never seconds: of processor time with one thread, of wall-clock time
with several. On a busy machine, wall-clock time favours short contenders; processor time does not, but with several
threads it includes spinning. Peak memory is the peak resident set of a fresh process that runs one contender once,
minus its memory after imports and data (`memory`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from threadpoolctl import threadpool_info, threadpool_limits

Size = Literal["toy", "quick", "default", "long"]


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Parameters
    ----------
    size : toy (seconds, synthetic data: for the tests), quick, default or long (more rounds and splits)
    threads : maximum BLAS threads; None for the setting of the environment
    memory : whether to measure peak memory, in a process for each contender
    """

    size: Size = "default"
    threads: int | None = None
    memory: bool = True

    def pick(self, *, toy: Any, quick: Any, default: Any, long: Any = None) -> Any:
        """The value for this size; `long` is `default` where it is not given."""
        long = default if long is None else long
        return {"toy": toy, "quick": quick, "default": default, "long": long}[self.size]


@dataclass(frozen=True)
class Contender:
    """One implementation of the computation.

    Parameters
    ----------
    run : the timed function; its argument is the result of `prepare`, if given
    prepare : computes the argument of `run`; its memory counts, its time does not
    light : a shorter run with the same peak memory, if `run` takes minutes
    """

    name: str
    run: Callable[..., Any]
    prepare: Callable[[], tuple[Any, ...]] | None = None
    light: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Check:
    """A target, and whether it was met: `value` must be at most (or at least) `bound`."""

    target: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound


Seconds = dict[str, float]


@dataclass(frozen=True)
class Case:
    """Contenders for the same computation.

    Parameters
    ----------
    settings : the definition of the computation, for the record
    contenders : ovk first
    rounds : how often each runs
    checks : targets for the best time of each contender
    scores : numbers other than time, such as test errors, and their targets
    threads : maximum BLAS threads in this case
    """

    name: str
    settings: dict[str, Any]
    contenders: list[Contender]
    rounds: int
    checks: Callable[[Seconds], list[Check]] = lambda seconds: []
    scores: Callable[[], tuple[dict[str, Any], list[Check]]] | None = None
    threads: int | None = None


@dataclass
class Timing:
    """Rounds of one contender."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Benchmark:
    """A named set of cases, created on demand; raises `FileNotFoundError` if the data are missing."""

    name: str
    title: str
    cases: Callable[[Settings], Iterator[Case]]


def interleave(contenders: list[Contender], rounds: int) -> dict[str, Timing]:
    """Run every contender in turn, `rounds` times over."""
    timings = {contender.name: Timing() for contender in contenders}
    prepared = {c.name: c.prepare() if c.prepare else () for c in contenders}
    for _ in range(rounds):
        for contender in contenders:
            wall, cpu = time.perf_counter(), time.process_time()
            contender.run(*prepared[contender.name])
            timings[contender.name].wall.append(time.perf_counter() - wall)
            timings[contender.name].cpu.append(time.process_time() - cpu)
    return timings


def limited(*threads: int | None) -> AbstractContextManager[Any]:
    """Limit BLAS to the first given number of threads, if any."""
    chosen = next((number for number in threads if number is not None), None)
    return nullcontext() if chosen is None else threadpool_limits(chosen, user_api="blas")


def blas_threads() -> int:
    """Current maximum of BLAS threads."""
    return max((library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"), default=1)


def run_case(benchmark: str, case: Case, settings: Settings) -> dict[str, Any]:
    """Time, memory, scores and checks of one case, ready for JSON."""
    from benchmarks.memory import peak_mib

    with limited(case.threads, settings.threads):
        threads = blas_threads()
        timings = interleave(case.contenders, case.rounds)
        scores, checks = case.scores() if case.scores else ({}, [])
    clock = "cpu" if threads == 1 else "wall"
    best = {name: min(getattr(timing, clock)) for name, timing in timings.items()}
    ours = best[case.contenders[0].name]
    rows = [
        {
            "name": name,
            "seconds": min(timing.wall),
            "cpu_seconds": min(timing.cpu),
            "ours_over_this": ours / best[name],
            "peak_mib": peak_mib(benchmark, case.name, name, settings) if settings.memory else None,
            "all_seconds": timing.wall,
        }
        for name, timing in timings.items()
    ]
    return {
        "name": case.name,
        "settings": case.settings,
        "threads": threads,
        "clock": clock,
        "rounds": case.rounds,
        "contenders": rows,
        "scores": scores,
        "checks": [{**asdict(check), "met": check.met} for check in [*case.checks(best), *checks]],
    }


def run_benchmark(benchmark: Benchmark, settings: Settings, show: Callable[[str], None]) -> dict[str, Any]:
    """All cases of a benchmark, or the reason why it is skipped."""
    from benchmarks.report import case_table

    result: dict[str, Any] = {"name": benchmark.name, "title": benchmark.title, "skipped": None, "cases": []}
    show(f"\n== {benchmark.name}: {benchmark.title}")
    try:
        for case in benchmark.cases(settings):
            result["cases"].append(run_case(benchmark.name, case, settings))
            show(case_table(result["cases"][-1]))
    except FileNotFoundError as missing:
        result["skipped"] = str(missing)
        show(f"skipped: {missing}")
    return result
