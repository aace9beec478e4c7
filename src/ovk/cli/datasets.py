"""``ovk datasets``: which data sets are there."""

from __future__ import annotations

from ovk.cli.options import Data, Json
from ovk.cli.output import out, print_json, table
from ovk.datasets import available
from ovk.datasets._catalogue import CATALOGUE


def command(data: Data = None, as_json: Json = False) -> None:
    """List the public data sets that ovk can load: which are found on this machine, and where to get the others."""
    found = available(data)
    if as_json:
        print_json(
            {
                name: {
                    "found": found[name],
                    "title": entry.title,
                    "samples": entry.shape[0],
                    "inputs": entry.shape[1],
                    "outputs": entry.shape[2],
                    "files": [file.path for file in entry.files],
                    "publisher": entry.publisher,
                    "obtain": entry.obtain,
                    "cite": entry.citation,
                    "terms": entry.terms,
                }
                for name, entry in CATALOGUE.items()
            }
        )
        return
    rows = [
        [name, "found" if found[name] else "missing", entry.title, *map(str, entry.shape)]
        for name, entry in CATALOGUE.items()
    ]
    table("data sets", ["name", "", "what", "samples", "inputs", "outputs"], rows, words=3)
    missing = [entry for name, entry in CATALOGUE.items() if not found[name]]
    for entry in missing:
        files = ", ".join(file.path for file in entry.files)
        out.print(f"{entry.name}: {entry.publisher} offers it ({entry.obtain}); save it as {files}", markup=False)
    if missing:
        out.print("\nSay which folder holds them with --data or the environment variable OVK_DATA.")
