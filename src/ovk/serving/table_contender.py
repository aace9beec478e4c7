"""Sessions and fitted tables in service."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.evaluation.conformal.rolling import LEVEL
from ovk.evaluation.running import Standardised
from ovk.serving.contenders import Contender, Outputs, TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows
from ovk.serving.scores import Outcome
from ovk.sessions import Session
from ovk.streams import Batch, Preparation, Prepared
from ovk.streams.columns import Number


@dataclass
class TableContender(Contender, kind="table"):
    """A session or a fitted table: columns with names, lags and scaling of its own."""

    model: Any  # Session | Fitted

    @property
    def outputs(self) -> list[str]:
        return list(self.model.settings.targets)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return isinstance(self.model, Session)

    def sources(self) -> list[str]:
        """Names of the columns that it reads."""
        columns = self.model.preparation.columns_
        return list(dict.fromkeys(source for column in columns for source in column.sources()))

    def inputs(self) -> list[TensorSpec]:
        numbers = {column.name for column in self.model.preparation.columns_ if isinstance(column, Number)}
        return [TensorSpec(name, "FP64" if name in numbers else "BYTES", [-1], [name]) for name in self.sources()]

    def targets(self, targets: RequestRows) -> Array:
        return targets.numbers(self.outputs, len(self.outputs), "targets")

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        """Rows as a session knows them, and the names of their columns."""
        named = rows.with_names(self.sources(), "inputs")
        names = list(named.names or ())
        columns: list[Any] = list(named.columns)
        if targets is not None:
            Y = self.targets(targets)
            if len(Y) != len(rows):
                raise RequestRefused(400, f"there are {len(rows)} rows but {len(Y)} targets")
            # What stands in the inputs under the name of a target is not for the model to see.
            pairs = [(n, c) for n, c in zip(names, columns, strict=True) if n not in self.outputs]
            names, columns = [n for n, _ in pairs] + self.outputs, [c for _, c in pairs] + list(Y.T)
        return names, Batch(columns, list(range(1, len(rows) + 1)), [])

    def _prepared(self, rows: RequestRows, targets: RequestRows | None) -> Prepared:
        """Inputs and outputs of the rows; the session stays as it is."""
        names, batch = self._batch(rows, targets)
        preparation: Preparation = self.model.preparation.fork()
        try:
            prepared = preparation.bind(names, "the request", predict=targets is None).prepare(batch)
        except (ValueError, TypeError, KeyError) as error:
            raise RequestRefused(400, str(error)) from error
        if prepared.bad:
            row, fault = prepared.bad[0]
            raise RequestRefused(400, f"row {row} of the request cannot be used: {fault}")
        return prepared

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._prepared(rows, targets)

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, model = self._prepared(rows, None), self.model
        scaling: Any = model.evaluator.scaling if isinstance(model, Session) else model.scaling
        estimator = model.evaluator.model if isinstance(model, Session) else model.estimator
        if not isinstance(scaling, Standardised):
            raise TypeError("a session standardises its rows")
        F = np.empty(prepared.chunk.Y.shape)
        if len(F):
            scaled = scaling.scale_inputs(prepared.chunk.X)
            F = scaled.restore(estimator.predict(scaled.X).reshape(F.shape))
        if not wanted & {"lower", "upper"}:
            return {"mean": F}
        half = model.recent.widths(level)
        return {"mean": F, "lower": F - half, "upper": F + half}

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        Y = self.targets(targets)
        if not isinstance(self.model, Session):
            found = self.predict(rows, frozenset({"lower"}), LEVEL)
            return self, Outcome(found["mean"], found["mean"] - found["lower"], Y)
        names, batch = self._batch(rows, targets)
        session = self.model._fork()
        session.preparation = session.preparation.fork().bind(names, "the request")
        predictions = session.predict_then_learn(batch)
        if len(predictions.rows) != len(Y):
            raise ValueError("rows of the request cannot be read")
        return replace(self, model=session), Outcome(predictions.F, predictions.widths, Y)
