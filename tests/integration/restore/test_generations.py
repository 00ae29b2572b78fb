"""The proof that of a recreated topic the newest generation is restored and compared, whatever the clocks were."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_archive.catalog import chain as chain_module
from integration.archive.test_archive_once import recreate
from integration.restore.conftest import REGION, Gapless, content
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class FastClock(chain_module.datetime):
    """A clock that is far ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return super().now(tz).replace(year=2099)


def test_of_a_recreated_topic_the_newest_generation_is_restored_whatever_the_clock_was(
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = topic(), topic(retention_ms="-1")
    archive = ("archive", f"--topics={source}", f"--region={REGION}", "--once", "--engine=local")
    kafka.produce(source, [b"deleted"] * 5)
    with monkeypatch.context() as patched:
        patched.setattr(chain_module, "datetime", FastClock)
        assert gapless(*archive).code == 0
    recreate(kafka, source)
    kafka.produce(source, [b"new"] * 3)
    assert gapless(*archive).code == 0
    listed = json.loads(GAPLESS.run("segments", "list", f"--archive={place}", "--json").stdout)["generations"]
    assert [(each["newest"], each["records"]) for each in listed] == [(False, 5), (True, 3)]
    assert listed[0]["archivedAt"] > listed[1]["archivedAt"], "the clock says the opposite"
    restored = gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert restored.code == 0, restored.err
    old, new = (each["topicId"] for each in listed)
    assert f"the archive has 2 generations; {new} is restored, the newest according to its commits, and not {old}." in (
        restored.err
    )
    assert [row.value for row in content(kafka, target)] == [b"new"] * 3
    compared = GAPLESS.run("verify-copy", f"kafka://{kafka.bootstrap}/{target}", f"{place}#{source}", "--engine=local")
    assert compared.returncode == 0, compared.stderr
    chosen = topic(retention_ms="-1")
    again = gapless("restore", f"--topics={source}", f"--to-topic={chosen}", f"--topic-id={old}", "--engine=local")
    assert again.code == 0, again.err
    assert [row.value for row in content(kafka, chosen)] == [b"deleted"] * 5


def test_an_empty_newest_generation_is_named_with_the_older_ones_that_have_records(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source, target = topic(), topic(retention_ms="-1")
    archive = ("archive", f"--topics={source}", f"--region={REGION}", "--once", "--engine=local")
    kafka.produce(source, [b"older"] * 5)
    assert gapless(*archive).code == 0
    recreate(kafka, source)
    assert gapless(*archive).code == 0
    listed = json.loads(GAPLESS.run("segments", "list", f"--archive={place}", "--json").stdout)["generations"]
    assert [(each["newest"], each["records"]) for each in listed] == [(False, 5), (True, 0)]
    old, new = (each["topicId"] for each in listed)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    for more in ((), ("--plan",)):
        ended = gapless(*given, *more)
        said = f"The archive has no records of {REGION}/{source} (topic ID {new}), which was recreated, but of its "
        assert ended.code == 0, ended.err
        assert f"{said}earlier generations: give --topic-id={old} to restore this ({old})." in ended.report["message"]
        assert "already has all" not in ended.report["message"]
    chosen = gapless(*given, f"--topic-id={old}")
    assert chosen.code == 0, chosen.err
    assert [row.value for row in content(kafka, target)] == [b"older"] * 5


def test_an_archive_without_records_of_the_order_needs_a_choice_or_one_run(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    """Commits of version 1, as an earlier release has written them."""
    source, target = topic(), topic(retention_ms="-1")
    archive = ("archive", f"--topics={source}", f"--region={REGION}", "--once", "--engine=local")
    kafka.produce(source, [b"deleted"] * 5)
    assert gapless(*archive).code == 0
    recreate(kafka, source)
    kafka.produce(source, [b"new"] * 3)
    assert gapless(*archive).code == 0
    for commit in (place / REGION / source).glob("*/chain/*.json"):
        entry = json.loads(commit.read_text())
        del entry["predecessors"], entry["reached"], entry["started"]
        commit.write_text(json.dumps(entry | {"gaplessArchive": 1}))
    restore = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    refused = gapless(*restore)
    assert refused.code == 2
    assert "and no commit proves which one is the newest; choose one with --topic-id=ID" in refused.err
    compared = GAPLESS.run("verify-copy", f"kafka://{kafka.bootstrap}/{source}", f"{place}#{source}", "--engine=local")
    assert compared.returncode == 2
    assert f"choose one with {place}#{source}@ID" in compared.stderr
    assert content(kafka, target) == []
    assert gapless(*archive).code == 0
    assert gapless(*restore).code == 0
    assert [row.value for row in content(kafka, target)] == [b"new"] * 3
