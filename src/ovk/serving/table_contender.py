"""Sessions and fitted tables in service: numbers or classes out of columns with names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.evaluation.conformal.rolling import LEVEL
from ovk.serving.contenders import Contender, Outputs, TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows, rows_differ
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

    @property
    def window(self) -> int:
        return int(self.model.recent.size) if self.learns else 0

    def sources(self) -> list[str]:
        """Names of the columns that it reads."""
        columns = self.model.preparation.columns_
        return list(dict.fromkeys(source for column in columns for source in column.sources()))

    def inputs(self) -> list[TensorSpec]:
        numbers = {column.name for column in self.model.preparation.columns_ if isinstance(column, Number)}
        return [TensorSpec(name, "FP64" if name in numbers else "BYTES", [-1], [name]) for name in self.sources()]

    def targets(self, targets: RequestRows) -> Array:
        return targets.numbers(self.outputs, len(self.outputs), "targets")

    def _outcomes(self, targets: RequestRows) -> list[Any]:
        """The columns of the targets as a session reads them."""
        return list(self.targets(targets).T)

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        """Rows as a session knows them, and the names of their columns."""
        sources = self.sources()
        named = rows.with_names(sources, "inputs")
        for name in sources:
            named.column(name)
        names = list(named.names or ())
        columns: list[Any] = list(named.columns)
        if targets is not None:
            if len(targets) != len(rows):
                raise RequestRefused(400, rows_differ(rows, targets))
            # What stands in the inputs under the name of a target is not for the model to see.
            pairs = [(n, c) for n, c in zip(names, columns, strict=True) if n not in self.outputs]
            names, columns = [n for n, _ in pairs] + self.outputs, [c for _, c in pairs] + self._outcomes(targets)
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
            raise RequestRefused(400, self._fault(names, batch))
        return prepared

    def _fault(self, names: list[str], batch: Batch) -> str:
        """Which cell of a batch cannot be read, and what it should be."""
        for column in self.model.preparation.columns_:
            cells = [batch.columns[names.index(source)] for source in column.sources()]
            for i in np.flatnonzero(column.encode(cells).bad)[:1].tolist():
                found, where = " ".join(str(part[i]) for part in cells)[:40], " and ".join(map(repr, column.sources()))
                kind = "number" if isinstance(column, Number) else "time"
                return f"{found!r} in row {batch.rows[i]}, column {where}, is not a {kind}"
        return "targets of the request cannot be read"

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._prepared(rows, targets)

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, model = self._prepared(rows, None), self.model
        F = model.predictor().outputs(prepared.chunk.X) if prepared.rows else np.empty(prepared.chunk.Y.shape)
        if not wanted & {"lower", "upper"}:
            return {"mean": F}
        half = model.recent.widths(level)
        return {"mean": F, "lower": F - half, "upper": F + half}

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        names, batch = self._batch(rows, targets)
        model: Any = self.model
        found: Any
        if isinstance(model, Session):
            model = model._fork()
            model.preparation = model.preparation.fork().bind(names, "the request")
            found = model.predict_then_learn(batch)
        else:
            found = model.predictor().bind(names, "the request").predict(batch)
        if len(found.rows) != len(batch.rows):
            raise ValueError("rows of the request cannot be read")
        return replace(self, model=model), Outcome(*self._predicted(found), self.targets(targets))

    def _predicted(self, found: Any) -> tuple[Array, Array]:
        """(n, d) predictions of a session, and half widths of the intervals that were served before."""
        return found.F, np.broadcast_to(self.model.recent.widths(LEVEL), found.F.shape)


@dataclass
class ClassTableContender(TableContender, kind="class table"):
    """A session or a fitted table whose target holds classes."""

    labels = True

    @property
    def window(self) -> int:
        return 0

    def gives(self) -> dict[str, TensorSpec]:
        columns = list(self.model.preparation.classes())
        return {
            "label": TensorSpec("label", "BYTES", [-1], ["label"]),
            "probability": TensorSpec("probability", "FP64", [-1, len(columns)], columns),
        }

    def targets(self, targets: RequestRows) -> Array:
        (label,) = self.model.preparation.fork().outputs_
        codes: Array = label.encode([targets.labels()]).values
        return codes

    def _outcomes(self, targets: RequestRows) -> list[Any]:
        return [targets.labels()]

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, labels = self._prepared(rows, None), np.array(self.model.preparation.classes(), dtype=object)
        P = self.model.predictor().outputs(prepared.chunk.X) if prepared.rows else np.empty((0, len(labels)))
        return {"label": labels[P.argmax(axis=1)], "probability": P}

    def _predicted(self, found: Any) -> tuple[Array, Array]:
        F = np.asarray(found.codes, dtype=np.float64)[:, None]
        return F, np.full(F.shape, np.nan)
