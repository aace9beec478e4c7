"""Parameter objects: what kernels, operators, losses and solvers have in common.

A parameter object stores its constructor's arguments and nothing else, so scikit-learn's `clone`, nested
`set_params`, grid search and `repr` work on it, and `ovk.save` can write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from ovk._registry import register

R = TypeVar("R")


class Registered:
    """Mixin: every subclass can be saved and loaded by name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)


class Parameters(Registered, BaseEstimator):
    """Base of everything that is described by its constructor's arguments alone."""

    def replace(self, **params: Any) -> Self:
        """A copy with some parameters changed."""
        copy: Self = clone(self)
        copy.set_params(**params)
        return copy

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that fails leaves the model as it was."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __getstate__(self) -> dict[str, Any]:
        # What `_cached` keeps can be computed again: it does not belong in a pickle or a copy.
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_memo", None)
        return state


def cached(method: Callable[[Any], R]) -> Callable[[Any], R]:
    """Keep the result of a method without arguments for as long as the object's parameters stay the same.

    Parameters are compared by identity (arrays, objects) or by value (numbers, strings), so `set_params` and plain
    assignment both invalidate the memory; changing an array in place does not.
    """
    name = method.__name__

    def wrapper(self: Any) -> R:
        key = {name: getattr(self, name) for name in _parameter_names(type(self))}
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


def _parameter_names(cls: type) -> list[str]:
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
        return all(equal(getattr(a, name), getattr(b, name)) for name in _parameter_names(type(a)))
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
