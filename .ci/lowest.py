"""The lowest version that pyproject.toml allows of every dependency, as requirements for pip: ``make test-lowest``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: river's own lower bounds are higher than ours; tests of the adapters are skipped without it.
LEFT_OUT = {"river"}
#: What these versions need beside them: they call what later releases of these have deprecated.
BESIDE = ["click<8.3", "pyparsing<3.3"]
PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(extra: str) -> list[str]:
    """Lower bounds of the dependencies and of an extra, with those extras that it names.

    >>> [line for line in lowest("plot") if line.startswith(("numpy", "matplotlib"))]
    ['matplotlib==3.10', 'numpy==2.0']
    """
    requirements, waiting, known = list(PROJECT["dependencies"]), [extra], set(LEFT_OUT)
    while waiting:
        known.add(name := waiting.pop())
        for requirement in PROJECT["optional-dependencies"][name]:
            if own := re.fullmatch(r"ovk\[(.+)\]", requirement):
                waiting += [other for other in own[1].split(",") if other not in known]
            else:
                requirements.append(requirement)
    found = (re.fullmatch(r"([\w.-]+(?:\[\w+\])?)>=([\w.]+)", requirement) for requirement in requirements)
    return sorted({f"{bound[1]}=={bound[2]}" for bound in found if bound})


if __name__ == "__main__":
    print("\n".join([*lowest("dev"), *BESIDE]))
