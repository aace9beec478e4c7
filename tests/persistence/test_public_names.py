"""Files name public classes only: a private class can be renamed without a change of the format."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

import ovk
from ovk.base.state import registered


def public_modules():
    """`ovk` and the packages and modules right below it, after everything that can be imported was."""
    for module in pkgutil.walk_packages(ovk.__path__, "ovk."):
        # The adapters for river need it.
        needs_river = module.name.startswith("ovk.online.river") and importlib.util.find_spec("river") is None
        if not module.name.endswith("__main__") and not needs_river:
            importlib.import_module(module.name)
    found = [*pkgutil.iter_modules(ovk.__path__, "ovk."), *pkgutil.iter_modules(ovk.app.__path__, "ovk.app.")]
    return [ovk, *(importlib.import_module(m.name) for m in found if not m.name.startswith("ovk._"))]


def test_registered_classes_are_public():
    public = {id(getattr(module, name)) for module in public_modules() for name in getattr(module, "__all__", ())}
    private = [f"{cls.__module__}.{cls.__qualname__}" for cls in registered() if id(cls) not in public]
    assert [name for name in private if name.startswith("ovk.")] == []


def test_a_class_is_found_under_the_name_in_the_file():
    public_modules()
    for cls in registered():
        if cls.__module__.startswith("ovk."):
            parts = cls.__module__.split(".")
            package = importlib.import_module(".".join(parts[: 3 if parts[1] == "app" else 2]))
            assert getattr(package, cls.__name__) is cls
