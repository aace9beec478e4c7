"""``ovk predict``: predictions with intervals."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from ovk.cli.errors import Exit, Failure, blaming
from ovk.cli.options import File, Format, Json
from ovk.cli.output import err, plain
from ovk.persistence import load
from ovk.persistence.atomic import replacing
from ovk.sessions import Fitted, Predictions, Session
from ovk.sessions.parts import Lines
from ovk.streams import open_records

NAME = "predict"


def command(
    model: Annotated[Path, typer.Argument(help="A model of `ovk fit` or `ovk stream`.")],
    file: File,
    save: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of standard output.")] = None,
    level: Annotated[float, typer.Option(help="How often an interval should hold the outcome.")] = 0.9,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Predict the rows of a file, each output with an interval, as CSV (or JSON lines with --json).

    Nothing is learned. Where the model uses lags, outputs that stand in the file serve as such.
    """
    if not 0 < level < 1:
        raise Failure(f"--level must lie between 0 and 1, got {level:g}", Exit.USAGE)
    with blaming(Exit.MODEL):
        learned = load(model)
        if not isinstance(learned, (Fitted, Session)):
            raise Failure(
                f"{model} holds a {type(learned).__name__}, not a table that was learned: load it in Python (ovk.load)",
                Exit.MODEL,
            )
    before = learned.n_bad
    with blaming(Exit.DATA), open_records(file, form or None) as records:
        learned.preparation.bind(records.names, records.label, predict=True)
        names = list(learned.settings.targets)
        found = (learned.predict(batch, level) for batch in records.batches(4096))
        with _opened(save) as stream:
            for text in _json_lines(names, found) if as_json else _csv(names, found):
                stream.write(text)
    if learned.n_bad > before:
        err.print(f"{learned.n_bad - before:,} rows could not be read and were left out")


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with replacing(str(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def _csv(names: list[str], found: Iterator[Predictions]) -> Iterator[str]:
    lines = Lines(names)
    yield lines.header
    for predictions in found:
        yield from lines.of(predictions)


def _json_lines(names: list[str], found: Iterator[Predictions]) -> Iterator[str]:
    for rows, F, widths in found:
        for row, f, low, high in zip(rows, F.tolist(), (F - widths).tolist(), (F + widths).tolist(), strict=True):
            outputs = {name: {"prediction": f[q], "low": low[q], "high": high[q]} for q, name in enumerate(names)}
            yield json.dumps(plain({"row": row, **outputs})) + "\n"
