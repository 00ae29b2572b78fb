"""Owns the answer to "what would be sent": asks Kafka, looks at a few records, and sends nothing at all.

Must not know how anything is sent; its figures of bytes and time are estimates and say so.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.files import write_atomically
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.wire.resend_plan import RESEND_PLAN, Estimate, PlannedPartition, ResendPlan
from gapless_sender.link.udp_link import open_link
from gapless_sender.replay.checkpoint import load
from gapless_sender.replay.report import skipped_entries
from gapless_sender.replay.report_output import write_plan_line
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.source.event_source import EventSource
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import Reason
from gapless_sender.wire.packets import HEADER_BYTES
from gapless_sender.workers.partition_work import PartitionWork, all_wishes, plan_partitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gapless_api.wire.resend_report import ReadBundle
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.settings.resend import ResendSettings
    from gapless_sender.source.plan import Selection

_SAMPLED_PARTITIONS = 20
_SAMPLED_RECORDS = 200
_IP_AND_UDP_BYTES = 28


@dataclass(slots=True)
class Outlook:
    """What would be sent of one partition."""

    partition: PartitionWork
    from_archive: int
    expired: int
    """Neither in Kafka nor in the archive."""
    not_yet_written: int
    non_existent: int
    """Known from the archive."""
    earlier: int
    """Events before the first one that is in the time range."""
    later: int
    """Events at and behind the first one that is newer than the time range."""
    ranges: int
    mean_bytes: float | None
    """Of the records looked at; ``None`` if none were."""

    @property
    def events(self) -> int:
        """Events that are still to be sent, if Kafka has them all."""
        left = self.partition.totals.remaining + self.partition.account.again.count
        return left - self.expired - self.not_yet_written - self.non_existent - self.earlier - self.later


def show_plan(
    settings: ResendSettings,
    connect: Callable[[], KafkaConnection],
    selection: Selection,
    bundle: ReadBundle | None,
    shutdown: Shutdown,
) -> int:
    """Print the plan as a table on a terminal and as JSON elsewhere, and write it to the report file if there is one.

    Raises:
        GaplessError: Kafka cannot be asked, or the report cannot be written.
    """
    payload_size = settings.link.payload_size
    if not payload_size:
        link = open_link(settings.link, shutdown, order=settings.safety.order)
        payload_size = link.mtu_payload_size()
        link.close()
    outlooks = (
        _look(settings, connect(), selection, shutdown) if selection.wishes or selection.all_partitions_of else []
    )
    made = _plan(settings, selection, bundle, outlooks, payload_size)
    path: Path | None = settings.output.report
    text = json.dumps(RESEND_PLAN.to_json(made), indent=1) + "\n"
    if path is not None:
        write_atomically(path, text.encode(), what="report")
    if settings.output.report_line:
        write_plan_line(made)
    if sys.stdout.isatty():
        _print_table(made)
    elif path is None and not settings.output.report_line:
        sys.stdout.write(text)
    return 0


def _look(
    settings: ResendSettings, connection: KafkaConnection, selection: Selection, shutdown: Shutdown
) -> list[Outlook]:
    path = settings.safety.checkpoint
    look_again = settings.archive is not None
    progress = load(path, selection.identity, look_again=look_again) if path is not None else Progress()
    kafka = KafkaSource.of(settings.kafka, connection, shutdown.check)
    source = EventSource(kafka, settings.archive, progress.topic_ids)
    try:
        kafka.connect()
        wishes = all_wishes(selection, source)
        partitions = plan_partitions(selection, wishes, source, progress, progress.bounds.__setitem__)
        every = max(len(partitions) // _SAMPLED_PARTITIONS, 1)
        return [
            _outlook(partition, source, selection, sampled=index % every == 0)
            for index, partition in enumerate(partitions)
        ]
    finally:
        kafka.close()


def _outlook(partition: PartitionWork, source: EventSource, selection: Selection, *, sampled: bool) -> Outlook:
    plan, cursor, again = partition.plan, partition.account.cursor, partition.account.again
    place, topics = plan.place, source.kafka.topics
    low, high = source.bounds(place)
    rest = plan.wanted.clip(cursor, MAX_OFFSET) if cursor else plan.wanted
    rest = rest | again if again else rest
    first_ms, last_ms = selection.first_timestamp_ms, selection.last_timestamp_ms
    gone = rest.clip(0, low - 1)
    held = source.held(plan, gone, first_ms=first_ms, last_ms=last_ms)
    expired = gone.count - held.events - held.absent - held.outside
    beyond = rest.clip(high, MAX_OFFSET).count
    earlier, later = held.outside, 0
    if first_ms is not None and low < high:
        begin = topics.first_offset_since(place.upstream, first_ms, high)
        earlier += rest.clip(low, begin - 1).count
    if last_ms is not None and low < high:
        end = topics.first_offset_since(place.upstream, last_ms + 1, high)
        later = rest.clip(max(end, low), high - 1).count
    there = rest.index_reaching(low)
    mean = None
    if sampled and there < len(rest) and max(rest[there].first, low) < high:
        lengths = source.kafka.sample(place, max(rest[there].first, low), _SAMPLED_RECORDS)
        mean = sum(lengths) / len(lengths) if lengths else None
    if mean is None and held.events:
        mean = held.value_bytes / held.events
    is_there = source.exists(place.upstream_topic)
    return Outlook(
        partition,
        from_archive=held.events,
        expired=expired if is_there else expired + beyond,
        not_yet_written=beyond if is_there else 0,
        non_existent=held.absent,
        earlier=earlier,
        later=later,
        ranges=len(rest),
        mean_bytes=mean,
    )


def _plan(
    settings: ResendSettings,
    selection: Selection,
    bundle: ReadBundle | None,
    outlooks: list[Outlook],
    payload_size: int,
) -> ResendPlan:
    events = sum(outlook.events for outlook in outlooks)
    from_archive = sum(outlook.from_archive for outlook in outlooks)
    means = [outlook.mean_bytes for outlook in outlooks if outlook.mean_bytes is not None]
    mean = sum(means) / len(means) if means else 0.0
    estimate = _estimate(settings, outlooks, mean, payload_size)
    unavailable = {
        str(Reason.EXPIRED): sum(outlook.expired for outlook in outlooks),
        str(Reason.NON_EXISTENT): sum(
            outlook.non_existent for outlook in outlooks if outlook.partition.plan.open_from is None
        ),
        str(Reason.NOT_YET_WRITTEN): sum(outlook.not_yet_written for outlook in outlooks),
    }
    return ResendPlan(
        shard=selection.shard.index,
        shards=selection.shard.count,
        mode=str(selection.mode),
        bundle=bundle,
        events=events,
        from_kafka=events - from_archive,
        from_archive=from_archive,
        ranges=sum(outlook.ranges for outlook in outlooks),
        sent_before=sum(outlook.partition.totals.sent for outlook in outlooks),
        unavailable={reason: count for reason, count in unavailable.items() if count},
        estimate=estimate,
        note="Bytes and time are estimated from a few records, before filter and compression; records of "
        "transactions, compaction and the time range may make it fewer events.",
        skipped=skipped_entries(selection),
        partitions=tuple(map(_partition, outlooks)),
    )


def _estimate(settings: ResendSettings, outlooks: list[Outlook], mean: float, payload_size: int) -> Estimate:
    overhead = 28 if settings.bodies.encryption else 0
    datagrams = payload_bytes = 0.0
    for outlook in outlooks:
        body = (mean if outlook.mean_bytes is None else outlook.mean_bytes) + overhead
        id_bytes = len(outlook.partition.plan.place.topic) + 12
        each = max(-(-body // max(payload_size - HEADER_BYTES - id_bytes, 1)), 1)
        datagrams += outlook.events * each
        payload_bytes += outlook.events * (body + each * (HEADER_BYTES + id_bytes))
    copies, pace = settings.link.copies, settings.pace
    datagrams *= copies
    bits = (payload_bytes * copies + datagrams * _IP_AND_UDP_BYTES) * 8
    events = sum(outlook.events for outlook in outlooks)
    limits = [events / pace.events_per_second] if pace.events_per_second else []
    limits += [bits / pace.bits_per_second] if pace.bits_per_second else []
    return Estimate(
        mean_event_bytes=round(mean, 1),
        datagrams=round(datagrams),
        payload_bytes=round(payload_bytes * copies),
        seconds=round(max(limits), 1) if limits else None,
    )


def _partition(outlook: Outlook) -> PlannedPartition:
    place, wanted = outlook.partition.plan.place, outlook.partition.plan.wanted
    return PlannedPartition(
        topic=place.topic,
        partition=place.partition,
        upstream_topic=place.upstream_topic,
        upstream_partition=place.upstream_partition,
        events=outlook.events,
        from_archive=outlook.from_archive,
        ranges=outlook.ranges,
        first_offset=wanted.first_offset if len(wanted) else None,
        last_offset=wanted.last_offset if len(wanted) else None,
        expired=outlook.expired,
        not_yet_written=outlook.not_yet_written,
        sent_before=outlook.partition.totals.sent,
    )


def _print_table(made: ResendPlan) -> None:
    from rich.console import Console  # noqa: PLC0415 -- only terminals need it
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="What would be sent (nothing has been)")
    headings = ("topic", "partition", "events", "of archive", "ranges", "offsets", "expired", "not yet written")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"topic", "offsets"} else "right")
    for row in made.partitions[:50]:
        offsets = "" if row.first_offset is None else f"{row.first_offset} … {row.last_offset}"
        shown = [f"{row.events:,}", f"{row.from_archive:,}", f"{row.ranges:,}"]
        lost = [f"{row.expired:,}", f"{row.not_yet_written:,}"]
        table.add_row(row.topic, str(row.partition), *shown, offsets, *lost)
    console = Console()
    console.print(table)
    hidden = len(made.partitions) - 50
    if hidden > 0:
        console.print(f"… and {hidden} more partitions")
    estimate = made.estimate
    duration = "as fast as it goes" if estimate.seconds is None else f"about {estimate.seconds:,.0f} s"
    console.print(
        f"{made.events:,} events in {made.ranges:,} ranges, about {estimate.datagrams:,} datagrams and "
        f"{estimate.payload_bytes / 1e6:,.1f} MB, {duration}"
    )
    console.print(
        f"{made.from_kafka:,} from Kafka, {made.from_archive:,} from the archive; "
        f"{made.unavailable.get(Reason.EXPIRED, 0):,} are in neither"
    )
    if made.skipped:
        console.print(f"{len(made.skipped)} entries of the bundle are outside the partition window and skipped")
