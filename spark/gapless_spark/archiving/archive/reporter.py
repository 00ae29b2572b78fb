"""When the status of a run is reported: as a line for the operator, and as metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_api.cli.metrics_server import StatusMetrics
from gapless_api.wire.archive_progress import ARCHIVE_LINE
from gapless_spark.archiving.archive.status import RunStatus, status_line

_PARTITION = ("region", "topic", "partition")
_TOPIC = ("region", "topic")


class ArchiveMetrics(StatusMetrics[RunStatus]):
    """Serves metrics on a port, as soon as there is a status; what grows with time is extrapolated from it."""

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


class StatusReporter:
    """Reports the status within a ``with`` block."""

    def __init__(self, interval_seconds: float, metrics_port: int | None) -> None:
        """Open the metrics port, if there is one. Raises ConfigurationError.

        Args:
            interval_seconds: between lines; 0 for no lines. A terminal gets none.
            metrics_port: ``None`` for no metrics.
        """
        self._interval_seconds = 0.0 if sys.stderr.isatty() else interval_seconds
        self._due = float("-inf")
        self._failure = ""
        """The last unexpected error, which is logged once."""
        self._metrics: ArchiveMetrics | None = None
        if metrics_port is not None:
            from gapless_spark.archiving.archive.reporter import ArchiveMetrics  # noqa: PLC0415 -- rarely needed

            self._metrics = ArchiveMetrics(metrics_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._metrics is not None:
            self._metrics.close()

    def report(self, status: Callable[[], RunStatus], *, is_last: bool = False) -> None:
        """Report the status after a snapshot of Kafka; a line is written when it is due, or is the last one.

        An exception that no rule expects is logged: records are archived on.
        """
        try:
            self._report(status, is_last=is_last)
        except (GaplessError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 -- the status is not the work
            message = unexpected_sentence("The status of the archive was not reported", error)
            if message != self._failure:
                log_unexpected(_log(), "status not reported", message, error)
            self._failure = message

    def _report(self, status: Callable[[], RunStatus], *, is_last: bool) -> None:
        current = status()
        if self._metrics is not None:
            self._metrics.show(current)
        now = time.monotonic()
        if self._interval_seconds and (is_last or now >= self._due):
            self._due = now + self._interval_seconds
            sys.stderr.write(ARCHIVE_LINE.to_line(status_line(current)) + "\n")
            sys.stderr.flush()


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
