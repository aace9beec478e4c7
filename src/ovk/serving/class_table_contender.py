"""Sessions and fitted tables of classes in service."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.serving.contenders import Contender, Outputs, TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows
from ovk.serving.scores import Outcome
from ovk.serving.table_contender import TableContender
from ovk.sessions import Session
from ovk.streams import Batch


@dataclass
class ClassTableContender(TableContender, kind="class table"):
    """A session or a fitted table whose target holds classes."""

    labels = True

    def gives(self) -> dict[str, TensorSpec]:
        columns = list(self.model.preparation.classes())
        return {
            "label": TensorSpec("label", "BYTES", [-1], ["label"]),
            "probability": TensorSpec("probability", "FP64", [-1, len(columns)], columns),
        }

    def targets(self, targets: RequestRows) -> Array:
        (label,) = self.model.preparation.fork().outputs_
        codes: Array = label.encode([self._cells(targets)]).values
        return codes

    def _cells(self, targets: RequestRows) -> list[Any]:
        if targets.width != 1:
            raise RequestRefused(400, f"targets must be one column of labels, got {targets.width}")
        cells: Any = targets.matrix[:, 0] if targets.matrix is not None else targets.columns[0]
        return cells if isinstance(cells, list) else list(cells.tolist())

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        names, batch = super()._batch(rows, None)
        if targets is None:
            return names, batch
        cells = self._cells(targets)
        if len(cells) != len(rows):
            raise RequestRefused(400, f"there are {len(rows)} rows but {len(cells)} targets")
        # What stands in the inputs under the name of the target is not for the model to see.
        pairs = [(n, c) for n, c in zip(names, batch.columns, strict=True) if n not in self.outputs]
        return [*(n for n, _ in pairs), *self.outputs], Batch([*(c for _, c in pairs), cells], batch.rows, [])

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, labels = self._prepared(rows, None), np.array(self.model.preparation.classes(), dtype=object)
        P = self.model.predictor().outputs(prepared.chunk.X) if prepared.rows else np.empty((0, len(labels)))
        return {"label": labels[P.argmax(axis=1)], "probability": P}

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        names, batch = self._batch(rows, targets)
        found: Any
        if isinstance(self.model, Session):
            session = self.model._fork()
            session.preparation = session.preparation.fork().bind(names, "the request")
            found, model = session.predict_then_learn(batch), session
        else:
            found, model = self.model.predictor().bind(names, "the request").predict(batch), self.model
        if len(found.rows) != len(batch.rows):
            raise ValueError("rows of the request cannot be read")
        Y = self.targets(targets)
        F = np.asarray(found.codes, dtype=np.float64)[:, None]
        return replace(self, model=model), Outcome(F, np.full(F.shape, np.nan), Y)
