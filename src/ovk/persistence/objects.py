"""Objects of registered classes: their constructor's arguments, and what fitting added to them.

Building is `cls(**parameters)`, then `load_state` of what fitting added; a class without parameters of its own has
`from_state` instead. No class is found other than through the registry, or on the list of scikit-learn's transformers:
the file's names are never imported or evaluated. Packages of ovk that are not imported with it, a fixed list, are
imported when a class is asked for that is not known yet.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence, Set
from inspect import Parameter, signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from ovk.base import Parameters, State, StateMismatch, is_fitted_name, lookup, public_name
from ovk.persistence.codec import Codec, Json, Reader, Writer
from ovk.persistence.errors import ChangedClass, UnknownClass
from ovk.persistence.scikit_learn import ESTIMATORS, build_estimator, encode_estimator, listed_name

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, np.ufunc)
#: Relatives of plain values, and what they can be converted to.
CONVERSIONS: dict[type, type] = {kind: kind for kind in (dict, list, tuple, set, frozenset, str, bytes, int, float)} | {
    range: list,
    Mapping: dict,
    Sequence: list,
    Set: set,
}


@runtime_checkable
class HasParameters(Protocol):
    """scikit-learn's way to ask an object for its constructor's arguments."""

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


def _parameters(value: Any) -> dict[str, Any] | None:
    """The constructor's arguments, or None if the object cannot tell them; all of a `State` is in its state."""
    if isinstance(value, State):
        return {}
    if isinstance(value, HasParameters):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def _state(value: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What fitting added, as plain values."""
    if isinstance(value, State):
        return value.state()
    if isinstance(value, Parameters):
        return type(value).state(value)  # of the class: the object may have a parameter of that name
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    return {name: part for name, part in attributes.items() if name not in parameters and is_fitted_name(name)}


@functools.cache
def constructor_arguments(cls: type) -> dict[str, bool]:
    """Names of the constructor's arguments, and whether they must be given."""
    _, *arguments = signature(cls.__init__).parameters.values()  # type: ignore[misc]
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {one.name: one.default is Parameter.empty for one in arguments if one.kind in named}


def _encode(value: Any, writer: Writer) -> Json:
    cls: type = type(value)
    # Before the registered classes: whether somebody registered one of the list must not change what is written.
    listed = listed_name(cls)
    if listed is not None:
        return encode_estimator(value, listed, writer)
    name = public_name(cls)
    if lookup(name) is not cls:
        _refuse(value, writer)
    parameters = _parameters(value)
    if parameters is None:
        writer.refuse(
            f"is an object of class {name}, which is registered but does not tell its parameters",
            "make the class a dataclass or a subclass of Parameters",
        )
    needed = {argument for argument, required in constructor_arguments(cls).items() if required}
    if not isinstance(value, State) and (missing := needed - parameters.keys()):
        writer.refuse(
            f"is an object of class {name}, whose constructor also needs {sorted(missing)}",
            "keep every argument of the constructor as an attribute",
        )
    state = _state(value, parameters)
    return {"class": name, "parameters": writer.entries(parameters), "state": writer.entries(state)}


def _decode(payload: Any, reader: Reader) -> Any:
    if payload.keys() != {"class", "parameters", "state"} or type(payload["class"]) is not str:
        raise ValueError(f"an object with the entries {sorted(payload)}")
    parameters, state = reader.entries(payload["parameters"]), reader.entries(payload["state"])
    return reader.build(payload["class"], parameters, state, _build)


def _build(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    if name in ESTIMATORS:
        return build_estimator(name, parameters, state)
    cls = lookup(name)
    if cls is None:
        module, _, _ = name.rpartition(".")
        home = "run the script or notebook that defined it, or " if module == "__main__" else ""
        raise UnknownClass(
            f"the file holds an object of class {name!r}, which is not registered here; {home}import the "
            "module that defines it first (a class from elsewhere also needs ovk.persistence.register)"
        )
    cure = "load the file with the release that wrote it, or with the class as it was"
    try:
        if issubclass(cls, State):
            for unknown in parameters:
                raise StateMismatch(f"no parameter {unknown!r} here, the file gives one")
            return cls.from_state(state)
        value = cls(**_checked(cls, parameters))
        if isinstance(value, Parameters):
            type(value).load_state(value, state)
        elif state:
            for attribute in state:
                if attribute in parameters or not is_fitted_name(attribute):
                    raise StateMismatch(f"no fitted attribute {attribute!r} here, the file gives one")
            vars(value).update(state)
    except StateMismatch as error:
        raise ChangedClass(f"{name}: {error}; {cure}") from error
    return value


def _checked(cls: type, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for the constructor."""
    arguments = constructor_arguments(cls)
    for unknown in parameters.keys() - arguments.keys():
        raise StateMismatch(f"no parameter {unknown!r} here, the file gives one")
    for missing in {name for name, required in arguments.items() if required} - parameters.keys():
        raise StateMismatch(f"needs a parameter {missing!r} here, the file has none")
    return dict(parameters)


def _refuse(value: Any, writer: Writer) -> None:
    """Raise the error for an object whose class is not the one registered under its name."""
    cls = type(value)
    if isinstance(value, type):
        if issubclass(value, np.generic):
            writer.refuse(f"is the class {value.__name__}", "keep its name, a string")
        writer.refuse(f"is the class {value.__qualname__}", "pass an object of it instead")
    if isinstance(value, np.dtype):
        writer.refuse(f"is the dtype {value}", "keep its name, a string")
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
    for kind, plain in CONVERSIONS.items():
        if isinstance(value, kind):
            writer.refuse(f"is a {cls.__qualname__}", f"convert it with {plain.__name__}(...)")
    what = f"is an object of class {cls.__module__}.{cls.__qualname__}"
    if cls.__module__.startswith(("river.", "ovk.online.river")):
        writer.refuse(
            what,
            "river's models are pickled: pickle.dump(model, file). What learns inside an adapter can be saved for use "
            "on arrays: ovk.save(adapter.learner, path)",
        )
    if isinstance(value, HasParameters) or dataclasses.is_dataclass(value):
        writer.refuse(what, f"call ovk.persistence.register({cls.__name__}) here and wherever the file is loaded")
    writer.refuse(what, "replace it by a Parameters subclass, an array or a plain value")


CODEC = Codec("object", (), _encode, _decode)
