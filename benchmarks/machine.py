"""Description of the machine."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from threadpoolctl import threadpool_info


def describe() -> dict[str, Any]:
    """Cores, processor, versions, BLAS with its threads, date and load."""
    blas = [
        {key: library[key] for key in ("internal_api", "version", "num_threads", "architecture", "filepath")}
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]
    for library in blas:
        library["filepath"] = os.path.basename(library["filepath"])
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("ovk", "numpy", "scipy", "scikit-learn", "himalaya")},
        "blas": blas,
        "load_average": list(os.getloadavg()),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
