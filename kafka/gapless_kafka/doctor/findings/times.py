"""Owns what is wrong with clocks, timestamps and retention.

A broker's clock is seen only in the timestamps that it writes itself. A record that was written between two looks
bounds the difference of the clocks from both sides; an older one bounds it from one side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.doctor.findings.places import counted, duration, names, partitions
from gapless_kafka.doctor.kinds import FindingId, finding
from gapless_kafka.doctor.observed import Cluster, PartitionOffsets, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import DoctorFinding
    from gapless_kafka.doctor.observed import BrokerStamp, Group, GroupPosition

_MOST_DIFFERENCE_SECONDS = 5.0
_NEAR = 0.8
"""Of the retention time that is over, or of the retained log that is behind the position."""


def clock_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """A broker's clock that differs from ours, or that nothing tells of."""
    least, most = clock_bounds(cluster.stamps)
    if least is not None and least > _MOST_DIFFERENCE_SECONDS:
        message = (
            f"A broker's clock is ahead of this machine's by {duration(least)}{' or more' if most is None else ''}."
        )
        yield finding(FindingId.CLOCK_DIFFERS, cluster.side, message)
    elif most is not None and most < -_MOST_DIFFERENCE_SECONDS:
        yield finding(
            FindingId.CLOCK_DIFFERS,
            cluster.side,
            f"A broker's clock is behind this machine's by {duration(-most)}.",
        )
    elif most is None:
        known = (
            "no broker has written a timestamp that this user may see"
            if least is None
            else ("no broker has written a timestamp during this run, so only a clock that is ahead would be noticed")
        )
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"Whether the brokers' clocks are right was not checked completely: {known}.",
            action="Compare the clocks with chronyc tracking on the brokers, or run again while a consumer group "
            "commits.",
        )


def clock_bounds(stamps: Sequence[BrokerStamp]) -> tuple[float | None, float | None]:
    """Seconds by which the brokers' clocks are ahead of ours: at least, at most; ``None`` where nothing bounds it.

    The widest difference counts: of several brokers one may be wrong.
    """
    new = [stamp for stamp in stamps if stamp.is_new]
    if new:
        spans = [
            ((stamp.newest_ms - stamp.seen_at_ms) / 1000, (stamp.newest_ms - stamp.first_seen_at_ms) / 1000)
            for stamp in new
        ]
        return max(spans, key=lambda span: abs(span[0] + span[1]))
    if stamps:
        return max((stamp.newest_ms - stamp.seen_at_ms) / 1000 for stamp in stamps), None
    return None, None


def future_findings(cluster: Cluster, at_ms: float) -> Iterator[DoctorFinding]:
    """Records whose producers' timestamps are in the future."""
    ahead = {
        place: (found.newest_ms - at_ms) / 1000
        for place, found in cluster.offsets.items()
        if isinstance(found, PartitionOffsets)
        and found.newest_ms is not None
        and cluster.setting(place[0], "message.timestamp.type") != "LogAppendTime"
        and found.newest_ms - at_ms > 1000 * 60
    }
    if ahead:
        message = (
            f"{counted(len(ahead), 'partition')} {'has' if len(ahead) == 1 else 'have'} records with timestamps up to "
            f"{duration(max(ahead.values()))} in the future."
        )
        yield finding(FindingId.TIMESTAMP_IN_FUTURE, cluster.side, message, where=partitions(list(ahead)))


def timestamp_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Targets that replace or refuse the timestamps of the source."""
    kind, limit = "message.timestamp.type", "message.timestamp.before.max.ms"
    replaced = [
        name
        for name in source.topics
        if source.setting(name, kind) == "CreateTime" and target.setting(target_names[name], kind) == "LogAppendTime"
    ]
    if replaced:
        message = f"{counted(len(replaced), 'topic')} of the target {_gets(replaced)} the time of writing as timestamp."
        yield finding(FindingId.TIMESTAMP_TYPE_DIFFERS, "target", message, where=names(replaced))
    refused = [
        name
        for name in source.topics
        if name not in replaced
        and _refuses(target.setting(target_names[name], limit), source.setting(name, "retention.ms"))
    ]
    if refused:
        message = (
            f"{counted(len(refused), 'topic')} of the target {'refuses' if len(refused) == 1 else 'refuse'} records "
            f"that the source still keeps (message.timestamp.before.max.ms is below the retention of the source)."
        )
        yield finding(FindingId.TIMESTAMP_REFUSED, "target", message, where=names(refused))


def group_findings(cluster: Cluster, at_ms: float) -> Iterator[DoctorFinding]:
    """Consumer groups that retention has overtaken, or soon will."""
    for group in cluster.groups:
        if isinstance(group.positions, Unknown):
            if group.is_denied:
                what = "positions" if group.has_positions else "coordinator"
                verb = "were" if group.has_positions else "was"
                message = f"The {what} of the group {group.name} {verb} not checked: {group.positions.reason}."
                action = "Correct the name, or grant this user the operation Describe on the group and on the topics."
                where = f"group {group.name}"
                yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=where, action=action)
            continue
        yield from _retention(cluster, group, group.positions, at_ms)


def _retention(
    cluster: Cluster, group: Group, positions: Mapping[TopicPartition, GroupPosition], at_ms: float
) -> Iterator[DoctorFinding]:
    if group.has_positions and not positions:
        message = f"The lag of the group {group.name} was not checked: it has no position in the checked topics."
        action = "Correct the name of the group, or name the topics that it reads."
        yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=f"group {group.name}", action=action)
    lost: dict[TopicPartition, int] = {}
    near: dict[TopicPartition, str] = {}
    for place, position in positions.items():
        offsets = cluster.offsets.get(place)
        if not isinstance(offsets, PartitionOffsets) or position.next_offset >= offsets.end:
            continue
        if position.next_offset < offsets.first:
            lost[place] = offsets.first - position.next_offset
            continue
        reason = _is_near(cluster, place, position, offsets, at_ms)
        if reason:
            near[place] = reason
    if lost:
        place = max(lost, key=lambda each: lost[each])
        first = positions[place].next_offset
        message = (
            f"The {group.noun} {group.name} has lost {sum(lost.values()):,} offsets in "
            f"{counted(len(lost), 'partition')}; in {partitions([place])} offsets {first:,} to "
            f"{first + lost[place] - 1:,} were deleted before it read them."
        )
        yield finding(FindingId.GROUP_OVERTAKEN, cluster.side, message, where=partitions(list(lost)))
    if near:
        place, reason = next(iter(near.items()))
        message = (
            f"Retention is about to overtake the {group.noun} {group.name} in {counted(len(near), 'partition')}: in "
            f"{partitions([place])} {reason}."
        )
        yield finding(FindingId.RETENTION_NEAR, cluster.side, message, where=partitions(list(near)))


def _is_near(
    cluster: Cluster, place: TopicPartition, position: GroupPosition, offsets: PartitionOffsets, at_ms: float
) -> str:
    """Why retention is near; empty when it is not."""
    if "delete" not in (cluster.setting(place[0], "cleanup.policy") or "delete"):
        return ""
    milliseconds = int(cluster.setting(place[0], "retention.ms") or -1)
    if milliseconds > 0 and position.record_ms is not None and position.record_ms >= 0:
        age_ms = at_ms - position.record_ms
        if age_ms >= _NEAR * milliseconds:
            return (
                f"the next record is {duration(age_ms / 1000)} old, and records are kept for "
                f"{duration(milliseconds / 1000)}"
            )
    if int(cluster.setting(place[0], "retention.bytes") or -1) > 0:
        held = offsets.end - offsets.first
        ahead = offsets.end - position.next_offset
        if offsets.first > 0 and ahead >= _NEAR * held:
            return f"{ahead:,} of {held:,} offsets are unread, and retention.bytes limits what is kept"
    return ""


def _refuses(before_max_ms: str | None, retention_ms: str | None) -> bool:
    if before_max_ms is None or retention_ms is None:
        return False
    limit, kept = int(before_max_ms), int(retention_ms)
    forever = 100 * 365 * 86_400_000
    return limit < forever and (kept < 0 or kept > limit)


def _gets(found: Sequence[str]) -> str:
    return "gets" if len(found) == 1 else "get"
