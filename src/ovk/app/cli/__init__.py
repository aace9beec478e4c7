"""The command line; each command has its own file.

Exit codes

    0    success
    1    failure that is not caused by the input, or a bug in ovk
    2    wrong usage
    3    unusable data: missing file or column, not a table, too few rows
    4    unusable model file: damaged, of another kind, from a later release
    5    missing package; the message names it
    130  interrupted (Ctrl-C)
    143  terminated (SIGTERM)
"""

from __future__ import annotations

import os
import sys

from ovk._extras import missing

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Parameters
    ----------
    arguments : list of str or None, default None
        Arguments after ``ovk``; None uses those of the process.

    See Also
    --------
    ovk.fit_file, ovk.app.sessions.learn

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
    # A process may start without standard streams (``>&-``). In this order, no file takes their place.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        import rich
        import typer
    except ImportError:
        print(missing("the command line", "cli"), file=sys.stderr)
        sys.exit(5)
    from ovk.app.cli.app import run

    run(arguments)
