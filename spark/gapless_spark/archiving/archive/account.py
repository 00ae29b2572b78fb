"""The account of a run: what was archived and lost of each topic, for the report and messages. Pure.

Must not know how records are archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.quantities import quantity

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import LostRange, Segment
    from gapless_spark.archiving.archive.stops import Stop

_MAX_LISTED = 3
_MAX_TIMESTAMP = 253_402_300_799_999
"""The last millisecond of the year 9999."""


@dataclass(slots=True)
class TopicAccount:
    """What a run has archived of a topic."""

    topic_id: str = ""
    segments: int = 0
    records: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    newest_timestamp: int | None = None
    """Of the records that the run has archived."""
    next_offsets: dict[int, int] = field(default_factory=dict)
    """The next offset to archive, by partition."""
    ends: dict[int, int] = field(default_factory=dict)
    """The high watermark in the last snapshot, by partition."""
    lost: list[LostRange] = field(default_factory=list)
    recreated_from: str = ""
    """The earlier topic ID, when the topic was recreated."""
    truncated: dict[int, int] = field(default_factory=dict)
    """Partitions whose log was truncated, and the end of the records that are still as archived."""
    stopped: dict[int, Stop] = field(default_factory=dict)
    """Partitions with a record that cannot be archived."""

    def add(self, added: Iterable[Segment], lost: Iterable[LostRange]) -> None:
        """Add the segments and lost ranges of a commit."""
        for segment in added:
            self.segments += 1
            self.records += segment.records
            self.bytes += segment.bytes
            self.stored_bytes += segment.stored_bytes
            times = [time for time in (self.newest_timestamp, segment.max_timestamp) if time is not None]
            self.newest_timestamp = max(times, default=None)
        self.lost += lost

    @property
    def lag(self) -> int:
        """Offsets at the end of the logs that are not archived."""
        return sum(
            max(end - self.truncated.get(number, self.next_offsets.get(number, end)), 0)
            for number, end in self.ends.items()
        )

    @property
    def lost_offsets(self) -> int:
        """How many offsets were deleted before they were archived."""
        return sum(lost.end - lost.first for lost in self.lost)


def topics_as_json(accounts: Mapping[str, TopicAccount]) -> list[dict[str, Any]]:
    """Return the topics of a report."""
    return [
        {
            "topic": topic,
            "topic_id": account.topic_id,
            "segments": account.segments,
            "records": account.records,
            "bytes": account.bytes,
            "stored_bytes": account.stored_bytes,
            "newest_record": newest_record(account),
            "lag": account.lag,
            "lost": [{"partition": lost.partition, "first": lost.first, "last": lost.end - 1} for lost in account.lost],
            "recreated_from": account.recreated_from or None,
            "truncated_partitions": sorted(account.truncated),
            "stopped_partitions": [
                {"partition": number, "offset": stop.offset, "reason": stop.reason}
                for number, stop in sorted(account.stopped.items())
            ],
            "partitions": [
                {"partition": number, "next_offset": account.next_offsets.get(number), "end_offset": end}
                for number, end in sorted(account.ends.items())
            ],
        }
        for topic, account in sorted(accounts.items())
    ]


def summary_sentence(accounts: Mapping[str, TopicAccount], *, up_to_date: str) -> str:
    """Summarize in one sentence what a run has archived.

    Args:
        accounts: by topic.
        up_to_date: is returned when nothing was archived.
    """
    records = sum(account.records for account in accounts.values())
    segments = sum(account.segments for account in accounts.values())
    if not segments:
        return up_to_date
    size = sum(account.bytes for account in accounts.values())
    topics = sum(bool(account.segments) for account in accounts.values())
    return (
        f"Archived {records:,} {'record' if records == 1 else 'records'} ({readable_bytes(size)}) of "
        f"{quantity(topics, 'topic')} in {quantity(segments, 'segment')}."
    )


def loss_sentence(accounts: Mapping[str, TopicAccount]) -> str:
    """Describe the offsets that can never be archived, and those that could not be; empty for none."""
    lost = [(topic, lost_range) for topic, account in sorted(accounts.items()) for lost_range in account.lost]
    parts = []
    if lost:
        offsets = sum(lost_range.end - lost_range.first for _, lost_range in lost)
        listed = ", ".join(
            f"{topic}/{lost_range.partition} {lost_range.first}-{lost_range.end - 1}"
            for topic, lost_range in lost[:_MAX_LISTED]
        )
        more = f" and {len(lost) - _MAX_LISTED} more" if len(lost) > _MAX_LISTED else ""
        parts.append(
            f"Kafka had deleted {quantity(offsets, 'offset')} before they were archived ({listed}{more}); keep records "
            f"longer, or archive more often."
        )
    parts += [truncation_sentence(topic, account) for topic, account in sorted(accounts.items()) if account.truncated]
    parts += [stop_sentence(topic, account) for topic, account in sorted(accounts.items()) if account.stopped]
    return " ".join(parts)


def truncation_sentence(topic: str, account: TopicAccount) -> str:
    """Describe the partitions of a topic whose logs were truncated, and how to archive what they have now."""
    listed = ", ".join(
        f"{topic}/{number} from offset {end:,} on, archived up to {account.next_offsets.get(number, end + 1) - 1:,}"
        for number, end in sorted(account.truncated.items())[:_MAX_LISTED]
    )
    more = (
        f" and {len(account.truncated) - _MAX_LISTED} more partitions" if len(account.truncated) > _MAX_LISTED else ""
    )
    return (
        f"Kafka has truncated the log under the same topic ID, as after an unclean leader election or on a replaced "
        f"disk ({listed}{more}), so nothing more of these partitions is archived; the archive keeps the records that "
        f"Kafka lost. To archive what Kafka has now, run gapless archive with another --region."
    )


def stop_sentence(topic: str, account: TopicAccount) -> str:
    """Describe the partitions of a topic of which a record cannot be archived."""
    listed = ", ".join(
        f"{topic}/{number} from offset {stop.offset:,} on: {stop.reason}"
        for number, stop in sorted(account.stopped.items())[:_MAX_LISTED]
    )
    more = f" and {len(account.stopped) - _MAX_LISTED} more partitions" if len(account.stopped) > _MAX_LISTED else ""
    return (
        f"A record cannot be archived, and nothing after it in its partition ({listed}{more}); everything else is "
        f"archived. Check the brokers' logs and disks before Kafka deletes these records."
    )


def readable_bytes(count: float) -> str:
    """Format a size with a binary unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def newest_record(account: TopicAccount) -> str | None:
    """Format the time of the newest record that was archived."""
    milliseconds = account.newest_timestamp
    if milliseconds is None or milliseconds > _MAX_TIMESTAMP:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
