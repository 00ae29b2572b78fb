"""Owns the proof that no record goes in a circle: by the header of provenance, or by a refusal at the start."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_kafka.mirror.lanes.provenance import ALWAYS, AUTO, HEADER, NEVER, Provenance, chain_of
from gapless_kafka.mirror.topics.loops import Flow, refuse_loop
from gapless_kafka.mirror.topics.names import RenameRule
from gapless_kafka.mirror.topics.preflight import Clusters, LoopWatch, flow_record
from gapless_kafka.topics.topic_choice import TopicChoice

Headers = list[tuple[str, bytes | None]]
ALL = TopicChoice(pattern=re.compile(".*"))
PAIR = [("k", b"v"), ("k", None)]


def flow(
    name: str = "ours",
    source: str = "S",
    target: str = "T",
    choice: TopicChoice = ALL,
    *,
    rename: str = "{topic}",
    provenance: str = AUTO,
) -> Flow:
    return Flow(
        name=name,
        source_id=source,
        target_id=target,
        choice=choice,
        rename=RenameRule(rename, source.lower()),
        provenance=provenance,
    )


def test_the_chain_grows_by_each_cluster_and_the_other_headers_stay() -> None:
    first = Provenance(ALWAYS, source_id="A", target_id="B").extend(PAIR)
    assert first == [*PAIR, (HEADER, b"A")]
    second = Provenance(AUTO, source_id="B", target_id="C").extend(first)
    assert second == [*PAIR, (HEADER, b"A,B")]
    assert chain_of(second or ()) == ("A", "B")
    back = Provenance(AUTO, source_id="C", target_id="A")
    assert back.is_returned(second)
    assert not back.is_returned(PAIR)
    assert not back.is_returned(None)


@pytest.mark.parametrize(
    ("mode", "is_target", "adds"),
    [(ALWAYS, 0, 1), (AUTO, 0, 0), (AUTO, 1, 1), (NEVER, 1, 0)],
)
def test_a_record_gets_the_header_where_a_circle_is_possible(mode: str, is_target: int, adds: int) -> None:
    provenance = Provenance(mode, source_id="A", target_id="B", goes_both_ways=bool(is_target))  # type: ignore[arg-type]
    assert provenance.adds == adds
    assert provenance.extend(None) == ([(HEADER, b"A")] if adds else None)
    assert provenance.extend(PAIR) == ([*PAIR, (HEADER, b"A")] if adds else PAIR)


def test_a_cluster_stands_in_the_chain_once_however_often_a_record_passes_it() -> None:
    headers: Headers = [(HEADER, b"A,B")]
    assert Provenance(ALWAYS, source_id="A", target_id="C").extend(headers) == [(HEADER, b"B,A")]


def test_never_neither_reads_nor_writes_the_header() -> None:
    provenance = Provenance(NEVER, source_id="A", target_id="B")
    headers: Headers = [(HEADER, b"B")]
    assert not provenance.is_returned(headers)
    assert provenance.extend(headers) == headers


@given(st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=12))
def test_no_record_comes_back_to_a_cluster_on_any_way(way: list[str]) -> None:
    headers: Headers | None = None
    visited = [way[0]]
    for source, target in itertools.pairwise(way):
        provenance = Provenance(ALWAYS, source_id=source, target_id=target)
        if source == target:
            return
        assert provenance.is_returned(headers) is (target in visited[:-1])
        if provenance.is_returned(headers):
            return
        headers = list(provenance.extend(headers) or ())
        visited.append(target)


def test_a_mirror_the_other_way_with_the_same_names_is_refused_without_provenance() -> None:
    with pytest.raises(ConfigurationError, match="t would be copied to t, and from there to t"):
        refuse_loop(flow(), ["t"], [flow("other", "T", "S")])
    with pytest.raises(ConfigurationError, match="Give provenance=auto or always"):
        refuse_loop(flow(provenance=NEVER), ["t"], [flow("other", "T", "S", provenance=ALWAYS)])
    refuse_loop(flow(), ["t"], [flow("other", "T", "S", provenance=ALWAYS)])


def test_prefixes_that_would_grow_for_ever_are_refused() -> None:
    other = flow("other", "T", "S", rename="{source}.{topic}")
    with pytest.raises(ConfigurationError, match=re.escape("to s.t, and from there to t.s.t.")):
        refuse_loop(flow(rename="{source}.{topic}"), ["t"], [other])


def test_mirrors_whose_topics_do_not_meet_may_go_both_ways() -> None:
    refuse_loop(flow(choice=TopicChoice(("a",))), ["a"], [flow("other", "T", "S", TopicChoice(("b",)))])
    prefixes = flow(choice=TopicChoice(("a",)), rename="{source}.{topic}")
    refuse_loop(prefixes, ["a"], [flow("other", "T", "S", TopicChoice(("a",)), rename="{source}.{topic}")])
    refuse_loop(flow(), ["a"], [flow("other", "X", "S")])


def test_a_topic_is_not_copied_to_itself() -> None:
    with pytest.raises(ConfigurationError, match="copied to itself"):
        refuse_loop(flow(target="S"), ["t"], [])
    with pytest.raises(ConfigurationError, match=re.escape("the copy s.t of t would be copied again")):
        refuse_loop(flow(target="S", rename="{source}.{topic}"), ["t"], [])
    refuse_loop(flow(target="S", rename="{source}.{topic}", choice=TopicChoice(("t",))), ["t"], [])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_of_two_mirrors_that_begin_at_the_same_moment_each_sees_the_other_soon() -> None:
    clock = Clock()
    found: tuple[Flow, ...] = ()
    watch = LoopWatch(Clusters(flow()), lambda: (found, False), now=clock)
    watch.refuse("orders")
    found = (flow("back", "T", "S"),)
    watch.refuse("orders")
    clock.now = 10.0
    with pytest.raises(
        ConfigurationError, match=r"The mirror back copies in the opposite direction.* provenance=always"
    ):
        watch.refuse("orders")


def test_a_mirror_without_the_header_is_started_again_when_one_the_other_way_began_beside_it() -> None:
    clock, back = Clock(), (flow("back", "T", "S", provenance=ALWAYS),)
    late = LoopWatch(Clusters(flow()), lambda: (back, False), now=clock)
    known = LoopWatch(Clusters(flow(), back, goes_both_ways=True), lambda: (back, False), now=clock)
    apart = LoopWatch(
        Clusters(flow(rename="s.{topic}", choice=TopicChoice(("orders",)))), lambda: (back, False), now=clock
    )
    clock.now = 10.0
    for one in (known, apart):
        one.refuse("orders")
    with pytest.raises(ConfigurationError, match="restart this mirror, so that its records get the header"):
        late.refuse("orders")


@pytest.mark.parametrize("answers", [False, True])
def test_what_is_known_of_other_mirrors_stays_while_it_cannot_be_read(answers: bool) -> None:  # noqa: FBT001
    def look() -> tuple[tuple[Flow, ...], bool]:
        if not answers:
            raise SourceUnreachableError("No.")
        return (), True

    clock = Clock()
    watch = LoopWatch(Clusters(flow(), (flow("back", "T", "S"),)), look, now=clock)
    clock.now = 1000.0
    with pytest.raises(ConfigurationError, match="The mirror back copies in the opposite direction"):
        watch.refuse("orders")


def test_the_name_of_a_mirror_from_another_cluster_is_refused() -> None:
    ours = Clusters(flow())
    ours.check_name(None)
    ours.check_name(flow_record(flow()))
    ours.check_name(flow_record(flow(source="")))
    with pytest.raises(ConfigurationError, match="copies from the cluster X, and the source is S; give this mirror an"):
        ours.check_name(flow_record(flow(source="X")))
