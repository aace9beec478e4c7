"""Models of ovk for MLflow, without pickle: `save_model` writes the folder, ``mlflow.pyfunc.load_model`` reads it.

MLflow finds the way back by the name of this module, which the folder holds, and calls `_load_pyfunc`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ovk.app.serve.checkpoint import Checkpoint
from ovk.app.serve.protocol import Cells, RequestRows
from ovk.app.serve.served_model import as_served
from ovk.base import PathLike
from ovk.persistence import load

__all__ = ["save_model"]


def save_model(model: PathLike, path: PathLike, **kwargs: Any) -> None:
    """Write an MLflow model that holds the file of a model.

    Parameters
    ----------
    model : a file written by `ovk.save`, ``ovk stream``, ``ovk fit`` or ``ovk serve``
    path : the folder to write, which must not be there yet
    kwargs : passed on to ``mlflow.pyfunc.save_model``, such as signature or input_example

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import ovk
    >>> from ovk.app.serve.mlflow import save_model
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file, model = os.path.join(folder, "line.ovk"), os.path.join(folder, "model")
    ...     ovk.save(ovk.PKAWV().fit(X, 2 * X), file)
    ...     save_model(file, model)
    ...     sorted(os.listdir(model))[0]
    'MLmodel'
    """
    import mlflow.pyfunc

    load(model)  # what cannot be loaded should not be stored either
    kwargs.setdefault("pip_requirements", ["ovk"])
    mlflow.pyfunc.save_model(path=str(path), loader_module="ovk.app.serve.mlflow", data_path=str(model), **kwargs)


def _load_pyfunc(data_path: str, model_config: Any = None) -> PyfuncModel:
    """What MLflow calls to load a model."""
    loaded = load(data_path)
    return PyfuncModel(loaded.model if isinstance(loaded, Checkpoint) else loaded, Path(data_path).stem)


class PyfuncModel:
    """A model as MLflow wants it: `predict` of a frame, an array or a dictionary of columns."""

    def __init__(self, model: Any, name: str) -> None:
        self._served = as_served(model, name)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Predictions: a frame with a column for each output; with params={"level": 0.9} also of interval ends."""
        import pandas as pd

        level = (params or {}).get("level")
        found, _ = self._served.columns(_rows(model_input), level)
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        # Probabilities of labels are a matrix, which is no column.
        return pd.DataFrame({name: values for name, values in found.items() if values.ndim == 1}, index=index)


def _rows(model_input: Any) -> RequestRows:
    import pandas as pd

    if isinstance(model_input, dict):
        model_input = pd.DataFrame({name: np.ravel(values) for name, values in model_input.items()})
    if not isinstance(model_input, pd.DataFrame):
        matrix = np.asarray(model_input, dtype=np.float64)
        return RequestRows.of_matrix(matrix.reshape(len(matrix), -1))
    if not all(isinstance(name, str) for name in model_input.columns):
        return RequestRows.of_matrix(model_input.to_numpy(dtype=np.float64))
    columns: list[Cells] = []
    for name in model_input.columns:
        column = model_input[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns.append([None if pd.isna(cell) else cell for cell in column.tolist()])
    return RequestRows.named(list(model_input.columns), columns)
