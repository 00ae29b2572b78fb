"""The programs understand every setting that the operator gives them, and read what the spec says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.settings import SettingsTable, kebab, resolve
from gapless_spark.archiving.archive.thresholds import TopicThresholds
from gapless_spark.archiving.restore.settings import RESTORE
from gapless_spark.settings.archive import ARCHIVE, ArchiveSettings
from gapless_spark.settings.compact import COMPACT

Make = Callable[..., Any]
Line = Callable[..., str]


def understood(cluster: Any, table: SettingsTable, folder: Path) -> dict[str, Any]:
    """The settings of the newest attempt as its program reads them, with its arguments."""
    name = cluster.begun[-1]
    file = folder / "archive.properties"
    file.write_text(cluster.objects["ConfigMap", f"{name}-settings"]["data"]["archive.properties"])
    _, _, *given = cluster.attempt()["spec"]["template"]["spec"]["containers"][0]["args"]
    names = {kebab(setting.name): setting.name for setting in table.settings}
    options = {names[option]: value for option, value in (one.removeprefix("--").split("=", 1) for one in given)}
    found = resolve(table, file=file, environment={}, options=options)
    assert not found.ignored
    return found.values


@pytest.mark.parametrize("place", ["store", "volume"])
def test_archive_understands_its_settings(archive: Make, tmp_path: Path, place: str) -> None:
    site = archive(
        storageRef={"name": place},
        topicPrefixes=["transfer-"],
        topicPattern="transfer[0-9]+",
        exclude=["transfer-test*"],
        segments={"maxRecords": 5, "maxBytes": 77, "maxAgeSeconds": 9},
        engine={"reader": "Local"},
    )
    site.step()
    found = understood(site, ARCHIVE, tmp_path)
    told = ArchiveSettings.of(found)
    assert (told.region, told.once) == ("site-a", False)
    assert str(told.archive) == ("s3://archive/north" if place == "store" else "/archive")
    assert found["topics"] == ("transfer",)
    assert found["topicPrefix"] == ("transfer-",)
    assert found["topicPattern"].fullmatch("transfer12")
    assert found["exclude"][0].fullmatch("transfer-test-7")
    thresholds = TopicThresholds(told).of("transfer")
    assert (thresholds.age_seconds, thresholds.limits.records, thresholds.limits.bytes) == (9.0, 5, 77)
    assert found["engine"] == "local"
    if place == "store":
        assert (found["s3StorageClass"], found["s3Tags"]) == ("STANDARD_IA", (("owner", "us"),))


def test_archive_understands_the_limits_of_single_topics(archive: Make, tmp_path: Path) -> None:
    site = archive(segments={"perTopic": [{"topic": "transfer-urgent*", "maxAgeSeconds": 5, "maxBytes": 9}]})
    site.step()
    found = understood(site, ARCHIVE, tmp_path)
    file = tmp_path / "thresholds.json"
    file.write_text(site.objects["ConfigMap", f"{site.begun[-1]}-settings"]["data"]["thresholds.json"])
    thresholds = TopicThresholds(ArchiveSettings.of({**found, "topicThresholds": file}))
    urgent, other = thresholds.of("transfer-urgent-1"), thresholds.of("transfer")
    assert (urgent.age_seconds, urgent.limits.bytes, urgent.limits.records) == (5.0, 9, 1_000_000)
    assert other.age_seconds == 300.0


def test_compact_understands_its_settings(archive: Make, line: Line, tmp_path: Path) -> None:
    compaction = {"schedule": {"cron": "0 3 * * *"}, "maxLevel": 2, "gracePeriodSeconds": 60}
    site = archive(
        compaction=compaction,
        retention={"maxAgeSeconds": 86400, "maxBytes": 12345},
        topicPrefixes=["transfer-"],
        topicPattern="transfer[0-9]+",
        exclude=["transfer-test*"],
    )
    site.step()
    site.run(line())
    site.settle()
    site.later(hours=17, seconds=1)
    site.step()
    found = understood(site, COMPACT, tmp_path)
    assert (found["minLevel"], found["maxLevel"], found["minSegmentAge"], found["gracePeriod"]) == (0, 2, 3600.0, 60.0)
    assert (found["minSegmentSize"], found["maxSegmentSize"]) == (1 << 30, 4 << 30)
    assert (found["olderThan"], found["keepBytes"], found["delete"]) == (86400.0, 12345, True)
    assert found["schedule"] is None, "the operator keeps it"
    # The region may hold topics of another Archive, with another retention.
    assert (found["topics"], found["topicPrefix"]) == (("transfer",), ("transfer-",))
    assert found["topicPattern"].fullmatch("transfer12")
    assert found["exclude"][0].fullmatch("transfer-test-7")
    assert found["ignoreMissingTopics"], "a topic may be archived for the first time later"


@pytest.mark.parametrize("mode", ["Plan", "Once", "Follow"])
def test_restore_understands_its_settings(restore: Make, tmp_path: Path, mode: str) -> None:
    outage = restore(
        mode=mode,
        topics=[{"name": "transfer", "toTopic": "transfer-2"}],
        generation="AAAAAAAAAAAAAAAAAAAAAA",
        partitions=[0, 4],
        offsets={"from": 7},
        since="2026-11-20T10:00:00+01:00",
        until="2026-11-21T00:00:00Z",
        remapPartitions="modulo",
        replicationFactor=3,
        createTopics=False,
        adjustRetention="WhileRestoring",
        timestamps="Replace",
        delivery="AtLeastOnce",
        onLost="Skip",
        onBadRecord="SkipAndRecord",
        groupOffsets={"configMap": {"name": "groups"}, "groupName": "billing"},
    )
    outage.step()
    found = understood(outage, RESTORE, tmp_path)
    assert (found["plan"], found["follow"]) == (mode == "Plan", mode == "Follow")
    (source,) = found["source"]
    assert source == ("site-a", "transfer", "transfer-2")
    assert (found["offsets"].first, found["offsets"].last) == (7, 2**63 - 1)
    assert found["since"] == 1795165200000
    assert found["remapPartitions"].is_modulo
    assert (found["replicationFactor"], found["adjustRetention"], found["timestamps"]) == (3, "true", "replace")
    assert found["createTopics"] is False
    assert found["onBadRecord"] == "skip-and-record"
    assert (found["delivery"], found["onLost"], found["groupName"]) == ("at-least-once", "skip", "billing")
    assert found["allowedTopics"] is not None
    assert str(found["caFile"]) == "/etc/gapless/secrets/kafka-ca.crt"
