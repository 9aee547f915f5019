"""Metrics of the decision service, in the text format of Prometheus.

Requests are counted in plain dictionaries and handed to prometheus-client when it asks: its own
counters take a lock and some microseconds each, a tenth of a decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

BUCKETS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper ends of the histogram of seconds."""
CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
Figures = tuple[Mapping[str, float], Mapping[str, float]]
"""Counters and gauges by name."""


class Metrics:
    """Counts of requests, and the figures of the service.

    Parameters
    ----------
    figures : callable
        Returns the service's own counters and gauges by name.

    Examples
    --------
    >>> metrics = Metrics(lambda: ({}, {"state_age_seconds": 0.5}))
    >>> metrics.count("decide", 201, 0.0002)
    >>> text = metrics.text().decode()
    >>> 'bothworlds_requests_total{route="decide",status="201"} 1.0' in text
    True
    >>> "bothworlds_state_age_seconds 0.5" in text
    True
    """

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, list[float]] = {}
        self._problems: dict[str, int] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        key = (route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        held = self._seconds.get(route)
        if held is None:
            # One count for each bucket, one for what is above them, and the sum.
            held = self._seconds[route] = [0.0] * (len(BUCKETS) + 2)
        held[bisect_left(BUCKETS, seconds)] += 1.0
        held[-1] += seconds

    def count_problem(self, code: str) -> None:
        """Count a refusal."""
        self._problems[code] = self._problems.get(code, 0) + 1

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self._registry)

    @staticmethod
    def text_of(families: Iterable[Metric]) -> bytes:
        """Return metrics that were read before as Prometheus reads them."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Read(families))
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the figures, for prometheus-client."""
        requests = CounterMetricFamily(
            "bothworlds_requests", "Requests answered.", labels=["route", "status"]
        )
        for (route, status), count in self._requests.items():
            requests.add_metric([route, str(status)], count)
        yield requests
        problems = CounterMetricFamily("bothworlds_problems", "Refusals by code.", labels=["code"])
        for code, count in self._problems.items():
            problems.add_metric([code], count)
        yield problems
        seconds = HistogramMetricFamily(
            "bothworlds_request_seconds", "Seconds from headers to answer.", labels=["route"]
        )
        for route, held in self._seconds.items():
            total, buckets = 0.0, []
            for end, each in zip((*map(str, BUCKETS), "+Inf"), held, strict=False):
                total += each
                buckets.append((end, total))
            seconds.add_metric([route], buckets, held[-1])
        yield seconds
        for kind, figures in zip(
            (CounterMetricFamily, GaugeMetricFamily), self._figures(), strict=True
        ):
            for name, value in figures.items():
                title = name.replace("_", " ").capitalize()
                yield kind(f"bothworlds_{name}", f"{title}.", value=value)


class _Read:
    """A collector, for prometheus-client, of metrics that were read before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
