"""Compacting runs beside archiving, by its own clock, and its end stands in the status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless_api.wire.compaction_result import COMPACTION_LINE, CompactionLine

Make = Callable[..., Any]
Line = Callable[..., str]
COMPACTION = {"schedule": {"cron": "30 0 3 * * *"}, "maxLevel": 1}
DONE = COMPACTION_LINE.to_line(
    CompactionLine(
        time="2026-11-21T03:10:00Z", segments_before=40, segments_after=2, records=9, bytes=90, deleted_objects=5
    )
)


def _due(archive: Make, line: Line, **spec: Any) -> Any:
    """An Archive that runs, whose first compaction has just begun."""
    site = archive(**{"compaction": COMPACTION, **spec})
    site.step()
    site.run(line())
    site.settle()
    assert site.status["nextCompactionTime"] == "2026-11-21T03:00:30Z"
    site.later(hours=17, seconds=31)
    site.step()
    return site


def test_a_compaction_begins_at_its_second_beside_what_runs(archive: Make, line: Line) -> None:
    site = _due(archive, line, retention={"maxAgeSeconds": 86400, "maxBytes": 1000})
    main, compaction = site.begun
    assert site.attempt(compaction)["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "compact",
        "/etc/gapless/archive.properties",
    ]
    settings = site.settings(compaction)
    assert "bootstrapServers" not in settings, "it needs no Kafka"
    assert {name: settings[name] for name in ("maxLevel", "minSegmentAge", "maxSegmentSize", "delete")} == {
        "maxLevel": "1",
        "minSegmentAge": "3600s",
        "maxSegmentSize": "4294967296",
        "delete": "true",
    }
    assert (settings["olderThan"], settings["keepBytes"]) == ("86400s", "1000")
    assert site.condition("Ready") == ("True", "Archiving")
    site.run(name=compaction)
    site.settle()
    assert site.names("Job") == sorted([main, compaction])
    site.end(DONE, name=compaction)
    site.settle()
    found = site.status["compaction"]
    assert (found["segmentsBefore"], found["segmentsAfter"], found["deletedObjects"]) == (40, 2, 5)
    assert found["lastAttempt"]["outcome"] == "CompactionDone"
    assert site.status["lastAttempt"]["name"] == main
    assert "outcome" not in site.status["lastAttempt"]
    site.later(hours=24)
    site.step()
    assert len(site.begun) == 3


def test_levels_have_their_storage_classes(archive: Make, line: Line) -> None:
    classes = [{"level": 1, "storageClass": "STANDARD_IA"}, {"level": 2, "storageClass": "GLACIER_IR"}]
    assert "levelStorageClass" not in _due(archive, line).settings()
    site = _due(archive, line, compaction={**COMPACTION, "levelStorageClass": classes})
    assert site.settings()["levelStorageClass"] == "1=STANDARD_IA,2=GLACIER_IR"


def test_a_legal_hold_deletes_nothing(archive: Make, line: Line) -> None:
    site = _due(archive, line, retention={"maxAgeSeconds": 86400}, hold=True)
    settings = site.settings()
    assert settings["delete"] == "false"
    assert "olderThan" not in settings


def test_a_compaction_that_may_delete_ends_with_a_legal_hold(archive: Make, line: Line) -> None:
    site = _due(archive, line, retention={"maxAgeSeconds": 86400})
    site.run()
    site.settle()
    compaction = site.begun[1]
    site.change(hold=True)
    site.settle()
    assert compaction not in site.names("Job")
    assert site.status["compaction"]["lastAttempt"]["outcome"] == "Stopped"
    held = _due(archive, line, retention={"maxAgeSeconds": 86400}, hold=True)
    held.run()
    held.settle()
    assert held.begun[1] in held.names("Job"), "it deletes nothing"


def test_nothing_is_deleted_where_the_location_does_not_allow_it_and_archiving_continues(
    archive: Make, line: Line
) -> None:
    site = _due(archive, line, retention={"maxAgeSeconds": 86400})
    site.run()
    site.locations["store"]["access"] = ["Read", "Write"]
    site.settle()
    main, compaction = site.begun
    assert site.names("Job") == [main]
    said = "The StorageLocation store may not be used for deleting; ask the platform team to add Delete to its access."
    assert said in site.status["compaction"]["lastAttempt"]["message"]
    assert site.condition("Ready") == ("True", "Archiving")
    assert site.condition("Compacted") == ("False", "BadConfiguration")
    assert site.message("Compacted") == said
    site.later(hours=24)
    site.settle()
    assert site.begun == [main, compaction]
    site.locations["store"]["access"] = ["Write", "Delete"]
    site.settle()
    assert len(site.begun) == 3


def test_a_retention_below_that_of_the_location_deletes_nothing_and_archiving_continues(
    archive: Make, line: Line
) -> None:
    site = _due(archive, line, retention={"maxAgeSeconds": 86399})
    site.run()
    site.locations["store"]["minRetentionSeconds"] = 86400
    site.settle()
    said = "retention.maxAgeSeconds is 86399, and the StorageLocation store keeps records for at least 86400"
    assert site.names("Job") == [site.begun[0]]
    assert said in site.status["compaction"]["lastAttempt"]["message"]
    assert site.condition("Ready") == ("True", "Archiving")
    assert site.condition("Compacted") == ("False", "BadConfiguration")
    site.change(retention={"maxAgeSeconds": 86400})
    site.later(hours=24)
    site.settle()
    args = site.attempt(site.begun[-1])["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[0] == "compact"
    assert args[-1] == "--min-retention=86400s"


def test_a_compaction_is_stopped_when_its_location_allows_something_else(archive: Make, line: Line) -> None:
    for hold in (False, True):
        site = _due(archive, line, retention={"maxBytes": 1}, hold=hold)
        site.run()
        site.locations["store"]["access"] = ["Write", "Delete"]
        site.settle()
        assert site.begun[1] in site.names("Job"), "it still may"
        site.locations["store"]["minRetentionSeconds"] = 60
        site.settle()
        assert site.begun[1] not in site.names("Job")
        assert "because the StorageLocation has changed" in site.status["compaction"]["lastAttempt"]["message"]


def test_a_compaction_that_deletes_nothing_needs_no_permission_to(archive: Make, line: Line) -> None:
    for spec in ({"compaction": {**COMPACTION, "delete": False}}, {"retention": {"maxAgeSeconds": 60}, "hold": True}):
        site = archive(**{"compaction": COMPACTION, **spec})
        site.locations["store"]["access"] = ["Write"]
        site.step()
        site.run(line())
        site.settle()
        site.later(hours=17, seconds=31)
        site.step()
        assert len(site.begun) == 2, spec


def test_a_compaction_is_told_which_topics_and_regions_the_location_allows(archive: Make, line: Line) -> None:
    site = archive(compaction=COMPACTION, topics=None, topicPattern=".*")
    site.locations["store"] |= {"allowedTopics": ["transfer"], "allowedRegions": ["site-a"]}
    site.step()
    site.run(line())
    site.settle()
    site.later(hours=17, seconds=31)
    site.step()
    args = site.attempt(site.begun[1])["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[2:] == ["--archive-allowed-topics=transfer", "--archive-allowed-regions=site-a"]


def test_a_compaction_that_fails_is_told_and_archiving_continues(archive: Make, line: Line) -> None:
    site = _due(archive, line)
    site.end("gapless: The store does not answer.\n", exit_code=3)
    site.settle()
    assert site.status["compaction"]["lastAttempt"]["outcome"] == "SourceUnreachable"
    assert site.condition("Ready") == ("True", "Archiving")
    assert site.condition("Compacted") == ("False", "SourceUnreachable"), "an alert is about this"
    assert site.events[-1].type == "Warning"
    assert len(site.begun) == 2, "the next one comes at its time"
    site.later(hours=24)
    site.step()
    assert site.condition("Compacted") == ("False", "SourceUnreachable"), "that it starts again is no success"
    site.end(DONE, name=site.begun[-1])
    site.settle()
    assert site.condition("Compacted") == ("True", "CompactionDone")
    del site.body["spec"]["compaction"]
    site.change()
    site.settle()
    assert site.condition("Compacted") == ("Unknown", "Stopped")


def test_a_compaction_ends_at_its_deadline_and_with_its_spec(archive: Make, line: Line) -> None:
    site = _due(archive, line)
    site.run()
    site.settle()
    site.later(hours=6)
    site.settle()
    assert site.status["compaction"]["lastAttempt"]["outcome"] == "RunDeadlineExceeded"
    assert site.names("Job") == [site.begun[0]]

    other = _due(archive, line)
    other.run()
    other.settle()
    del other.body["spec"]["compaction"]
    other.change()
    other.settle()
    assert other.names("Job") == [other.begun[0]]
    assert "nextCompactionTime" not in other.status


def test_an_operator_that_dies_after_any_write_begins_a_compaction_once(archive: Make, line: Line) -> None:
    for writes in range(4):
        site = archive(compaction=COMPACTION)
        site.step()
        site.run(line())
        site.settle()
        site.later(hours=17, seconds=31)
        site.step(writes=writes)
        site.settle()
        assert len(site.begun) == 2, writes
        assert len(site.names("ConfigMap")) == 2, writes
