"""Files name exported classes only, so other classes can be renamed without changing the format."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

import ovk
from ovk.base.state import registered


def import_all():
    for module in pkgutil.walk_packages(ovk.__path__, "ovk."):
        # The adapters for river need it.
        needs_river = module.name.startswith("ovk.online.river") and importlib.util.find_spec("river") is None
        if not module.name.endswith("__main__") and not needs_river:
            importlib.import_module(module.name)


def test_packages_export_the_classes_that_files_name():
    import_all()
    for cls in registered():
        if cls.__module__.startswith("ovk."):
            parts = cls.__module__.split(".")
            package = importlib.import_module(".".join(parts[: 3 if parts[1] == "app" else 2]))
            assert getattr(package, cls.__name__) is cls
