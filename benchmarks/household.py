"""`ovk stream` over two million rows of household power, undisturbed and killed at random times.

Both runs are separate processes with the command of a user. Their files must be byte-identical, memory must stay
bounded, and every output must be predicted better than by its last value and by its running mean.

The second case learns the rows of the streams benchmark (lags 1 to 3 and time of day, gaps carried forward) with
`AutoStream` and with the hand-tuned learner of `ovk stream`: all two million rows with ``--long``. Both report the
error of every output relative to its variance.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.streams import household
from ovk import AutoStream
from ovk.app.sessions import make_model
from ovk.datasets import make_stream
from ovk.evaluation import progressive
from reproduce.data import load_household

WHOLE, KILLED = "left alone", "killed and resumed"
ALONE, HAND_SET = "AutoStream", "hand-set"
#: Rows for the initial scaling of the hand-tuned learner, on which neither is tested.
WARM_UP = 1000
FILE = "household/minute_household_power.csv.xz"


def table(directory: Path, settings: Settings) -> tuple[Path, list[str]]:
    """The file and the options; synthetic rows at toy size."""
    if settings.size != "toy":
        outputs = load_household(n_rows=1).target_names  # raises an error that names a missing file
        path = Path(os.environ["OVK_DATA"]).expanduser() / FILE
        return path, ["--model", "pkawv", "--targets", ",".join(outputs), "--time", "Date,Time", "--lags", "1,2,3,60"]
    stream = make_stream(1200, 2, missing=0.1, drift=0.0, random_state=0)
    path = directory / "toy.csv"
    rows = np.hstack([stream.data, stream.target])
    np.savetxt(path, rows, "%.4f", ",", header="x0,x1,a,b", comments="")
    return path, ["--model", "pkawv", "--targets", "a,b", "--block", "100"]


class Runs:
    """The two runs, in a temporary directory."""

    def __init__(self, settings: Settings) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="ovk-household-")
        self.directory = Path(self._held.name)
        self.path, self.asked = table(self.directory, settings)
        self.kills: int = settings.pick(toy=1, quick=2, default=5, long=20)
        self.every = 200 if settings.size == "toy" else 20_000
        self.found: dict[str, Any] = {}
        self.seconds = 0.0
        self.died = 0

    def command(self, name: str) -> list[str]:
        model, parts = self.directory / f"{name}.ovk", self.directory / name
        where = ["--resume", model, "--predictions", parts, "--checkpoint", self.every, "--json"]
        return [sys.executable, "-m", "ovk", "stream", *map(str, [self.path, *self.asked, *where])]

    def whole(self) -> None:
        """The undisturbed run."""
        self.clear(WHOLE)
        start = time.perf_counter()
        done = subprocess.run(self.command(WHOLE), check=True, capture_output=True, text=True)
        self.seconds = time.perf_counter() - start
        self.found = json.loads(done.stdout)

    def killed(self) -> None:
        """The killed run: sometimes early, usually some time after a checkpoint."""
        self.clear(KILLED)
        rng = np.random.default_rng(0)
        model = self.directory / f"{KILLED}.ovk"
        for _ in range(self.kills):
            process = subprocess.Popen(self.command(KILLED), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if rng.uniform() < 0.75:
                before = _written(model)
                while process.poll() is None and _written(model) == before:
                    time.sleep(0.002)
            try:
                process.wait(rng.uniform(0.0, 2.0 * self.seconds / max(self.kills, 10)))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            self.died += process.wait() == -signal.SIGKILL
        subprocess.run(self.command(KILLED), check=True, capture_output=True)

    def clear(self, name: str) -> None:
        shutil.rmtree(self.directory / name, ignore_errors=True)
        (self.directory / f"{name}.ovk").unlink(missing_ok=True)

    def different(self) -> int:
        """Files that are not byte-identical."""
        one, other = (self.directory / WHOLE, self.directory / KILLED)
        names = {path.name for directory in (one, other) for path in directory.glob("part-*.csv")}
        pairs = [(one / name, other / name) for name in names]
        pairs.append((self.directory / f"{WHOLE}.ovk", self.directory / f"{KILLED}.ovk"))
        return sum(not (a.exists() and b.exists() and a.read_bytes() == b.read_bytes()) for a, b in pairs)

    def scores(self) -> tuple[dict[str, Any], list[Check]]:
        found = self.found
        mse = {name: np.array(errors) for name, errors in found["mse"].items()}
        rivals = {name: mse[found["model"]] / errors for name, errors in mse.items() if name != found["model"]}
        different, memory = self.different(), float(found["peak_memory_mb"])
        self._held.cleanup()
        scores = {
            "rows": found["rows"],
            "rows a second": found["rows"] / found["seconds"],
            "kills": self.died,
            "peak memory (MB)": memory,
            **{f"squared error over that of the {name}": ratio.tolist() for name, ratio in rivals.items()},
        }
        checks = [Check("files that differ after the kills", different, 0), Check("memory (MB)", memory, 500)]
        checks += [Check(f"worst output over its {name}", float(ratio.max()), 1) for name, ratio in rivals.items()]
        return scores, checks


def _written(path: Path) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None


def _nothing() -> None:
    pass


def cases(settings: Settings) -> Iterator[Case]:
    runs = Runs(settings)
    given = {"file": runs.path.name, "kills": runs.kills, "checkpoint": runs.every}
    # The command reports its memory.
    contenders = [Contender(WHOLE, runs.whole, light=_nothing), Contender(KILLED, runs.killed, light=_nothing)]
    yield Case("household", given, contenders, 1, scores=runs.scores)

    yield without_settings(settings)


def without_settings(settings: Settings) -> Case:
    """`AutoStream` compared with the hand-tuned learner."""
    if settings.size == "toy":
        stream = make_stream(WARM_UP + 200, 2, missing=0.0, random_state=0)
        X, Y, outputs = stream.data, stream.target, ["a", "b"]
    else:
        rows = settings.pick(toy=None, quick=5_000, default=100_000, long=2_000_000)
        (X, Y), outputs = household(rows), load_household(n_rows=1).target_names
    errors: dict[str, Any] = {}

    def run(name: str) -> None:
        model, scale = (
            (AutoStream(), None) if name == ALONE else (make_model("pkawv", n_features=X.shape[1]), "running")
        )
        found = progressive(
            model, X, Y, scale=scale, untested=WARM_UP, baselines=[], keep="none", chunk_size=4096, progress=False
        )
        errors[name] = found.mse / Y[WARM_UP:].var(axis=0)

    def checks(seconds: Seconds) -> list[Check]:
        rates = {name: len(X) / spent for name, spent in seconds.items()}
        return [
            Check("rows a second without settings", rates[ALONE], 2000, at_least=True),
            # Reported without a target.
            Check("times the seconds of the hand-set learner", rates[HAND_SET] / rates[ALONE], np.inf),
        ]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        ratio = errors[ALONE] / errors[HAND_SET]
        shown = {
            f"{output}: error over variance": {name: float(errors[name][j]) for name in (ALONE, HAND_SET)}
            for j, output in enumerate(outputs)
        }
        shown["mean over outputs"] = {name: float(found.mean()) for name, found in errors.items()}
        return shown, [Check("worst output over that of the hand-set learner", float(ratio.max()), 1)]

    contenders = [Contender(name, lambda name=name: run(name), light=_nothing) for name in (ALONE, HAND_SET)]  # type: ignore[misc]
    return Case("without settings", {"n": len(X), "p": X.shape[1]}, contenders, 1, checks, scores, threads=1)


BENCHMARK = Benchmark("household", "ovk stream over a long file, killed and resumed", cases)
