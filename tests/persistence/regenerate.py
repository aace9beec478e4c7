"""Write the golden files that are missing: python tests/persistence/regenerate.py"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def regenerate(folder: Path = FOLDER) -> list[Path]:
    """Save `make()` of every expectation that has no file yet, and return the files written."""
    from ovk.persistence import save

    missing = [path for path in sorted(folder.glob("*.py")) if not path.with_suffix(".ovk").exists()]
    for path in missing:
        save(runpy.run_path(str(path))["make"](), path.with_suffix(".ovk"))
    return [path.with_suffix(".ovk") for path in missing]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for written in regenerate():
        print(written)
