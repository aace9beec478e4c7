"""All commands together."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import numpy as np
import typer

from ovk import __version__, _startup
from ovk.cli import datasets, demo, fit, forecast, inspect, merge, plot, predict, serve, stream
from ovk.cli.errors import explain
from ovk.cli.output import err

app = typer.Typer(
    name="ovk",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn to predict several related outputs, with missing values, from a file or a stream. Start with: ovk demo",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unusable data, 4 unusable model file, 5 missing package, "
    "130 interrupted, 143 terminated. Set the environment variable OVK_TRACEBACK to see where an error came from.",
)

#: The commands, each with what the list of commands says of it, short enough not to be cut.
COMMANDS = {
    demo: "Compare learners on a generated stream.",
    stream: "Learn a file of any length, row by row.",
    fit: "Learn a table that fits in memory.",
    predict: "Predict the rows of a file, with intervals.",
    forecast: "Forecast the next rows, with intervals.",
    plot: "Draw what a model has learned.",
    merge: "Merge models learned from parts of the data.",
    serve: "Serve models over HTTP.",
    inspect: "Show what is in a model file.",
    datasets: "List the public data sets that ovk can load.",
}
for command, words in COMMANDS.items():
    app.command(command.NAME, short_help=words)(command.command)


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
        _startup.imported()
        # Absurd numbers in a file make infinite errors: that is the right answer, and no reason to warn.
        with np.errstate(over="ignore", invalid="ignore"):
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
        message, code = explain(error)
        err.print(f"ovk: {message}", style="red", markup=False)
        sys.exit(int(code))
