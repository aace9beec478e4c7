"""The lowest version that pyproject.toml allows of every dependency, as requirements for pip: ``make test-lowest``.

With ``lowest`` or ``newest``, for ``make audit``: those of what users install, in these versions.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

#: Their own lower bounds are higher than ours; without them their tests are skipped.
OMITTED = {"river", "schemathesis"}
#: What these versions need beside them: they call what later releases of these have deprecated.
BESIDE = ["click<8.3", "pyparsing<3.3"]
FILE = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = FILE["project"]["optional-dependencies"]


def lowest(extras: list[str], groups: list[str]) -> list[str]:
    """Lower bounds of the dependencies, of extras and of dependency groups.

    >>> [line for line in lowest(["plot"], []) if line.startswith(("numpy", "matplotlib"))]
    ['matplotlib==3.10', 'numpy==2.0']
    """
    lists = [FILE["project"]["dependencies"]]
    lists += [EXTRAS[name] for name in extras if name not in OMITTED]
    lists += [FILE["dependency-groups"][name] for name in groups]
    bounds = re.compile(r"([\w.-]+(?:\[\w+\])?)>=([\w.]+)(?:;.*)?")  # whatever the platform
    found = (bounds.fullmatch(requirement) for names in lists for requirement in names)
    return sorted({f"{bound[1]}=={bound[2]}" for bound in found if bound and bound[1] not in OMITTED})


if __name__ == "__main__":
    if sys.argv[1:]:
        found = lowest(list(EXTRAS), [])
        print("\n".join(found if sys.argv[1] == "lowest" else [line.replace("==", ">=") for line in found]))
    else:
        print("\n".join([*lowest(list(EXTRAS), ["dev"]), *BESIDE]))
