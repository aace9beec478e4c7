"""One kind of random generator, whatever the user passes."""

from __future__ import annotations

from typing import Any

import numpy as np

RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator: the one given, or one seeded by the integer, by draws of the RandomState or by nothing.

    >>> int(as_generator(0).integers(10)) == int(as_generator(0).integers(10))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if random_state is None or (whole and random_state >= 0):
        return np.random.default_rng(random_state)
    raise ValueError(
        f"random_state must be an integer >= 0, a numpy Generator, a numpy RandomState or None, got {random_state!r}"
    )
