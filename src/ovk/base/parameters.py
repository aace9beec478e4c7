"""Parameter objects: what kernels, operators, losses and solvers have in common.

A parameter object stores its constructor's arguments and nothing else, so scikit-learn's `clone`, nested
`set_params`, grid search and `repr` work on it, and `ovk.save` can write it. Values are checked where they are used; a
message names the argument, what was found and what is allowed.
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
    StateMismatch,
    is_fitted_name,
    listed_names,
    merged,
    named,
    plain_state,
    register,
    restored,
)
from ovk.base.validation import check_finite_model

R = TypeVar("R")


class Registered:
    """Mixin: every subclass can be saved and loaded by name.

    Bases, and helpers that no file holds, are defined with ``saved=False``.
    """

    def __init_subclass__(cls, *, saved: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if saved:
            register(cls)


class Parameters(BaseEstimator):
    """Base of everything that is described by its constructor's arguments, and by what fitting added to them.

    Subclasses can be saved and loaded by name like those of `Registered`.

    A class declares its parameters as fields, ``@dataclass(eq=False, repr=False)``, with ``_: KW_ONLY`` before those
    that must be named; or it has a constructor that stores its arguments and does nothing else.
    """

    #: Private attributes that are saved like fitted ones, whose names end in ``_``; those of base classes are added.
    _saved_state: ClassVar[tuple[str, ...]] = ()
    #: Classes of the saved attributes that hold private objects, one or a list of them or None.
    _state_classes: ClassVar[Mapping[str, type[State]]] = {}

    #: What stands behind a parameter that is None, made when one of its own parameters is set (``kernel__...``).
    _default_factories: ClassVar[Mapping[str, Callable[[], Any] | None]] = {}

    def __init_subclass__(cls, *, saved: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if saved:
            register(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__length_scale=2.0`` sets one of a parameter, of its default if that is None."""
        for name in dict.fromkeys(name.partition("__")[0] for name in params if "__" in name):
            if name in params or getattr(self, name, self) is not None:
                continue
            made = merged(type(self), "_default_factories").get(name)
            if made is None:
                raise ValueError(
                    f"{name} of {type(self).__name__} is None, so it has no parameters to set: give {name} itself first"
                )
            setattr(self, name, made())
        super().set_params(**params)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn's own printer looks into nested objects and would not ask kernels how they are written.
        text = constructor_call(self, positional=False)
        return text if len(text) <= N_CHAR_MAX else text[: N_CHAR_MAX // 2] + "..." + text[-N_CHAR_MAX // 2 :]

    def replace(self, **params: Any) -> Self:
        """A copy with some parameters changed."""
        copy: Self = clone(self)
        copy.set_params(**params)
        return copy

    @contextmanager
    def _fitting(self, X: Any, y: Any = None) -> Iterator[None]:
        """What surrounds every fit: one that fails, or ends in numbers that are not finite, leaves the model as it was,
        and BLAS has as many threads as problems of the size of X and y deserve.
        """
        before = self.__dict__.copy()
        try:
            with threads_for(_matrix_rows(X, y)):
                yield
            check_finite_model(self)
        except BaseException as error:
            self.__dict__ = before
            if isinstance(error, np.linalg.LinAlgError):
                raise named(error, self) from error
            raise

    def _remembered(self, key: Any, make: Callable[[], R]) -> R:
        """What `make` gives, made when it is first asked for; it is neither saved nor copied."""
        memo: dict[Any, R] = self.__dict__.setdefault("_memo", {})
        if key not in memo:
            memo[key] = make()
        return memo[key]

    def state(self) -> dict[str, Any]:
        """What fitting has added to the parameters, as plain values: numbers, text, arrays, objects of public classes.

        This is what `ovk.save` writes, besides the parameters.
        """
        # In the order of the alphabet: files of equal models are equal, whichever attribute was set first.
        return plain_state(self, sorted(name for name in vars(self) if self._is_state(name)))

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` of an object with the same parameters gave."""
        for unknown in [name for name in state if not self._is_state(name)]:
            raise StateMismatch(f"no fitted attribute {unknown!r} here, the file gives one")
        # Not setattr: a property or a descriptor of that name would run.
        self.__dict__.update(restored(type(self), state))

    def _is_state(self, name: str) -> bool:
        if name in parameter_names(type(self)):
            return False
        return is_fitted_name(name) or name in listed_names(type(self))

    def __getstate__(self) -> dict[str, Any]:
        # What `cached` keeps can be computed again: it does not belong in a pickle or a copy. Nor does the fast path of
        # single rows, which knows parameters by their identity.
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_memo", None)
        state.pop("_fast_path", None)
        return state


class PartsMixin:
    """Parameters with a sequence of parts: ``kernels[0]``, ``kernels[0]__length_scale``, ... are parameters as well.

    `_parts_name` is the name of the parameter that holds the sequence.
    """

    _parts_name: str

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also those of the parts."""
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
    """The call that makes `thing`, arguments at their defaults left out, in lines of `width`.

    With `positional` the leading arguments have no names, and a leading number is shown in any case.
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


#: Numbers above which a sequence is described instead of written out.
MAX_NUMBERS = 20


def _written(value: Any) -> str:
    """A parameter as Python reads it, in one line; many numbers in short, as Python reads them if they are regular."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, np.ndarray) and plain.ndim == 1 and len(plain) > MAX_NUMBERS and plain.dtype.kind == "f":
        start, stop = float(plain[0]), float(plain[-1])
        if np.array_equal(plain, np.linspace(start, stop, len(plain))):
            return f"linspace({start!r}, {stop!r}, {len(plain)})"
        return f"<{len(plain)} numbers, {start:g} to {stop:g}>"
    return re.sub(r"\s*\n\s*", " ", repr(plain))


def cached(method: Callable[[Any], R]) -> Callable[[Any], R]:
    """Keep the result of a method without arguments for as long as the object's parameters stay the same.

    Parameters are compared by identity (arrays, objects) or by value (numbers, strings), so `set_params` and plain
    assignment both invalidate the memory; changing an array in place does not.
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
    """Names of the constructor's arguments, which `get_params` would look up in the signature every time."""
    if cls not in _NAMES:
        _NAMES[cls] = cls._get_param_names()  # type: ignore[attr-defined]
    return _NAMES[cls]


def _unchanged(a: object, b: object) -> bool:
    simple = (int, float, str, bool, type(None))
    return a is b or (isinstance(a, simple) and isinstance(b, simple) and a == b)


def equal(a: Any, b: Any) -> bool:
    """Whether two parameter values describe the same thing: same type, same parameters, same numbers."""
    if a is b:
        return True
    if isinstance(a, Parameters) or isinstance(b, Parameters):
        if type(a) is not type(b):
            return False
        return all(equal(getattr(a, name), getattr(b, name)) for name in parameter_names(type(a)))
    if is_dataclass(a) or is_dataclass(b):
        # Their own == asks whether arrays are true.
        return type(a) is type(b) and all(equal(getattr(a, part.name), getattr(b, part.name)) for part in fields(a))
    if sparse.issparse(a) or sparse.issparse(b):
        return bool(sparse.issparse(a) and sparse.issparse(b) and a.shape == b.shape and (a != b).nnz == 0)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    numbers = (int, float, np.integer, np.floating)
    if isinstance(a, numbers) and isinstance(b, numbers) and bool not in (type(a), type(b)):
        return bool(a == b)  # 1, 1.0 and numpy's 1.0 are the same number
    return type(a) is type(b) and bool(a == b)


def _matrix_rows(X: Any, y: Any) -> int:
    """About how many rows the largest matrix of a fit has: those of X, for each output where some are missing."""
    if isinstance(X, Sequence) and len(X) and getattr(X[0], "ndim", 1) == 2:
        # Several series.
        return sum(map(len, X))
    shape = getattr(X, "shape", None) or (len(X) if isinstance(X, Sequence) else 0,)
    rows = shape[0]
    gaps = isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind == "f" and np.isnan(y).any()
    return int(rows * y.shape[1] if gaps else rows)


# The algebra of kernels as a table: which two things may be added or multiplied, and what comes out.
#
# Packages add their own rules, so `kernels` need not know that a kernel times an operator is an operator-valued kernel:
#
#     @rule("*", ScalarKernel, OutputOperator)
#     def _(k, T): return Separable(k, T)

_RULES: dict[tuple[str, type, type], Callable[[Any, Any], Any]] = {}

#: Packages with rules. Whoever has a kernel and an operator need not have imported what their product is.
PACKAGES = ("ovk.kernels", "ovk.ovkernels")


def rule(symbol: str, left: type, right: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what `left symbol right` gives, and `right symbol left` where they differ: all of these commute."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if left is not right:
            _RULES[symbol, right, left] = lambda b, a: function(a, b)
        _RULES[symbol, left, right] = function
        return function

    return register


def combine(symbol: str, a: Any, b: Any) -> Any:
    """Apply the rule for the nearest pair of base classes, or return `NotImplemented`."""
    # Rules are about floats: integers and numpy's numbers become one.
    a, b = (float(x) if isinstance(x, Real) else x for x in (a, b))
    found = _nearest(symbol, type(a), type(b))
    if found is None:
        for package in PACKAGES:
            import_module(package)
        found = _nearest(symbol, type(a), type(b))
    return NotImplemented if found is None else found(a, b)


def _nearest(symbol: str, one: type, other: type) -> Callable[[Any, Any], Any] | None:
    for left in one.__mro__[:-1]:
        for right in other.__mro__[:-1]:
            if (symbol, left, right) in _RULES:
                return _RULES[symbol, left, right]
    return None


#: How strongly the parts of an expression hang together: K1 & K2, K1 + K2, k * T, and what needs no parentheses.
AND, SUM, PRODUCT, ATOM = range(4)


def part(thing: Any, least: int) -> str:
    """One part of an expression, in parentheses where it hangs together less strongly than `least`."""
    text, strength = thing._expression() if isinstance(thing, Algebra) else (repr(thing), ATOM)
    return text if strength >= least else f"({text})"


class Algebra:
    """Mixin that sends `+`, `*` and `&` to the table, and prints what they made as it was written."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._expression()[0]

    def _expression(self) -> tuple[str, int]:
        """The object as Python reads it, and how strongly the expression hangs together."""
        return constructor_call(self, positional=True, width=0), ATOM  # type: ignore[arg-type]

    # numpy must not broadcast `np.float64(2) * kernel` into an array of objects.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        return combine("+", self, other)

    def __radd__(self, other: Any) -> Any:
        # sum(kernels) starts from 0.
        return self if isinstance(other, Real) and other == 0 else combine("+", other, self)

    def __mul__(self, other: Any) -> Any:
        return combine("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return combine("*", other, self)

    def __and__(self, other: Any) -> Any:
        return combine("&", self, other)
