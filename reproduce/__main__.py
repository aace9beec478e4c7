"""``python -m reproduce NAME|all [--data DIR] [--out DIR] [--json]``; ``python -m reproduce --stale``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import reproduce
from reproduce.data import DatasetNotFound

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run reproductions and print their tables; exit code 0 on success, 1 for missing data, 2 for a usage error."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description="Re-run published results.")
    parser.add_argument("name", nargs="?", help=f"all, or one of {', '.join(reproduce.names())}; without it, a list")
    parser.add_argument("--data", metavar="DIR", help="directory of the data sets (default: the variable OVK_DATA)")
    parser.add_argument("--out", metavar="DIR", help="also write Markdown, JSON and figures into this directory")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument(
        "--stale", action="store_true", help="list results in docs/results whose code has changed since"
    )
    options = parser.parse_args(arguments)
    if options.stale:
        for name, reason in reproduce.stale(RESULTS).items():
            print(f"{name:15} {reason}")
        return 0
    if options.name is None:
        for name in reproduce.names():
            print(f"{name:15} {reproduce.entry(name).paper}")
        return 0
    if options.name != "all" and options.name not in reproduce.names():
        print(
            f"there is no reproduction named {options.name!r}; there are {', '.join(reproduce.names())}",
            file=sys.stderr,
        )
        return 2
    status = 0
    for name in reproduce.names() if options.name == "all" else [options.name]:
        try:
            result = reproduce.run(name, options.data)
        except DatasetNotFound as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        print(result.to_json() if options.json else result.to_markdown() + "\n")
        if options.out:
            result.save(Path(options.out), name)
    return status


if __name__ == "__main__":
    sys.exit(main())
