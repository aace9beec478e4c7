"""Optional dependencies, and the error if they are missing."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

#: The packages of each extra. Messages name the packages, which can be installed from any index.
PACKAGES = {
    "array-api": "array-api-compat",
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
    """The message for a missing optional dependency.

    >>> missing("Parquet files", "files")
    "Parquet files require the extra 'files' of ovk: pip install pyarrow"
    """
    verb = "require" if what.endswith("s") else "requires"
    return f"{what} {verb} the extra {extra!r} of ovk: pip install {PACKAGES[extra]}"


@contextmanager
def required(what: str, extra: str) -> Iterator[None]:
    """Import packages of an extra inside; if an import fails, the error states what to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(missing(what, extra), name=error.name) from error


def show_versions() -> None:
    """Print the versions of ovk, Python and the packages that ovk uses, for bug reports.

    See Also
    --------
    sklearn.show_versions

    Examples
    --------
    >>> import ovk
    >>> ovk.show_versions()
    ovk ...
    python ...
    """
    # Imported here: the command line imports this module, and `importlib.metadata` would double its start-up time.
    from importlib.metadata import PackageNotFoundError, version

    print(f"ovk {import_module('ovk').__version__}")
    print(f"python {platform.python_version()} ({platform.platform()})")
    always = "numpy scipy scikit-learn joblib threadpoolctl"
    for name in dict.fromkeys(" ".join([always, *PACKAGES.values(), "pandas polars torch"]).split()):
        try:
            print(name, version(name))
        except PackageNotFoundError:
            print(name, "not installed")
