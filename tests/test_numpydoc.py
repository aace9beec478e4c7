"""Docstrings of public names have the sections that numpydoc asks for."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from numpydoc.validate import validate

import ovk

# Parameters that are not documented, in the wrong order, or without a description; returned values without a
# description; no See Also section.
REJECTED = {"PR01", "PR03", "PR07", "RT03", "SA01"}


def packages() -> Iterator[str]:
    yield "ovk"
    yield from (module.name for module in pkgutil.walk_packages(ovk.__path__, "ovk.") if module.ispkg)


@pytest.mark.parametrize("package", list(packages()))
def test_docstrings_are_complete(package: str) -> None:
    module = importlib.import_module(package)
    faults = [
        f"{package}.{name}: {code} {message}"
        for name in getattr(module, "__all__", ())
        if callable(getattr(module, name))
        for code, message in validate(f"{package}.{name}")["errors"]
        if code in REJECTED
    ]
    assert not faults, "\n".join(faults)
