"""Reproductions use the library through what its packages export."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import reproduce

SCRIPTS = sorted(Path(reproduce.__file__).parent.rglob("*.py"))


def imports_of_the_library(path):
    """(module, name) of every import from ``ovk``; the name is None for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "ovk")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ovk":
            yield from ((node.module, alias.name) for alias in node.names)


def test_scripts_import_what_packages_export():
    found = [(path, *one) for path in SCRIPTS for one in imports_of_the_library(path)]
    for path, module, name in found:
        assert module.count(".") <= 1, f"{path.name} imports from {module}, which is inside a package"
        assert not module.split(".")[-1].startswith("_"), f"{path.name} imports from the private module {module}"
        if name is not None:
            exported = importlib.import_module(module)
            assert hasattr(exported, name), f"{path.name} imports {name} from {module}, which does not export it"


def test_scripts_do_import_the_library():
    assert ("ovk.batch", "OKVAR") in [found for path in SCRIPTS for found in imports_of_the_library(path)]


def test_scripts_touch_no_private_attribute_of_others():
    own = {"self", "cls"}
    found = [(path, node) for path in SCRIPTS for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    for path, node in found:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value.id if isinstance(node.value, ast.Name) else ast.dump(node.value)
            assert owner in own, f"{path.name} reads the private attribute {node.attr} of {owner}"
