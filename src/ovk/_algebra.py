"""The algebra of kernels as a table: which two things may be added or multiplied, and what comes out.

Packages add their own rules, so `kernels` need not know that a kernel times an operator is an operator-valued kernel:

    @rule("*", ScalarKernel, OutputOperator)
    def _(k, T): return Separable(k, T)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from numbers import Real
from typing import Any

from ovk._params import constructor_call

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
