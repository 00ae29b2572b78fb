"""Owns the Prometheus metrics of a run; must not know how their values are computed.

They show the last snapshot of Kafka. Values that grow with time, such as lag in seconds, are extrapolated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.cli.metrics_server import StatusMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gapless_spark.archiving.archive.status import RunStatus

_PARTITION = ("region", "topic", "partition")
_TOPIC = ("region", "topic")


class ArchiveMetrics(StatusMetrics["RunStatus"]):
    """Serves metrics on a port, as soon as there is a status."""

    def families(self, status: RunStatus, since: float) -> Iterator[Any]:
        """Yield the metric families of a status that is `since` seconds old."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 -- rarely needed

        def of_partitions(name: str, text: str, value: Callable[[Any], float | None]) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"gapless_archive_{name}", text, labels=_PARTITION)
            for partition in status.partitions:
                number = value(partition)
                if number is not None:
                    family.add_metric((status.region, partition.topic, str(partition.partition)), number)
            return family

        def of_topics(name: str, text: str, value: Callable[[str], float]) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"gapless_archive_{name}", text, labels=_TOPIC)
            for topic in status.chains:
                family.add_metric((status.region, topic), value(topic))
            return family

        def totals(topic: str) -> Any:
            return status.chains[topic].totals

        yield GaugeMetricFamily("gapless_archive_look_timestamp_seconds", "Time of the last look.", value=status.now)
        yield of_partitions("next_offset", "Next offset to archive.", lambda partition: partition.next_offset)
        yield of_partitions(
            "lag_records", "Offsets in Kafka that are not archived.", lambda partition: partition.lag_records
        )
        yield of_partitions(
            "lag_seconds",
            "Age of the oldest record that is not archived.",
            lambda partition: partition.lag_seconds and partition.lag_seconds + since,
        )
        yield of_partitions(
            "seconds_until_loss",
            "Estimated seconds until Kafka deletes a record that is not archived.",
            lambda partition: None if partition.seconds_left is None else max(partition.seconds_left - since, 0.0),
        )
        yield of_topics("segments", "Segments in the archive.", lambda topic: totals(topic).segments)
        yield of_topics("records", "Records in the archive.", lambda topic: totals(topic).records)
        yield of_topics("bytes", "Content of the records in the archive.", lambda topic: totals(topic).bytes)
        yield of_topics("stored_bytes", "Size of the objects.", lambda topic: totals(topic).stored_bytes)
        yield of_topics(
            "lost_records",
            "Offsets that Kafka deleted before they were archived.",
            lambda topic: sum(lost.end - lost.first for lost in status.chains[topic].state.lost),
        )
        yield of_topics(
            "last_commit_timestamp_seconds",
            "Time of the last commit.",
            lambda topic: status.chains[topic].archived_at_seconds,
        )
