"""``python -m reproduce.data``: available data sets, and where to get the others."""

from __future__ import annotations

import argparse
import json
import sys

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import available


def main(arguments: list[str] | None = None) -> int:
    """List the data sets of the reproductions."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.data", description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="directory of the data sets (default: the variable OVK_DATA)")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    options = parser.parse_args(arguments)
    found = available(options.data)
    if options.json:
        listing = {name: {"found": found[name], **entry.to_dict()} for name, entry in CATALOGUE.items()}
        print(json.dumps(listing, indent=2))
        return 0
    for name, entry in CATALOGUE.items():
        print(f"{name:17} {'found' if found[name] else 'missing':8} {entry.title}: {entry.sizes}")
    missing = [entry for name, entry in CATALOGUE.items() if not found[name]]
    for entry in missing:
        files = ", ".join(file.path for file in entry.files)
        print(f"\n{entry.name}: {entry.publisher} offers it ({entry.obtain}); save it as {files}")
    if missing:
        print("\nSet --data or the environment variable OVK_DATA to the directory that contains them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
