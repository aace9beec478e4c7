"""How a service is doing: metrics for Prometheus, and the page at ``/`` with the policy under which browsers show it.

Everything is read from the state when somebody asks, so that requests do not pay for it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import time
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ovk.app.serve.protocol import plain_list
from ovk.app.serve.service import ModelService

#: Bounds of the classes of latencies, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

#: Metrics of the models: kind, help and labels.
METRICS: dict[str, tuple[Any, str, list[str]]] = {
    "ovk_rows_learned": (CounterMetricFamily, "Rows learned in service.", ["model"]),
    "ovk_rows_refused": (CounterMetricFamily, "Requests to learn that were refused, and rows refused.", ["model"]),
    "ovk_sequence": (GaugeMetricFamily, "Number of the last record learned.", ["model"]),
    "ovk_queue_requests": (GaugeMetricFamily, "Requests that are not learned yet.", ["model"]),
    "ovk_waiting_for_labels": (GaugeMetricFamily, "Predictions that wait for labels.", ["model"]),
    "ovk_halted": (GaugeMetricFamily, "1 if the model has stopped learning.", ["model"]),
    "ovk_checkpoint_age_seconds": (GaugeMetricFamily, "Age of the file of the last checkpoint.", ["model"]),
    "ovk_checkpoint_sequence": (GaugeMetricFamily, "Last record in the checkpoint.", ["model"]),
    "ovk_model_bytes": (GaugeMetricFamily, "Bytes of a learner's arrays.", ["model", "learner"]),
    "ovk_active": (GaugeMetricFamily, "1 for the learner that answers.", ["model", "learner"]),
    "ovk_learner_failures": (CounterMetricFamily, "Requests a learner could not learn.", ["model", "learner"]),
    "ovk_rolling_error": (
        GaugeMetricFamily,
        "RMSE (classification: error rate) of the last rows.",
        ["model", "learner", "output"],
    ),
    "ovk_interval_coverage": (
        GaugeMetricFamily,
        "Share of the outcomes of the last rows in the 90% interval served just before they were learned.",
        ["model", "output"],
    ),
}


def _samples(service: ModelService) -> Iterator[tuple[str, list[str], float]]:
    """Name, labels after that of the model, and value of each metric of a model."""
    state = service.state
    yield "ovk_rows_learned", [], state.rows
    yield "ovk_rows_refused", [], service.refused
    yield "ovk_sequence", [], state.sequence
    yield "ovk_queue_requests", [], service.queue.pending
    yield "ovk_waiting_for_labels", [], len(service.queue.ledger)
    yield "ovk_halted", [], float(bool(service.halted))
    if service.folder is not None:
        yield "ovk_checkpoint_age_seconds", [], time.time() - service.saved_at
        yield "ovk_checkpoint_sequence", [], service.saved_sequence
    for one in state.models:
        yield "ovk_model_bytes", [one.name], one.size()
        yield "ovk_active", [one.name], float(one is state.active)
        yield "ovk_learner_failures", [one.name], one.failures
    scores = state.scores.up_to_date()
    for learner, errors in scores.errors().items():
        for output, value in zip(scores.outputs, errors.tolist(), strict=True):
            yield "ovk_rolling_error", [learner, output], value
    for output, value in zip(scores.outputs, scores.coverage().tolist(), strict=True):
        yield "ovk_interval_coverage", [output], value


class ServiceMetrics(Collector):
    """All metrics of a server: those of its requests, which are counted, and those of its models, which are read.

    Requests are counted in the thread of the event loop alone, so no lock is needed, which would cost more than the
    rest.
    """

    def __init__(self, services: Mapping[str, ModelService]) -> None:
        self.services = services
        self._statuses: dict[tuple[str, int], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = route, status
        self._statuses[key] = self._statuses.get(key, 0) + 1
        if route not in self._buckets:
            self._buckets[route], self._seconds[route] = [0] * (len(BUCKETS) + 1), 0.0
        self._buckets[route][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def text(self) -> bytes:
        """All of them in Prometheus's format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        families = {name: kind(name, text, labels=labels) for name, (kind, text, labels) in METRICS.items()}
        for model, service in self.services.items():
            for name, labels, value in _samples(service):
                families[name].add_metric([model, *labels], value)
        yield from families.values()
        took = HistogramMetricFamily("ovk_request_seconds", "Time of a request.", labels=["route"])
        for route, counts in self._buckets.items():
            bounds = [*map(str, BUCKETS), "+Inf"]
            took.add_metric([route], list(zip(bounds, accumulate(counts), strict=True)), self._seconds[route])
        answered = CounterMetricFamily("ovk_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), count in self._statuses.items():
            answered.add_metric([route, str(status)], count)
        yield from (took, answered)


# The page.


@functools.cache
def page_and_policy() -> tuple[bytes, str]:
    """The page, and the policy that allows its own style and script and nothing else."""
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
    """The page of a server with these models, as the first one is now; None where only a token may tell."""
    html = page_and_policy()[0]
    if services is None:
        return html
    first = {"models": list(services), "view": view(next(iter(services.values())))}
    return html.replace(b"<body>", f'<body data-first="{escape(json.dumps(first, allow_nan=False))}">'.encode(), 1)


def view(service: ModelService) -> dict[str, Any]:
    """Everything that the page shows, as JSON knows it: what is not a number is None."""
    state = service.state
    scores, active = state.scores.up_to_date(), state.active
    return {
        "model": service.name,
        "active": active.name,
        "learners": [
            {"name": one.name, "learns": one.learns, "failures": one.failures, "bytes": one.size()}
            for one in state.models
        ],
        "outputs": scores.outputs,
        "labels": not active.task.numeric,
        "classes": [str(label) for label in active.classes],
        "sequence": state.sequence,
        "rows": state.rows,
        "rows_a_second": round(service.rate(), 1),
        "queue": service.queue.pending,
        "refused": service.refused,
        "waiting_for_labels": len(service.queue.ledger),
        "memory": resident_memory(),
        "errors": {name: plain_list(errors) for name, errors in scores.errors().items()},
        "scored": len(scores.recent),
        "coverage": plain_list(scores.coverage()),
        "curve": {
            "rows": scores.reached,
            "series": {name: plain_list(scores.curve[:, k].T) for k, name in enumerate(scores.names)},
        },
        "last": plain_list(scores.last()),
        "warnings": scores.warnings(active.name),
        "checkpoint_age": round(time.time() - service.saved_at, 1),
        "predicts_only": service.predicts_only,
        "halted": service.halted,
    }


def resident_memory() -> int:
    """Bytes of memory that the process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
