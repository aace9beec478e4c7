"""Checks of what a file holds, before an object is built from it: types, shapes and finite numbers.

A class declares its attributes once. Their types are its annotations, those of its fields and of its constructor.
Shapes stand in the table `_stored`, for one or several attributes, by the names of their axes:

    class Ridge(Parameters):
        _stored = {"X_fit_": "n * any | other", "dual_coef_": "n d", "intercept_": "d | None", "errors_ loss_": "* inf"}

Axes of one name have one length in all attributes of the object, the name of an integer attribute is its value, and
``*`` stands for any further axes. ``nan`` allows nan, ``inf`` also infinite numbers, ``int`` integers alone, and
``any`` arrays of other types. ``| None`` and ``| other`` allow None, and sequences or sparse matrices instead of an
array. A tuple describes the items of a tuple, an ellipsis the rest of them like the last; a type, or range of integers,
replaces an annotation.
Numbers that the table does not mention must be finite, except in the application's records of rows and scores.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from reprlib import repr as short
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from ovk.base.types import Array

#: Kinds of the arrays that an annotation admits; integers take the place of floats.
ARRAY_KINDS = {np.float64: "fiu", np.int64: "iu", np.bool_: "b"}
#: Integers that count something, and those that are at least 1.
COUNT, SIZE = range(2**40), range(1, 2**40)
NUMBERS: dict[type, type] = {float: Real, int: Integral}


def check_stored(cls: type, values: Mapping[str, Any]) -> None:
    """Raise an error that names the first of these attributes that a `cls` cannot have."""
    hints, table = _declared(cls)
    default = "*" if _is_ours(cls) and not cls.__module__.startswith("ovk.app.") else "* inf"
    sizes = {name: int(value) for name, value in values.items() if isinstance(value, Integral)}
    for name, value in values.items():
        fault = None if name not in hints else _mismatch(value, hints[name])
        if fault is None:
            fault = _unlike(value, table.get(name, default), sizes)
        if fault is not None:
            found = f"an array {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else short(value)
            raise ValueError(f"{cls.__name__}.{name} must be {fault}, the file has {found}")


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("ovk.")


@cache
def _declared(cls: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """The annotations and the table of a class, those that its bases in ovk declare."""
    ours = [base for base in cls.__mro__ if _is_ours(base)]
    hints: dict[str, Any] = {}
    for base in reversed(ours):
        for annotated in (base.__init__, base):  # type: ignore[misc]
            try:
                hints.update(get_type_hints(annotated))
            except NameError:  # a class that is imported for type checkers only
                continue
    tables = [vars(base).get("_stored", {}) for base in reversed(ours)]
    table: dict[str, Any] = {name: spec for one in tables for names, spec in one.items() for name in names.split()}
    shapes = {name: spec for name, spec in table.items() if isinstance(spec, (str, tuple))}
    return hints | {name: spec for name, spec in table.items() if name not in shapes}, shapes


def _mismatch(value: Any, hint: Any) -> str | None:
    """The expected type, if the value is of another one."""
    return None if _matches(value, hint) else getattr(hint, "__name__", str(hint)).replace("collections.abc.", "")


def _matches(value: Any, hint: Any) -> bool:
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if isinstance(hint, range):
        return type(value) is int and value in hint
    if kind in (Union, types.UnionType):
        return any(_matches(value, part) for part in parts)
    if kind is None or kind is types.NoneType:
        return value is None
    if kind in NUMBERS:
        whole = not isinstance(value, Integral) or -(2**63) <= int(value) < 2**63
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool) and whole
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is Literal:
        return value in parts
    if kind is np.ndarray:
        return _is_array(value, get_args(parts[1])[0] if len(parts) > 1 else Any)
    if kind in (Any, Callable, ClassVar) or not isinstance(kind, type):  # or a type variable
        return True
    if kind is tuple and parts and parts[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_matches, value, parts))
    if kind is Sequence and isinstance(value, np.ndarray):
        return value.ndim > 0
    if not isinstance(value, kind):
        return False
    if isinstance(value, Mapping) and parts:
        return all(_matches(key, parts[0]) and _matches(item, parts[1]) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)) and parts:
        return all(_matches(item, parts[0]) for item in value)
    return True


def _is_array(value: Any, dtype: Any) -> bool:
    """Whether a value is an array of these numbers, or a parameter that becomes one: a list, a number."""
    if isinstance(value, (list, tuple, Real)):
        try:
            value = np.asarray(value)
        except ValueError:  # rows of several lengths
            return False
    return isinstance(value, np.ndarray) and value.dtype.kind in ARRAY_KINDS.get(dtype, value.dtype.kind)


def _unlike(value: Any, spec: Any, sizes: dict[str, int]) -> str | None:
    """What the table demands, if the value is something else; the lengths of new axes are added to `sizes`."""
    if isinstance(spec, tuple):
        items = value if isinstance(value, tuple) else ()
        if spec[-1] is Ellipsis:
            spec = (*spec[:-1], *[spec[-2]] * (len(items) - len(spec) + 1))
        if len(items) != len(spec):
            return f"a tuple of {len(spec)} arrays"
        return next(filter(None, (_unlike(item, one, sizes) for item, one in zip(items, spec, strict=True))), None)
    shape, *others = (part.split() for part in spec.split("|"))
    words = {"nan", "inf", "any", "int"}.intersection(shape)
    axes = [axis for axis in shape if axis not in words]
    if "inf" not in words and not _is_finite(value, np.isinf if "nan" in words else None):
        return "finite numbers"
    if isinstance(value, np.ndarray):
        return _misshapen(
            value, axes, sizes, kinds="iu" if "int" in words else "fiu" if "any" not in words and axes[0] != "*" else ""
        )
    sequence = isinstance(value, (list, tuple)) or sparse.issparse(value)
    if axes[0] == "*" or (value is None and ["None"] in others) or (sequence and ["other"] in others):
        return None
    return f"an array ({', '.join(axes)})"


def _is_finite(value: Any, bad: Callable[[Any], Any] | None = None) -> bool:
    if sparse.issparse(value):
        value = value.data
    if isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return bool(np.isfinite(value).all()) if bad is None else not bad(value).any()
    return not isinstance(value, (list, tuple)) or all(_is_finite(item, bad) for item in value)


def _misshapen(value: Array, axes: list[str], sizes: dict[str, int], *, kinds: str) -> str | None:
    """The expected shape, if the array has another one or does not consist of numbers of these kinds."""
    leading = axes[:-1] if axes[-1] == "*" else axes
    wrong = value.ndim < len(leading) if len(leading) < len(axes) else value.ndim != len(axes)
    for axis, length in zip(leading, value.shape, strict=False):
        wrong = wrong or (int(axis) if axis.isdigit() else sizes.setdefault(axis, length)) != length
    if not wrong and value.dtype.kind in (kinds or value.dtype.kind):
        return None
    known = [f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in axes]
    return f"an array of {'integers' if kinds == 'iu' else 'numbers'} ({', '.join(known)})"
