"""A record of another gaps topic, or of one that has lost records, closes no gap of an older bundle."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.algebra import Portion
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import NewerFinding, reconcile
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli.bundle.parts import write_portion
from gapless_api.gaps.cleanup_policy import KEEPS_ALL
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import PartitionRun, UpstreamTopic
from gapless_api.wire.bundle_origin import ORIGIN_MEMBER, BundleOrigin, GapTopicLog, origin_in, origin_member
from gapless_api.wire.form import WireError

MOMENT = datetime(2026, 11, 20, tzinfo=UTC)
MISSING = OffsetRanges([(5, 9)])


def log(topic_id: str = "first", *ends: int, topic: str = "gaps", cluster: str = "down") -> GapTopicLog:
    return GapTopicLog(cluster=cluster, topic=topic, id=topic_id, end_offsets=ends or (10, 20))


def scanned(
    folder: Path,
    name: str,
    origin: BundleOrigin | None,
    missing: OffsetRanges = MISSING,
    *,
    last: int = 99,
    command: str = "gapless scan",
) -> Bundle:
    source = {"command": command, **KEEPS_ALL, **({} if origin is None else origin_member(origin))}
    entry = PartitionGaps("t", 0, 0, last, missing)
    write_bundle(folder / name, BundleKind.ALL, [entry], created=MOMENT, source=source)
    return read_bundle(folder / name)


def compared(folder: Path, old: BundleOrigin | None, new: BundleOrigin | None, **more: Any) -> tuple[int, int, str]:
    older = scanned(folder, "old", old)
    found = reconcile(older, NewerFinding.of_bundle(scanned(folder, "new", new, OffsetRanges(), **more)))
    return found.total("closed"), found.total("unknown"), found.sentence()


def of(*logs: GapTopicLog) -> BundleOrigin:
    return BundleOrigin(gap_topics=logs)


def test_records_of_the_same_topic_close_gaps_without_a_caution(tmp_path: Path) -> None:
    closed, unknown, sentence = compared(tmp_path, of(log()), of(log("first", 10, 21)))
    assert (closed, unknown) == (5, 0)
    assert sentence == "All 5 offsets of the older bundle have closed: 5 arrived."


@pytest.mark.parametrize(
    ("newer", "words"),
    [
        (log("second"), "The gaps topic gaps was deleted and recreated (topic ID first -> second)"),
        (log("second", 500, 500), "deleted and recreated"),
        (log("other", topic="gaps2"), "lists records of the gaps topic gaps (topic ID first) and the newer one those"),
        (log("other", cluster="elsewhere"), "(topic ID first) and the newer one those of gaps (other)"),
        (log("first", 10, 19), "was truncated: partition 1 had 20 offsets at the earlier scan, of which 19 are left"),
        (log("first", 10), "partition 1 had 20 offsets at the earlier scan, of which 0 are left"),
    ],
)
def test_nothing_closes_by_records_of_another_log(tmp_path: Path, newer: GapTopicLog, words: str) -> None:
    closed, unknown, sentence = compared(tmp_path, of(log()), of(newer))
    assert (closed, unknown) == (0, 5)
    assert words in sentence
    assert "run gapless audit" in sentence


@pytest.mark.parametrize(
    ("older", "newer", "who"),
    [
        (None, of(log()), "the older bundle is without"),
        (of(log()), None, "the newer one is without"),
        (of(log("")), of(log("")), "the older bundle is and the newer one is without"),
        (BundleOrigin(gap_topics=(log(),), complete=False), of(log()), "the older bundle is without"),
    ],
)
def test_bundles_without_a_topic_id_are_compared_and_said_to_be_without(
    tmp_path: Path, older: BundleOrigin | None, newer: BundleOrigin | None, who: str
) -> None:
    closed, unknown, sentence = compared(tmp_path, older, newer)
    assert (closed, unknown) == (5, 0)
    assert f"Could not verify that both results come from the same gaps topic, because {who}" in sentence


@pytest.mark.parametrize("origin", [None, of(log())])
def test_a_window_that_ends_earlier_than_before_closes_nothing(tmp_path: Path, origin: BundleOrigin | None) -> None:
    closed, unknown, sentence = compared(tmp_path, origin, origin, last=50)
    assert (closed, unknown) == (0, 5)
    assert "The records of partition t/0 ended at offset 99 before and end at 50 now" in sentence


def test_what_a_check_of_the_log_has_found_counts_like_an_end(tmp_path: Path) -> None:
    older = scanned(tmp_path, "old", of(log()))
    entry = PartitionGaps("t", 0, 0, 99, OffsetRanges())
    newer = NewerFinding.of_job((entry,), {}, by_records=True, origin=of(log("first", 99, 99)), truncated="It was cut.")
    found = reconcile(older, newer)
    assert (found.total("closed"), found.total("unknown")) == (0, 5)
    assert "It was cut." in found.sentence()


def test_an_audit_closes_gaps_whatever_the_gaps_topic_is(tmp_path: Path) -> None:
    assert compared(tmp_path, of(log()), BundleOrigin(), last=50, command="gapless audit")[:2] == (5, 0)


def upstream(topic_id: str, *partitions: int, cluster: str = "north") -> UpstreamTopic:
    runs = tuple(PartitionRun(number, number) for number in partitions)
    return UpstreamTopic(topic="t", id=topic_id, cluster=cluster, partitions=runs)


@pytest.mark.parametrize(
    ("older", "newer", "closed"),
    [
        ((upstream("a", 0),), (upstream("a", 0, 1),), 5),
        ((upstream("a", 0),), (upstream("b", 0),), 0),
        ((upstream("a", 0), upstream("b", 10)), (upstream("a", 0), upstream("c", 10)), 5),
        ((upstream("a", 0),), (), 5),
    ],
)
def test_events_of_a_recreated_upstream_topic_close_nothing(
    tmp_path: Path, older: tuple[UpstreamTopic, ...], newer: tuple[UpstreamTopic, ...], closed: int
) -> None:
    old = scanned(tmp_path, "old", BundleOrigin(upstream=older), command="gapless audit")
    new = scanned(tmp_path, "new", BundleOrigin(upstream=newer), OffsetRanges(), command="gapless audit")
    found = reconcile(old, NewerFinding.of_bundle(new))
    assert (found.total("closed"), found.total("unknown")) == (closed, 5 - closed)
    assert ("The upstream topic t was deleted and recreated" in found.sentence()) is not bool(closed)


@pytest.mark.parametrize("text", ['{"gapless_bundle_origin":2}', "nonsense", "{}", '{"gapless_bundle_origin":1}'])
def test_an_origin_of_another_version_is_an_error_in_either_bundle(tmp_path: Path, text: str) -> None:
    source = {"command": "gapless scan", **KEEPS_ALL, ORIGIN_MEMBER: text}
    write_bundle(tmp_path / "odd", BundleKind.ALL, [], created=MOMENT, source=source)
    odd, good = read_bundle(tmp_path / "odd"), scanned(tmp_path, "good", of(log()))
    with pytest.raises(ConfigurationError, match="origin of a bundle has"):
        NewerFinding.of_bundle(odd)
    with pytest.raises(ConfigurationError, match="this program reads version 1"):
        reconcile(odd, NewerFinding.of_bundle(good))
    with pytest.raises(ConfigurationError, match="this program reads version 1"):
        write_portion(
            tmp_path / "merged", Portion(BundleKind.ALL, ()), {"odd": odd}, {"command": "gapless bundle merge"}
        )


def test_a_bundle_of_bundles_keeps_all_their_logs_and_says_when_one_has_none(tmp_path: Path) -> None:
    first, second = scanned(tmp_path, "1", of(log())), scanned(tmp_path, "2", of(log("first", 11, 22), log("third")))
    metadata = write_portion(
        tmp_path / "merged", Portion(BundleKind.ALL, first.results), {"1": first, "2": second}, {"command": "x"}
    )
    origin = origin_in(metadata.source)
    assert origin == BundleOrigin(gap_topics=(log(), log("first", 11, 22), log("third")))
    nameless = scanned(tmp_path, "3", None)
    metadata = write_portion(
        tmp_path / "merged", Portion(BundleKind.ALL, first.results), {"1": first, "3": nameless}, {"command": "x"}
    )
    assert origin_in(metadata.source) == BundleOrigin(gap_topics=(log(),), complete=False)
    metadata = write_portion(
        tmp_path / "merged", Portion(BundleKind.ALL, first.results), {"3": nameless}, {"command": "x"}
    )
    assert ORIGIN_MEMBER not in metadata.source


def test_the_origin_is_read_as_it_was_written() -> None:
    origin = BundleOrigin(gap_topics=(log(),), upstream=(upstream("a", 0, 3),))
    assert origin_in(origin_member(origin)) == origin
    assert origin_in({"command": "gapless scan"}) is None
    content = json.loads(origin_member(origin)[ORIGIN_MEMBER])
    with pytest.raises(WireError, match="version 2"):
        origin_in({ORIGIN_MEMBER: json.dumps({**content, "gapless_bundle_origin": 2})})
