"""A digest of the code that a reproduction exercises: its module, and all that this imports from ovk and reproduce.

Names are followed to the file that defines them, so that ``from ovk import OLOK`` leads to the file of OLOK and to what
that imports, and not to the whole library. Comments, docstrings and formatting do not count.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import ovk

#: Directories of the packages that are followed.
ROOTS = {"ovk": Path(ovk.__file__).parent, "reproduce": Path(__file__).parent}
#: Modules that write results down, and compute none.
RECORDING = {"reproduce.registry", "reproduce.code_digest"}


def digest(module: str) -> str:
    """Twelve hexadecimal digits of the code of a module and of what it imports.

    >>> digest("reproduce.glad") == digest("reproduce.glad"), digest("reproduce.glad") == digest("reproduce.jura")
    (True, False)
    """
    code = hashlib.sha256()
    for name in sorted(imported(module)):
        code.update(f"{name}\n{_code(name)}\n".encode())
    return code.hexdigest()[:12]


def imported(module: str) -> set[str]:
    """Names of the module itself and of those of ovk and reproduce that it imports, directly or through others.

    >>> sorted(name for name in imported("reproduce.glad") if name.startswith("reproduce.g"))
    ['reproduce.glad']
    >>> [name in imported("reproduce.glad") for name in ("ovk.batch.fields.vector_field", "ovk.batch.okvar.model")]
    [True, False]
    """
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found | RECORDING:
            found.add(name)
            waiting += _imports(name)
    return found


@cache
def _imports(module: str) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if _path(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and _path(node.module):
            names += [_source(node.module, alias.name) for alias in node.names]
    return tuple(names)


def _source(module: str, name: str) -> str:
    """The module that defines a name which can be imported from another."""
    if _path(f"{module}.{name}"):
        return f"{module}.{name}"
    for package, known in _exports(module):
        if known == name:
            return _source(package, name)
    return module


@cache
def _exports(module: str) -> tuple[tuple[str, str], ...]:
    """Module and name of what a package imports from its own modules."""
    path = _path(module)
    if path is None or path.name != "__init__.py":
        return ()
    imports = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom)]
    return tuple(
        (node.module or "", alias.name) for node in imports for alias in node.names if _path(node.module or "")
    )


@cache
def _path(module: str) -> Path | None:
    """The file of a module of ovk or reproduce."""
    first, *rest = module.split(".")
    if first not in ROOTS:
        return None
    place = ROOTS[first].joinpath(*rest)
    files = (place / "__init__.py", place.parent / f"{place.name}.py")
    return next((path for path in files if path.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    node.body = node.body[1:] or [ast.Pass()]
    return tree


@cache
def _code(module: str) -> str:
    return ast.unparse(_tree(module))
