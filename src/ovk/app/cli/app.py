"""The commands. Only the command that runs is imported: help and completion load neither NumPy nor SciPy."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ovk import __version__, _startup

#: The commands and their one-line descriptions. Each is `command` in the module of the same name.
COMMANDS = {
    "demo": "Compare learners on a generated stream.",
    "stream": "Learn from a file of any length, row by row.",
    "fit": "Fit a model to a table that fits in memory.",
    "predict": "Predict the rows of a file, with intervals.",
    "forecast": "Forecast the next rows, with intervals.",
    "plot": "Plot a model.",
    "merge": "Merge models learned from partitions of the data.",
    "serve": "Serve models over HTTP.",
    "inspect": "Show the contents of a model file.",
}

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(TyperGroup):
    """A group that imports a command only when it runs; help and completion show a placeholder for it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, short_help=words) for name, words in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None:
            single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_SETTINGS)
            single.command(name)(import_module(f"ovk.app.cli.{name}").command)
            command = typer.main.get_command(single)
            # Huge numbers in a file have infinite errors, which need no warning.
            ctx.with_resource(import_module("numpy").errstate(over="ignore", invalid="ignore"))
        # Until here, Ctrl-C ends the process immediately.
        _startup.imported()
        return name, command, rest


app = typer.Typer(
    name="ovk",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
    help="Predict several related outputs, even with missing values, from a file or a stream. Start with: ovk demo",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 unusable data, 4 unusable model file, 5 missing "
    "package, 130 interrupted, 143 terminated. Set the environment variable OVK_TRACEBACK to get tracebacks.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ovk {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of `ovk` itself."""


def run(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code."""
    try:
        app(arguments, prog_name="ovk")
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # A closed pipe is not an error, but typer turns it into one.
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        # Flushing the rest of the buffer at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        from ovk.app.cli.output import err, explain

        message, code = explain(error)
        err.print(f"ovk: {message}", style="red", markup=False)
        sys.exit(int(code))
