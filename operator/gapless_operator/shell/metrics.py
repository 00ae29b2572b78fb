"""The operator's Prometheus metrics; must not know how the counted work is done.

Metrics of resources are read from the cache at each scrape, so that a series ends with its object; each is exported by
the operator that serves its namespace alone. Label values are only names of objects and words of fixed lists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gapless_operator.shell.api.kinds import (
    ARCHIVE,
    DIODE,
    GAP_SCAN,
    KAFKA_CONNECTION,
    MIRROR,
    OWNERS,
    RESEND,
    RESTORE,
    Kind,
)

if TYPE_CHECKING:
    from gapless_operator.shell.cache.store import Body, Cache

MAX_RESENDS = 1000
"""How many Resends have metrics: the newest, because finished ones can be kept without limit."""
MAX_RESTORES = 1000
"""The same for Restores."""
_CONDITION = {"True": 1.0, "False": 0.0}
_OUTCOMES = ("planned", "sent", "filtered", "filled", "unavailable")


class Serving(Protocol):
    """Which namespaces this operator serves."""

    def held(self, namespace: str) -> bool:
        """Return whether this operator serves a namespace."""

    def served(self) -> Mapping[str, bool]:
        """Return whether this operator serves each of those that it may serve."""


class Metrics:
    """The metrics of the operator."""

    def __init__(self, *, queue_length: Callable[[], float]) -> None:
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
            "Errors returned by the API server.",
            ["reason"],
            registry=self.registry,
        )
        self.requests = Counter(
            "gapless_api_requests_total",
            "Requests to the API server, without watches; all methods but GET are writes.",
            ["method"],
            registry=self.registry,
        )
        queue = Gauge("gapless_queue_length", "Resources that wait to be reconciled.", registry=self.registry)
        queue.set_function(queue_length)
        self._last_events: dict[str, float] = {}
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def export(self, cache: Cache, serving: Serving) -> None:
        """Export the objects in `cache` of the namespaces that this operator serves."""
        self.registry.register(_Resources(cache, serving, self._last_events))

    def record_event(self, kind: str) -> None:
        """Record a watch event of a kind."""
        self._last_events[kind] = time.monotonic()

    def age_seconds(self, kind: str) -> float | None:
        """Return the seconds since the last watch event of a kind; ``None`` for never."""
        last = self._last_events.get(kind)
        return None if last is None else time.monotonic() - last


class _Resources(Collector):
    """Metrics of the statuses of all resources."""

    def __init__(self, cache: Cache, serving: Serving, last_events: Mapping[str, float]) -> None:
        self._cache, self._serving, self._last_events = cache, serving, last_events

    def collect(self) -> Iterator[Metric]:
        yield self._watches()
        yield self._served()
        yield self._conditions()
        yield from self._scans()
        yield from self._resends()
        yield from self._diodes()
        yield from self._archives()
        yield from self._restores()
        yield from self._mirrors()
        yield from self._checks()

    def _watches(self) -> Metric:
        family = GaugeMetricFamily(
            "gapless_watch_age_seconds", "Seconds since the last watch event of a kind.", labels=["kind"]
        )
        now = time.monotonic()
        for kind, last in sorted(self._last_events.items()):
            family.add_metric([kind], now - last)
        return family

    def _served(self) -> Metric:
        family = GaugeMetricFamily(
            "gapless_serving", "1 if this operator serves the namespace, 0 while it waits.", labels=["namespace"]
        )
        for namespace, is_served in self._serving.served().items():
            family.add_metric([namespace], float(is_served))
        return family

    def _all(self, kind: Kind) -> Iterator[Body]:
        """The objects of a kind in the namespaces that this operator serves."""
        return (body for body in self._cache.all(kind) if self._serving.held(body["metadata"]["namespace"]))

    def _conditions(self) -> Metric:
        family = GaugeMetricFamily(
            "gapless_condition",
            "Conditions of resources: 1 for True, 0 for False, -1 for Unknown.",
            labels=["kind", "namespace", "name", "type", "reason"],
        )
        for kind in OWNERS:
            for body in self._all(kind):
                for condition in _status(body).get("conditions") or ():
                    labels = [kind.name, *_key_labels(body), condition["type"], condition.get("reason", "")]
                    family.add_metric(labels, _CONDITION.get(condition["status"], -1.0))
        return family

    def _scans(self) -> Iterator[Metric]:
        events = _gauge("gapless_missing_events", "Missing events found by the last successful scan.")
        ranges = _gauge("gapless_missing_ranges", "Missing ranges found by the last successful scan.")
        oldest = _gauge(
            "gapless_oldest_gap_seconds",
            "Age of the oldest gap that may be open; 0 when nothing is missing or unknown.",
        )
        # From the status, so that a restart of the operator does not reset it.
        closed = CounterMetricFamily(
            "gapless_closed_events", "Missing events that have arrived since.", labels=["namespace", "name"]
        )
        following = _gauge("gapless_next_scan_timestamp_seconds", "When the next scan is due.")
        now = time.time()
        for body in self._all(GAP_SCAN):
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
        newest = sorted(self._all(RESEND), key=lambda body: str(body["metadata"].get("creationTimestamp", "")))
        for body in newest[-MAX_RESENDS:]:
            progress = _status(body).get("progress")
            if not progress:
                continue
            for outcome in _OUTCOMES:
                events.add_metric([*_key_labels(body), outcome], progress.get(outcome, 0))
            done = sum(progress.get(outcome, 0) for outcome in _OUTCOMES[1:])
            _add(remaining, body, max(progress.get("planned", 0) - done, 0))
            _add(pace, body, progress.get("eventsPerSecond", 0.0))
        yield from (events, remaining, pace)

    def _diodes(self) -> Iterator[Metric]:
        active = _gauge("gapless_diode_active_resends", "Resends that are running on a Diode.")
        queued = _gauge("gapless_diode_queued_resends", "Resends that wait for a Diode.")
        for body in self._all(DIODE):
            _add(active, body, len(_status(body).get("active") or ()))
            _add(queued, body, _status(body).get("queued", 0))
        yield from (active, queued)

    def _archives(self) -> Iterator[Metric]:
        committed = _gauge("gapless_archive_last_commit_timestamp_seconds", "When something was archived last.")
        lag = "Offsets of a topic that are not archived yet; at most 100 topics of an Archive."
        topics = _gauge("gapless_archive_topic_lag_records", lag, "topic")
        yield from self._copies(ARCHIVE, "gapless_archive", _OF_ARCHIVES, committed, topics)

    def _mirrors(self) -> Iterator[Metric]:
        committed = _gauge("gapless_mirror_status_last_commit_timestamp_seconds", "When records were copied last.")
        lag = "Records of a topic that are not copied yet; at most 100 topics of a Mirror."
        topics = _gauge("gapless_mirror_status_topic_lag_records", lag, "topic")
        yield from self._copies(MIRROR, "gapless_mirror_status", _OF_MIRRORS, committed, topics)

    def _checks(self) -> Iterator[Metric]:
        findings = _gauge("gapless_doctor_findings", "Findings of the last check of a KafkaConnection.", "severity")
        for body in self._all(KAFKA_CONNECTION):
            doctor = _status(body).get("doctor") or {}
            for field in _SEVERITIES if doctor.get("checkedAt") else ():
                findings.add_metric([*_key_labels(body), field.removesuffix("s")], doctor.get(field, 0))
        yield findings

    def _copies(
        self,
        kind: Kind,
        prefix: str,
        fields: Mapping[str, tuple[str, str]],
        committed: GaugeMetricFamily,
        topics: GaugeMetricFamily,
    ) -> Iterator[Metric]:
        """Export the progress and lag of all resources of a kind that copies records."""
        figures = {field: _gauge(f"{prefix}_{name}", text) for field, (name, text) in fields.items()}
        for body in self._all(kind):
            status = _status(body)
            for field, family in figures.items():
                _add(family, body, status.get(field))
            if status.get("lastCommitTime"):
                _add(committed, body, datetime.fromisoformat(status["lastCommitTime"]).timestamp())
            for topic in status.get("topics") or ():
                if topic.get("lagRecords") is not None:
                    topics.add_metric([*_key_labels(body), topic["topic"]], topic["lagRecords"])
        yield from (*figures.values(), committed, topics)

    def _restores(self) -> Iterator[Metric]:
        records = GaugeMetricFamily(
            "gapless_restore_records", "Records of a Restore by outcome.", labels=["namespace", "name", "outcome"]
        )
        newest = sorted(self._all(RESTORE), key=lambda body: str(body["metadata"].get("creationTimestamp", "")))
        for body in newest[-MAX_RESTORES:]:
            progress = _status(body).get("progress") or {}
            for outcome in _RESTORED if progress else ():
                records.add_metric([*_key_labels(body), outcome], progress.get(outcome, 0))
        yield records


_RESTORED = ("planned", "restored", "remaining", "lost")
_OF_ARCHIVES = {
    "segments": ("segments", "Segments of an Archive."),
    "bytes": ("bytes", "Bytes of the objects of an Archive."),
    "lagRecords": ("lag_records", "Offsets in Kafka that are not archived yet."),
    "lagSeconds": ("lag_seconds", "Age of the oldest record that is not archived yet."),
    "retentionSeconds": (
        "retention_seconds",
        "Estimated seconds until Kafka deletes records that are not archived yet.",
    ),
    "lostRecords": ("lost_records", "Offsets that Kafka deleted before they were archived."),
}
"""By field of the status: the name of the metric and its help."""


_OF_MIRRORS = {
    "lagRecords": ("lag_records", "Records of the source that are not copied yet."),
    "lagSeconds": ("lag_seconds", "Age of the oldest record that is not copied yet."),
    "retentionSeconds": (
        "retention_seconds",
        "Estimated seconds until the source deletes records that are not copied yet.",
    ),
    "heartbeatAgeSeconds": ("heartbeat_age_seconds", "Age of the last heartbeat that arrived in the target."),
    "lostRecords": ("lost_records", "Offsets not in their target by request: deleted before, or refused."),
    "workers": ("workers", "Pods that copy."),
}
_SEVERITIES = ("errors", "warnings", "notes")


def _gauge(name: str, help_: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_, labels=["namespace", "name", *more])


def _oldest_gap_seconds(status: Mapping[str, Any], now: float) -> float | None:
    """Return the age of the oldest gap; ``None`` before the first scan has ended."""
    since = status.get("oldestGapSince")  # Also set while nothing is missing, but earlier gaps are unverified.
    if since is None and not status.get("missingEvents"):
        return None if status.get("missingEvents") is None else 0.0
    return None if since is None else max(now - datetime.fromisoformat(since).timestamp(), 0.0)


def _add(family: GaugeMetricFamily | CounterMetricFamily, body: Body, value: float | None) -> None:
    if value is not None:
        family.add_metric(_key_labels(body), value)


def _key_labels(body: Body) -> list[str]:
    return [body["metadata"]["namespace"], body["metadata"]["name"]]


def _status(body: Body) -> dict[str, Any]:
    return body.get("status") or {}
