"""The state of a served model after a given number of log records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ovk.app.serve.access import RequestError
from ovk.app.serve.ledger import History
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.served_model import Outcome, RollingScores, ServedModel, as_served
from ovk.base import PathLike, Registered, State, one_blas_thread
from ovk.persistence import load

#: Errors with which a learner rejects rows. They are deterministic, so replaying the log gives the same state. Any
#: other error, such as a lack of memory, stops learning.
REJECTIONS = (ValueError, TypeError, ArithmeticError, RequestError)


@dataclass
class Checkpoint(State, Registered):
    """A served model and its shadows, their scores, and how much of the log they have learned.

    Immutable: `after` returns the next state, so predictions can read this one meanwhile. The same log gives the same
    bytes, however often the process was killed.
    """

    #: The model and its shadows.
    models: list[ServedModel]
    active_index: int
    scores: RollingScores
    #: Number of the last log record that was learned, and rows learned in service.
    sequence: int = 0
    rows: int = 0
    history: History = field(default_factory=History)
    origin: str = ""  # digest of the model files that the service started from

    _state_classes = {"models": ServedModel, "scores": RollingScores, "history": History}

    @classmethod
    def start(cls, models: dict[str, Any], origin: str = "") -> Checkpoint:
        """The state before the first request; the first model is active."""
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
        """The active session or estimator."""
        return self.active.model

    def after(self, number: int, entry: Entry) -> Checkpoint:
        """The state after one more log record."""
        history, complete = self.history.after(number, entry, self.active.outputs)
        new = replace(self, sequence=number, history=history)
        names = [model.name for model in self.models]
        if entry.promote in names:
            new.active_index = names.index(entry.promote)
        if complete is not None and complete.rows is not None and complete.targets is not None:
            new._learn(complete.rows, complete.targets)
        return new

    def _learn(self, rows: RequestRows, targets: RequestRows) -> None:
        outcomes: list[Outcome | None] = []
        models: list[ServedModel] = []
        for model in self.models:
            try:
                new, outcome = model.learned(rows, targets)
            except REJECTIONS:
                new, outcome = replace(model, failures=model.failures + 1), None
            models.append(new)
            outcomes.append(outcome)
        self.models = models
        if outcomes[self.active_index] is not None:
            self.scores = self.scores.updated(outcomes, self.active_index)
        self.rows += len(rows)


def learn_log(state: Checkpoint, log: Log) -> Checkpoint:
    """The state after the remaining log records, byte-identical to that of the service."""
    with one_blas_thread(tiles=1):
        for number, content in log.replay(after=state.sequence):
            state = state.after(number, Entry.decode(content))
    return state


def load_model(path: PathLike) -> Any:
    """The session or estimator in a file; of a checkpoint, the active one."""
    loaded = load(path)
    return loaded.model if isinstance(loaded, Checkpoint) else loaded


def _check_alike(first: ServedModel, other: ServedModel) -> None:
    if first.outputs != other.outputs or first.task != other.task:
        raise ValueError(
            f"{other.name} predicts {', '.join(other.outputs)}, but {first.name} {', '.join(first.outputs)}: a shadow "
            "must have the same outputs"
        )
    needed, known = ({name for spec in one.input_specs() for name in spec.columns} for one in (other, first))
    if not needed <= known:
        raise ValueError(
            f"{other.name} requires the inputs {', '.join(sorted(needed - known))}, which {first.name} does not have: "
            "a shadow must use the same inputs"
        )
