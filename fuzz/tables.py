"""CSV and JSON lines with the same faults for ``ovk stream`` and ``ovk fit``: an exit code and one sentence."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import ovk
from fuzz.model_files import mutated
from ovk.app.cli import main

#: Success, usage error, unusable data.
CODES = {0, 2, 3}


def tries(rng: np.random.Generator) -> Iterator[str | None]:
    with tempfile.TemporaryDirectory() as directory:
        while True:
            suffix, content = _csv(rng) if rng.random() < 0.6 else _json_lines(rng)
            path, model = Path(directory) / f"t.{suffix}", Path(directory) / "m.ovk"
            path.write_bytes(mutated(content, rng))
            model.unlink(missing_ok=True)
            command = "stream" if rng.random() < 0.7 else "fit"
            options = ["--warm-up", "10", "--block", "16"] if command == "stream" else []
            lags = ["--lags", "1,2"] if rng.random() < 0.5 else []
            yield _run([command, str(path), "--targets", "y", "--save", str(model), *options, *lags], model)


def _run(arguments: list[str], model: Path) -> str | None:
    err = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(err):
            main(arguments)
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:
        return f"{' '.join(arguments)} raised {type(error).__name__}: {error}"
    else:
        code = 0
    if code not in CODES:
        return f"{' '.join(arguments)} ended with {code}: {err.getvalue()}"
    if model.exists():
        ovk.load(model)
    return None


def _cell(rng: np.random.Generator) -> str:
    odd = ["", "?", "1e999", "-inf", "1,234.5", "12%", "'", '"', "\0", "é", "2020-01-01", "NaN", "9" * 400, "red", "=1"]
    return odd[rng.integers(len(odd))] if rng.random() < 0.05 else f"{rng.standard_normal():.4g}"


def _csv(rng: np.random.Generator) -> tuple[str, bytes]:
    separator = [",", ";", "\t"][rng.integers(3)]
    lines = [separator.join(["x", "word", "y"])]
    for _ in range(rng.integers(0, 120)):
        lines.append(separator.join([_cell(rng), ["red", "blue"][rng.integers(2)], _cell(rng)]))
    return "csv", "\n".join(lines).encode(["utf-8", "latin-1"][rng.integers(2)])


def _json_lines(rng: np.random.Generator) -> tuple[str, bytes]:
    odd = ["null", "[]", "{}", "1e999", '"red"', "true", "[1, 2]", "1" * 400]
    lines = []
    for _ in range(rng.integers(0, 120)):
        x, y = (odd[rng.integers(len(odd))] if rng.random() < 0.05 else f"{rng.standard_normal():.4g}" for _ in "xy")
        lines.append(f'{{"x": {x}, "y": {y}}}')
    return "jsonl", "\n".join(lines).encode()
