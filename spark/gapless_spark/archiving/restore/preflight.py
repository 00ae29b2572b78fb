"""The checks of a target before anything is written: what would lose, alter or refuse records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_spark.archiving.restore.values import IDENTITY, Remapping

if TYPE_CHECKING:
    from gapless_kafka.topics.target_topics import TopicDescription

_DAY_MS = 24 * 3600 * 1000
_FOREVER = str(2**63 - 1)
_LARGEST_BATCH = 1_048_588
"""Kafka's default of max.message.bytes."""
_NEEDED = ("WRITE", "DESCRIBE")
_EXCLUDED_CONFIGURATION = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a target."""

    refuses: bool
    """Whether the restore must not start."""
    sentence: str
    is_transient: bool = False
    """Whether the problem may go away without a change, for example while a broker is starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The requirements of a restore for a target topic."""

    topic: str
    source_ids: frozenset[str]
    """The topic IDs of the archived topics that are restored to it."""
    source_partitions: int
    """The number of partitions of the archived topic."""
    partitions: int
    """The number that the target must have."""
    remapping: Remapping | None
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Of the archived topic."""
    oldest: int | None
    """The lowest timestamp, in milliseconds; ``None`` without any."""
    newest: int | None
    largest_partition_bytes: int
    """The maximum number of bytes that are written to one partition of the target."""
    adjusts: bool
    """Whether settings may be changed during the restore."""
    replaces_timestamps: bool
    """Whether the target may replace timestamps by its own time."""
    creates: bool = True
    """Whether the topic may be created."""
    replication_factor: int = -1
    """Of a topic that is created; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The result of the checks of one target."""

    findings: tuple[Finding, ...]
    changes: Mapping[str, str] = field(default_factory=dict)
    """Settings that are changed while the restore runs."""


def new_configuration(archived: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of a topic that is created for a restore."""
    return {name: value for name, value in archived.items() if name not in _EXCLUDED_CONFIGURATION}


def check_target(
    need: Need, found: TopicDescription | None, defaults: Mapping[str, str], brokers: int, now_ms: int
) -> Preflight:
    """Check a target.

    Args:
        need: what the restore needs.
        found: the topic; ``None`` if it does not exist and will be created.
        defaults: settings of a topic without values of its own, and the brokers' ``default.replication.factor``.
        brokers: how many there are.
        now_ms: the time, in milliseconds since 1970.
    """
    settings = found.configuration if found is not None else {**defaults, **new_configuration(need.configuration)}
    if found is None and not need.creates:
        return Preflight(
            (_refusal(f"{need.topic} does not exist; create it, or restore without --create-topics=false."),)
        )
    if found is None and not max(need.source_partitions, need.partitions):
        return Preflight((_refusal(f"The archive does not know how many partitions {need.topic} needs; create it."),))
    findings = list(_partition_findings(need, found))
    findings += _right_findings(need, found)
    changes: dict[str, str] = {}
    for finding, change in _setting_findings(need, settings, now_ms, is_new=found is None):
        if change is None:
            findings.append(finding)
        elif need.adjusts or (found is None and "message.timestamp.type" in change):
            changes |= change
        else:
            findings.append(finding)
    findings += _size_findings(need, settings)
    findings += _replica_findings(need, found, settings, brokers)
    return Preflight(tuple(findings), changes)


def _partition_findings(need: Need, found: TopicDescription | None) -> Iterator[Finding]:
    if found is None:
        return
    if found.id and found.id in need.source_ids:
        yield _refusal(
            f"{need.topic} is the topic from which the archive was written: restored records would follow the "
            f"originals, and be archived again. Restore to another topic with --to-topic."
        )
    if found.partitions < need.partitions:
        remedy = (
            "correct --remap-partitions"
            if need.remapping not in {None, IDENTITY}
            else "choose another topic, add partitions to it, or give --remap-partitions"
        )
        yield _refusal(
            f"{need.topic} has {found.partitions} partitions, but the restore needs {need.partitions}; {remedy}."
        )
    elif found.partitions > need.source_partitions and need.remapping is None:
        yield _warning(
            f"{need.topic} has {found.partitions} partitions, but the archived topic has {need.source_partitions}: the "
            f"others stay empty, and programs that choose partitions by keys will choose different ones."
        )
    if found.leaderless:
        sentence = f"Partition {found.leaderless[0]} of {need.topic} has no leader; start the brokers that hold it."
        yield Finding(refuses=True, sentence=sentence, is_transient=True)


def _replica_findings(
    need: Need, found: TopicDescription | None, settings: Mapping[str, str], brokers: int
) -> Iterator[Finding]:
    minimum = int(settings.get("min.insync.replicas", "1"))
    if found is not None:
        replicas, remedy = found.replicas, "add replicas, or lower min.insync.replicas"
    else:
        default = int(settings.get("default.replication.factor", brokers))
        replicas = min(need.replication_factor if need.replication_factor > 0 else default, brokers)
        remedy = f"give --replication-factor={minimum}" if minimum <= brokers else "start more brokers"
        remedy += ", or create the topic yourself"
    if minimum > max(replicas, 1):
        are = "is" if replicas == 1 else "are"
        yield _refusal(
            f"min.insync.replicas={minimum} of {need.topic} needs more than the {replicas} replica"
            f"{'' if replicas == 1 else 's'} there {are}; {remedy}."
        )


def _right_findings(need: Need, found: TopicDescription | None) -> Iterator[Finding]:
    if found is None or not found.operations:
        return
    missing = [operation for operation in _NEEDED if operation not in found.operations]
    if missing:
        names = " and ".join(operation.capitalize() for operation in missing)
        yield _refusal(f"This user may not write to {need.topic}; grant it {names} on the topic.")
    if need.adjusts and "ALTER_CONFIGS" not in found.operations:
        yield _refusal(
            f"This user may not change settings of {need.topic}; grant it AlterConfigs on the topic, or leave out "
            f"--adjust-retention."
        )


def _setting_findings(
    need: Need, settings: Mapping[str, str], now_ms: int, *, is_new: bool
) -> Iterator[tuple[Finding, dict[str, str] | None]]:
    """Yield findings with the change of settings that fixes each; ``None`` if no change does."""
    if not settings:
        yield _warning(f"The settings of {need.topic} cannot be read, so its retention was not checked."), None
        return
    deletes = "delete" in settings.get("cleanup.policy", "delete").split(",")
    retention = int(settings.get("retention.ms", "-1"))
    if deletes and retention >= 0 and need.oldest is not None and need.oldest < now_ms - retention:
        yield (
            _refusal(
                f"Kafka would delete restored records at once: {need.topic} keeps records for {_span(retention)} "
                f"(retention.ms={retention}), but the oldest are of {_day(need.oldest)}. Give "
                f"--adjust-retention=keep, or --adjust-retention to keep them while the restore runs."
            ),
            {"retention.ms": "-1"},
        )
    limit = int(settings.get("retention.bytes", "-1"))
    if deletes and 0 <= limit < need.largest_partition_bytes:
        yield (
            _refusal(
                f"Kafka would delete restored records at once: {need.topic} keeps {limit:,} bytes of each partition "
                f"(retention.bytes), but the restore writes up to {need.largest_partition_bytes:,}. Give "
                f"--adjust-retention=keep, or --adjust-retention to keep them while the restore runs."
            ),
            {"retention.bytes": "-1"},
        )
    if settings.get("message.timestamp.type") == "LogAppendTime" and not need.replaces_timestamps:
        yield (
            _refusal(
                f"{need.topic} replaces timestamps by the time of writing (message.timestamp.type=LogAppendTime); set "
                f"it to CreateTime during the restore, give --adjust-retention, or accept new timestamps with "
                f"--timestamps=replace."
            ),
            {"message.timestamp.type": "CreateTime"},
        )
        if is_new:
            yield (
                _warning(
                    f"{need.topic} is created with message.timestamp.type=CreateTime, which keeps the archived "
                    f"timestamps, and set to LogAppendTime after the restore."
                ),
                None,
            )
    yield from _timestamp_findings(need, settings, now_ms)


def _timestamp_findings(
    need: Need, settings: Mapping[str, str], now_ms: int
) -> Iterator[tuple[Finding, dict[str, str] | None]]:
    legacy = settings.get("message.timestamp.difference.max.ms", _FOREVER)
    for name, distance in (
        ("message.timestamp.before.max.ms", None if need.oldest is None else now_ms - need.oldest),
        ("message.timestamp.after.max.ms", None if need.newest is None else need.newest - now_ms),
    ):
        limit = int(settings.get(name, legacy))
        if distance is not None and distance > limit:
            when = need.oldest if "before" in name else need.newest
            yield (
                _refusal(
                    f"{need.topic} refuses records of {_day(when or 0)} ({name}={limit}); raise it, or give "
                    f"--adjust-retention."
                ),
                {name if name in settings else "message.timestamp.difference.max.ms": _FOREVER},
            )


def _size_findings(need: Need, settings: Mapping[str, str]) -> Iterator[Finding]:
    source = int(need.configuration.get("max.message.bytes", _LARGEST_BATCH))
    target = int(settings.get("max.message.bytes", source))
    if target < source:
        yield _warning(
            f"{need.topic} accepts records of up to {target:,} bytes (max.message.bytes), but the archived topic "
            f"accepted up to {source:,}; --on-bad-record decides about a record that is too large."
        )


def _refusal(sentence: str) -> Finding:
    return Finding(refuses=True, sentence=sentence)


def _warning(sentence: str) -> Finding:
    return Finding(refuses=False, sentence=sentence)


def _span(milliseconds: int) -> str:
    days = milliseconds / _DAY_MS
    return f"{days:,.0f} days" if days >= 2 else f"{milliseconds / 3_600_000:,.1f} hours"


def _day(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
