"""How much memory the process took."""

from __future__ import annotations

import sys


def peak_memory() -> float:
    """Most memory held so far, in MB; nan where the system does not tell.

    >>> peak_memory() > 1
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
