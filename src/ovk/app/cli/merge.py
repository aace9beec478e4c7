"""``ovk merge``: merge models learned from partitions of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.app.cli.options import Json, check_model_path, check_output_path
from ovk.app.cli.output import CommandError, Exit, exit_code_on_error, print_json, show
from ovk.app.sessions import Session, merge_sessions
from ovk.features import merge_all
from ovk.persistence import load, save


def command(
    files: Annotated[list[Path], typer.Argument(help="At least two model files with the same settings and features.")],
    to: Annotated[Path, typer.Option("--save", help="File for the merged model.")],
    as_json: Json = False,
) -> None:
    """Merge models learned from partitions of the data into the model of all the data, exactly.

    Learn each partition of a stream with `ovk stream`, all but the first with --template FIRST.ovk. The models do not
    change and can continue to learn; merge them again whenever you need a model of all the data.
    """
    if len(files) < 2:
        raise CommandError(f"ovk merge requires at least two models, got {files[0]}")
    check_output_path(to, "--save", models=files)
    check_model_path(to)
    with exit_code_on_error(Exit.MODEL):
        models = [load(file) for file in files]
        for file, model in zip(files, models, strict=True):
            if type(model) is not type(models[0]):
                kinds = f"{file} contains {type(model).__name__}, {files[0]} {type(models[0]).__name__}"
                raise CommandError(f"only models of the same class can be merged: {kinds}", Exit.MODEL)
            if not isinstance(model, Session) and not hasattr(model, "merge"):
                raise CommandError(f"{file} contains {type(model).__name__}, which cannot be merged", Exit.MODEL)
        sessions = isinstance(models[0], Session)
        merged = merge_sessions(models) if sessions else merge_all(models, lambda one, two: one.merge(two))
        save(merged, to)
    rows = merged.earlier if sessions else None
    if as_json:
        print_json({"parts": files, "rows": rows, "model_file": to})
        return
    counted = "" if rows is None else f", {rows:,} rows in total"
    show(f"{len(files)} models merged{counted}")
    show(f"model: {to}")
