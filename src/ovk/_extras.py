"""Optional packages: which extra of ovk brings them, and the error when they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: What `pip install` needs for each extra. (Messages name the packages, which can be installed from any index.)
PACKAGES = {
    "cli": "typer rich",
    "dask": "dask distributed",
    "files": "pyarrow",
    "frames": "narwhals",
    "graph": "networkx",
    "kafka": "confluent-kafka",
    "nats": "nats-py",
    "plot": "matplotlib",
    "river": "river",
    "serve": "starlette uvicorn prometheus-client typer rich",
}


def missing(what: str, extra: str) -> str:
    """The message for a feature whose packages are not installed.

    >>> missing("Parquet files", "files")
    "Parquet files need the extra 'files' of ovk: pip install pyarrow"
    """
    verb = "need" if what.endswith("s") else "needs"
    return f"{what} {verb} the extra {extra!r} of ovk: pip install {PACKAGES[extra]}"


@contextmanager
def required(what: str, extra: str) -> Iterator[None]:
    """Imports made inside belong to an extra: if one fails, the error says what to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(missing(what, extra), name=error.name) from error
