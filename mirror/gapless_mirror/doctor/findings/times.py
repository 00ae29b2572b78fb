"""The findings about clocks, timestamps and retention.

A broker's clock shows only in the timestamps that it writes itself. A record that was written between two queries gives
a lower and an upper bound for the clock difference; an older record gives a lower bound only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.quantities import duration_text, quantity
from gapless_mirror.doctor.findings.wording import names, partitions, verb
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import BrokerStamp, Cluster, Group, GroupPosition, PartitionOffsets, Unknown

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import DoctorFinding

_MAX_CLOCK_DIFFERENCE_SECONDS = 5.0
_NEAR_FRACTION = 0.8
"""Of the retention time that has passed, or of the retained log that is unread."""
_MIRROR_ACTION = (
    "Restore the range to the target from another copy, such as an archive, and raise retention.ms or retention.bytes. "
    "The mirror's setting onDataLoss decides whether it continues after the range."
)


def clock_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Yield a broker clock that differs from the local clock, or could not be checked."""
    lower, upper = clock_bounds(cluster.stamps)
    if lower is not None and lower > _MAX_CLOCK_DIFFERENCE_SECONDS:
        or_more = " or more" if upper is None else ""
        message = f"A broker's clock is ahead of the local clock by {duration_text(lower)}{or_more}."
        yield finding(FindingId.CLOCK_DIFFERS, cluster.side, message)
    elif upper is not None and upper < -_MAX_CLOCK_DIFFERENCE_SECONDS:
        message = f"A broker's clock is behind the local clock by {duration_text(-upper)}."
        yield finding(FindingId.CLOCK_DIFFERS, cluster.side, message)
    elif upper is None:
        reason = (
            "no broker has written a timestamp that this user may read"
            if lower is None
            else "no broker has written a timestamp during this run, so only a clock that is ahead would be detected"
        )
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The clocks of the brokers were not checked completely: {reason}.",
            action="Compare the clocks with chronyc tracking on the brokers, or run again while a consumer group "
            "commits.",
        )


def clock_bounds(stamps: Sequence[BrokerStamp]) -> tuple[float | None, float | None]:
    """Return lower and upper bounds in seconds by which a broker's clock is ahead; ``None`` without a bound.

    The largest difference counts: one of several brokers may be wrong.
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
    """Yield partitions with records whose producers' timestamps are in the future."""
    ahead = {
        partition: (offsets.newest_ms - at_ms) / 1000
        for partition, offsets in cluster.offsets.items()
        if isinstance(offsets, PartitionOffsets)
        and offsets.newest_ms is not None
        and cluster.setting(partition[0], "message.timestamp.type") != "LogAppendTime"
        and offsets.newest_ms - at_ms > 1000 * 60
    }
    if ahead:
        message = (
            f"{quantity(len(ahead), 'partition')} {verb(ahead, 'has', 'have')} records with timestamps up to "
            f"{duration_text(max(ahead.values()))} in the future."
        )
        yield finding(FindingId.TIMESTAMP_IN_FUTURE, cluster.side, message, where=partitions(list(ahead)))


def timestamp_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield topics of the target that replace or refuse the timestamps of the source."""
    kind, limit = "message.timestamp.type", "message.timestamp.before.max.ms"
    replaced = [
        name
        for name, target_name in target_names.items()
        if source.setting(name, kind) == "CreateTime" and target.setting(target_name, kind) == "LogAppendTime"
    ]
    if replaced:
        message = (
            f"{quantity(len(replaced), 'topic')} of the target {verb(replaced, 'has', 'have')} "
            f"message.timestamp.type=LogAppendTime; the source has CreateTime."
        )
        yield finding(FindingId.TIMESTAMP_TYPE_DIFFERS, "target", message, where=names(replaced))
    refused = [
        name
        for name, target_name in target_names.items()
        if name not in replaced and _refuses(target.setting(target_name, limit), source.setting(name, "retention.ms"))
    ]
    if refused:
        message = (
            f"{quantity(len(refused), 'topic')} of the target {verb(refused, 'refuses', 'refuse')} records that the "
            f"source still retains (message.timestamp.before.max.ms is below retention.ms of the source)."
        )
        yield finding(FindingId.TIMESTAMP_REFUSED, "target", message, where=names(refused))


def group_findings(cluster: Cluster, at_ms: float) -> Iterator[DoctorFinding]:
    """Yield consumer groups that have lost records to retention, or soon will, or that are ahead of a log."""
    for group in cluster.groups:
        if isinstance(group.positions, Unknown):
            if group.is_denied:
                unchecked = "committed offsets" if group.has_positions else "coordinator"
                was = "were" if group.has_positions else "was"
                message = f"The {unchecked} of the group {group.name} {was} not checked: {group.positions.reason}."
                action = "Correct the name, or grant this user the operation Describe on the group and on the topics."
                where = f"group {group.name}"
                yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=where, action=action)
            continue
        if group.noun != "mirror":  # whose positions are compared with both logs
            yield from _beyond_end(cluster, group, group.positions)
        yield from _retention(cluster, group, group.positions, at_ms)


def _beyond_end(
    cluster: Cluster, group: Group, positions: Mapping[TopicPartition, GroupPosition]
) -> Iterator[DoctorFinding]:
    beyond = {
        partition: (position.next_offset, offsets.end)
        for partition, position in positions.items()
        if isinstance(offsets := cluster.offsets.get(partition), PartitionOffsets)
        and position.next_offset > offsets.end
    }
    if beyond:
        worst = max(beyond, key=lambda partition: beyond[partition][0] - beyond[partition][1])
        committed, end = beyond[worst]
        message = (
            f"The group {group.name} has committed offsets after the end of {quantity(len(beyond), 'partition')}: in "
            f"{partitions([worst])}, {committed:,}, and the log ends at {end:,}."
        )
        yield finding(FindingId.GROUP_BEYOND_END, cluster.side, message, where=partitions(list(beyond)))


def _retention(
    cluster: Cluster, group: Group, positions: Mapping[TopicPartition, GroupPosition], at_ms: float
) -> Iterator[DoctorFinding]:
    if group.has_positions and not positions:
        message = (
            f"The lag of the group {group.name} was not checked: it has no committed offsets in the checked topics."
        )
        action = "Correct the name of the group, or add the topics that it reads."
        yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=f"group {group.name}", action=action)
    lost: dict[TopicPartition, int] = {}
    near: dict[TopicPartition, str] = {}
    for partition, position in positions.items():
        offsets = cluster.offsets.get(partition)
        if not isinstance(offsets, PartitionOffsets) or position.next_offset >= offsets.end:
            continue
        if position.next_offset < offsets.first:
            lost[partition] = offsets.first - position.next_offset
            continue
        reason = _near_retention(cluster, partition, position, offsets, at_ms)
        if reason:
            near[partition] = reason
    if lost:
        worst = max(lost, key=lambda partition: lost[partition])
        first = positions[worst].next_offset
        message = (
            f"The {group.noun} {group.name} has lost {sum(lost.values()):,} offsets in "
            f"{quantity(len(lost), 'partition')}: in {partitions([worst])}, offsets {first:,} to "
            f"{first + lost[worst] - 1:,} were deleted before it read them."
        )
        action = _MIRROR_ACTION if group.noun == "mirror" else ""
        yield finding(FindingId.GROUP_OVERTAKEN, cluster.side, message, where=partitions(list(lost)), action=action)
    if near:
        partition, reason = next(iter(near.items()))
        message = (
            f"The {group.noun} {group.name} is about to lose records to retention in "
            f"{quantity(len(near), 'partition')}: in {partitions([partition])}, {reason}."
        )
        yield finding(FindingId.RETENTION_NEAR, cluster.side, message, where=partitions(list(near)))


def _near_retention(
    cluster: Cluster, partition: TopicPartition, position: GroupPosition, offsets: PartitionOffsets, at_ms: float
) -> str:
    """Return why unread records will soon be deleted; empty when they will not."""
    topic = partition[0]
    if "delete" not in (cluster.setting(topic, "cleanup.policy") or "delete"):
        return ""
    retention_ms = int(cluster.setting(topic, "retention.ms") or -1)
    if retention_ms > 0 and position.record_ms is not None and position.record_ms >= 0:
        age_ms = at_ms - position.record_ms
        if age_ms >= _NEAR_FRACTION * retention_ms:
            age, kept = duration_text(age_ms / 1000), duration_text(retention_ms / 1000)
            return f"the next record is {age} old, and retention.ms is {kept}"
    if int(cluster.setting(topic, "retention.bytes") or -1) > 0:
        retained = offsets.end - offsets.first
        unread = offsets.end - position.next_offset
        if offsets.first > 0 and unread >= _NEAR_FRACTION * retained:
            return f"{unread:,} of {retained:,} offsets are unread, and retention.bytes limits the size of the log"
    return ""


def _refuses(before_max_ms: str | None, retention_ms: str | None) -> bool:
    if before_max_ms is None or retention_ms is None:
        return False
    limit_ms, retained_ms = int(before_max_ms), int(retention_ms)
    unlimited_ms = 100 * 365 * 86_400_000
    return limit_ms < unlimited_ms and (retained_ms < 0 or retained_ms > limit_ms)
