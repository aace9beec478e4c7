"""The state of a model in service after a number of records of its log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.ledger import History
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.served_model import Outcome, RollingScores, ServedModel, as_served
from ovk.base import Registered, State, one_blas_thread

#: What a learner may refuse rows with. It does so every time, so a replay of the log comes to the same state; anything
#: else, such as a lack of memory, stops the learning.
REFUSALS = (ValueError, TypeError, ArithmeticError, RequestRefused)


@dataclass
class Checkpoint(State, Registered):
    """A model in service with its shadows: which one answers, their scores, and how much of the log they have learned.

    It never changes: `after` returns the next one. So predictions read it while the next rows are learned, and the same
    log leads to the same bytes, whenever the process was killed in between.
    """

    #: The model and its shadows, and the number of the one that answers.
    models: list[ServedModel]
    active_index: int
    scores: RollingScores
    #: Number of the last record of the log that was learned, and rows learned in service.
    sequence: int = 0
    rows: int = 0
    history: History = field(default_factory=History)
    #: Digest of the files with which the service began.
    origin: str = ""

    _state_classes = {"models": ServedModel, "scores": RollingScores, "history": History}

    @classmethod
    def start(cls, models: dict[str, Any], origin: str = "") -> Checkpoint:
        """Models that were loaded, by name, before the first request; the first one answers."""
        served = [as_served(model, name) for name, model in models.items()]
        first = served[0]
        for other in served[1:]:
            _check_alike(first, other)
        return cls(served, 0, RollingScores.start(list(models), first.outputs, first.task), origin=origin)

    @property
    def active(self) -> ServedModel:
        return self.models[self.active_index]

    @property
    def model(self) -> Any:
        """The session or estimator that answers."""
        return self.active.model

    def after(self, number: int, entry: Entry) -> Checkpoint:
        """The state after one more record of the log."""
        history, complete = self.history.after(number, entry, self.active.outputs)
        new = replace(self, sequence=number, history=history)
        names = [model.name for model in self.models]
        if entry.promote in names:
            new.active_index = names.index(entry.promote)
        if complete is not None and complete.rows is not None and complete.targets is not None:
            new._learn(complete.rows, complete.targets)
        return new

    def _learn(self, rows: RequestRows, targets: RequestRows) -> None:
        """Put models in place that have learned the rows, and the scores with them. For a new state only."""
        outcomes: list[Outcome | None] = []
        models: list[ServedModel] = []
        for model in self.models:
            outcome = None
            try:
                model, outcome = model.learned(rows, targets)
            except REFUSALS:
                model = replace(model, failures=model.failures + 1)
            models.append(model)
            outcomes.append(outcome)
        self.models = models
        if outcomes[self.active_index] is not None:
            self.scores = self.scores.updated(outcomes, self.active_index)
        self.rows += len(rows)


def learn_log(state: Checkpoint, log: Log) -> Checkpoint:
    """The state after the records of a log that it has not learned: that of a service, byte for byte."""
    with one_blas_thread(tiles=1):
        for number, content in log.replay(after=state.sequence):
            state = state.after(number, Entry.decode(content))
    return state


def _check_alike(first: ServedModel, other: ServedModel) -> None:
    """A shadow must be able to learn from the same rows."""
    if first.outputs != other.outputs or first.task != other.task:
        raise ValueError(
            f"{other.name} predicts {', '.join(other.outputs)}, but {first.name} {', '.join(first.outputs)}: a shadow "
            "must have the same outputs"
        )
    needed, known = ({name for spec in one.inputs() for name in spec.columns} for one in (other, first))
    if not needed <= known:
        raise ValueError(
            f"{other.name} needs the inputs {', '.join(sorted(needed - known))}, which {first.name} does not have: a "
            "shadow must do with the same rows"
        )
