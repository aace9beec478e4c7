"""Functions that loaders and generators share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ovk.base import Loaded, RandomState, check_int


def bundle(return_X_y: bool, **fields: Any) -> Loaded:
    """The Bunch of a data set, or its data and target."""
    return (fields["data"], fields["target"]) if return_X_y else Bunch(**fields)


def as_generator(random_state: RandomState) -> np.random.Generator:
    """The given Generator, or one seeded by the integer, by draws of the RandomState or at random."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_int(random_state, "random_state", least=0))
