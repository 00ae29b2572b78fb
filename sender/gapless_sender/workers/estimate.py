"""The answer to "what would be sent": queries Kafka, reads a few records, and sends nothing.

Must not know how anything is sent; its figures of bytes and time are estimates and labelled as such.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.cli.json_output import print_json, write_report
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.wire.resend_plan import (
    RESEND_PLAN,
    Estimate,
    PlannedPartition,
    ResendPlan,
    Retention,
    times_text,
)
from gapless_kafka.topics.topic_configuration import TopicConfiguration, topic_configurations
from gapless_sender.link.opening import open_link
from gapless_sender.replay.checkpoint import load
from gapless_sender.replay.report import left_out_text
from gapless_sender.replay.report_output import write_plan_line
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.source.event_source import EventSource
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import Reason, Selection
from gapless_sender.wire.packets import HEADER_BYTES
from gapless_sender.workers.partition_work import PartitionWork, all_requests, plan_partitions

if TYPE_CHECKING:
    from gapless_api.wire.resend_report import ReadBundle
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.settings.resend import ResendSettings

_SAMPLED_PARTITIONS = 20
_SAMPLED_RECORDS = 200
_IP_AND_UDP_BYTES = 28
_SHOWN_PARTITIONS = 50


@dataclass(slots=True)
class PartitionEstimate:
    """What would be sent of one partition."""

    work: PartitionWork
    from_archive: int
    expired: int
    """Neither in Kafka nor in the archive."""
    not_yet_written: int
    non_existent: int
    """Known from the archive."""
    earlier: int
    """Events before the first one in the time range."""
    later: int
    """Events from the first one on that is newer than the time range."""
    ranges: int
    mean_bytes: float | None
    """Of the sampled records; ``None`` if there are none."""
    first_in_kafka: int | None
    """The first offset from which Kafka still has events to send; ``None`` if it has none."""
    first_ms: int | None = None
    """Timestamp of the event there, if Kafka has returned it."""
    expires_ms: int | None = None
    """When Kafka's retention may delete it by its age."""
    retention: Retention = Retention.UNLIMITED

    @property
    def events(self) -> int:
        """Events that are still to be sent, if Kafka has them all."""
        remaining = self.work.totals.remaining + self.work.account.retry.count
        return remaining - self.expired - self.not_yet_written - self.non_existent - self.earlier - self.later


def show_plan(
    settings: ResendSettings,
    connect: Callable[[], KafkaConnection],
    selection: Selection,
    bundle: ReadBundle | None,
    shutdown: Shutdown,
) -> int:
    """Print the plan as a table on a terminal and as JSON elsewhere, and write it to the report file if there is one.

    Raises:
        GaplessError: Kafka cannot be queried, or the report cannot be written.
    """
    payload_size = settings.link.payload_size
    if not payload_size:
        with open_link(settings.link, shutdown, order=settings.safety.order) as link:
            payload_size = link.mtu_payload_size()
    estimates: list[PartitionEstimate] = []
    if selection.requests or selection.all_partitions_of:
        estimates = _estimate_partitions(settings, connect(), selection, shutdown)
    plan = _build_plan(settings, selection, bundle, estimates, payload_size)
    path: Path | None = settings.output.report
    write_report(path, RESEND_PLAN.to_json(plan))
    if settings.output.report_line:
        write_plan_line(plan)
    if sys.stdout.isatty():
        _print_table(plan)
    elif path is None and not settings.output.report_line:
        print_json(RESEND_PLAN.to_json(plan))
    return 0


def _estimate_partitions(
    settings: ResendSettings, connection: KafkaConnection, selection: Selection, shutdown: Shutdown
) -> list[PartitionEstimate]:
    path = settings.safety.checkpoint
    recheck = settings.archive is not None
    progress = load(path, selection.identity, recheck=recheck) if path is not None else Progress()
    kafka = KafkaSource.of(settings.kafka, connection, shutdown.check)
    source = EventSource(kafka, settings.archive, progress.topic_ids)
    try:
        kafka.connect()
        requests = all_requests(selection, source)
        works = plan_partitions(selection, requests, source, progress, progress.bounds.__setitem__)
        every = max(len(works) // _SAMPLED_PARTITIONS, 1)
        estimates = [
            _estimate_partition(work, source, selection, sampled=index % every == 0) for index, work in enumerate(works)
        ]
        _add_retention(estimates, kafka, connection, settings.kafka.connect_timeout_seconds)
        return estimates
    finally:
        kafka.close()


def _estimate_partition(
    work: PartitionWork, source: EventSource, selection: Selection, *, sampled: bool
) -> PartitionEstimate:
    plan, cursor, retry = work.plan, work.account.cursor, work.account.retry
    partition, topics = plan.partition, source.kafka.topics
    low, high = source.bounds(partition)
    remaining = plan.requested.clip(cursor, MAX_OFFSET) if cursor else plan.requested
    remaining = remaining | retry if retry else remaining
    first_ms, last_ms = selection.first_timestamp_ms, selection.last_timestamp_ms
    deleted = remaining.clip(0, low - 1)
    archived = source.count_archived(plan, deleted, first_ms=first_ms, last_ms=last_ms)
    expired = deleted.count - archived.events - archived.absent - archived.outside
    beyond = remaining.clip(high, MAX_OFFSET).count
    earlier, later, begin, end = archived.outside, 0, low, high
    if first_ms is not None and low < high:
        begin = max(topics.first_offset_since(partition.upstream, first_ms, high), low)
        earlier += remaining.clip(low, begin - 1).count
    if last_ms is not None and low < high:
        end = max(topics.first_offset_since(partition.upstream, last_ms + 1, high), low)
        later = remaining.clip(end, high - 1).count
    mean = None
    in_kafka = remaining.clip(begin, end - 1)
    first = in_kafka.first_offset if in_kafka else None
    if sampled and first is not None:
        lengths = source.kafka.sample(partition, first, _SAMPLED_RECORDS)
        mean = sum(lengths) / len(lengths) if lengths else None
    if mean is None and archived.events:
        mean = archived.value_bytes / archived.events
    exists = source.exists(partition.upstream_topic)
    return PartitionEstimate(
        work,
        from_archive=archived.events,
        expired=expired if exists else expired + beyond,
        not_yet_written=beyond if exists else 0,
        non_existent=archived.absent,
        earlier=earlier,
        later=later,
        ranges=len(remaining),
        mean_bytes=mean,
        first_in_kafka=first,
    )


def _add_retention(
    estimates: list[PartitionEstimate], kafka: KafkaSource, connection: KafkaConnection, timeout_seconds: float
) -> None:
    """Add when Kafka may delete the first event of each partition."""
    waiting = {each.work.plan.partition: each for each in estimates if each.first_in_kafka is not None}
    timestamps = kafka.first_timestamps(
        {partition: each.first_in_kafka for partition, each in waiting.items() if each.first_in_kafka is not None}
    )
    topics = sorted({partition.upstream_topic for partition in waiting})
    configurations = topic_configurations(connection, topics, timeout_seconds=timeout_seconds)
    for partition, each in waiting.items():
        each.first_ms = timestamps.get(partition)
        each.expires_ms, each.retention = retention_of(configurations[partition.upstream_topic], each.first_ms)


def retention_of(configuration: TopicConfiguration | None, first_ms: int | None) -> tuple[int | None, Retention]:
    """Return when the retention of a topic may delete an event by its age, and what it depends on.

    Kafka deletes an event together with later ones, so it may live longer.

    Args:
        configuration: of the topic; ``None`` if it could not be read.
        first_ms: the timestamp of the event in milliseconds since 1970; ``None`` if it is not known.
    """
    if configuration is None:
        return None, Retention.UNKNOWN
    seconds, limit = configuration.retention_seconds, configuration.retention_bytes
    if seconds is not None and first_ms is None:
        return None, Retention.UNKNOWN
    expires_ms = None if seconds is None or first_ms is None else first_ms + round(seconds * 1000)
    if limit is not None:
        return expires_ms, Retention.BY_SIZE
    return expires_ms, Retention.UNLIMITED if expires_ms is None else Retention.BY_TIME


def _build_plan(
    settings: ResendSettings,
    selection: Selection,
    bundle: ReadBundle | None,
    estimates: list[PartitionEstimate],
    payload_size: int,
) -> ResendPlan:
    events = sum(partition.events for partition in estimates)
    from_archive = sum(partition.from_archive for partition in estimates)
    means = [partition.mean_bytes for partition in estimates if partition.mean_bytes is not None]
    mean = sum(means) / len(means) if means else 0.0
    estimate = _estimate_traffic(settings, estimates, mean, payload_size)
    unavailable = {
        str(Reason.EXPIRED): sum(partition.expired for partition in estimates),
        str(Reason.NON_EXISTENT): sum(
            partition.non_existent for partition in estimates if partition.work.plan.open_from is None
        ),
        str(Reason.NOT_YET_WRITTEN): sum(partition.not_yet_written for partition in estimates),
    }
    return ResendPlan(
        shard=selection.shard.index,
        shards=selection.shard.count,
        mode=str(selection.mode),
        bundle=bundle,
        events=events,
        from_kafka=events - from_archive,
        from_archive=from_archive,
        ranges=sum(partition.ranges for partition in estimates),
        sent_before=sum(partition.work.totals.sent for partition in estimates),
        unavailable={reason: count for reason, count in unavailable.items() if count},
        outside_time_range=sum(partition.earlier + partition.later for partition in estimates),
        first_event_ms=min((each.first_ms for each in estimates if each.first_ms is not None), default=None),
        expires_from_ms=min((each.expires_ms for each in estimates if each.expires_ms is not None), default=None),
        retention=max((each.retention for each in estimates), key=list(Retention).index, default=Retention.UNLIMITED),
        estimate=estimate,
        note="Bytes and time are estimated from a few records, before filter and compression. Transaction markers, "
        "compaction and the time range may reduce the number of events.",
        skipped=selection.skipped,
        partitions=tuple(map(_planned_partition, estimates)),
    )


def _estimate_traffic(
    settings: ResendSettings, estimates: list[PartitionEstimate], mean: float, payload_size: int
) -> Estimate:
    overhead = 28 if settings.bodies.encryption else 0
    datagrams = payload_bytes = 0.0
    for partition in estimates:
        body = (mean if partition.mean_bytes is None else partition.mean_bytes) + overhead
        id_bytes = len(partition.work.plan.partition.topic) + 12
        fragments = max(-(-body // max(payload_size - HEADER_BYTES - id_bytes, 1)), 1)
        datagrams += partition.events * fragments
        payload_bytes += partition.events * (body + fragments * (HEADER_BYTES + id_bytes))
    copies, pace = settings.link.copies, settings.pace
    datagrams *= copies
    bits = (payload_bytes * copies + datagrams * _IP_AND_UDP_BYTES) * 8
    events = sum(partition.events for partition in estimates)
    limits = [events / pace.events_per_second] if pace.events_per_second else []
    limits += [bits / pace.bits_per_second] if pace.bits_per_second else []
    return Estimate(
        mean_event_bytes=round(mean, 1),
        datagrams=round(datagrams),
        payload_bytes=round(payload_bytes * copies),
        seconds=round(max(limits), 1) if limits else None,
    )


def _planned_partition(estimate: PartitionEstimate) -> PlannedPartition:
    partition, requested = estimate.work.plan.partition, estimate.work.plan.requested
    return PlannedPartition(
        topic=partition.topic,
        partition=partition.partition,
        upstream_topic=partition.upstream_topic,
        upstream_partition=partition.upstream_partition,
        events=estimate.events,
        from_archive=estimate.from_archive,
        ranges=estimate.ranges,
        first_offset=requested.first_offset if len(requested) else None,
        last_offset=requested.last_offset if len(requested) else None,
        expired=estimate.expired,
        not_yet_written=estimate.not_yet_written,
        sent_before=estimate.work.totals.sent,
        first_event_ms=estimate.first_ms,
        expires_from_ms=estimate.expires_ms,
        retention=estimate.retention,
    )


def _print_table(plan: ResendPlan) -> None:
    from rich.console import Console  # noqa: PLC0415 -- only terminals need it
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="What would be sent (nothing has been)")
    headings = ("topic", "partition", "events", "from archive", "ranges", "offsets", "expired", "not yet written")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"topic", "offsets"} else "right")
    for row in plan.partitions[:_SHOWN_PARTITIONS]:
        offsets = "" if row.first_offset is None else f"{row.first_offset} … {row.last_offset}"
        shown = [f"{row.events:,}", f"{row.from_archive:,}", f"{row.ranges:,}"]
        unavailable = [f"{row.expired:,}", f"{row.not_yet_written:,}"]
        table.add_row(row.topic, str(row.partition), *shown, offsets, *unavailable)
    console = Console()
    console.print(table)
    hidden = len(plan.partitions) - _SHOWN_PARTITIONS
    if hidden > 0:
        console.print(f"… and {hidden} more partitions")
    estimate = plan.estimate
    duration = "without a rate limit" if estimate.seconds is None else f"about {estimate.seconds:,.0f} s"
    console.print(
        f"{plan.events:,} events in {plan.ranges:,} ranges, about {estimate.datagrams:,} datagrams and "
        f"{estimate.payload_bytes / 1e6:,.1f} MB, {duration}"
    )
    console.print(
        f"{plan.from_kafka:,} from Kafka, {plan.from_archive:,} from the archive; "
        f"{plan.unavailable.get(Reason.EXPIRED, 0):,} are in neither"
    )
    if plan.from_kafka:
        console.print(times_text(plan, now=datetime.now(UTC)))
    if left_out := left_out_text(plan.outside_time_range, plan.skipped):
        console.print(left_out.removeprefix("; ").capitalize())
