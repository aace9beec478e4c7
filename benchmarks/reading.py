"""Reading CSV with pyarrow and with the standard library: rows into inputs and outputs, and a whole session.

The dirty table has a fault in .3% of its rows: an empty, missing or unreadable cell, a percent sign, a decimal comma, a
row that is too short, an empty line. Both readers must report the same faults and give the same numbers.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk.app.sessions import Settings as SessionSettings
from ovk.app.sessions import learn
from ovk.app.tables import Preparation, open_records

ARROW, STANDARD = "ovk with pyarrow", "ovk without pyarrow"
N_COLUMNS, BLOCK = 10, 4096
#: Share of faulty rows.
DIRTY = 0.003
FAULTS = ("", "n/a", "x7", '"1,5"', "12%")


def write_table(path: Path, n: int, *, dirty: bool) -> None:
    """A linear function of nine normal inputs, with faults if `dirty`."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, N_COLUMNS - 1))
    y = X @ rng.standard_normal(N_COLUMNS - 1) + 0.1 * rng.standard_normal(n)
    faulty = rng.uniform(size=n) < (DIRTY if dirty else 0.0)
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join([*(f"x{j}" for j in range(N_COLUMNS - 1)), "y"]) + "\n")
        for row, fault in zip(np.column_stack([X, y]).tolist(), faulty.tolist(), strict=True):
            cells = [repr(value) for value in row]
            if fault:
                kind = int(rng.integers(len(FAULTS) + 2))
                if kind < len(FAULTS):
                    cells[int(rng.integers(N_COLUMNS))] = FAULTS[kind]
                else:
                    cells = cells[:-1] if kind == len(FAULTS) else []
            file.write(",".join(cells) + "\n")


class Reading:
    """The two tables, and what each reader found in them."""

    def __init__(self, directory: str, n: int) -> None:
        self.paths = {name: Path(directory) / f"{name}.csv" for name in ("clean", "dirty")}
        for name, path in self.paths.items():
            write_table(path, n, dirty=name == "dirty")
        self.found: dict[tuple[str, str], tuple[str, int]] = {}

    def read(self, table: str, reader: str) -> None:
        """Prepare all rows of a table."""
        digest, faults = hashlib.blake2b(), 0
        with self._reader(reader), open_records(self.paths[table]) as records:
            preparation = Preparation(["y"]).bind(records.names)
            for batch in records.batches(BLOCK):
                rows = (preparation if faults or batch.rows[0] > 1 else preparation.fit(batch)).prepare(batch)
                for array in (rows.chunk.X, rows.chunk.Y):
                    digest.update(array)
                faults += len(rows.bad)
                digest.update(repr(rows.bad).encode())
            digest.update(records.digest().encode())
        self.found[table, reader] = digest.hexdigest(), faults

    def learn(self, reader: str) -> None:
        """`ovk stream --model pkawv`, without starting a process."""
        with self._reader(reader), open_records(self.paths["clean"]) as records:
            session = learn(records, SessionSettings(targets=["y"], model="pkawv"))
        self.found["session", reader] = session.digest, session.n_bad

    def same(self, table: str) -> tuple[dict[str, int], list[Check]]:
        """Whether both readers found the same."""
        one, other = (self.found[table, reader] for reader in (ARROW, STANDARD))
        return {"rows reported": one[1]}, [
            Check("same rows, faults and digest (1: yes)", float(one == other), 1.0, True)
        ]

    @staticmethod
    def _reader(reader: str) -> patch:  # type: ignore[valid-type]
        return patch("ovk.app.tables.records.arrow_installed", lambda: reader == ARROW)


def _checks(target: str, bound: float, seconds: Seconds) -> list[Check]:
    return [Check(target, seconds[STANDARD] / seconds[ARROW], bound, at_least=True)]


def cases(settings: Settings) -> Iterator[Case]:
    n: int = settings.pick(toy=30_000, quick=100_000, default=500_000)
    rounds: int = settings.pick(toy=1, quick=3, default=5)
    # A toy table is too small to pay for importing pyarrow.
    floor = 0.1 if settings.size == "toy" else 1.0
    with tempfile.TemporaryDirectory(prefix="ovk-reading-") as directory:
        reading = Reading(directory, n)
        wanted = {"clean": 2.5, "dirty": 2.5, "session": 1.8}
        for name, bound in wanted.items():
            runs = {reader: partial(reading.read, name, reader) for reader in (ARROW, STANDARD)}
            if name == "session":
                runs = {reader: partial(reading.learn, reader) for reader in (ARROW, STANDARD)}
            yield Case(
                "session with pkawv" if name == "session" else f"{name} table into inputs and outputs",
                {"rows": n, "columns": N_COLUMNS, "block": BLOCK},
                [Contender(reader, run) for reader, run in runs.items()],
                rounds,
                partial(_checks, f"{name}: times as fast as the standard library", bound * floor),
                partial(reading.same, name),
                threads=1,
            )


BENCHMARK = Benchmark("reading", "Reading CSV files", cases)
