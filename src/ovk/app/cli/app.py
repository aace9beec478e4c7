"""All commands together. Only the command that runs is imported: help and completion load neither NumPy nor SciPy."""

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
    "stream": "Learn a file of any length, row by row.",
    "fit": "Learn a table that fits in memory.",
    "predict": "Predict the rows of a file, with intervals.",
    "forecast": "Forecast the next rows, with intervals.",
    "plot": "Draw what a model has learned.",
    "merge": "Merge models learned from partitions of the data.",
    "serve": "Serve models over HTTP.",
    "inspect": "Show what is in a model file.",
}

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(TyperGroup):
    """A group that imports a command only when it runs; help and completion show a placeholder for it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, short_help=words) for name, words in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command in place of its placeholder."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None:
            command = _imported(name)
            # Absurd numbers in a file make infinite errors: that is the right answer, and no reason to warn.
            ctx.with_resource(import_module("numpy").errstate(over="ignore", invalid="ignore"))
        # Until here Ctrl-C ends the process at once.
        _startup.imported()
        return name, command, rest


def _imported(name: str) -> Any:
    single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_SETTINGS)
    single.command(name)(import_module(f"ovk.app.cli.{name}").command)
    return typer.main.get_command(single)


app = typer.Typer(
    name="ovk",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
    help="Learn to predict several related outputs, with missing values, from a file or a stream. Start with: ovk demo",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unusable data, 4 unusable model file, 5 missing package, "
    "130 interrupted, 143 terminated. Set the environment variable OVK_TRACEBACK to see where an error came from.",
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
    """Options of all commands."""


def run(arguments: list[str] | None = None) -> None:
    """Run a command, and leave with its exit code."""
    try:
        app(arguments, prog_name="ovk")
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # Whoever read our output has seen enough; typer turns that into a failure.
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        # What is left in the buffer must not raise once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        from ovk.app.cli.output import err, explain

        message, code = explain(error)
        err.print(f"ovk: {message}", style="red", markup=False)
        sys.exit(int(code))
