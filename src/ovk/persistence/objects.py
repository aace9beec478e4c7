"""Objects of registered classes: their constructor's arguments, and what fitting added to them.

Building is `cls(**parameters)`, then the fitted attributes one by one. No method of the object runs but
`__init__`, and no class is found other than through the registry: the file's names are never imported or
evaluated.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from ovk._registry import lookup, public_name
from ovk.persistence.codec import Codec, Json, Reader, Writer
from ovk.persistence.errors import ChangedClass, UnknownClass

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, np.ufunc)
BUILTINS = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex)


@runtime_checkable
class HasParameters(Protocol):
    """scikit-learn's way to ask an object for its constructor's arguments."""

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


def _parameters(value: Any) -> dict[str, Any] | None:
    """The constructor's arguments, or None if the object cannot tell them."""
    if isinstance(value, HasParameters):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def _is_state(name: str, cls: type) -> bool:
    """Whether `name` is a fitted attribute (`coef_`) or private state that `cls` or a base of it lists."""
    if name.endswith("_") and not name.startswith("_"):
        return True
    return any(name in vars(base).get("_saved_state", ()) for base in cls.__mro__)


def _arguments(cls: type) -> dict[str, bool]:
    """Names of the constructor's arguments, and whether they must be given."""
    _, *arguments = signature(cls.__init__).parameters.values()  # type: ignore[misc]
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {one.name: one.default is Parameter.empty for one in arguments if one.kind in named}


def _encode(value: Any, writer: Writer) -> Json:
    cls = type(value)
    name = public_name(cls)
    if lookup(name) is not cls:
        _refuse(value, writer)
    parameters = _parameters(value)
    if parameters is None:
        writer.refuse(
            f"is an object of class {name}, which is registered but does not tell its parameters",
            "make the class a dataclass or a subclass of Parameters",
        )
    if missing := {argument for argument, needed in _arguments(cls).items() if needed} - parameters.keys():
        writer.refuse(
            f"is an object of class {name}, whose constructor also needs {sorted(missing)}",
            "keep every argument of the constructor as an attribute",
        )
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    state = {k: v for k, v in attributes.items() if k not in parameters and _is_state(k, cls)}
    return {"class": name, "parameters": writer.entries(parameters), "state": writer.entries(state)}


def _decode(payload: Any, reader: Reader) -> Any:
    if payload.keys() != {"class", "parameters", "state"} or type(payload["class"]) is not str:
        raise ValueError(f"an object with the entries {sorted(payload)}")
    parameters, state = reader.entries(payload["parameters"]), reader.entries(payload["state"])
    return reader.make(payload["class"], parameters, state, _build)


def _build(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    cls = lookup(name)
    if cls is None:
        module, _, _ = name.rpartition(".")
        home = "run the script or notebook that defined it, or " if module == "__main__" else ""
        raise UnknownClass(
            f"the file holds an object of class {name!r}, which is not registered here; {home}import the "
            "module that defines it first (a class from elsewhere also needs ovk.persistence.register)"
        )
    arguments = _arguments(cls)
    required = [argument for argument, needed in arguments.items() if needed]
    cure = "load the file with the release that wrote it, or with the class as it was"
    for unknown in parameters.keys() - arguments.keys():
        raise ChangedClass(f"{name} has no parameter {unknown!r} here, the file gives one; {cure}")
    for missing in set(required) - parameters.keys():
        raise ChangedClass(f"{name} needs a parameter {missing!r} here, the file has none; {cure}")
    for attribute in state:
        if attribute in arguments or not _is_state(attribute, cls):
            raise ChangedClass(f"{name} has no fitted attribute {attribute!r} here, the file gives one; {cure}")
    value = cls(**parameters)
    if state:
        # Not setattr: a property or a descriptor of that name would run.
        vars(value).update(state)
    return value


def _refuse(value: Any, writer: Writer) -> None:
    """Raise the error for an object whose class is not the one registered under its name."""
    cls = type(value)
    if isinstance(value, type):
        if issubclass(value, np.generic):
            writer.refuse(f"is the class {value.__name__}", f"use np.dtype(np.{value.__name__}) instead")
        writer.refuse(f"is the class {value.__qualname__}", "pass an object of it instead")
    if isinstance(value, FUNCTIONS):
        writer.refuse(
            "is a function, and loading one would run code from the file",
            "write it as the method of a Parameters subclass and pass an object of that",
        )
    if sparse.issparse(value):
        writer.refuse(f"is a sparse matrix in the format {value.format!r}", "convert it with .tocsr()")
    if isinstance(value, np.ndarray):
        writer.refuse(f"is a {cls.__name__}", "convert it with np.asarray (a masked array with .filled)")
    if lookup(public_name(cls)) is not None:
        writer.refuse(
            f"is an object of an earlier definition of {public_name(cls)}",
            "make it anew with the present class",
        )
    for kind in BUILTINS:
        if isinstance(value, kind):
            writer.refuse(f"is a {cls.__qualname__}", f"convert it with {kind.__name__}(...)")
    what = f"is an object of class {cls.__module__}.{cls.__qualname__}"
    if isinstance(value, HasParameters) or dataclasses.is_dataclass(value):
        writer.refuse(what, f"call ovk.persistence.register({cls.__name__}) here and wherever the file is loaded")
    writer.refuse(what, "replace it by a Parameters subclass, an array or a plain value")


CODEC = Codec("object", (), _encode, _decode)
