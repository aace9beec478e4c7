"""A stream of classes that is being learned, in one object that can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from ovk._types import Array, Indices
from ovk.evaluation import ClassEvaluator, ClassificationResult, Recent
from ovk.evaluation.running import RunningMoments, Standardised
from ovk.online import AutoStreamClassifier
from ovk.sessions.class_predictions import ClassColumns, ClassPredictions, ClassRowPredictor, label_codes
from ovk.sessions.column_summary import ColumnRow, column_summary
from ovk.sessions.forecasts import Forecast
from ovk.sessions.models import make_model
from ovk.sessions.session import Session
from ovk.sessions.settings import Settings
from ovk.streams import Batch, Preparation, Prepared, Records
from ovk.streams.labels import Label


@dataclass(repr=False)
class ClassSession(Session):
    """A session whose target holds classes.

    Attributes
    ----------
    evaluator : `ClassEvaluator`, the classifier beside its baselines
    recent : nothing; classes have probabilities instead of intervals

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.sessions import ClassSession, Settings
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{'big' if i % 7 > 3 else 'small'}\\n" for i in range(500)))
    ...     with open_records(path) as records:
    ...         session, batches = ClassSession.start(records, Settings(["y"], warm_up=100, classify=True))
    ...         for predictions in batches:
    ...             pass
    >>> predictions.labels, session.result().model.accuracy > 0.9
    (['big', 'small'], True)
    """

    evaluator: ClassEvaluator  # type: ignore[assignment]

    @classmethod
    def from_warm_up(
        cls, settings: Settings, preparation: Preparation, rows: Prepared, *, mergeable: bool = False
    ) -> Self:
        p = rows.chunk.X.shape[1]
        model = make_model(
            settings.model, settings.stream_kernel, settings.coupling, p, classify=True, mergeable=mergeable
        )
        evaluator = ClassEvaluator.start(model, Standardised(running=False, robust=True))
        session = cls(settings, preparation, evaluator, Recent.empty(1), RunningMoments(p + 1))
        session._learn_classes(rows, tested=False)
        return session

    def predict_then_learn(self, batch: Batch) -> ClassPredictions:  # type: ignore[override]
        """Predict rows, then learn them."""
        preparation, rows = self._prepared(batch)
        labels = preparation.classes()
        model = self.evaluator.model
        if len(labels) > len(self.preparation.classes()) and not isinstance(model, AutoStreamClassifier):
            raise ValueError(
                f"the label {labels[len(self.preparation.classes())]!r} did not come in the warm-up, and "
                f"{type(model).__name__} must know all classes at the start: use the model autostream, or a longer "
                "warm_up"
            )
        self.preparation = preparation
        guesses, P = self._learn_classes(rows, tested=True)
        return ClassPredictions(rows.rows, guesses, P, list(labels), label_codes(rows.chunk.Y), rows.instants)

    def _learn_classes(self, rows: Prepared, *, tested: bool) -> tuple[Indices, Array]:
        self._count(rows)
        codes = label_codes(rows.chunk.Y)
        return self.evaluator.predict_then_learn(rows.chunk.X, codes, self.preparation.classes(), tested=tested)

    def predictor(self) -> ClassRowPredictor:
        if not isinstance(self.evaluator.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return ClassRowPredictor(self.preparation, self.evaluator.scaling, self.evaluator.model, self.recent)

    def forecast(self, steps: int, level: float | None = None, future: Records | None = None) -> Forecast:
        raise ValueError("forecasts are of numbers, and this session learns classes: predict rows with known inputs")

    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        (label,) = self.preparation.outputs_
        assert isinstance(label, Label)
        timed = self.preparation.clock() is not None
        return ClassColumns(label.name, label.levels[: label.first], timed=timed, outcomes=outcomes)

    def result(self) -> ClassificationResult:  # type: ignore[override]
        """Scores so far."""
        return self.evaluator.result(self.preparation.classes())

    def columns(self) -> list[ColumnRow]:
        return column_summary(self.preparation, (), self.moments, self.evaluator.n_rows)
