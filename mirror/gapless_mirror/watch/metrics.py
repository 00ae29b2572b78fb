"""The Prometheus metrics of a mirror worker; must not know how their values are determined.

They show the last check of both clusters. Ages and lag in seconds keep growing between checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gapless_api.cli.metrics_server import StatusMetrics
from gapless_api.wire.mirror_progress import StallReason

if TYPE_CHECKING:
    from gapless_mirror.watch.status import MirrorStatus, PartitionStatus

_REASONS = tuple(reason for reason in StallReason if reason is not StallReason.SOURCE_IDLE)


class MirrorMetrics(StatusMetrics["MirrorStatus"]):
    """Serves metrics at a port once there is a status."""

    def families(self, status: MirrorStatus, since: float) -> Iterator[Any]:
        """Return the metric families of a status that is `since` seconds old."""
        yield from _of_worker(status)
        yield from _of_stalls(status)
        yield from _of_partitions(status, since)
        heartbeats = _family("heartbeat_age_seconds", "Age of the last heartbeat in the target.", "lane")
        for lane, age in sorted(status.heartbeat_ages.items()):
            heartbeats.add_metric((status.name, str(lane)), age + since)
        yield heartbeats


def _of_worker(status: MirrorStatus) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 -- rarely needed

    gauges = (
        ("look_timestamp_seconds", "Time of the last check of both clusters.", status.now),
        ("lanes", "Lanes of the mirror.", status.lanes),
        ("lanes_owned", "Lanes of this worker.", status.lanes_owned),
        ("last_commit_timestamp_seconds", "Time of the last commit.", status.committed_at),
        ("idle", "1 when the source has nothing new.", float(status.is_idle)),
    )
    for name, text, value in gauges:
        if value is not None:
            family = _family(name, text)
            family.add_metric((status.name,), value)
            yield family
    for name, text, count in (
        ("records", "Records copied since the worker started.", status.records),
        ("bytes", "Bytes of their keys and values.", status.bytes),
    ):
        counter = CounterMetricFamily(f"gapless_mirror_{name}", text, labels=("mirror",))
        counter.add_metric((status.name,), count)
        yield counter


def _of_stalls(status: MirrorStatus) -> Iterator[Any]:
    counts = _family("stalled", "Partitions and lanes that are stalled for a reason.", "reason")
    times = _family("stalled_since_timestamp_seconds", "When the oldest of these stalls was noticed.", "reason")
    for reason in _REASONS:
        stalls = [stall for stall in status.stalls if stall.reason is reason]
        counts.add_metric((status.name, reason.value), sum(stall.count for stall in stalls))
        if stalls:
            times.add_metric((status.name, reason.value), min(stall.since for stall in stalls))
    yield counts
    yield times


def _of_partitions(status: MirrorStatus, since: float) -> Iterator[Any]:
    def family(name: str, text: str, value: Callable[[PartitionStatus], float | None]) -> Any:
        metrics = _family(name, text, "topic", "partition")
        for partition in status.partitions:
            number = value(partition)
            if number is not None:
                metrics.add_metric((status.name, partition.topic, str(partition.partition)), number)
        return metrics

    yield family("lag_records", "Offsets of the source that are not copied.", lambda partition: partition.lag_records)
    yield family(
        "lag_seconds",
        "Age of the oldest record that is not copied.",
        lambda partition: partition.lag_seconds and partition.lag_seconds + since,
    )
    yield family(
        "seconds_until_loss",
        "Estimated seconds until the source deletes a record that is not copied.",
        lambda partition: None if partition.seconds_left is None else max(partition.seconds_left - since, 0.0),
    )
    lost: dict[str, int] = {}
    for partition in status.partitions:
        lost[partition.topic] = lost.get(partition.topic, 0) + partition.lost
    losses = _family("lost_records", "Offsets not in their target by request: deleted before, or refused.", "topic")
    for topic, count in lost.items():
        losses.add_metric((status.name, topic), count)
    yield losses


def _family(name: str, text: str, *labels: str) -> Any:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 -- rarely needed

    return GaugeMetricFamily(f"gapless_mirror_{name}", text, labels=("mirror", *labels))
