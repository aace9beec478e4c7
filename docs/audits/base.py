"""What all comparisons share: rows to learn from, how differences are measured, and the list of statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ovk.kernels import Gaussian

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))
NEW = RNG.uniform(-1, 1, (7, 2))
Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] + X[:, 0], X[:, 0] * X[:, 1]])
K = Gaussian(0.8)


class Statement(NamedTuple):
    """One line of the page.

    Attributes
    ----------
    seed : the document
    says : what it states
    where : the public name that does it
    test : the test that looks at it closely
    difference : computes the largest difference, or by how much a bound is broken
    bound : whether the statement is an inequality
    least : to which both sides were computed; a smaller difference is chance
    """

    seed: str
    says: str
    where: str
    test: str
    difference: Callable[[], float]
    bound: bool = False
    least: float = 1e-13


STATEMENTS: list[Statement] = []


def statement(
    seed: str, says: str, where: str, test: str, *, bound: bool = False, least: float = 1e-13
) -> Callable[[Callable[[], float]], Callable[[], float]]:
    """Put a comparison on the page, under what the document states."""

    def register(difference: Callable[[], float]) -> Callable[[], float]:
        STATEMENTS.append(Statement(seed, says, where, test, difference, bound, least))
        return difference

    return register


def largest(a: Any, b: Any) -> float:
    """The largest difference of two arrays, in units of the larger one."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max(), 1e-300))


def excess(*pairs: tuple[Any, Any]) -> float:
    """By how much the left sides exceed the right ones at most, rounding aside; 0 where they do not."""
    return max(0.0, *(float(np.max(np.asarray(a) - np.asarray(b) * (1 + 1e-12))) for a, b in pairs))
