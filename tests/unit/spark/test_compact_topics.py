"""The proof that a compaction leaves alone what another one in the same archive is about."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_archive.catalog.catalog import find_chain
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.selection import selection_from
from gapless_spark.archiving.compact.command import _Compaction
from gapless_spark.archiving.compact.topics import selected_chains
from gapless_spark.settings.compact import COMPACT, CompactSettings
from gapless_spark.settings.engine import EngineSettings

if TYPE_CHECKING:
    from gapless_archive.store.places import Place

TOPICS = ("orders", "transfer-1", "transfer-2", "transfer-test")


def settings(folder: Path, **options: str) -> dict[str, object]:
    given = {"archive": str(folder), "region": "r", "engine": "local", **options}
    return resolve(COMPACT, file=None, environment={}, options=given).values


def made(folder: Path) -> Place:
    """An archive with an old segment, which holds no record, of each topic."""
    place = selection_from(settings(folder)).open()
    for topic in TOPICS:
        segment = SegmentBuilder(0, 0).build("", 0, 10, Origin(log_start=0, high_watermark=10, epoch=1))
        chain = Chain(place, "r", topic, "i")
        chain.commit(chain.load(), Changes(action="archive", epoch=1, added=(segment,)))
    return place


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, TOPICS),
        ({"topics": "orders,transfer-1"}, ("orders", "transfer-1")),
        ({"topicPrefix": "transfer-"}, ("transfer-1", "transfer-2", "transfer-test")),
        ({"topics": "orders", "topicPattern": "transfer-[0-9]"}, ("orders", "transfer-1", "transfer-2")),
        ({"topics": "transfer-*", "exclude": "*-test"}, ("transfer-1", "transfer-2")),
        ({"exclude": "transfer*"}, ("orders",)),
        ({"topics": "orders,later", "ignoreMissingTopics": "true"}, ("orders",)),
        ({"topics": "later", "ignoreMissingTopics": "true"}, ()),
    ],
)
def test_topics_are_chosen_as_they_are_archived(
    tmp_path: Path, options: dict[str, str], chosen: tuple[str, ...]
) -> None:
    place, values = made(tmp_path), settings(tmp_path, **options)
    found = selected_chains(selection_from(values), place, CompactSettings.of(values))
    assert tuple(chain.topic for chain in found) == chosen


@pytest.mark.parametrize("more", [{}, {"topicPrefix": "transfer-"}])
def test_a_named_topic_that_the_archive_does_not_have_is_an_error(tmp_path: Path, more: dict[str, str]) -> None:
    place, values = made(tmp_path), settings(tmp_path, topics="later", **more)
    with pytest.raises(ConfigurationError, match="has no topic later"):
        selected_chains(selection_from(values), place, CompactSettings.of(values))


def test_a_retention_removes_nothing_of_other_topics(tmp_path: Path) -> None:
    place = made(tmp_path)
    values = settings(tmp_path, topicPrefix="transfer-", olderThan="0s")
    compaction = _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    assert compaction.run() == 0
    left = {topic: len(find_chain(place, topic).load().segments(0)) for topic in TOPICS}
    assert left == {"orders": 1, "transfer-1": 0, "transfer-2": 0, "transfer-test": 0}


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, "the archived topics \\*, and only transfer-\\* may be used"),
        ({"topicPattern": ".*"}, "the archived topic orders, "),
        ({"topics": "transfer-1,orders"}, "the archived topic orders, "),
        ({"topics": "orders", "topicPrefix": "transfer-"}, "the archived topic orders, "),
        ({"topicPrefix": "transfer-"}, None),
        ({"topics": "transfer-*"}, None),
        ({"exclude": "orders"}, None),
        ({"topicPrefix": "transfer-", "archiveAllowedRegions": "s"}, "the region r, and only s may be used"),
        ({"topics": "transfer-1", "archiveAllowedRegions": "s,r-*"}, "the region r, and only s, r-\\* may be used"),
        ({"topics": "later", "archiveAllowedRegions": "s"}, "the region r, and only s may be used"),
        ({"topics": "transfer-1", "archiveAllowedRegions": "s,r*"}, None),
    ],
)
def test_what_the_location_does_not_allow_is_neither_compacted_nor_removed(
    tmp_path: Path, options: dict[str, str], refused: str | None
) -> None:
    place = made(tmp_path)
    values = settings(tmp_path, olderThan="0s", archiveAllowedTopics="transfer-*", **options)
    compaction = _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    if refused is None:
        assert compaction.run() == 0
    else:
        with pytest.raises(ConfigurationError, match=refused):
            compaction.run()
    left = {topic: len(find_chain(place, topic).load().segments(0)) for topic in TOPICS}
    assert left["orders"] == 1
    assert refused is None or set(left.values()) == {1}


def test_a_compaction_refuses_a_retention_below_the_least_age(tmp_path: Path) -> None:
    values = settings(tmp_path, olderThan="59s", minRetention="60s")
    with pytest.raises(ConfigurationError, match="olderThan is 59 seconds, and records are kept for at least 60 sec"):
        _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    values = settings(tmp_path, keepBytes="0", minRetention="60s")
    compaction = _Compaction(CompactSettings.of(values), EngineSettings.of(values), selection_from(values))
    assert compaction._options.retention.least_age == timedelta(seconds=60)
