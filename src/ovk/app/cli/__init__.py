"""The command line: ``ovk --help`` lists the commands, each of which has a file of its own.

Exit codes

    0    done
    1    something failed that is no fault of the input (a data set is missing, or an error of ovk itself)
    2    the command was called wrongly
    3    the data cannot be used: no such file or column, not a table, too few rows
    4    the model file cannot be used: damaged, of another kind, of a later release
    5    a package is missing: the message says which to install
    130  interrupted (Ctrl-C)
    143  terminated (SIGTERM)
"""

from __future__ import annotations

import sys

from ovk._extras import missing

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and leave with its exit code.

    Parameters
    ----------
    arguments : what follows ``ovk``; by default what the process was called with

    Examples
    --------
    >>> from ovk.app.cli import main
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as end:
    ...     print(end.code)
    ovk ...
    0
    """
    try:
        import rich
        import typer
    except ImportError:
        print(missing("the command line", "cli"), file=sys.stderr)
        sys.exit(5)
    from ovk.app.cli.app import run

    run(arguments)
