"""Figures for Prometheus: read from the state when somebody asks, so that requests do not pay for them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ovk.app.serve.service import ModelService

#: Bounds of the classes of latencies, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestCollector(Collector):
    """Requests by route: how many with which status, and how long they took.

    They are counted in the thread of the event loop alone, so no lock is needed, which would cost more than the rest.
    """

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, int], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = route, status
        self._statuses[key] = self._statuses.get(key, 0) + 1
        if route not in self._buckets:
            self._buckets[route], self._seconds[route] = [0] * (len(BUCKETS) + 1), 0.0
        self._buckets[route][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def collect(self) -> Iterator[Metric]:
        took = HistogramMetricFamily("ovk_request_seconds", "Time of a request.", labels=["route"])
        for route, counts in self._buckets.items():
            bounds = [*map(str, BUCKETS), "+Inf"]
            took.add_metric([route], list(zip(bounds, accumulate(counts), strict=True)), self._seconds[route])
        answered = CounterMetricFamily("ovk_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), count in self._statuses.items():
            answered.add_metric([route, str(status)], count)
        yield from (took, answered)


class ServiceMetrics:
    """All metrics of a server: those of its requests, which are counted, and those of its models, which are read."""

    def __init__(self, services: Mapping[str, ModelService]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(StateCollector(services))
        ProcessCollector(registry=self.registry)
        self.requests = RequestCollector()
        self.registry.register(self.requests)

    def text(self) -> bytes:
        """All of them in Prometheus's format."""
        return generate_latest(self.registry)


class StateCollector(Collector):
    """Figures of the models, read at the moment."""

    def __init__(self, services: Mapping[str, ModelService]) -> None:
        self.services = services

    def collect(self) -> Iterator[Metric]:
        model = ["model"]
        rows = CounterMetricFamily("ovk_rows_learned", "Rows learned in service.", labels=model)
        refused = CounterMetricFamily(
            "ovk_rows_refused", "Requests to learn that were refused, and rows that a learner refused.", labels=model
        )
        sequence = GaugeMetricFamily("ovk_sequence", "Number of the last record learned.", labels=model)
        queue = GaugeMetricFamily("ovk_queue_requests", "Requests that are not learned yet.", labels=model)
        labels = GaugeMetricFamily("ovk_waiting_for_labels", "Predictions that wait for labels.", labels=model)
        age = GaugeMetricFamily("ovk_checkpoint_age_seconds", "Age of the file of the last checkpoint.", labels=model)
        saved = GaugeMetricFamily("ovk_checkpoint_sequence", "Last record in the checkpoint.", labels=model)
        halted = GaugeMetricFamily("ovk_halted", "1 if the model has stopped learning.", labels=model)
        one = ["model", "learner"]
        size = GaugeMetricFamily("ovk_model_bytes", "Bytes of a learner's arrays.", labels=one)
        champion = GaugeMetricFamily("ovk_champion", "1 for the learner that answers.", labels=one)
        failures = CounterMetricFamily("ovk_learner_failures", "Requests that a learner could not learn.", labels=one)
        error = GaugeMetricFamily(
            "ovk_rolling_error", "RMSE (classification: error rate) of the last rows.", labels=[*one, "output"]
        )
        coverage = GaugeMetricFamily(
            "ovk_interval_coverage",
            "Share of the outcomes of the last rows in the 90% interval served just before they were learned.",
            labels=["model", "output"],
        )
        for name, service in self.services.items():
            state = service.state
            rows.add_metric([name], state.rows)
            refused.add_metric([name], service.refused)
            sequence.add_metric([name], state.sequence)
            queue.add_metric([name], service.queue.pending)
            labels.add_metric([name], len(service.queue.ledger))
            if service.folder is not None:
                age.add_metric([name], time.time() - service.saved_at)
                saved.add_metric([name], service.saved_sequence)
            halted.add_metric([name], float(bool(service.halted)))
            for k, contender in enumerate(state.contenders):
                size.add_metric([name, contender.name], contender.size())
                champion.add_metric([name, contender.name], float(k == state.champion))
                failures.add_metric([name, contender.name], contender.failures)
            scores = state.scores.up_to_date()
            for learner in scores.names:
                for output, value in zip(scores.outputs, scores.error(learner).tolist(), strict=True):
                    error.add_metric([name, learner, output], value)
            for output, value in zip(scores.outputs, scores.coverage().tolist(), strict=True):
                coverage.add_metric([name, output], value)
        yield from (rows, refused, sequence, queue, labels, age, saved, halted, size, champion, failures)
        yield from (error, coverage)
