"""The proof that the order of a topic's generations comes from their chains, and never from a clock."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog import chain as chain_module
from gapless_archive.catalog.catalog import find_chain, find_predecessors, generation_order
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.catalog.order import Generation, order_generations
from gapless_archive.catalog.state import TopicState
from gapless_archive.cli.segments import segments
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from unit.archive.test_chain import segment

IDS = ("A" * 22, "B" * 22, "C" * 22)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path)), S3Access())


def chain(place: Place, topic_id: str) -> Chain:
    return Chain(place, "r", "t", topic_id)


def archived(place: Place, topic_id: str, end: int = 10, *, records: bool = True) -> None:
    """Do what a run of an archiving program does, while Kafka has this topic ID."""
    ours = chain(place, topic_id)
    state = ours.load()
    first = state.head(0) or 0
    found = find_predecessors(ours, state) if records else None
    added = (segment(first, end, object=f"r/t/{topic_id}/{first}"),) if end > first else ()
    ours.commit(state, Changes(action="archive", epoch=state.epoch + 1, added=added, predecessors=found))


def run(place: Place, *arguments: str) -> str:
    given = [*arguments, f"--archive={place.name}"]
    return CliRunner().invoke(segments, given, catch_exceptions=False, standalone_mode=False).output


def test_the_clock_of_the_archiving_program_decides_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fast(chain_module.datetime):  # type: ignore[misc, name-defined]
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return super().now(tz).replace(year=2099)

    with monkeypatch.context() as patched:
        patched.setattr(chain_module, "datetime", Fast)
        archived(place, IDS[1], 100)
    archived(place, IDS[0])
    states = [chain(place, topic_id).load() for topic_id in IDS[:2]]
    assert states[0].archived_at < states[1].archived_at
    assert find_chain(place, "t").topic_id == IDS[0]
    archived(place, IDS[2])
    assert find_chain(place, "t").topic_id == IDS[2]
    order = generation_order(place, "r", "t")
    assert [each.chain.topic_id for each in order.generations] == [IDS[1], IDS[0], IDS[2]]


def test_without_a_record_nothing_is_chosen_until_the_current_generation_is_archived(place: Place) -> None:
    """As with an archive of an earlier release."""
    archived(place, IDS[0], records=False)
    archived(place, IDS[1], records=False)
    with pytest.raises(ConfigurationError) as caught:
        find_chain(place, "t")
    assert str(caught.value) == (
        f"{place.name} has 2 generations of the topic t in the region r ({IDS[0]}, {IDS[1]}), and no commit proves "
        f"which one is the newest; choose one with --topic-id=ID. gapless segments list shows them."
    )
    for topic_id in IDS[:2]:
        assert find_chain(place, "t", topic_id=topic_id).topic_id == topic_id
    archived(place, IDS[1], 10)
    assert find_chain(place, "t").topic_id == IDS[1], "also by a run with nothing to archive"


def test_a_generation_that_is_archived_again_contradicts_the_record(place: Place) -> None:
    """As when two clusters are archived to one region."""
    archived(place, IDS[0])
    archived(place, IDS[1])
    archived(place, IDS[0], 20, records=False)
    with pytest.raises(ConfigurationError, match="no commit proves which one is the newest"):
        find_chain(place, "t")
    archived(place, IDS[0], 30)
    assert find_chain(place, "t").topic_id == IDS[0], "Kafka has it again"
    archived(place, IDS[1], 20, records=False)
    with pytest.raises(ConfigurationError, match="no commit proves which one is the newest"):
        find_chain(place, "t")


def test_a_program_that_continues_with_an_earlier_generation_contradicts_the_record(place: Place) -> None:
    """One that has not noticed the other cluster: its epoch is the same as before."""
    archived(place, IDS[0])
    archived(place, IDS[1])
    earlier = chain(place, IDS[0])
    state = earlier.load()
    added = (segment(10, 20, object="more"),)
    earlier.commit(state, Changes(action="archive", epoch=state.epoch, added=added))
    with pytest.raises(ConfigurationError, match="no commit proves which one is the newest"):
        find_chain(place, "t")


def test_what_no_archiving_program_commits_contradicts_nothing(place: Place) -> None:
    archived(place, IDS[0])
    archived(place, IDS[1])
    earlier = chain(place, IDS[0])
    state = earlier.commit(earlier.load(), Changes(action="hold", hold=True))
    joined = segment(0, 10, object="joined", level=1)
    state = earlier.commit(state, Changes(action="compact", added=(joined,), removed=state.segments(0)))
    earlier.commit(state, Changes(action="expire", removed=(joined,)))
    assert find_chain(place, "t").topic_id == IDS[1]


def test_two_that_began_at_once_are_not_ordered(place: Place) -> None:
    chains = [chain(place, topic_id) for topic_id in IDS[:2]]
    states = [each.load() for each in chains]
    found = [find_predecessors(each, state) for each, state in zip(chains, states, strict=True)]
    for ours, state, predecessors in zip(chains, states, found, strict=True):
        ours.commit(state, Changes(action="claim", epoch=1, predecessors=predecessors))
    with pytest.raises(ConfigurationError, match="no commit proves"):
        find_chain(place, "t")


def test_a_record_outlives_snapshots(place: Place) -> None:
    archived(place, IDS[0])
    archived(place, IDS[1])
    ours = chain(place, IDS[1])
    state = ours.load()
    for end in range(20, 20 + 80 * 10, 10):
        state = ours.commit(state, Changes(action="archive", epoch=1, added=(segment(end - 10, end, object=str(end)),)))
    for number in range(1, 60):
        place.delete(f"r/t/{IDS[1]}/chain/{number:020d}.json")
    assert find_chain(place, "t").topic_id == IDS[1]


def test_a_damaged_chain_of_an_earlier_generation_does_not_end_archiving(place: Place) -> None:
    archived(place, IDS[0])
    (key,) = [key for key in place.keys("r") if "chain" in key]
    place.delete(key)
    place.create(key, b"?")
    archived(place, IDS[1])
    assert chain(place, IDS[1]).load().head(0) == 10


def test_every_generation_is_listed_also_without_records(place: Place) -> None:
    archived(place, IDS[0])
    archived(place, IDS[1], 0)
    text = run(place, "list")
    assert f"t has 2 generations: {IDS[0]}, {IDS[1]}. {IDS[1]} is the newest." in text
    listed = json.loads(run(place, "list", "--json", f"--topic-id={IDS[0]}"))
    assert [partition["topicId"] for partition in listed["partitions"]] == [IDS[0]]
    found = [(each["topicId"], each["newest"], each["predecessors"], each["records"]) for each in listed["generations"]]
    assert found == [(IDS[0], False, [], 10), (IDS[1], True, [IDS[0]], 0)]
    archived(place, IDS[2], records=False)
    assert f"t has 3 generations: {IDS[0]}, {IDS[2]}, {IDS[1]}. No commit proves which one" in run(place, "list")
    assert {each["newest"] for each in json.loads(run(place, "list", "--json"))["generations"]} == {None}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=12))
def test_a_newest_generation_is_always_the_one_that_kafka_had_last(runs: list[tuple[int, int, bool]]) -> None:
    """Whatever programs archived, old ones that record nothing among them: a wrong generation is never chosen."""
    chains: Any = [_Named(topic_id) for topic_id in IDS]
    states = [TopicState() for _ in IDS]
    last_with_data = None
    for number, offsets, records in runs:
        state = states[number]
        current = Generation(chains[number], state)
        others = [Generation(chains[each], states[each]) for each in range(3) if each != number and states[each].last]
        entry = replace(
            _ENTRY,
            sequence=state.sequence + 1,
            epoch=state.epoch + 1,
            topic_id=IDS[number],
            added=(segment(state.head(0) or 0, (state.head(0) or 0) + offsets),) if offsets else (),
            predecessors=tuple(each.as_predecessor() for each in others)
            if records and not all(each.precedes(current) for each in others)
            else None,
        )
        state.apply(entry)
        last_with_data = number
    existing = [Generation(chains[number], states[number]) for number in range(3) if states[number].last]
    newest = order_generations(existing).newest
    if newest is not None and len(existing) > 1:
        assert newest.chain.topic_id == IDS[last_with_data or 0]


class _Named:
    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id


_ENTRY = chain_module.Entry(
    sequence=0, epoch=0, writer="w", at="", action="archive", region="r", topic="t", topic_id="", cluster_id=""
)
