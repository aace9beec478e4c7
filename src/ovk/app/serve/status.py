"""Metrics for Prometheus, and the status page at ``/`` with its content security policy.

Both read the state on demand, so that they add no cost to requests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from base64 import b64encode
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ovk.app.serve.served_model import SHOWN_ROWS, array_bytes
from ovk.app.serve.service import ModelService

#: Bounds of the latency histogram, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

#: Kind, name, help, labels besides the model, and value.
Sample = tuple[Any, str, str, dict[str, str], float]


def _samples(service: ModelService) -> Iterator[Sample]:
    state = service.state
    count, gauge = CounterMetricFamily, GaugeMetricFamily
    yield count, "ovk_rows_learned", "Rows learned in service.", {}, state.rows
    yield count, "ovk_rows_rejected", "Learning requests and rows that were rejected.", {}, service.rejected
    yield gauge, "ovk_sequence", "Number of the last record learned.", {}, state.sequence
    yield gauge, "ovk_queue_requests", "Learning requests that are queued.", {}, service.queue.pending
    yield gauge, "ovk_waiting_for_labels", "Predictions waiting for labels.", {}, len(service.queue.ledger)
    yield gauge, "ovk_halted", "1 if the model has stopped learning.", {}, float(bool(service.queue.halted))
    if service.directory is not None:
        age = time.time() - service.saved_at
        yield gauge, "ovk_checkpoint_age_seconds", "Age of the last checkpoint.", {}, age
        yield gauge, "ovk_checkpoint_sequence", "Last record in the checkpoint.", {}, service.saved_sequence
    for one in state.models:
        learner = {"learner": one.name}
        yield gauge, "ovk_model_bytes", "Bytes of the arrays of a model.", learner, array_bytes(one.model, set())
        yield gauge, "ovk_active", "1 for the active model.", learner, float(one is state.active)
        yield count, "ovk_learner_failures", "Requests that a model could not learn.", learner, one.failures
    scores = state.scores.up_to_date()
    text = "RMSE of recent rows (classification: error rate)."
    for name, errors in scores.errors().items():
        for output, value in zip(scores.outputs, errors.tolist(), strict=True):
            yield gauge, "ovk_rolling_error", text, {"learner": name, "output": output}, value
    text = "Share of recent outcomes in the 90% interval served just before they were learned."
    for output, value in zip(scores.outputs, scores.coverage().tolist(), strict=True):
        yield gauge, "ovk_interval_coverage", text, {"output": output}, value


class ServiceMetrics(Collector):
    """Metrics of requests and models. Only the thread of the event loop counts requests, so no lock is needed."""

    def __init__(self, services: Mapping[str, ModelService]) -> None:
        self.services = services
        self._statuses = Counter[tuple[str, int]]()
        self._buckets = defaultdict[str, list[int]](lambda: [0] * (len(BUCKETS) + 1))
        self._seconds = defaultdict[str, float](float)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, route: str, status: int, seconds: float) -> None:
        self._statuses[route, status] += 1
        self._buckets[route][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Any] = {}
        for model, service in self.services.items():
            for kind, name, text, labels, value in _samples(service):
                if name not in families:
                    families[name] = kind(name, text, labels=["model", *labels])
                families[name].add_metric([model, *labels.values()], value)
        yield from families.values()
        took = HistogramMetricFamily("ovk_request_seconds", "Duration of a request.", labels=["route"])
        for route, counts in self._buckets.items():
            bounds = [*map(str, BUCKETS), "+Inf"]
            took.add_metric([route], list(zip(bounds, accumulate(counts), strict=True)), self._seconds[route])
        answered = CounterMetricFamily("ovk_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), count in self._statuses.items():
            answered.add_metric([route, str(status)], count)
        yield from (took, answered)


@functools.cache
def page_and_policy() -> tuple[bytes, str]:
    """The page, and the policy that allows only its own style and script."""
    html = files("ovk.app.serve").joinpath("page.html").read_bytes()

    def digests(tag: bytes) -> str:
        bodies = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), html, flags=re.DOTALL)
        return " ".join(f"'sha256-{b64encode(hashlib.sha256(body).digest()).decode()}'" for body in bodies)

    policy = (
        f"default-src 'none'; style-src {digests(b'style')}; script-src {digests(b'script')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def page_for(services: Mapping[str, ModelService] | None) -> bytes:
    """The page with the current view of the first model; without it (None) if a token is required."""
    html = page_and_policy()[0]
    if services is None:
        return html
    first = {"models": list(services), "view": view(next(iter(services.values())))}
    return html.replace(b"<body>", f'<body data-first="{escape(orjson.dumps(first).decode())}">'.encode(), 1)


def view(service: ModelService) -> dict[str, Any]:
    """The contents of the page, for JSON; orjson writes numbers that are not finite as null."""
    state = service.state
    scores, active = state.scores.up_to_date(), state.active
    return {
        "model": service.name,
        "active": active.name,
        "learners": [
            {"name": one.name, "learns": one.learns, "failures": one.failures, "bytes": array_bytes(one.model, set())}
            for one in state.models
        ],
        "outputs": scores.outputs,
        "labels": not active.task.numeric,
        "classes": [str(label) for label in active.classes],
        "sequence": state.sequence,
        "rows": state.rows,
        "rows_a_second": round(service.rate(), 1),
        "queue": service.queue.pending,
        "rejected": service.rejected,
        "waiting_for_labels": len(service.queue.ledger),
        "memory": resident_memory(),
        "errors": {name: errors.tolist() for name, errors in scores.errors().items()},
        "scored": len(scores.recent),
        "coverage": scores.coverage().tolist(),
        "curve": {
            "rows": scores.reached,
            "series": {name: scores.curve[:, k].T.tolist() for k, name in enumerate(scores.names)},
        },
        "last": scores.recent[-SHOWN_ROWS:, -3:].tolist(),
        "warnings": scores.warnings(active.name),
        "checkpoint_age": round(time.time() - service.saved_at, 1),
        "predicts_only": service.predicts_only,
        "halted": service.queue.halted,
    }


def resident_memory() -> int:
    """Resident bytes of the process, 0 where the system does not report them."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
