from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.wire.audit_state import (
    StateHead,
    encode_head,
)
from gapless_archive.store.object_store import ObjectAddress
from gapless_archive.store.state_place import HEAD, StateError, StatePlace, blocks_name, open_place
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.audit.audit_state import AuditState
from gapless_spark.audit.state import (
    BlocksWriter,
    expired_during_read,
    merge_blocks,
    read_blocks,
    read_head,
    topic_positions,
    unread_cut,
)
from gapless_spark.model.bitmaps import Received
from gapless_spark.model.event_keys import BLOCK_BITS, FOREIGN, Block
from gapless_spark.settings.tables import AUDIT
from kit.machine.examples import examples

Known = dict[Block, Received]
CUT = Cut("cluster", (TopicCut("raw", (0, 0), (5, 7), 0, id="first"),))

blocks = st.builds(
    Block,
    st.sampled_from(["transfer", "é_x", "a"]),
    st.sampled_from([0, 1, MAX_PARTITION]),
    st.sampled_from([0, 1, MAX_OFFSET >> BLOCK_BITS]),
)
known = st.dictionaries(
    st.one_of(blocks, st.just(FOREIGN)),
    st.builds(
        lambda positions, repeated: Received(BitMap(positions), len(positions) + repeated),
        st.sets(st.integers(0, 2**BLOCK_BITS - 1), max_size=40),
        st.integers(0, 9),
    ),
    max_size=8,
)


def a_place(folder: Path) -> StatePlace:
    value = next(setting for setting in AUDIT.settings if setting.name == "state")
    from gapless_archive.store.access import S3Access  # noqa: PLC0415

    return open_place(value.parse(str(folder)), S3Access())


def remembered(folder: Path, new: Known, cut: Cut) -> Known:
    with AuditState(a_place(folder)) as state:
        return dict(state.merge_and_commit(new, cut))


def head(**other: Any) -> StateHead:
    made = StateHead(
        generation=3,
        written="2026-11-21T00:00:00Z",
        cluster_id="cluster",
        topics=topic_positions(CUT),
        records=9,
        blocks_file="blocks-00000003-00000000.arrow",
        blocks_bytes=1,
        blocks_sha256="0" * 64,
    )
    return replace(made, **other)


@settings(deadline=None)
@given(st.lists(known, min_size=1, max_size=4))
def test_parts_merge_to_the_same_in_any_grouping(parts: list[Known]) -> None:
    together: Known = {}
    for part in parts:
        together = dict(merge_blocks(iter(sorted(together.items(), key=lambda pair: pair[0])), part))
        assert list(together) == sorted(together)
    for block in {block for part in parts for block in part}:
        pieces = [part[block] for part in parts if block in part]
        assert together[block].records == sum(piece.records for piece in pieces)
        assert set(together[block].positions) == {position for piece in pieces for position in piece.positions}
    assert len(together) == len({block for part in parts for block in part})


@settings(deadline=None, max_examples=examples(25))
@given(before=known, new=known)
def test_what_is_written_is_read_again_after_any_number_of_runs(
    tmp_path_factory: pytest.TempPathFactory, before: Known, new: Known
) -> None:
    folder = tmp_path_factory.mktemp("place") / "state"
    remembered(folder, before, CUT)
    later = replace(CUT, topics=(replace(CUT.topics[0], end_offsets=(6, 7)),))
    found = remembered(folder, new, later)
    assert found == dict(merge_blocks(sorted(before.items(), key=lambda pair: pair[0]), new))
    assert remembered(folder, {}, later) == found  # nothing new, nothing written
    assert json.loads((folder / HEAD).read_text())["generation"] == 2


@settings(deadline=None, max_examples=examples(60))
@given(number=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_noticed(tmp_path_factory: pytest.TempPathFactory, number: int, bit: int) -> None:
    stream = io.BytesIO()
    writer = BlocksWriter(stream)
    assert list(writer.write_all([(Block("t", 0, 0), Received(BitMap(range(50)), 51))]))
    content = bytearray(stream.getvalue())
    assert len(content) == writer.bytes
    file = tmp_path_factory.mktemp("blocks") / "b"
    made = head(blocks_sha256=writer.sha256, blocks_bytes=writer.bytes)
    file.write_bytes(content)
    assert [received.records for _, received in read_blocks(file, made, "here")] == [51]
    content[number % len(content)] ^= 1 << bit
    file.write_bytes(content)
    with pytest.raises(StateError, match="does not match its digest"):
        list(read_blocks(file, made, "here"))
    text = bytearray(encode_head(made))
    text[number % (len(text) - 1)] ^= 1 << bit  # the line's end does not count
    try:
        assert read_head(bytes(text), "here") == made  # white space between the members may change its kind
    except StateError as error:
        assert "here" in str(error)  # noqa: PT017 -- either is right


@pytest.mark.parametrize("text", [b"", b"\xff", b"{", b"[]", b"{}", b'{"kind": "another"}'])
def test_what_is_no_head_of_a_state_is_refused(text: bytes) -> None:
    with pytest.raises(StateError, match=r"has no version \(gapless_audit_state\), and this program reads version 5"):
        read_head(text, "here")


@pytest.mark.parametrize("version", [4, 7])
def test_a_head_of_another_version_is_refused_with_both(version: int) -> None:
    with pytest.raises(StateError, match=f"has version {version}, and this program reads version 5"):
        read_head(json.dumps({"gapless_audit_state": version}).encode(), "here")


def topic(**other: object) -> Cut:
    return replace(CUT, topics=(replace(CUT.topics[0], **other),))  # type: ignore[arg-type]


def test_only_what_is_new_is_left_to_be_read() -> None:
    left = unread_cut(head(), topic(first_offsets=(2, 7, 1), end_offsets=(5, 9, 4)), "here")
    assert left.topics[0].first_offsets == (5, 7, 1)
    assert left.offsets == 5
    assert left.topics[0].may_skip_expired, "what expires before it is read is counted and ends nothing"
    assert (left.topics[0].log_starts, left.topics[0].expired) == ((2, 7, 1), {2})


def test_a_topic_that_is_added_is_read_from_its_beginning_and_the_others_go_on() -> None:
    new = TopicCut("new", (0, 3), (4, 9), 0, id="new's")
    left = unread_cut(head(), replace(CUT, topics=(CUT.topics[0], new)), "here")
    assert [(read.first_offsets, read.expired) for read in left.topics] == [((5, 7), set()), ((0, 3), {1})]


def test_what_expired_before_it_was_read_is_left_out_and_named() -> None:
    left = unread_cut(head(), topic(first_offsets=(6, 7), end_offsets=(9, 9)), "here")
    assert (left.topics[0].first_offsets, left.topics[0].expired) == ((6, 7), {0})


def test_what_expires_while_it_is_read_is_named_and_only_that_is_looked_at_again() -> None:
    cut = topic(first_offsets=(2, 3), end_offsets=(9, 9), expired=frozenset({1}), log_starts=(2, 3))
    assert expired_during_read(cut, topic(first_offsets=(2, 3), end_offsets=(11, 9))) is None
    read = expired_during_read(cut, topic(first_offsets=(4, 3, 0), end_offsets=(11, 9, 5)))
    assert read is not None
    expired, left = read
    assert (expired.topics[0].first_offsets, expired.topics[0].expired) == ((2, 3), {0, 1})
    assert (left.topics[0].first_offsets, left.topics[0].end_offsets, left.topics[0].expired) == ((4, 9), (9, 9), {0})
    gone = expired_during_read(cut, topic(first_offsets=(20, 3), end_offsets=(20, 9)))
    assert gone is not None
    assert gone[1].topics[0].first_offsets == (9, 9)
    assert expired_during_read(topic(first_offsets=(5, 7)), topic(first_offsets=(6, 8))) is None, (
        "nothing was to be read"
    )
    with pytest.raises(
        ConfigurationError, match=r"recreated while it was read \(topic ID first -> second\); run again"
    ):
        expired_during_read(cut, topic(id="second"))


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (replace(CUT, cluster_id="another"), "to the Kafka cluster cluster, but this audit reads another"),
        (topic(topic="other"), "to the topics raw, but this audit reads other; give all topics of the state"),
        (topic(id="second"), "was deleted and recreated"),
        (topic(first_offsets=(0,), end_offsets=(5,)), "has 1 partition but had 2"),
        (
            topic(end_offsets=(5, 6)),
            "Partition 1 of topic raw ends at offset 6, but the state here has read up to",
        ),
    ],
)
def test_a_state_of_something_else_or_with_a_hole_is_refused_in_one_sentence(cut: Cut, words: str) -> None:
    with pytest.raises(StateError, match=words) as refused:
        unread_cut(head(), cut, "here")
    assert str(refused.value).count(". ") == 0


def test_a_topic_without_an_id_is_compared_by_its_offsets() -> None:
    assert unread_cut(head(), topic(id=""), "here").offsets == 0


@pytest.mark.parametrize("text", ["s3://bucket/some/prefix", "s3a://bucket/some/prefix", "s3a://bucket/some/prefix/"])
def test_both_schemes_of_object_stores_are_the_same_place(text: str) -> None:
    setting = next(setting for setting in AUDIT.settings if setting.name == "state")
    assert setting.parse(text) == ObjectAddress("bucket", "some/prefix")


def test_a_failed_run_leaves_the_state_of_before(tmp_path: Path) -> None:
    folder, block = tmp_path / "state", Block("t", 0, 0)
    remembered(folder, {block: Received(BitMap([1]), 1)}, CUT)
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    later = topic(end_offsets=(6, 7))
    with AuditState(a_place(folder)) as state:
        half = state.merge_and_commit(
            {block: Received(BitMap([2]), 1), Block("t", 1, 0): Received(BitMap([3]), 1)}, later
        )
        next(half)
        with pytest.raises(RuntimeError, match="stopped"):
            half.throw(RuntimeError("stopped"))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept


def test_names_of_blocks_are_never_used_twice() -> None:
    assert blocks_name(7) != blocks_name(7)
