"""The proof that the preflight names, in one sentence each, what a target would do to restored records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gapless_kafka.topics.target_topics import TopicDescription
from gapless_spark.archiving.restore.preflight import Need, Preflight, check_target, new_configuration
from gapless_spark.archiving.restore.values import Remapping

DAY = 24 * 3600 * 1000
NOW = 1_790_000_000_000
NEED = Need(
    topic="b",
    source_ids=frozenset({"S"}),
    source_partitions=4,
    partitions=4,
    remapping=None,
    configuration={},
    oldest=NOW - 30 * DAY,
    newest=NOW,
    largest_partition_bytes=1_000_000,
    adjusts=False,
    replaces_timestamps=False,
)
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": "1048588"}
FOUND = TopicDescription(
    name="b",
    id="B",
    partitions=4,
    replicas=1,
    configuration=KEPT,
    operations=frozenset({"WRITE", "DESCRIBE", "ALTER_CONFIGS"}),
)


def checked(found: TopicDescription | None = FOUND, defaults: dict[str, str] | None = None, **need: Any) -> Preflight:
    return check_target(replace(NEED, **need), found, defaults or {}, 1, NOW)


def with_settings(**settings: str) -> TopicDescription:
    return replace(FOUND, configuration={**KEPT, **{name.replace("_", "."): value for name, value in settings.items()}})


def test_a_target_that_keeps_everything_is_accepted_without_a_word() -> None:
    assert checked() == Preflight(())
    assert checked(None, KEPT) == Preflight(())


@pytest.mark.parametrize(
    ("settings", "change", "word"),
    [
        ({"retention_ms": str(7 * DAY)}, {"retention.ms": "-1"}, "delete restored records at once"),
        ({"retention_bytes": "999999"}, {"retention.bytes": "-1"}, "delete restored records at once"),
        ({"message_timestamp_type": "LogAppendTime"}, {"message.timestamp.type": "CreateTime"}, "replaces timestamps"),
        (
            {"message_timestamp_before_max_ms": str(DAY)},
            {"message.timestamp.before.max.ms": str(2**63 - 1)},
            "refuses records of 2026-08-22",
        ),
        (
            {"message_timestamp_difference_max_ms": str(DAY)},
            {"message.timestamp.difference.max.ms": str(2**63 - 1)},
            "refuses records of 2026-08-22",
        ),
    ],
)
def test_settings_that_spoil_records_are_refused_or_changed(
    settings: dict[str, str], change: dict[str, str], word: str
) -> None:
    (finding,) = checked(with_settings(**settings)).findings
    assert finding.refuses
    assert word in finding.sentence
    assert "--adjust-retention" in finding.sentence
    assert checked(with_settings(**settings), adjusts=True) == Preflight((), change)


def test_retention_matters_only_where_kafka_deletes_what_is_restored() -> None:
    week = str(7 * DAY)
    assert checked(with_settings(retention_ms=week), oldest=NOW - 6 * DAY) == Preflight(())
    assert checked(with_settings(retention_ms=week, cleanup_policy="compact")) == Preflight(())
    assert checked(with_settings(retention_ms=week, cleanup_policy="compact,delete")).findings
    assert checked(with_settings(retention_ms=week), oldest=None) == Preflight(())
    assert checked(with_settings(retention_bytes="1000000")) == Preflight(())


def test_a_new_topic_is_as_it_was_archived_with_the_brokers_defaults() -> None:
    defaults = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)}
    assert checked(None, defaults).findings[0].refuses
    assert checked(None, defaults, configuration={"retention.ms": "-1"}) == Preflight(())
    stamped = checked(None, KEPT, configuration={"message.timestamp.type": "LogAppendTime"})
    assert [finding.refuses for finding in stamped.findings] == [False]
    assert stamped.changes == {"message.timestamp.type": "CreateTime"}
    assert new_configuration({"a": "b", "leader.replication.throttled.replicas": "*"}) == {"a": "b"}


def test_replaced_timestamps_can_be_accepted() -> None:
    assert checked(with_settings(message_timestamp_type="LogAppendTime"), replaces_timestamps=True) == Preflight(())


def test_fewer_partitions_are_refused_and_more_are_told() -> None:
    (fewer,) = checked(replace(FOUND, partitions=3)).findings
    assert fewer.refuses
    assert "b has 3 partitions, but the restore needs 4" in fewer.sentence
    assert "--remap-partitions" in fewer.sentence
    assert checked(replace(FOUND, partitions=3), partitions=3, remapping=Remapping(is_modulo=True)) == Preflight(())
    (more,) = checked(replace(FOUND, partitions=5)).findings
    assert not more.refuses
    assert "stay empty" in more.sentence


def test_the_topic_that_was_archived_is_no_target() -> None:
    (finding,) = checked(replace(FOUND, id="S")).findings
    assert finding.refuses
    assert "--to-topic" in finding.sentence
    # Nor is it one when another source, which is named first, goes there as well.
    (finding,) = checked(replace(FOUND, id="S"), source_ids=frozenset({"Q", "S"})).findings
    assert finding.refuses


def test_missing_rights_leaders_and_replicas_are_named() -> None:
    (finding,) = checked(replace(FOUND, operations=frozenset({"DESCRIBE"}))).findings
    assert "grant it Write" in finding.sentence
    assert finding.refuses
    (finding,) = checked(replace(FOUND, operations=frozenset({"DESCRIBE", "WRITE"})), adjusts=True).findings
    assert "AlterConfigs" in finding.sentence
    assert checked(replace(FOUND, operations=None)) == Preflight(())
    (finding,) = checked(replace(FOUND, leaderless=(2,))).findings
    assert "Partition 2 of b has no leader" in finding.sentence
    assert finding.is_transient
    (finding,) = checked(with_settings(min_insync_replicas="2")).findings
    assert finding.refuses
    assert "min.insync.replicas=2" in finding.sentence


@pytest.mark.parametrize(
    ("default", "factor", "brokers", "cure"),
    [
        ("1", -1, 3, "the 1 replica there is; give --replication-factor=2"),
        ("3", 1, 3, "the 1 replica there is; give --replication-factor=2"),
        ("3", -1, 1, "the 1 replica there is; start more brokers"),
        ("3", -1, 3, ""),
        ("1", 2, 3, ""),
    ],
)
def test_a_new_topic_gets_as_many_replicas_as_its_settings_need(
    default: str, factor: int, brokers: int, cure: str
) -> None:
    need = replace(NEED, configuration={"min.insync.replicas": "2"}, replication_factor=factor)
    found = check_target(need, None, {**KEPT, "default.replication.factor": default}, brokers, NOW).findings
    assert [cure in finding.sentence and finding.refuses for finding in found] == [True] * bool(cure)


def test_a_smaller_limit_of_records_is_only_told() -> None:
    (finding,) = checked(configuration={"max.message.bytes": "2000000"}).findings
    assert not finding.refuses
    assert "1,048,588" in finding.sentence
    assert "2,000,000" in finding.sentence


def test_settings_that_kafka_does_not_tell_are_not_guessed() -> None:
    (finding,) = checked(replace(FOUND, configuration={})).findings
    assert not finding.refuses
    assert "cannot be read" in finding.sentence


def test_a_missing_topic_is_refused_where_it_may_not_be_created() -> None:
    assert not any(finding.refuses for finding in checked(None).findings)
    (finding,) = checked(None, creates=False).findings
    assert finding.refuses
    assert finding.sentence.endswith("does not exist; create it, or restore without --create-topics=false.")
    assert checked(creates=False) == checked()
