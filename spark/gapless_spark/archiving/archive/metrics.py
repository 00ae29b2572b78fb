"""Owns the metrics of a run for Prometheus; must not know how they come about.

They are those of the last look at Kafka. What grows while there is no look, such as lag, grows here as well.
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
    """Serves metrics at a port, from the moment when there is a status."""

    def families(self, status: RunStatus, since: float) -> Iterator[Any]:
        """The families of metrics of a status that is `since` seconds old."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 -- rarely needed

        def of_partitions(name: str, text: str, value: Callable[[Any], float | None]) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"gapless_archive_{name}", text, labels=_PARTITION)
            for one in status.partitions:
                found = value(one)
                if found is not None:
                    family.add_metric((status.region, one.topic, str(one.partition)), found)
            return family

        def of_topics(name: str, text: str, value: Callable[[str], float]) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"gapless_archive_{name}", text, labels=_TOPIC)
            for topic in status.chains:
                family.add_metric((status.region, topic), value(topic))
            return family

        def totals(topic: str) -> Any:
            return status.chains[topic].totals

        yield GaugeMetricFamily("gapless_archive_look_timestamp_seconds", "Time of the last look.", value=status.now)
        yield of_partitions("next_offset", "Next offset to archive.", lambda one: one.next_offset)
        yield of_partitions("lag_records", "Offsets in Kafka that are not archived.", lambda one: one.lag_records)
        yield of_partitions(
            "lag_seconds",
            "Age of the oldest record that is not archived.",
            lambda one: one.lag_seconds and one.lag_seconds + since,
        )
        yield of_partitions(
            "seconds_until_loss",
            "Estimated seconds until Kafka deletes a record that is not archived.",
            lambda one: None if one.seconds_left is None else max(one.seconds_left - since, 0.0),
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
