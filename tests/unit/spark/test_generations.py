from __future__ import annotations

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.audit_state import PartitionRun, UpstreamTopic
from gapless_spark.model.generations import Origin, Replaced, generations

KNOWN = (
    UpstreamTopic(topic="t", id="old", cluster="north", partitions=(PartitionRun(0, 2),)),
    UpstreamTopic(topic="t", id="other", cluster="south", partitions=(PartitionRun(10, 10),)),
)
RECREATED = {("t", 0): Origin("north", "new"), ("t", 1): Origin("north", "new")}


def test_without_a_change_nothing_begins_anew_and_what_is_learned_is_kept() -> None:
    found = generations(KNOWN, {("u", 0): Origin("north", "u's"), ("t", 1): Origin("north", "old")}, [], [])
    assert found.restarted == frozenset()
    assert {(one.topic, one.id): one.partitions for one in found.upstream} == {
        ("t", "old"): (PartitionRun(0, 2),),
        ("t", "other"): (PartitionRun(10, 10),),
        ("u", "u's"): (PartitionRun(0, 0),),
    }


def test_a_changed_id_is_refused_with_both_ids_and_the_way_on() -> None:
    with pytest.raises(ConfigurationError) as refused:
        generations(KNOWN, RECREATED, [], [("t", "old"), ("u", "new")])
    assert "The upstream topic t was deleted and recreated (topic ID old -> new)" in str(refused.value)
    assert "give --new-generation=t:new to begin anew" in str(refused.value)


def test_all_partitions_of_the_old_topic_begin_anew_and_those_of_another_cluster_go_on() -> None:
    found = generations(KNOWN, RECREATED, [], [("t", "new")])
    assert found.restarted == {("t", 0), ("t", 1), ("t", 2)}
    assert {(one.id, one.partitions) for one in found.upstream} == {
        ("new", (PartitionRun(0, 1),)),
        ("other", (PartitionRun(10, 10),)),
    }
    assert generations(found.upstream, RECREATED, [Replaced("t", "old", "new")], []).restarted == frozenset()


def test_inventories_of_two_ids_are_refused_where_no_state_knows_the_new_one() -> None:
    with pytest.raises(ConfigurationError, match=r"topic ID old -> new"):
        generations((), RECREATED, [Replaced("t", "old", "new")], [])
    assert generations((), RECREATED, [Replaced("t", "old", "new")], [("t", "new")]).restarted == RECREATED.keys()
