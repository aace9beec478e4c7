"""Parameter objects: the base of kernels, operators, losses, solvers and estimators.

The constructor of a parameter object only stores its arguments, so scikit-learn's `clone`, nested `set_params`, grid
search and `repr` work, and `ovk.save` can write it. Values are checked when they are used.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib import import_module
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, clone

from ovk.base.execution import threads_for
from ovk.base.state import (
    State,
    StateError,
    is_fitted_name,
    listed_names,
    merged_mapping,
    plain_state,
    register,
    restored,
    singular_system_error,
)
from ovk.base.validation import check_finite_model

R = TypeVar("R")


class Registered:
    """Mixin whose subclasses can be saved; define bases and classes that files never hold with ``saved=False``."""

    def __init_subclass__(cls, *, saved: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if saved:
            register(cls)


class Parameters(BaseEstimator):
    """Base of classes that are described by their constructor's arguments and, once fitted, by their fitted attributes.

    A class declares its parameters as fields, ``@dataclass(eq=False, repr=False)``, with ``_: KW_ONLY`` before those
    that are keyword-only; or it has a constructor that only stores its arguments. Subclasses are registered for saving
    like those of `Registered`.
    """

    #: Private attributes that are saved like fitted attributes; those of base classes are added.
    _saved_state: ClassVar[tuple[str, ...]] = ()
    #: Classes of the saved attributes that hold a private object, a list of them, or None.
    _state_classes: ClassVar[Mapping[str, type[State]]] = {}
    #: Shapes, or types, of saved attributes: see `ovk.base.state`.
    _stored: ClassVar[Mapping[str, Any]] = {"n_features_in_": int, "n_outputs_": int, "classes_": "k any | other"}

    #: Make the default of a parameter that is None, when one of its own parameters is set (``kernel__...``).
    _default_factories: ClassVar[Mapping[str, Callable[[], Any] | None]] = {}

    def __init_subclass__(cls, *, saved: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if saved:
            register(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__length_scale=2.0`` sets a nested one, of the default if `kernel` is None."""
        for name in dict.fromkeys(name.partition("__")[0] for name in params if "__" in name):
            if name in params or getattr(self, name, self) is not None:
                continue
            made = merged_mapping(type(self), "_default_factories").get(name)
            if made is None:
                cls = type(self).__name__
                raise ValueError(f"{name} of {cls} is None and has no parameters to set: set {name} first")
            setattr(self, name, made())
        super().set_params(**params)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn's printer formats nested objects itself and would ignore the repr of kernels.
        text = constructor_call(self, positional=False)
        return text if len(text) <= N_CHAR_MAX else text[: N_CHAR_MAX // 2] + "..." + text[-N_CHAR_MAX // 2 :]

    def replace(self, **params: Any) -> Self:
        copy: Self = clone(self)
        copy.set_params(**params)
        return copy

    @contextmanager
    def _fitting(self, X: Any, y: Any = None) -> Iterator[None]:
        """The context of every fit: a failed fit leaves the model unchanged, and small problems use one BLAS thread."""
        before = self.__dict__.copy()
        try:
            with threads_for(_matrix_rows(X, y)):
                yield
            check_finite_model(self)
        except BaseException as error:
            self.__dict__ = before
            if isinstance(error, np.linalg.LinAlgError):
                raise singular_system_error(error, self) from error
            raise

    def _cached(self, key: Any, make: Callable[[], R]) -> R:
        """The result of `make()`, computed on first use; it is neither saved nor copied."""
        memo: dict[Any, R] = self.__dict__.setdefault("_memo", {})
        if key not in memo:
            memo[key] = make()
        return memo[key]

    def state(self) -> dict[str, Any]:
        """The fitted attributes as plain values (numbers, strings, arrays, public objects), for `ovk.save`."""
        # Sorted, so that equal models give equal files whichever attribute was set first.
        return plain_state(self, sorted(name for name in vars(self) if self._is_state(name)))

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        for unknown in [name for name in state if not self._is_state(name)]:
            raise StateError(f"the file has an unknown fitted attribute {unknown!r}")
        # Not setattr: a property or a descriptor of that name would run.
        self.__dict__.update(restored(type(self), state))

    def _is_state(self, name: str) -> bool:
        if name in parameter_names(type(self)):
            return False
        return is_fitted_name(name) or name in listed_names(type(self))

    def __getstate__(self) -> dict[str, Any]:
        # Cached results can be computed again, and the fast path for single rows refers to parameters by identity:
        # neither belongs in a pickle or a copy.
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_memo", None)
        state.pop("_fast_path", None)
        return state


class PartsMixin:
    """Parameters with a sequence of parts: ``kernels[0]``, ``kernels[0]__length_scale``, ... are parameters as well."""

    #: The parameter that holds the sequence.
    _parts_name: str

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        parts = params[self._parts_name]
        for i, part in enumerate(parts if deep and isinstance(parts, Sequence) else ()):
            if isinstance(part, BaseEstimator):
                params[f"{self._parts_name}[{i}]"] = part
                params.update({f"{self._parts_name}[{i}]__{name}": value for name, value in part.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``**{"kernels[0]": k}`` replaces a part."""
        if self._parts_name in params:
            setattr(self, self._parts_name, params.pop(self._parts_name))
        whole = re.compile(rf"{self._parts_name}\[(\d+)\]")
        for name in [name for name in params if whole.fullmatch(name)]:
            index, parts = int(whole.fullmatch(name)[1]), list(getattr(self, self._parts_name))  # type: ignore[index]
            parts[index] = params.pop(name)
            setattr(self, self._parts_name, parts)
        super().set_params(**params)  # type: ignore[misc]
        return self


def constructor_call(thing: Parameters, *, positional: bool, width: int = 80) -> str:
    """The constructor call that makes `thing`, without arguments at their defaults, wrapped at `width`.

    With `positional`, leading arguments have no names, and a leading number is always shown.
    """
    shown: list[str] = []
    everything = not get_config()["print_changed_only"]
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        value = getattr(thing, name)
        known = parameter.default is not parameter.empty and equal(value, parameter.default)
        if known and not everything and not (positional and not shown and type(value) in (int, float)):
            positional = False
            continue
        positional = positional and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        shown.append(_written(value) if positional else f"{name}={_written(value)}")
    start = f"{type(thing).__name__}("
    lines = [""]
    for argument in [f"{text}, " for text in shown[:-1]] + shown[-1:]:
        if lines[-1] and len(start) + len(lines[-1]) + len(argument.rstrip()) >= width and width:
            lines.append("")
        lines[-1] += argument
    return start + ("\n" + " " * len(start)).join(line.rstrip() for line in lines) + ")"


MAX_NUMBERS_SHOWN = 20  # longer arrays are summarised in a repr


def _written(value: Any) -> str:
    """The repr of a parameter in one line; long arrays are summarised."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, np.ndarray) and plain.ndim == 1 and len(plain) > MAX_NUMBERS_SHOWN and plain.dtype.kind == "f":
        start, stop = float(plain[0]), float(plain[-1])
        if np.array_equal(plain, np.linspace(start, stop, len(plain))):
            return f"linspace({start!r}, {stop!r}, {len(plain)})"
        return f"<{len(plain)} numbers, {start:g} to {stop:g}>"
    return re.sub(r"\s*\n\s*", " ", repr(plain))


def cached(method: Callable[[Any], R]) -> Callable[[Any], R]:
    """Cache the result of a method without arguments until a parameter of the object changes.

    Arrays and objects are compared by identity, numbers and strings by value: changing an array in place keeps the
    cached result.
    """
    name = method.__name__

    def wrapper(self: Any) -> R:
        key = {name: getattr(self, name) for name in parameter_names(type(self))}
        memo = self.__dict__.setdefault("_memo", {})
        if name in memo:
            old, value = memo[name]
            if all(_unchanged(old[k], v) for k, v in key.items()):
                result: R = value
                return result
        value = method(self)
        memo[name] = (key, value)
        return value

    wrapper.__name__, wrapper.__doc__ = name, method.__doc__
    return wrapper


_NAMES: dict[type, list[str]] = {}


def parameter_names(cls: type) -> list[str]:
    """Names of the constructor's arguments, cached."""
    if cls not in _NAMES:
        _NAMES[cls] = cls._get_param_names()  # type: ignore[attr-defined]
    return _NAMES[cls]


def _unchanged(a: object, b: object) -> bool:
    simple = (int, float, str, bool, type(None))
    return a is b or (isinstance(a, simple) and isinstance(b, simple) and a == b)


def equal(a: Any, b: Any) -> bool:
    """Whether two parameter values are equal: same type, same parameters, same numbers."""
    if a is b:
        return True
    if isinstance(a, Parameters) or isinstance(b, Parameters):
        if type(a) is not type(b):
            return False
        return all(equal(getattr(a, name), getattr(b, name)) for name in parameter_names(type(a)))
    if is_dataclass(a) or is_dataclass(b):
        # Their == would evaluate the truth value of arrays.
        return type(a) is type(b) and all(equal(getattr(a, part.name), getattr(b, part.name)) for part in fields(a))
    if sparse.issparse(a) or sparse.issparse(b):
        return bool(sparse.issparse(a) and sparse.issparse(b) and a.shape == b.shape and (a != b).nnz == 0)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    numbers = (int, float, np.integer, np.floating)
    if isinstance(a, numbers) and isinstance(b, numbers) and bool not in (type(a), type(b)):
        return bool(a == b)  # 1, 1.0 and np.float64(1.0) are equal
    return type(a) is type(b) and bool(a == b)


def _matrix_rows(X: Any, y: Any) -> int:
    """Approximate number of rows of the largest matrix in a fit: those of X, times the outputs if some are missing."""
    if isinstance(X, Sequence) and len(X) and getattr(X[0], "ndim", 1) == 2:
        # Several series.
        return sum(map(len, X))
    rows = (getattr(X, "shape", None) or (len(X) if isinstance(X, Sequence) else 0,))[0]
    gaps = isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind == "f" and np.isnan(y).any()
    return int(rows * y.shape[1] if gaps else rows)


# The algebra of kernels as a table of rules for +, * and &.
#
# Packages add their own rules, so `kernels` does not depend on operator-valued kernels:
#
#     @rule("*", ScalarKernel, OutputOperator)
#     def _(k, T): return Separable(k, T)

_RULES: dict[tuple[str, type, type], Callable[[Any, Any], Any]] = {}

#: Packages that register rules; they are imported when no rule is found.
RULE_PACKAGES = ("ovk.kernels", "ovk.ovkernels")


def rule(symbol: str, left: type, right: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the result of `left symbol right` and, as all operations commute, of `right symbol left`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if left is not right:
            _RULES[symbol, right, left] = lambda b, a: function(a, b)
        _RULES[symbol, left, right] = function
        return function

    return register


def combine(symbol: str, a: Any, b: Any) -> Any:
    """Apply the rule for the nearest pair of base classes, or return `NotImplemented`."""
    # Rules are registered for float: convert integers and NumPy scalars.
    a, b = (float(x) if isinstance(x, Real) else x for x in (a, b))
    found = _nearest(symbol, type(a), type(b))
    if found is None:
        for package in RULE_PACKAGES:
            import_module(package)
        found = _nearest(symbol, type(a), type(b))
    return NotImplemented if found is None else found(a, b)


def _nearest(symbol: str, one: type, other: type) -> Callable[[Any, Any], Any] | None:
    for left in one.__mro__[:-1]:
        for right in other.__mro__[:-1]:
            if (symbol, left, right) in _RULES:
                return _RULES[symbol, left, right]
    return None


#: Operator precedence in a repr: K1 & K2, K1 + K2, k * T, and expressions that need no parentheses.
AND, SUM, PRODUCT, ATOM = range(4)


def operand(thing: Any, least: int) -> str:
    """An operand of an expression, in parentheses if its precedence is below `least`."""
    text, precedence = thing._expression() if isinstance(thing, Algebra) else (repr(thing), ATOM)
    return text if precedence >= least else f"({text})"


class Algebra:
    """Mixin that looks up `+`, `*` and `&` in the table of rules, and prints results as expressions."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._expression()[0]

    def _expression(self) -> tuple[str, int]:
        """The repr as an expression, and its precedence."""
        return constructor_call(self, positional=True, width=0), ATOM  # type: ignore[arg-type]

    # Otherwise NumPy would turn `np.float64(2) * kernel` into an object array.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        return combine("+", self, other)

    def __radd__(self, other: Any) -> Any:
        # sum(kernels) starts at 0.
        return self if isinstance(other, Real) and other == 0 else combine("+", other, self)

    def __mul__(self, other: Any) -> Any:
        return combine("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return combine("*", other, self)

    def __and__(self, other: Any) -> Any:
        return combine("&", self, other)
