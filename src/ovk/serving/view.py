"""A model in service as the page and the metrics show it."""

from __future__ import annotations

import os
import time
from typing import Any

from ovk.serving.service import ModelService
from ovk.serving.tensors import plain_list


def view(service: ModelService) -> dict[str, Any]:
    """Everything that the page shows, as JSON knows it: what is not a number is None."""
    state = service.state
    scores, leader = state.scores, state.leader
    learners = [contender.name for contender in state.contenders]
    errors = {name: plain_list(scores.error(name)) for name in scores.names}
    series = {name: plain_list(scores.curve[:, k].T) for k, name in enumerate(scores.names)}
    classes = [str(label) for label in getattr(leader.model, "classes_", ())] if leader.labels else []
    return {
        "model": service.name,
        "champion": leader.name,
        "learners": [
            {"name": one.name, "learns": one.learns, "failures": one.failures, "bytes": one.size()}
            for one in state.contenders
        ],
        "baselines": scores.names[len(learners) :],
        "outputs": scores.outputs,
        "labels": scores.labels,
        "classes": classes,
        "sequence": state.sequence,
        "rows": state.rows,
        "rows_a_second": round(service.rate(), 1),
        "queue": service.pending,
        "refused": service.refused,
        "waiting_for_labels": service.waiting_labels,
        "memory": resident_memory(),
        "errors": errors,
        "coverage": plain_list(scores.coverage()),
        "curve": {"rows": scores.reached, "series": series},
        "last": plain_list(scores.last),
        "hints": scores.hints(leader.name),
        "checkpoint": {"sequence": service.saved_sequence, "age": round(time.time() - service.saved_at, 1)},
        "durable": service.folder is not None,
        "halted": service.halted,
    }


def resident_memory() -> int:
    """Bytes of memory that the process holds; 0 where the system does not tell.

    >>> resident_memory() >= 0
    True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
