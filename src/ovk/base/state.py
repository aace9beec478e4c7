"""What `ovk.save` writes of an object that learns: dictionaries of numbers, text and arrays.

A file names public classes only. A private object is written by the object that holds it, as its `state()`, and
built again by that holder, which knows its class:

    @dataclass
    class Ridge(State):              private: its fields are its state
        S: Array
        root: Root | None

        _state_classes = {"root": Root}

    class Learner(Parameters):       public: its fitted attributes are its state
        _state_classes = {"ridge_": Ridge}

So private classes can be renamed, joined and moved without a change of the file format.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import isabstract
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="State")
T = TypeVar("T", bound="Transactional")


class StateMismatch(ValueError):
    """A state has an entry that its class does not know, or lacks one that it needs."""


class CopyOnWrite:
    """Something that can be copied before it changes, so that the original stays as it is."""

    def _snapshot(self) -> Self:
        """A copy that can change by itself. Arrays are shared: neither of the two may change them in place."""
        other: Self = object.__new__(type(self))
        vars(other).update(vars(self))
        for name, value in vars(self).items():
            if isinstance(value, (CopyOnWrite, Transactional, list)):
                vars(other)[name] = snapshot_of(value)
        return other

    def _replace(self, **values: Any) -> Self:
        """A copy with other values for some attributes; all else is shared, so the copy may change none of it."""
        other: Self = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, **values}
        return other


def snapshot_of(value: Any) -> Any:
    """A copy of an object that can change by itself, or a list or dictionary of such copies."""
    kinds = (CopyOnWrite, Transactional)
    if isinstance(value, kinds):
        return value._snapshot()
    if isinstance(value, dict):
        return {key: item._snapshot() if isinstance(item, kinds) else item for key, item in value.items()}
    return [item._snapshot() if isinstance(item, kinds) else item for item in value]


class State(CopyOnWrite):
    """Mixin of private classes that are saved as part of a public object.

    The state consists of the fields of a dataclass and of the attributes listed in `_saved_state`. Attributes that
    hold other private objects, one or a list of them or None, are listed in `_state_classes` with their class.

    Where an attribute may hold objects of several classes, these have a common base, and each is defined with a
    word that tells it from the others in the file: ``class AllRowsSums(StreamSums, kind="all rows")``.
    `StreamSums.from_state` then builds the class of that kind.
    """

    #: Attributes besides the fields of a dataclass that belong to the state; those of base classes are added.
    _saved_state: ClassVar[tuple[str, ...]] = ()
    #: Classes of the attributes that hold private objects.
    _state_classes: ClassVar[Mapping[str, type[State]]] = {}
    _kind: ClassVar[str | None] = None

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._kind = kind or vars(cls).get("_kind")  # a dataclass with slots is defined twice, the second time without

    def state(self) -> dict[str, Any]:
        """The state as plain values, which `from_state` takes."""
        kind = {} if self._kind is None else {"kind": self._kind}
        return kind | plain_state(self, [*_fields(type(self)), *listed_names(type(self))])

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """An object with that state."""
        if not isinstance(state, Mapping):
            raise StateMismatch(f"{cls.__name__} has a state of named values, the file gives {type(state).__name__}")
        kind = state.get("kind")
        for heir in _heirs(cls):
            if heir._kind == kind and not isabstract(heir):
                return heir._build(state) if heir is cls else heir.from_state(state)
        raise StateMismatch(f"{cls.__name__} has no kind {kind!r}, the file gives one")

    @classmethod
    def _build(cls, state: Mapping[str, Any]) -> Self:
        arguments = _fields(cls)
        names = {*arguments, *listed_names(cls)}
        values = dict(state)
        if cls._kind is not None:
            values.pop("kind", None)
        for unknown in values.keys() - names:
            raise StateMismatch(f"{cls.__name__} has no attribute {unknown!r} here, the file gives one")
        for missing in names - values.keys():
            raise StateMismatch(f"{cls.__name__} needs the attribute {missing!r} here, the file has none")
        values = restored(cls, values)
        built = cls(**{name: values.pop(name) for name in arguments}) if is_dataclass(cls) else cls.__new__(cls)
        vars(built).update(values)
        return built


def plain_state(owner: Any, names: list[str]) -> dict[str, Any]:
    """These attributes of an object, with the states of the private objects among them."""
    private = merged(type(owner), "_state_classes")
    return {name: _plain(getattr(owner, name)) if name in private else getattr(owner, name) for name in names}


def restored(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes from their plain values: the private objects among them are built."""
    private = merged(cls, "_state_classes")
    return {name: _restored(private[name], value) if name in private else value for name, value in values.items()}


def is_fitted_name(name: str) -> bool:
    """Whether an attribute's name says that fitting has set it, like `coef_`."""
    return name.endswith("_") and not name.startswith("_")


def listed_names(cls: type) -> list[str]:
    """Attributes that a class and its bases list in `_saved_state`."""
    return [name for base in cls.__mro__ for name in vars(base).get("_saved_state", ())]


def merged(cls: type, table: str) -> dict[str, Any]:
    """A table of a class and of its bases, where the class itself has the last word."""
    return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).get(table, {}).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, State):
        return value.state()
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def _restored(cls: type[State], value: Any) -> Any:
    if value is None:
        return None
    if type(value) in (list, tuple):
        return type(value)(_restored(cls, item) for item in value)
    return cls.from_state(value)


def _fields(cls: type) -> list[str]:
    return [field.name for field in fields(cls) if field.init] if is_dataclass(cls) else []


def _heirs(cls: type[S]) -> Iterator[type[S]]:
    """A class and everything derived from it, what was defined last first."""
    yield cls
    for heir in reversed(cls.__subclasses__()):
        yield from _heirs(heir)


# Learning calls that happen wholly or not at all, and reading beside them.
#
# A learning call works on a copy of the learner, and at its end puts the copy's attributes into place by one
# assignment, which Python does in one step. So an error, Ctrl-C or a lack of memory in the middle leaves the learner as
# it was, and other threads see it as it is between two calls. Two rules make this work:
#
# * What the attributes of a learner refer to is never changed in place. Private objects are copied first
#   (`State._snapshot`); arrays are replaced, or written to behind the end that older copies see.
# * A method that reads takes all attributes at once, from a copy of their dictionary (`reads_snapshot`).


class SingularSystem(ValueError):
    """A system that cannot be solved as it stands."""


def named(error: np.linalg.LinAlgError, learner: object) -> SingularSystem:
    """What to raise in the place of a failure inside LAPACK while something learns."""
    return SingularSystem(
        f"{type(learner).__name__} met a linear system that cannot be solved ({error}): raise alpha, remove rows or "
        "columns that repeat others, scale inputs and outputs, or check that the kernel's values are finite and "
        "positive semi-definite. Nothing was learned"
    )


class Transactional:
    """Mixin of learners whose calls happen wholly or not at all."""

    def _replace(self, **values: Any) -> Self:
        """A copy with other values for some attributes, as in `CopyOnWrite`."""
        other: Self = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, **values}
        return other

    def _snapshot(self) -> Self:
        """The learner as it is now. It can go on by itself, for learning replaces what its attributes lead to."""
        other: Self = object.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other

    def _changes(self, name: str) -> bool:
        """Whether learning may change what this attribute holds: parameters stay the objects that were given."""
        return name.endswith("_") or name.startswith("_")

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        """A copy to work on, which this learner becomes if nothing goes wrong."""
        work = self._snapshot()
        # It was opened for the learner as it was before.
        work.__dict__.pop("_fast_path", None)
        for name, value in work.__dict__.items():
            if isinstance(value, (CopyOnWrite, Transactional, list, dict)) and self._changes(name):
                work.__dict__[name] = snapshot_of(value)
        try:
            yield work
        except np.linalg.LinAlgError as error:
            raise named(error, self) from error
        # Read now, not before: a learning call within this one has put another dictionary into place.
        self.__dict__ = work.__dict__


def reads_snapshot(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Let a method see the learner as it is between two learning calls, whatever other threads do meanwhile."""

    @wraps(method)
    def wrapper(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._snapshot(), *args, **kwargs)

    return wrapper


# Names of classes that a file may ask `ovk.load` to build, and nothing else.

#: Packages of ovk, and of `ovk.app`, whose classes stand in files. Each is imported when a file first names one of its
#: classes.
PACKAGES = (
    *("base", "objectives", "curves", "kernels", "operators", "ovkernels", "solvers", "features", "batch", "online"),
    *("structured", "evaluation"),
)
APPLICATION = ("tables", "sessions", "serve")

#: The package that registers classes of another library.
FOREIGN = {"sklearn": "kernels"}

_CLASSES: dict[str, type] = {}


def public_name(cls: type) -> str:
    """Name under which a class is written to files: its package and its own name, not the file it lives in.

    `ovk.kernels.stationary.Gaussian` is written as ``kernels.Gaussian``, so that moving a class between the files of
    a package does not break saved models. Classes from outside keep their full module path.
    """
    top, *packages = cls.__module__.split(".")
    if top != "ovk" or not packages:
        return f"{cls.__module__}.{cls.__qualname__}"
    return f"{packages[1 if packages[0] == 'app' else 0]}.{cls.__qualname__}"


def register(cls: type) -> type:
    """Allow `ovk.load` to build `cls`.

    Running a class's definition again replaces it; two classes of different modules cannot share a name.
    Subclasses of our own classes are registered by being defined.

    >>> from ovk.persistence import register
    >>> @register
    ... class Mine:
    ...     pass
    """
    name = public_name(cls)
    known = _CLASSES.get(name)
    if known is not None and known.__module__ != cls.__module__:
        raise ValueError(f"{cls.__module__} and {known.__module__} both define the class {name}: rename one of them")
    _CLASSES[name] = cls
    return cls


def lookup(name: str) -> type | None:
    """The class registered under `name`, or None. Its package, if on the fixed list, is imported first."""
    if name not in _CLASSES:
        top = name.split(".")[0]
        _import(FOREIGN.get(top, top))
    return _CLASSES.get(name)


def _import(package: str) -> None:
    # A package that needs another one which is not installed has no classes here.
    if package in (*PACKAGES, *APPLICATION):
        with suppress(ImportError):
            importlib.import_module(f"ovk.{package}" if package in PACKAGES else f"ovk.app.{package}")


def registered() -> list[type]:
    """All classes that a file may name."""
    for package in (*PACKAGES, *APPLICATION):
        _import(package)
    return list(_CLASSES.values())
