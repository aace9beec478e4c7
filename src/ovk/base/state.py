"""State: what `ovk.save` writes of an object that learns, as dictionaries of numbers, strings and arrays.

Files name public classes only, so private classes can be renamed and moved without changing the file format. The owner
of a private object writes its `state()` and builds it again, with the class listed in `_state_classes`:

    @dataclass
    class Ridge(State):              private: its fields are its state
        S: Array
        root: Root | None

        _state_classes = {"root": Root}

    class Learner(Parameters):       public: its fitted attributes are its state
        _state_classes = {"ridge_": Ridge}
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import isabstract
from numbers import Integral, Real
from reprlib import repr as short
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from scipy import sparse

from ovk.base.types import Array

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="State")
T = TypeVar("T", bound="Transactional")


class StateError(ValueError):
    """A state has an unknown entry, or lacks a required one."""


def _replace(self: R, **values: Any) -> R:
    """A copy with other values for some attributes; the other attributes are shared and must not be changed."""
    other: R = object.__new__(type(self))
    other.__dict__ = {**self.__dict__, **values}
    return other


class CopyOnWrite:
    """An object that is copied before it changes."""

    def _snapshot(self) -> Self:
        """An independent copy. Arrays are shared: neither object may change them in place."""
        other: Self = object.__new__(type(self))
        vars(other).update(vars(self))
        for name, value in vars(self).items():
            if isinstance(value, (CopyOnWrite, Transactional, list)):
                vars(other)[name] = snapshot_of(value)
        return other

    _replace = _replace


def snapshot_of(value: Any) -> Any:
    """An independent copy of an object, or of the objects in a list or dictionary."""
    kinds = (CopyOnWrite, Transactional)
    if isinstance(value, kinds):
        return value._snapshot()
    if isinstance(value, dict):
        return {key: item._snapshot() if isinstance(item, kinds) else item for key, item in value.items()}
    return [item._snapshot() if isinstance(item, kinds) else item for item in value]


class State(CopyOnWrite):
    """Base of private classes that are saved as part of a public object.

    The state consists of the fields of a dataclass and the attributes listed in `_saved_state`. If an attribute may
    hold objects of several classes, these share a base, and each has a name in files,
    ``class AllRowsSums(StreamSums, kind="all rows")``; `StreamSums.from_state` builds the class of that kind.
    """

    #: Saved attributes that are not dataclass fields; those of base classes are added.
    _saved_state: ClassVar[tuple[str, ...]] = ()
    #: Classes of the attributes that hold a private object, a list of them, or None.
    _state_classes: ClassVar[Mapping[str, type[State]]] = {}
    #: Shapes, or types, of saved attributes: see `check_stored`.
    _stored: ClassVar[Mapping[str, Any]] = {}
    _kind: ClassVar[str | None] = None

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._kind = kind or vars(cls).get("_kind")  # a dataclass with slots is defined twice, the second time without

    def state(self) -> dict[str, Any]:
        kind = {} if self._kind is None else {"kind": self._kind}
        return kind | plain_state(self, [*_fields(type(self)), *listed_names(type(self))])

    @classmethod
    def from_state(cls, state: Any) -> Self:
        if not isinstance(state, Mapping):
            raise StateError(f"the state of {cls.__name__} must be a mapping, got {type(state).__name__}")
        kind = state.get("kind")
        for subclass in _with_subclasses(cls):
            if subclass._kind == kind and not isabstract(subclass):
                return subclass._build(state) if subclass is cls else subclass.from_state(state)
        raise StateError(f"the file has an unknown kind {kind!r} of {cls.__name__}")

    @classmethod
    def _build(cls, state: Mapping[str, Any]) -> Self:
        arguments = _fields(cls)
        names = {*arguments, *listed_names(cls)}
        values = dict(state)
        if cls._kind is not None:
            values.pop("kind", None)
        for unknown in values.keys() - names:
            raise StateError(f"the file has an unknown attribute {unknown!r} of {cls.__name__}")
        for missing in names - values.keys():
            raise StateError(f"the file lacks the attribute {missing!r} of {cls.__name__}")
        values = restored(cls, values)
        check_stored(cls, values)
        built = cls(**{name: values.pop(name) for name in arguments}) if is_dataclass(cls) else cls.__new__(cls)
        vars(built).update(values)
        return built


def plain_state(owner: Any, names: list[str]) -> dict[str, Any]:
    """Some attributes of an object, with private objects replaced by their states."""
    private = merged_mapping(type(owner), "_state_classes")
    return {name: _plain(getattr(owner, name)) if name in private else getattr(owner, name) for name in names}


def restored(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `plain_state`."""
    private = merged_mapping(cls, "_state_classes")
    return {name: _restored(private[name], value) if name in private else value for name, value in values.items()}


def is_fitted_name(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def listed_names(cls: type) -> list[str]:
    return [name for base in cls.__mro__ for name in vars(base).get("_saved_state", ())]


def merged_mapping(cls: type, table: str) -> dict[str, Any]:
    """A class-level mapping merged with those of the base classes, which it overrides."""
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


def _with_subclasses(cls: type[S]) -> Iterator[type[S]]:
    """A class and its subclasses, the most recent definition first."""
    yield cls
    for subclass in reversed(cls.__subclasses__()):
        yield from _with_subclasses(subclass)


# Atomic updates and concurrent reads.
#
# An update works on a copy of the learner and finally replaces the learner's attributes in one assignment, which is
# atomic in Python. An error, Ctrl-C or lack of memory therefore leaves the learner unchanged, and other threads see it
# only between two updates. This relies on two rules:
#
# * Objects that the attributes refer to are never changed in place. Private objects are copied first
#   (`State._snapshot`); arrays are replaced, or extended beyond the end that older copies use.
# * A method that reads takes all attributes at once, from a copy of their dictionary (`reads_snapshot`).


class SingularSystemError(ValueError):
    """A linear system that cannot be solved.

    See Also
    --------
    ovk.solvers.Cholesky, ovk.solvers.Eigen
    """


def singular_system_error(error: np.linalg.LinAlgError, learner: object) -> SingularSystemError:
    """The error to raise instead of LAPACK's."""
    return SingularSystemError(
        f"{type(learner).__name__} found a linear system that cannot be solved ({error}): increase alpha, remove "
        "duplicate rows or columns, scale inputs and outputs, or check that the kernel is finite and positive "
        "semi-definite. The model is unchanged"
    )


class Transactional:
    """Mixin of learners with atomic updates."""

    _replace = _replace

    def _snapshot(self) -> Self:
        """The current state. A shallow copy suffices, because updates replace the objects that attributes refer to."""
        other: Self = object.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other

    def _changes(self, name: str) -> bool:
        """Whether an update may change this attribute; parameters remain the objects that the user passed."""
        return name.endswith("_") or name.startswith("_")

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        """A copy to update; if the block succeeds, the learner takes its attributes."""
        work = self._snapshot()
        # It was prepared for the previous state.
        work.__dict__.pop("_fast_path", None)
        for name, value in work.__dict__.items():
            if isinstance(value, (CopyOnWrite, Transactional, list, dict)) and self._changes(name):
                work.__dict__[name] = snapshot_of(value)
        try:
            yield work
        except np.linalg.LinAlgError as error:
            raise singular_system_error(error, self) from error
        # Read at the end: a nested update may have replaced the dictionary.
        self.__dict__ = work.__dict__


def reads_snapshot(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Run a method on the state between two updates, regardless of other threads."""

    @wraps(method)
    def wrapper(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._snapshot(), *args, **kwargs)

    return wrapper


# The classes that `ovk.load` may build.

#: Packages of ovk, and of `ovk.app`, whose classes may occur in files. Each is imported when a file names one of them.
PACKAGES = (
    "base", "objectives", "curves", "kernels", "operators", "ovkernels", "solvers", "features", "batch", "online",
    "structured", "evaluation",
)  # fmt: skip
APPLICATION_PACKAGES = ("tables", "sessions", "serve")

FOREIGN_PACKAGES = {"sklearn": "kernels"}  # the package that registers the classes of another library

_CLASSES: dict[str, type] = {}


def public_name(cls: type) -> str:
    """The name of a class in files.

    ``kernels.Gaussian`` for `ovk.kernels.stationary.Gaussian`, so a class can move between the files of a package; the
    full path for classes of other libraries.
    """
    top, *packages = cls.__module__.split(".")
    if top != "ovk" or not packages:
        return f"{cls.__module__}.{cls.__qualname__}"
    return f"{packages[1 if packages[0] == 'app' else 0]}.{cls.__qualname__}"


def register(cls: type) -> type:
    """Allow `load` to build objects of a class.

    Subclasses of ovk's own classes are registered automatically. Registering a class again replaces it; two classes of
    different modules cannot share a name.

    Parameters
    ----------
    cls : type
        A dataclass, or a class with scikit-learn's `get_params`.

    Returns
    -------
    type
        The class itself, so that `register` can be used as a decorator.

    See Also
    --------
    save, load, UnknownClassError

    Examples
    --------
    >>> import os, tempfile
    >>> from dataclasses import dataclass
    >>> from ovk.persistence import load, register, save
    >>> @register
    ... @dataclass
    ... class Interval:
    ...     low: float
    ...     high: float
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save(Interval(0.0, 1.0), os.path.join(directory, "interval.ovk"))
    ...     load(os.path.join(directory, "interval.ovk"))
    Interval(low=0.0, high=1.0)
    """
    name = public_name(cls)
    known = _CLASSES.get(name)
    if known is not None and known.__module__ != cls.__module__:
        raise ValueError(f"{cls.__module__} and {known.__module__} both define the class {name}: rename one of them")
    _CLASSES[name] = cls
    return cls


def lookup(name: str) -> type | None:
    """The class registered as `name`, or None. Its package is imported first if it is one of ours."""
    if name not in _CLASSES:
        top = name.split(".")[0]
        _import(FOREIGN_PACKAGES.get(top, top))
    return _CLASSES.get(name)


def _import(package: str) -> None:
    # Classes of a package with missing requirements are not available.
    if package in (*PACKAGES, *APPLICATION_PACKAGES):
        with suppress(ImportError):
            importlib.import_module(f"ovk.{package}" if package in PACKAGES else f"ovk.app.{package}")


def registered() -> list[type]:
    for package in (*PACKAGES, *APPLICATION_PACKAGES):
        _import(package)
    return list(_CLASSES.values())


# Checks of what a file holds, before an object is built from it: types, shapes and finite numbers.
#
# A class declares its attributes once. Their types are its annotations, those of its fields and of its constructor.
# Shapes are in the table `_stored`, for one or several attributes, by the names of their axes:
#
#     class Ridge(Parameters):
#         _stored = {"X_fit_": "n * any | other", "dual_coef_": "n d", "intercept_": "d | None", "errors_": "* inf"}
#
# Axes of one name have one length in all attributes of the object, the name of an integer attribute is its value, and
# ``*`` stands for any further axes. ``nan`` allows nan, ``inf`` also infinite numbers, ``int`` integers alone, and
# ``any`` arrays of other types. ``| None`` and ``| other`` allow None, and sequences or sparse matrices instead of an
# array. A tuple describes the items of a tuple, an ellipsis the rest of them like the last; a type, or range of
# integers, replaces an annotation.
# Numbers that the table does not mention must be finite, except in the application's records of rows and scores.

#: Kinds of the arrays that an annotation admits; integers take the place of floats.
ARRAY_KINDS = {np.float64: "fiu", np.int64: "iu", np.bool_: "b"}
COUNT, SIZE = range(2**40), range(1, 2**40)  # integers that count something, and those that are at least 1
NUMBERS: dict[type, type] = {float: Real, int: Integral}


def check_stored(cls: type, values: Mapping[str, Any]) -> None:
    """Check stored values against the declarations of `cls`; the error names the first invalid attribute."""
    hints, table = _declared(cls)
    default = "*" if _is_ours(cls) and not cls.__module__.startswith("ovk.app.") else "* inf"
    sizes = {name: int(value) for name, value in values.items() if isinstance(value, Integral)}
    for name, value in values.items():
        if name in hints and not _matches(value, hints[name]):
            fault = getattr(hints[name], "__name__", str(hints[name])).replace("collections.abc.", "")
        else:
            fault = _violation(value, table.get(name, default), sizes)
        if fault is not None:
            found = f"an array {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else short(value)
            raise ValueError(f"{cls.__name__}.{name} must be {fault}, got {found}")


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


def _violation(value: Any, spec: Any, sizes: dict[str, int]) -> str | None:
    """The requirement that a value violates, or None; adds the lengths of new axes to `sizes`."""
    if isinstance(spec, tuple):
        items = value if isinstance(value, tuple) else ()
        if spec[-1] is Ellipsis:
            spec = (*spec[:-1], *[spec[-2]] * (len(items) - len(spec) + 1))
        if len(items) != len(spec):
            return f"a tuple of {len(spec)} arrays"
        return next(filter(None, (_violation(item, one, sizes) for item, one in zip(items, spec, strict=True))), None)
    shape, *others = (part.split() for part in spec.split("|"))
    words = {"nan", "inf", "any", "int"}.intersection(shape)
    axes = [axis for axis in shape if axis not in words]
    if "inf" not in words and not _is_finite(value, np.isinf if "nan" in words else None):
        return "finite numbers"
    if isinstance(value, np.ndarray):
        kinds = "iu" if "int" in words else "fiu" if "any" not in words and axes[0] != "*" else ""
        return _shape_violation(value, axes, sizes, kinds=kinds)
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


def _shape_violation(value: Array, axes: list[str], sizes: dict[str, int], *, kinds: str) -> str | None:
    """The expected shape, if the array has another one or does not consist of numbers of these kinds."""
    leading = axes[:-1] if axes[-1] == "*" else axes
    wrong = value.ndim < len(leading) if len(leading) < len(axes) else value.ndim != len(axes)
    for axis, length in zip(leading, value.shape, strict=False):
        wrong = wrong or (int(axis) if axis.isdigit() else sizes.setdefault(axis, length)) != length
    if not wrong and value.dtype.kind in (kinds or value.dtype.kind):
        return None
    known = [f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in axes]
    return f"an array of {'integers' if kinds == 'iu' else 'numbers'} ({', '.join(known)})"
