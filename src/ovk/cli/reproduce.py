"""``ovk reproduce``: published results, run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from ovk import reproduce
from ovk.cli.errors import Exit, Failure
from ovk.cli.options import Data, Json
from ovk.cli.output import err, out, print_json, table
from ovk.datasets import DatasetNotFound

NAME = "reproduce"


def _complete(incomplete: str) -> list[str]:
    return [name for name in ("all", *reproduce.names()) if name.startswith(incomplete)]


def command(
    name: Annotated[str, typer.Argument(help="all, or a name; without it, a list.", autocompletion=_complete)] = "",
    data: Data = None,
    save: Annotated[
        Path | None, typer.Option("--out", help="Write Markdown, JSON and figures into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run published results again: the published number, ours, the setting, the seconds."""
    if not name:
        known = {one: reproduce.entry(one).paper for one in reproduce.names()}
        print_json(known) if as_json else table("reproductions", ["name", "paper"], list(known.items()), words=2)
        return
    if name != "all" and name not in reproduce.names():
        raise Failure(f"there is no reproduction {name!r}: there are {', '.join(reproduce.names())}", Exit.USAGE)
    results, missing = {}, []
    for one in reproduce.names() if name == "all" else [name]:
        try:
            with err.status(f"running {one}"):
                result = reproduce.run(one, data)
        except DatasetNotFound as error:
            missing.append(f"{one}: {error}")
            continue
        results[one] = json.loads(result.to_json())
        if save is not None:
            result.save(save, one)
        if not as_json:
            out.print(Markdown(result.to_markdown()))
    if as_json:
        print_json(results)
    for message in missing:
        err.print(message, markup=False)
    if missing:
        raise Failure(f"{len(missing)} of the reproductions have no data", Exit.FAILED)
