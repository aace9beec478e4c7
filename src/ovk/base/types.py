"""Type aliases."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]  # row numbers in a stream
Labels = npt.NDArray[Any]  # class labels of any type: numbers or strings
Outputs: TypeAlias = Any  # (n, d) array or scipy sparse matrix, or a list of n objects
Map = Callable[[Array], Array]  # a linear map, such as a product with a matrix that is not formed
Smooth = Callable[[Array], tuple[float, Array]]  # value and gradient of a smooth function
#: Reduces Jacobians at several points, (n, d, d), to one matrix: a name or a function.
Aggregate = str | Callable[[Array], Array]

Gradients = Callable[[slice, Array], Array]  # gradients of the loss at several rows of a block, given the predictions
Gradient = Callable[[int, Array], Array]  # gradient of the loss at one row of a block, given the prediction
#: Step size and shrinkage at a row of a block, given the prediction and the gradient.
Step = Callable[[int, Array, Array], tuple[float, float]]

PathLike = str | os.PathLike[str]
RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None
#: The result of a loader: a Bunch or the pair (data, target), which scikit-learn does not annotate.
Loaded: TypeAlias = Any
