"""The proof that no record goes in a circle: by the header of provenance, or by a refusal at the start."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_kafka.topics.topic_choice import TopicChoice
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, HEADER, NEVER, Provenance, chain_of
from gapless_mirror.lanes.records import FLOW, FLOW_KEY, read_record
from gapless_mirror.topics.loops import Flow, refuse_loop, why_returned
from gapless_mirror.topics.names import RenameRule
from gapless_mirror.topics.preflight import Clusters, LoopWatch, flow_of, flow_record

Headers = list[tuple[bytes, bytes | None]]
ALL = TopicChoice(pattern=re.compile(".*"))
PAIR = [(b"k", b"v"), (b"k", None)]


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
    first = Provenance(ALWAYS, source_id="A", target_id="B").extend(PAIR, "t")
    assert first == [*PAIR, (HEADER, b"A")]
    second = Provenance(AUTO, source_id="B", target_id="C").extend(first, "t")
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
    provenance = Provenance(mode, source_id="A", target_id="B", adds_to=lambda _: bool(is_target))  # type: ignore[arg-type]
    assert provenance.adds("t") == adds
    assert provenance.extend(None, "t") == ([(HEADER, b"A")] if adds else None)
    assert provenance.extend(PAIR, "t") == ([*PAIR, (HEADER, b"A")] if adds else PAIR)


def test_a_cluster_stands_in_the_chain_once_however_often_a_record_passes_it() -> None:
    headers: Headers = [(HEADER, b"A,B")]
    assert Provenance(ALWAYS, source_id="A", target_id="C").extend(headers, "t") == [(HEADER, b"B,A")]


def test_never_neither_reads_nor_writes_the_header() -> None:
    provenance = Provenance(NEVER, source_id="A", target_id="B")
    headers: Headers = [(HEADER, b"B")]
    assert not provenance.is_returned(headers)
    assert provenance.extend(headers, "t") == headers


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
        headers = list(provenance.extend(headers, "t") or ())
        visited.append(target)


def test_a_mirror_the_other_way_with_the_same_names_is_refused_without_provenance() -> None:
    with pytest.raises(ConfigurationError, match="t would be copied to t, and from there to t"):
        refuse_loop(flow(), ["t"], [flow("other", "T", "S")])
    with pytest.raises(ConfigurationError, match="Give provenance=auto or always"):
        refuse_loop(flow(provenance=NEVER), ["t"], [flow("other", "T", "S", provenance=ALWAYS)])
    refuse_loop(flow(), ["t"], [flow("other", "T", "S", provenance=ALWAYS)])


def test_prefixes_do_not_grow_because_copies_of_the_target_are_no_sources() -> None:
    ours, other = flow(rename="{source}.{topic}"), flow("other", "T", "S", rename="{source}.{topic}")
    refuse_loop(ours, ["t"], [other])
    assert not replace(ours, opposite=(other,)).adds_header("t")
    with pytest.raises(
        ConfigurationError, match=re.escape("The name of t.x says that it was copied from the target t")
    ):
        refuse_loop(ours, ["t.x"], [other])


RULES = st.sampled_from(["{topic}", "{source}.{topic}", "copy-{topic}", "{topic}.{source}", "{source}{topic}"])


@given(RULES, RULES, st.sampled_from([ALWAYS, AUTO]), st.booleans())
def test_two_mirrors_of_everything_never_make_topics_without_end(
    there: str,
    back: str,
    provenance: str,
    knows_names: bool,  # noqa: FBT001
) -> None:
    ours = flow("ours", "S", "T", rename=there, provenance=provenance)
    other = flow("other", "T", "S", rename=back, provenance=provenance)
    if knows_names:
        ours, other = replace(ours, target_name="t"), replace(other, target_name="s")
    names = {"S": {"orders", "logs"}, "T": {"orders", "own"}}
    for turn in range(9):
        before = {cluster: set(topics) for cluster, topics in names.items()}
        for one, others in ((ours, [other]), (other, [ours])):
            names[one.target_id] |= {
                one.rename.target(topic) for topic in names[one.source_id] if why_returned(one, topic, others) is None
            }
        if before == names:
            assert turn < 4
            return
    pytest.fail(f"topics grow: {names}")


@pytest.mark.parametrize(
    ("topic", "is_returned"),
    [("orders", False), ("t.orders", True), ("x.t.orders", True), ("s.orders", False), ("trades", False), ("t", False)],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_topic_that_carries_the_targets_name_is_no_source(topic: str, is_returned: bool, is_named: bool) -> None:  # noqa: FBT001
    ours = flow(rename="{source}.{topic}")
    leftover = flow("back", "T", "S", TopicChoice(("else",)), rename="{source}.{topic}")
    named = why_returned(replace(ours, target_name="t"), topic, ())
    found = named if is_named else why_returned(ours, topic, [leftover])
    assert bool(found) == is_returned


def test_a_topic_that_both_clusters_write_is_a_source_in_both_directions() -> None:
    assert why_returned(flow(), "orders", [flow("back", "T", "S")]) is None
    named = replace(flow(), target_name="t")
    assert why_returned(named, "t.orders", ()) is None


def test_the_header_is_decided_for_each_topic() -> None:
    other = flow("back", "T", "S", TopicChoice(("orders",)))
    ours = replace(flow(), opposite=(other,))
    assert (ours.adds_header("orders"), ours.adds_header("logs")) == (True, False)
    assert not replace(ours, provenance=NEVER).adds_header("orders")
    assert replace(ours, provenance=ALWAYS).adds_header("logs")


@pytest.mark.parametrize("header_of", ["orders", "logs"])
def test_a_mirror_believes_the_header_of_another_one_for_its_topics_only(header_of: str) -> None:
    known_there = flow("ours", "T", "S", TopicChoice((header_of,)))
    other = replace(flow("back", "T", "S"), opposite=(replace(known_there, source_id="S", target_id="T"),))
    stored = flow_of("back", FLOW.from_json(FLOW.to_json(flow_record(other))))
    assert stored == other
    refuse_loop(flow(), [header_of], [stored])
    missing = {"orders": "logs", "logs": "orders"}[header_of]
    with pytest.raises(ConfigurationError, match="Restart back with provenance=always"):
        refuse_loop(flow(), [missing], [stored])


def test_a_flow_of_an_earlier_release_is_read() -> None:
    members = FLOW.to_json(flow_record(flow(provenance=ALWAYS)))
    del members["targetName"], members["opposite"]
    key, read = read_record(FLOW_KEY, json.dumps({**members, "gaplessMirror": 1}).encode())
    assert (key.kind, flow_of("ours", read)) == ("flow", flow(provenance=ALWAYS))


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
    known = LoopWatch(Clusters(replace(flow(), opposite=back), back), lambda: (back, False), now=clock)
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
