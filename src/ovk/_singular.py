"""Linear systems that cannot be solved are told by an error of our own, with what to do."""

from __future__ import annotations

import numpy as np


class SingularSystem(ValueError):
    """A system that cannot be solved as it stands."""


def named(error: np.linalg.LinAlgError, learner: object) -> SingularSystem:
    """What to raise in the place of a failure inside LAPACK while something learns."""
    return SingularSystem(
        f"{type(learner).__name__} met a linear system that cannot be solved ({error}): raise alpha, remove rows or "
        "columns that repeat others, scale inputs and outputs, or check that the kernel's values are finite and "
        "positive semi-definite. Nothing was learned"
    )
