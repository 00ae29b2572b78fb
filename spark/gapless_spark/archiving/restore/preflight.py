"""Owns what is found about a target before anything is written: what would lose, alter or refuse records. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_spark.archiving.restore.values import SAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_kafka.topics.target_topics import TopicDescription
    from gapless_spark.archiving.restore.values import Remapping

_DAY_MS = 24 * 3600 * 1000
_FOREVER = str(2**63 - 1)
_LARGEST_BATCH = 1_048_588
"""Kafka's default of max.message.bytes."""
_NEEDED = ("WRITE", "DESCRIBE")
_CONFIGURATION_LEFT_OUT = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a target."""

    refuses: bool
    """Whether the restore must not begin."""
    sentence: str
    passes: bool = False
    """Whether a refusal may be over soon without a change of settings, as when a broker is starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a restore needs of a target topic."""

    topic: str
    source_ids: frozenset[str]
    """The topic IDs of the archived topics that go there."""
    source_partitions: int
    """How many partitions the archived topic has."""
    partitions: int
    """How many the target must have."""
    remapping: Remapping | None
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Of the archived topic."""
    oldest: int | None
    """The lowest timestamp, in milliseconds; ``None`` without any."""
    newest: int | None
    largest_partition_bytes: int
    """How many bytes one partition of the target gets, the most of any."""
    adjusts: bool
    """Whether settings may be changed for the time of the restore."""
    replaces_timestamps: bool
    """Whether the target may replace timestamps by its own time."""
    creates: bool = True
    """Whether the topic may be created."""
    replication_factor: int = -1
    """Of a topic that is created; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found about one target."""

    findings: tuple[Finding, ...]
    changes: Mapping[str, str] = field(default_factory=dict)
    """Settings that have other values while the restore runs."""


def new_configuration(archived: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic that is created for a restore."""
    return {name: value for name, value in archived.items() if name not in _CONFIGURATION_LEFT_OUT}


def check_target(
    need: Need, found: TopicDescription | None, defaults: Mapping[str, str], brokers: int, now_ms: int
) -> Preflight:
    """Look at a target.

    Args:
        need: what the restore needs.
        found: the topic; ``None`` when it does not exist and will be created.
        defaults: settings of a topic without values of its own, and the brokers' ``default.replication.factor``.
        brokers: how many there are.
        now_ms: the time, in milliseconds since 1970.
    """
    settings = found.configuration if found is not None else {**defaults, **new_configuration(need.configuration)}
    if found is None and not need.creates:
        return Preflight(
            (_refusal(f"{need.topic} does not exist; create it, or restore without --create-topics=false."),)
        )
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
            f"{need.topic} is the topic that the archive was made from: restored records would follow on the "
            f"originals, and be archived again. Restore to another topic with --to-topic."
        )
    if found.partitions < need.partitions:
        cure = (
            "correct --remap-partitions"
            if need.remapping not in {None, SAME}
            else "choose another topic, add partitions to it, or give --remap-partitions"
        )
        yield _refusal(
            f"{need.topic} has {found.partitions} partitions and the restore needs {need.partitions}; {cure}."
        )
    elif found.partitions > need.source_partitions and need.remapping is None:
        yield _warning(
            f"{need.topic} has {found.partitions} partitions and the archived topic {need.source_partitions}: the rest "
            f"stays empty, and programs that choose partitions by keys will choose others."
        )
    if found.leaderless:
        sentence = f"Partition {found.leaderless[0]} of {need.topic} has no leader; start the brokers that hold it."
        yield Finding(refuses=True, sentence=sentence, passes=True)


def _replica_findings(
    need: Need, found: TopicDescription | None, settings: Mapping[str, str], brokers: int
) -> Iterator[Finding]:
    least = int(settings.get("min.insync.replicas", "1"))
    if found is not None:
        replicas, cure = found.replicas, "add replicas, or lower min.insync.replicas"
    else:
        default = int(settings.get("default.replication.factor", brokers))
        replicas = min(need.replication_factor if need.replication_factor > 0 else default, brokers)
        cure = f"give --replication-factor={least}" if least <= brokers else "start more brokers"
        cure += ", or create the topic yourself"
    if least > max(replicas, 1):
        are = "is" if replicas == 1 else "are"
        yield _refusal(
            f"min.insync.replicas={least} of {need.topic} needs more than the {replicas} replica"
            f"{'' if replicas == 1 else 's'} there {are}; {cure}."
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
    """Findings with the change of settings that cures each; ``None`` for what is not cured so."""
    if not settings:
        yield _warning(f"Kafka does not tell the settings of {need.topic}, so its retention was not checked."), None
        return
    deletes = "delete" in settings.get("cleanup.policy", "delete").split(",")
    retention = int(settings.get("retention.ms", "-1"))
    if deletes and retention >= 0 and need.oldest is not None and need.oldest < now_ms - retention:
        yield (
            _refusal(
                f"Kafka would delete restored records at once: {need.topic} keeps records for {_span(retention)} "
                f"(retention.ms={retention}) and the oldest are of {_day(need.oldest)}. Give "
                f"--adjust-retention=keep, or --adjust-retention to keep them while the restore runs."
            ),
            {"retention.ms": "-1"},
        )
    most = int(settings.get("retention.bytes", "-1"))
    if deletes and 0 <= most < need.largest_partition_bytes:
        yield (
            _refusal(
                f"Kafka would delete restored records at once: {need.topic} keeps {most:,} bytes of each partition "
                f"(retention.bytes) and the restore writes up to {need.largest_partition_bytes:,}. Give "
                f"--adjust-retention=keep, or --adjust-retention to keep them while the restore runs."
            ),
            {"retention.bytes": "-1"},
        )
    if settings.get("message.timestamp.type") == "LogAppendTime" and not need.replaces_timestamps:
        yield (
            _refusal(
                f"{need.topic} replaces timestamps by the time of writing (message.timestamp.type=LogAppendTime); set "
                f"it to CreateTime while the restore runs, give --adjust-retention, or accept that with "
                f"--timestamps=replace."
            ),
            {"message.timestamp.type": "CreateTime"},
        )
        if is_new:
            yield (
                _warning(
                    f"{need.topic} is created with message.timestamp.type=CreateTime, which keeps the archived "
                    f"timestamps, and gets LogAppendTime when the restore is done."
                ),
                None,
            )
    yield from _timestamp_findings(need, settings, now_ms)


def _timestamp_findings(
    need: Need, settings: Mapping[str, str], now_ms: int
) -> Iterator[tuple[Finding, dict[str, str] | None]]:
    legacy = settings.get("message.timestamp.difference.max.ms", _FOREVER)
    for name, behind in (
        ("message.timestamp.before.max.ms", None if need.oldest is None else now_ms - need.oldest),
        ("message.timestamp.after.max.ms", None if need.newest is None else need.newest - now_ms),
    ):
        most = int(settings.get(name, legacy))
        if behind is not None and behind > most:
            when = need.oldest if "before" in name else need.newest
            yield (
                _refusal(
                    f"{need.topic} refuses records of {_day(when or 0)} ({name}={most}); raise it, or give "
                    f"--adjust-retention."
                ),
                {name if name in settings else "message.timestamp.difference.max.ms": _FOREVER},
            )


def _size_findings(need: Need, settings: Mapping[str, str]) -> Iterator[Finding]:
    source = int(need.configuration.get("max.message.bytes", _LARGEST_BATCH))
    target = int(settings.get("max.message.bytes", source))
    if target < source:
        yield _warning(
            f"{need.topic} takes records of up to {target:,} bytes (max.message.bytes) and the archived topic took up "
            f"to {source:,}; a larger record ends the restore at its place."
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
