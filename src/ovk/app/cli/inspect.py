"""``ovk inspect``: show the contents of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.app.cli.options import Json
from ovk.app.cli.output import Exit, exit_code_on_error, print_json, show
from ovk.persistence import StoredObject, inspect


def command(file: Annotated[Path, typer.Argument(help="A file written by ovk.")], as_json: Json = False) -> None:
    """Show the contents of a model file without loading the model or its arrays."""
    with exit_code_on_error(Exit.MODEL):
        contents = inspect(file)
    if as_json:
        arrays = [{"name": a.name, "shape": a.shape, "dtype": a.dtype, "bytes": a.nbytes} for a in contents.arrays]
        about = {"class": contents.class_name, "version": contents.version, "format": contents.format}
        print_json({**about, "parameters": contents.parameters, "state": contents.state, "arrays": arrays})
        return
    show(f"{contents.class_name}, written by ovk {contents.version} (format {contents.format})")
    for name, value in {**contents.parameters, **contents.state}.items():
        _show(name, value, 1)
    size = sum(array.nbytes for array in contents.arrays)
    show(f"{len(contents.arrays)} arrays, {size / 1e6:.2f} MB")


def _show(name: str, value: Any, depth: int) -> None:
    """Print a line for each value, and the entries of objects and dicts indented below them."""
    pad = "  " * depth
    entries: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    label = ""
    if isinstance(value, StoredObject):
        label, entries = f" {value.class_name}", {**value.parameters, **value.state}
    if (entries or label) and depth < 4:
        show(f"{pad}{name}:{label}")
        for key, entry in entries.items():
            _show(str(key), entry, depth + 1)
        return
    text = repr(value)
    show(f"{pad}{name} = {text if len(text) <= 100 else text[:97] + '...'}")
