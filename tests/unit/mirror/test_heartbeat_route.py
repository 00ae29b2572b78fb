"""Heartbeats are copied beside what was chosen, to a topic of each mirror, and never in a circle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.reading.cuts import TopicCut
from gapless_kafka.topics.target_topics import TopicDescription
from gapless_kafka.topics.topic_choice import TopicChoice
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC, MirrorIdentity, lane_of
from gapless_mirror.lanes.sources import Routes
from gapless_mirror.watch.heartbeat import partitions_of
from gapless_mirror.watch.heartbeat_route import ChoiceWithHeartbeats, HeartbeatRoute

THERE = ["orders", HEARTBEAT_TOPIC, "gapless_heartbeats.other"]
EVERYTHING = TopicChoice(pattern=re.compile(".*"))


@pytest.mark.parametrize(
    ("choice", "copies", "chosen"),
    [
        (EVERYTHING, True, [HEARTBEAT_TOPIC, "orders"]),
        (EVERYTHING, False, ["orders"]),
        (TopicChoice(names=("orders",)), True, [HEARTBEAT_TOPIC, "orders"]),
        (TopicChoice(names=("orders",)), False, ["orders"]),
        (TopicChoice(names=("orders", "missing")), False, ["missing", "orders"]),
    ],
)
def test_heartbeats_of_the_source_are_chosen_and_those_of_other_mirrors_never(
    choice: TopicChoice,
    copies: bool,  # noqa: FBT001
    chosen: list[str],
) -> None:
    assert ChoiceWithHeartbeats(choice, copies_heartbeats=copies).chosen(THERE) == chosen


def test_a_source_without_heartbeats_is_copied_without() -> None:
    assert ChoiceWithHeartbeats(EVERYTHING, copies_heartbeats=True).chosen(["orders"]) == ["orders"]


class Names:
    """Copies topics under their names."""

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        assert HEARTBEAT_TOPIC not in {cut.topic for cut in topics}
        return Routes({cut.topic: f"copy.{cut.topic}" for cut in topics})


class Targets:
    """The topics of a cluster in memory."""

    def __init__(self, *, denies: bool = False) -> None:
        self.partitions: dict[str, int] = {}
        self.denies = denies

    def describe(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        known = {name: self.partitions[name] for name in names if name in self.partitions}
        return {name: TopicDescription(name=name, id="", partitions=count, replicas=1) for name, count in known.items()}

    def create(self, name: str, partitions: int, _configuration: Mapping[str, str]) -> None:
        if self.denies:
            raise ConfigurationError("No.")
        self.partitions[name] = partitions

    def add_partitions(self, name: str, partitions: int) -> None:
        self.partitions[name] = partitions


def cut(topic: str, partitions: int = 1) -> TopicCut:
    return TopicCut(topic, (0,) * partitions, (0,) * partitions, 0)


def route(targets: Targets) -> HeartbeatRoute:
    return HeartbeatRoute(Names(), MirrorIdentity("m"), targets)  # type: ignore[arg-type]


def test_the_copy_of_heartbeats_bears_the_name_of_the_mirror_and_grows() -> None:
    targets = Targets()
    found = route(targets)
    expected = {"orders": "copy.orders", HEARTBEAT_TOPIC: "gapless_heartbeats.m"}
    assert found.routes([cut("orders"), cut(HEARTBEAT_TOPIC, 2)]).targets == expected
    assert targets.partitions == {"gapless_heartbeats.m": 2}
    assert found.routes([cut("orders"), cut(HEARTBEAT_TOPIC, 5)]).targets == expected
    assert targets.partitions == {"gapless_heartbeats.m": 5}
    assert found.routes([cut(HEARTBEAT_TOPIC, 5)]).targets == {HEARTBEAT_TOPIC: "gapless_heartbeats.m"}


def test_a_target_that_denies_the_copy_gets_everything_else() -> None:
    found = route(Targets(denies=True)).routes([cut("orders"), cut(HEARTBEAT_TOPIC)])
    assert found.targets == {"orders": "copy.orders"}


@pytest.mark.parametrize("lanes", [1, 2, 7, 8, 64])
def test_each_lane_has_a_partition_of_heartbeats_of_its_own(lanes: int) -> None:
    found = partitions_of(lanes)
    assert sorted(found) == sorted(found.values()) == list(range(lanes))
    assert all(lane_of(HEARTBEAT_TOPIC, partition, lanes) == lane for lane, partition in found.items())
