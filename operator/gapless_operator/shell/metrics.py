"""Owns the operator's Prometheus metrics; must not know how anything that they count is done.

What is true of resources is read from the cache when Prometheus asks, so that a series ends with its object. Labels are
names of objects and words of fixed lists, nothing else.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gapless_operator.shell.api.kinds import DIODE, GAP_SCAN, OWNERS, RESEND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric

    from gapless_operator.shell.cache.store import Body, Cache

MOST_RESENDS = 1000
"""Whose progress is exported: the newest, for finished Resends can be kept without end."""
_CONDITION = {"True": 1.0, "False": 0.0}
_OUTCOMES = ("planned", "sent", "filtered", "filled", "unavailable")


class Metrics:
    """What the operator counts itself."""

    def __init__(self, cache: Cache, *, queue_length: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "gapless_reconciles_total", "Reconciles by outcome.", ["kind", "outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "gapless_reconcile_seconds", "How long a reconcile took.", ["kind"], registry=self.registry
        )
        self.writes = Counter(
            "gapless_api_writes_total", "Writes to the API server.", ["kind", "verb"], registry=self.registry
        )
        self.errors = Counter(
            "gapless_api_errors_total",
            "Answers of the API server that were errors.",
            ["reason"],
            registry=self.registry,
        )
        self.requests = Counter(
            "gapless_api_requests_total",
            "All requests to the API server but watches; others than GET are writes.",
            ["method"],
            registry=self.registry,
        )
        queue = Gauge("gapless_queue_length", "Resources that wait to be reconciled.", registry=self.registry)
        queue.set_function(queue_length)
        self._heard: dict[str, float] = {}
        self.registry.register(_Resources(cache, self._heard))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def heard(self, kind: str) -> None:
        """Take note of a watch event of a kind."""
        self._heard[kind] = time.monotonic()

    def age_seconds(self, kind: str) -> float | None:
        """How long ago that was; ``None`` for never."""
        heard = self._heard.get(kind)
        return None if heard is None else time.monotonic() - heard


class _Resources(Collector):
    """What the status of every resource says, as gauges."""

    def __init__(self, cache: Cache, heard: Mapping[str, float]) -> None:
        self._cache, self._heard = cache, heard

    def collect(self) -> Iterator[Metric]:
        yield self._watches()
        yield self._conditions()
        yield from self._scans()
        yield from self._resends()
        yield from self._diodes()

    def _watches(self) -> Metric:
        found = GaugeMetricFamily(
            "gapless_watch_age_seconds", "Seconds since the last watch event of a kind.", labels=["kind"]
        )
        now = time.monotonic()
        for kind, heard in sorted(self._heard.items()):
            found.add_metric([kind], now - heard)
        return found

    def _conditions(self) -> Metric:
        found = GaugeMetricFamily(
            "gapless_condition",
            "Conditions of resources: 1 for True, 0 for False, -1 for Unknown.",
            labels=["kind", "namespace", "name", "type", "reason"],
        )
        for kind in OWNERS:
            for body in self._cache.all(kind):
                for condition in _status(body).get("conditions") or ():
                    labels = [kind.name, *_place(body), condition["type"], condition.get("reason", "")]
                    found.add_metric(labels, _CONDITION.get(condition["status"], -1.0))
        return found

    def _scans(self) -> Iterator[Metric]:
        events = _gauge("gapless_missing_events", "Missing events, by the last scan that ended well.")
        ranges = _gauge("gapless_missing_ranges", "Missing ranges, by the last scan that ended well.")
        oldest = _gauge(
            "gapless_oldest_gap_seconds",
            "Age of the oldest gap that may be open; 0 when nothing is missing or unknown.",
        )
        # Out of the status, so that it continues where it was when the operator restarts.
        closed = CounterMetricFamily(
            "gapless_closed_events", "Missing events that have arrived since.", labels=["namespace", "name"]
        )
        following = _gauge("gapless_next_scan_timestamp_seconds", "When the next scan is due.")
        now = time.time()
        for body in self._cache.all(GAP_SCAN):
            status = _status(body)
            _add(events, body, status.get("missingEvents"))
            _add(ranges, body, status.get("missingRanges"))
            _add(oldest, body, _oldest_gap_seconds(status, now))
            _add(closed, body, status.get("closedEventsTotal"))
            if status.get("nextScheduleTime"):
                _add(following, body, datetime.fromisoformat(status["nextScheduleTime"]).timestamp())
        yield from (events, ranges, oldest, closed, following)

    def _resends(self) -> Iterator[Metric]:
        events = GaugeMetricFamily(
            "gapless_resend_events", "Events of a Resend by outcome.", labels=["namespace", "name", "outcome"]
        )
        remaining = _gauge("gapless_resend_remaining_events", "Events of a Resend that are still to be sent.")
        pace = _gauge("gapless_resend_events_per_second", "Events per second of a Resend.")
        newest = sorted(self._cache.all(RESEND), key=lambda body: str(body["metadata"].get("creationTimestamp", "")))
        for body in newest[-MOST_RESENDS:]:
            progress = _status(body).get("progress")
            if not progress:
                continue
            for outcome in _OUTCOMES:
                events.add_metric([*_place(body), outcome], progress.get(outcome, 0))
            done = sum(progress.get(outcome, 0) for outcome in _OUTCOMES[1:])
            _add(remaining, body, max(progress.get("planned", 0) - done, 0))
            _add(pace, body, progress.get("eventsPerSecond", 0.0))
        yield from (events, remaining, pace)

    def _diodes(self) -> Iterator[Metric]:
        active = _gauge("gapless_diode_active_resends", "Resends that are running on a Diode.")
        queued = _gauge("gapless_diode_queued_resends", "Resends that wait for a Diode.")
        for body in self._cache.all(DIODE):
            _add(active, body, len(_status(body).get("active") or ()))
            _add(queued, body, _status(body).get("queued", 0))
        yield from (active, queued)


def _gauge(name: str, help_: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_, labels=["namespace", "name"])


def _oldest_gap_seconds(status: Mapping[str, Any], now: float) -> float | None:
    """The age of the oldest gap; ``None`` before the first scan has ended."""
    since = status.get("oldestGapSince")  # also while nothing is missing, and gaps of before are unknown
    if since is None and not status.get("missingEvents"):
        return None if status.get("missingEvents") is None else 0.0
    # A status that an operator of before has written has only the time of the scan.
    since = since or status.get("lastScanTime")
    return None if since is None else max(now - datetime.fromisoformat(since).timestamp(), 0.0)


def _add(family: GaugeMetricFamily | CounterMetricFamily, body: Body, value: float | None) -> None:
    if value is not None:
        family.add_metric(_place(body), value)


def _place(body: Body) -> list[str]:
    return [body["metadata"]["namespace"], body["metadata"]["name"]]


def _status(body: Body) -> dict[str, Any]:
    return body.get("status") or {}
