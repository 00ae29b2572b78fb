from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli.reading_progress import SilentProgress
from gapless_api.inventory.form import Isolation, PartitionOffsets, new_inventory
from gapless_api.inventory.writer import write_inventory
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import PartitionRun, UpstreamTopic
from gapless_archive.store.access import S3Access
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.audit import command
from gapless_spark.model.generations import Origin, RecreatedTopic, resolve_generations
from gapless_spark.output.comparison import compare_with_older
from gapless_spark.settings.tables import AUDIT

NOWHERE = KafkaConnection(bootstrap_servers="127.0.0.1:1")
KNOWN = (
    UpstreamTopic(topic="t", id="old", cluster="north", partitions=(PartitionRun(0, 2),)),
    UpstreamTopic(topic="t", id="other", cluster="south", partitions=(PartitionRun(10, 10),)),
)
RECREATED = {("t", 0): Origin("north", "new"), ("t", 1): Origin("north", "new")}


def test_without_a_change_nothing_begins_anew_and_what_is_learned_is_kept() -> None:
    found = resolve_generations(KNOWN, {("u", 0): Origin("north", "u's"), ("t", 1): Origin("north", "old")}, [], [])
    assert found.restarted == frozenset()
    assert {(one.topic, one.id): one.partitions for one in found.upstream} == {
        ("t", "old"): (PartitionRun(0, 2),),
        ("t", "other"): (PartitionRun(10, 10),),
        ("u", "u's"): (PartitionRun(0, 0),),
    }


def test_a_changed_id_is_refused_with_both_ids_and_the_way_on() -> None:
    with pytest.raises(ConfigurationError) as refused:
        resolve_generations(KNOWN, RECREATED, [], [("t", "old"), ("u", "new")])
    assert "The upstream topic t was deleted and recreated (topic ID old -> new)" in str(refused.value)
    assert "give --new-generation=t:new to restart" in str(refused.value)


def test_all_partitions_of_the_old_topic_begin_anew_and_those_of_another_cluster_go_on() -> None:
    found = resolve_generations(KNOWN, RECREATED, [], [("t", "new")])
    assert found.restarted == {("t", 0), ("t", 1), ("t", 2)}
    assert {(one.id, one.partitions) for one in found.upstream} == {
        ("new", (PartitionRun(0, 1),)),
        ("other", (PartitionRun(10, 10),)),
    }
    assert (
        resolve_generations(found.upstream, RECREATED, [RecreatedTopic("t", "old", "new")], []).restarted == frozenset()
    )


def test_inventories_of_two_ids_are_refused_where_no_state_knows_the_new_one() -> None:
    with pytest.raises(ConfigurationError, match=r"topic ID old -> new"):
        resolve_generations((), RECREATED, [RecreatedTopic("t", "old", "new")], [])
    assert (
        resolve_generations((), RECREATED, [RecreatedTopic("t", "old", "new")], [("t", "new")]).restarted
        == RECREATED.keys()
    )


def audited(folder: Path, topic_id: str, records: int, *options: tuple[str, str]) -> dict[str, Any]:
    """Audit with a state, and say what became of the older bundle."""
    moment, inventory = datetime(2026, 11, 20, tzinfo=UTC), folder / f"{topic_id}.json"
    entries = [PartitionOffsets("t", number, 0, 9, None, topic_id) for number in (0, 1)]
    write_inventory(
        inventory,
        new_inventory(entries, created=moment, cluster="north", isolation=Isolation.UNCOMMITTED, source={}),
    )
    older = folder / "older.json"
    gaps = [PartitionGaps("t", number, 0, 9, OffsetRanges([(4, 5)])) for number in (0, 1)]
    write_bundle(older, BundleKind.ALL, gaps, created=moment, source={"command": "gapless audit"})
    options += (("expectInventory", str(inventory)), ("state", str(folder / "state")))
    given = {"bootstrapServers": "k:1", "topics": "raw", **dict(options)}
    job = command.job_of(resolve(AUDIT, file=None, environment={}, options=given))
    with job.previous as previous:
        job.read_bounds()
        cut = previous.unread(Cut("south", (TopicCut("raw", (0,), (records,), 0, "id"),)))
        concluded = job.find_locally(None, cut, SilentProgress())  # type: ignore[arg-type]
    assert concluded is not None
    return dict(compare_with_older(concluded, older, S3Access(), NOWHERE)["reconciliation"])


def test_what_was_missing_of_a_topic_before_it_was_recreated_is_not_closed_by_events_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "A" * 22, "A" * 21 + "Q"
    arrived = [
        SimpleNamespace(key=lambda offset=offset: f"t_0_{offset}".encode(), timestamp=lambda: (1, 1_000))
        for offset in range(10)
    ]
    monkeypatch.setattr(command, "read_slices", lambda *_, **__: iter([arrived]))
    there = Cut("south", (TopicCut("raw", (0,), (99,), 0, "id"),))
    monkeypatch.setattr(command, "read_cut", lambda *_, **__: there)
    before = audited(tmp_path, old, 10)
    assert (before["closed"], before["open"], before["unknown"]) == (2, 2, 0)
    after = audited(tmp_path, new, 20, ("newGeneration", f"t:{new}"))
    assert (after["closed"], after["open"], after["unknown"]) == (0, 2, 2), "events of the old topic never arrived"
    assert "The upstream topic was deleted and recreated" in after["sentence"]
    following = audited(tmp_path, new, 30)
    assert (following["closed"], following["open"], following["unknown"]) == (2, 2, 0)
