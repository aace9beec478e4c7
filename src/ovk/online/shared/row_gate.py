"""The gate through which a single row reaches a learner without the general checks.

Checks of parameters, types and shapes take ten times as long as learning a row. What they find does not change as long
as the parameters are the same objects and the next row has the type and the shapes of the last one: then its numbers
are all that is left to look at. Whatever the gate does not admit goes the general way, with the same result.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ovk._params import parameter_names

#: The type of numbers that arrays share; a row with an equal one of its own goes the general way.
FLOAT = np.dtype(np.float64)


class RowGate:
    """Opened after the general checks have passed, for a learner that takes single rows.

    Parameters
    ----------
    model : the learner
    inputs, outputs : shapes of X and y with one row
    plan : what the learner has worked out from its parameters, for as long as the gate is open
    """

    __slots__ = ("_inputs", "_outputs", "_parameters", "plan")

    def __init__(self, model: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], plan: Any) -> None:
        self.plan = plan
        self._parameters = [(name, getattr(model, name)) for name in parameter_names(type(model))]
        self._inputs, self._outputs = inputs, outputs

    def admits(self, model: Any, X: Any) -> bool:
        """Whether X is one row of finite numbers, and the parameters are those that were checked."""
        if type(X) is not np.ndarray or X.shape != self._inputs or X.dtype is not FLOAT:
            return False
        known = model.__dict__
        for name, value in self._parameters:
            if known[name] is not value:
                return False
        x = X[0]
        # Not finite for nan, infinity and numbers that are so large that their squares overflow.
        return isfinite(x.dot(x))

    def admits_pair(self, model: Any, X: Any, y: Any) -> bool:
        """The same for X with its y."""
        if type(y) is not np.ndarray or y.shape != self._outputs or y.dtype is not FLOAT:
            return False
        flat = y.reshape(-1)
        return isfinite(flat.dot(flat)) and self.admits(model, X)
