"""MLflow models without pickle: `save_model` writes the directory, ``mlflow.pyfunc.load_model`` reads it.

The directory names this module; MLflow imports it and calls `_load_pyfunc`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ovk.app.serve.checkpoint import load_model
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.served_model import as_served
from ovk.base import PathLike

__all__ = ["save_model"]


def save_model(model: PathLike, path: PathLike, **kwargs: Any) -> None:
    """Write an MLflow model that contains a model file.

    Parameters
    ----------
    model : path
        A file written by `ovk.save`, ``ovk stream``, ``ovk fit`` or ``ovk serve``.
    path : path
        The directory to create, which must not exist.
    **kwargs
        Arguments of ``mlflow.pyfunc.save_model``, such as signature or input_example.

    See Also
    --------
    ovk.save, ovk.app.serve.create_app

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import ovk
    >>> from ovk.app.serve.mlflow import save_model
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file, model = os.path.join(directory, "line.ovk"), os.path.join(directory, "model")
    ...     ovk.save(ovk.PKAWV().fit(X, 2 * X), file)
    ...     save_model(file, model)
    ...     sorted(os.listdir(model))[0]
    'MLmodel'
    """
    import mlflow.pyfunc

    load_model(model)  # a file that cannot be loaded must not be stored
    kwargs.setdefault("pip_requirements", ["ovk"])
    mlflow.pyfunc.save_model(path=str(path), loader_module="ovk.app.serve.mlflow", data_path=str(model), **kwargs)


def _load_pyfunc(data_path: str, model_config: Any = None) -> PyfuncModel:
    return PyfuncModel(load_model(data_path), Path(data_path).stem)


class PyfuncModel:
    """Predicts frames, arrays and dictionaries of columns for MLflow."""

    def __init__(self, model: Any, name: str) -> None:
        self._served = as_served(model, name)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """A frame with a column for each output; with params={"level": 0.9} also for each interval bound."""
        import pandas as pd

        level = (params or {}).get("level")
        found, _ = self._served.columns(_rows(model_input), level)
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        # Class probabilities are a matrix, not a column.
        return pd.DataFrame({name: values for name, values in found.items() if values.ndim == 1}, index=index)


def _rows(model_input: Any) -> RequestRows:
    import pandas as pd

    if isinstance(model_input, dict):
        model_input = pd.DataFrame({name: np.ravel(values) for name, values in model_input.items()})
    names = list(getattr(model_input, "columns", [None]))
    if not all(isinstance(name, str) for name in names):
        matrix = np.asarray(model_input, dtype=np.float64)
        return RequestRows.of_matrix(matrix.reshape(len(matrix), -1))
    columns = [
        column.to_numpy(dtype=np.float64, na_value=np.nan)
        if pd.api.types.is_numeric_dtype(column)
        else [None if pd.isna(cell) else cell for cell in column.tolist()]
        for _, column in model_input.items()
    ]
    return RequestRows.named(names, columns)
