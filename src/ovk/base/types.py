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
#: Row numbers in a stream.
Times = npt.NDArray[np.int64]
#: Class labels of any type: numbers or strings.
Labels = npt.NDArray[Any]
#: (n, d) array or scipy sparse matrix, or a list of n objects.
Outputs: TypeAlias = Any

#: A linear map, such as a product with a matrix that is not formed.
Map = Callable[[Array], Array]
#: Value and gradient of a smooth function.
Smooth = Callable[[Array], tuple[float, Array]]
#: Reduces Jacobians at several points, (n, d, d), to one matrix: a name or a function.
Aggregate = str | Callable[[Array], Array]

#: Gradients of the loss at several rows of a block, given the predictions.
Gradients = Callable[[slice, Array], Array]
#: Gradient of the loss at one row of a block, given the prediction.
Gradient = Callable[[int, Array], Array]
#: Step size and shrinkage at a row of a block, given the prediction and the gradient.
Step = Callable[[int, Array, Array], tuple[float, float]]

PathLike = str | os.PathLike[str]
RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None
#: The result of a loader: a Bunch or the pair (data, target), which scikit-learn does not annotate.
Loaded: TypeAlias = Any
