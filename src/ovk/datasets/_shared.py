"""What loaders and generators share: the Bunch that they return, one kind of random generator, noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from ovk.base import Array, Loaded, RandomState


def bundle(
    description: str,
    data: Any,
    target: npt.NDArray[Any],
    feature_names: Sequence[str],
    target_names: Sequence[str],
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """The Bunch of a data set, `description` being its `DESCR`, or only its data and target."""
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(feature_names),
        target_names=list(target_names),
        DESCR=description,
        **fields,
    )


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


def with_noise(target: Array, level: float, rng: np.random.Generator) -> Array:
    """Outputs with noise of `level` times their root mean square on every value."""
    if level == 0.0:
        return target
    return np.asarray(target + level * np.sqrt(np.mean(target**2)) * rng.standard_normal(target.shape))
