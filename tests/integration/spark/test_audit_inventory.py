"""The proof that an audit with an inventory finds what no other can see: lost ends and silent partitions."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.inventory.form import new_inventory
from gapless_api.inventory.reader import read_inventory
from gapless_api.inventory.writer import write_inventory
from gapless_spark.runtime import job
from kit.kafka.transactions import write_transactions
from kit.machine.processes import wait_until
from kit.peer.receiver import Receiver
from kit.signing import key_pair
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Ended, Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def inventory(kafka: KafkaBroker, tmp_path: Path) -> Callable[..., Path]:
    """Runs `gapless inventory`; every file has a name of its own."""

    def make(name: str, *options: str, **settings: Any) -> Path:
        file = tmp_path / name
        given = {"bootstrapServers": kafka.bootstrap, "inventory": file, "progressInterval": 0, **settings}
        command = [str(PROGRAM), "inventory", *options, *(f"--{key}={value}" for key, value in given.items())]
        subprocess.run(command, capture_output=True, check=True, timeout=120)
        return file

    return make


def deliver(kafka: KafkaBroker, upstream: str, topic: str, *, lost: Collection[tuple[int, int]] = ()) -> None:
    """Write what the live sender sends of `upstream` (also what was aborted) and the link does not lose."""
    sent = [(m.partition(), m.offset()) for m in kafka.read(upstream, committed_only=False)]
    keys = [
        f"{upstream}_{partition}_{offset}".encode() for partition, offset in sent if (partition, offset) not in lost
    ]
    kafka.produce(topic, [b"event"] * len(keys), keys=keys)


def audit(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topic}", *more)


def rows(ended: Ended) -> dict[int, dict[str, Any]]:
    assert ended.report is not None, ended.err
    return {row["partition"]: row for row in ended.report["partitions"]}


def test_losses_at_the_very_end_and_a_silent_partition_are_found(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path]
) -> None:
    upstream, received = topic(4), topic()
    kafka.produce(upstream, [b"x"] * 1000, partition=0)
    kafka.produce(upstream, [b"x"] * 50, partition=1)
    kafka.produce(upstream, [b"x"] * 30, partition=2)
    file = inventory("m", topics=upstream)
    kafka.produce(upstream, [b"newer"] * 5, partition=2)
    lost = {(0, offset) for offset in (*range(10), *range(950, 1000))} | {(1, offset) for offset in range(50)}
    deliver(kafka, upstream, received, lost=lost)
    without = audit(gapless, kafka, received)
    assert without.gaps == {(upstream, 0): [], (upstream, 2): []}, "what no audit can see by itself"
    ended = audit(gapless, kafka, received, f"--expect-inventory={file}")
    assert ended.gaps == {
        (upstream, 0): [[0, 9], [950, 999]], (upstream, 1): [[0, 49]], (upstream, 2): [], (upstream, 3): [],
    }  # fmt: skip
    assert (ended.code, ended.report["missing"] if ended.report else None) == (0, 110)
    assert {number: row["bounds"] for number, row in rows(ended).items()} == dict.fromkeys(range(4), "manifest")
    assert rows(ended)[1]["received"] == 0
    assert (rows(ended)[2]["unexpected"], rows(ended)[2]["outside_manifest"]) == (0, 5)
    assert ended.report is not None
    (named,) = ended.report["manifests"]
    assert (named["cluster"], named["from"], named["signed"], named["partitions"]) == (
        kafka.cluster_id, str(file), False, 4,
    )  # fmt: skip
    more = audit(gapless, kafka, received, f"--expect-inventory={file}", f"--expect={upstream}:3:0-1")
    assert more.gaps[upstream, 3] == [[0, 1]]


def test_markers_aborted_and_compacted_offsets_are_not_expected(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path]
) -> None:
    upstream, received = topic(2), topic()
    compacted = topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100"
    )
    write_transactions(kafka, upstream, True, False, True)
    kafka.produce(compacted, [b"v"] * 300, keys=[b"k%d" % (n % 3) for n in range(300)])

    def is_compacted() -> bool:
        kafka.produce(compacted, [b"roll"], keys=[b"roll"])  # a segment is closed by the record after its time
        return len(kafka.read(compacted)) < 150

    wait_until(is_compacted, what="the compaction")
    kafka.end_compaction(compacted)
    topics = f"{upstream},{compacted}"
    looked = inventory("looked", "--absent", topics=topics)
    kept = max(message.offset() for message in kafka.read(compacted))
    deliver(kafka, upstream, received, lost={(0, 10)})
    deliver(kafka, compacted, received, lost={(0, kept)})
    ended = audit(gapless, kafka, received, f"--expect-inventory={looked}")
    # 0-2 data, 3 marker, 4-6 aborted data, 7 marker, 8-10 data, 11 marker
    assert ended.gaps == {(upstream, 0): [[10]], (upstream, 1): [], (compacted, 0): [[kept]]}
    blind = audit(gapless, kafka, received, f"--expect-inventory={inventory('blind', topics=upstream)}")
    assert blind.gaps[upstream, 0] == [[3], [7], [10, 11]]
    both = f"--expect-inventory={inventory('later', topics=upstream)},{looked}"
    narrow = audit(gapless, kafka, received, both, f"--expect-topics={upstream}")
    assert narrow.gaps[upstream, 0] == [[10]], "what an older inventory has looked at stays known"
    committed = inventory("committed", "--absent", topics=upstream, isolationLevel="read_committed")
    strict = audit(gapless, kafka, received, f"--expect-inventory={committed}", f"--expect-topics={upstream}")
    assert strict.gaps[upstream, 0] == [[10]]
    found = {(row["topic"], row["partition"]): row for row in strict.report["partitions"]} if strict.report else {}
    assert found[upstream, 0]["outside_manifest"] == 3, "aborted records came over the link all the same"


def test_an_inventory_that_came_over_the_link_is_found_where_the_receiver_left_it(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path], tmp_path: Path
) -> None:
    upstream, received, internal = topic(60), topic(), topic()
    for number in range(60):
        kafka.produce(upstream, [b"x"] * (3 + number * 7 % 11), partition=number)
    keys = key_pair(tmp_path)
    kafka.produce(internal, [b"2026-11-20T10:00:00Z Upstream up starting up...", b"\xff\x00", None])
    look = (f"--expect-inventory-topic={internal}", f"--verify-key={keys.public}")
    deliver(kafka, upstream, received, lost={(59, 2)})
    none = audit(gapless, kafka, received, *look)
    assert none.code == 2
    assert "holds no complete inventory" in none.err
    with Receiver(kafka.bootstrap, internal_topic=internal) as receiver:
        way = {"topics": upstream, "targetIP": "127.0.0.1", "targetPort": receiver.port, "payloadSize": 500}
        inventory("signed", signingKey=keys.private, **way)
        inventory("foreign", topicTranslations=f'{{"{upstream}":"forged"}}', **way)
        stats = receiver.wait_idle()
    assert (stats["refused"], stats["unreadable"], stats["lost_in_kafka"]) == ({}, {}, 0)
    assert stats["status_count"] > 6, "several texts each, three times"
    ended = audit(gapless, kafka, received, *look)
    assert ended.code == 0, ended.err
    assert {place: gaps for place, gaps in ended.gaps.items() if gaps} == {(upstream, 59): [[2]]}
    assert ended.report is not None
    assert [(named["from"], named["signed"]) for named in ended.report["manifests"]] == [(f"topic {internal}", True)]
    assert "is not signed" in ended.err, "the forged one is named and not believed"


def test_an_inventory_that_cannot_be_believed_ends_with_one_sentence(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path], tmp_path: Path
) -> None:
    upstream = topic()
    kafka.produce(upstream, [b"x"] * 5)
    file = inventory("m", topics=upstream)
    keys = key_pair(tmp_path)
    for more, why in (
        ((f"--expect-inventory={file}", f"--verify-key={keys.public}"), "is not signed"),
        ((f"--verify-key={keys.public}",), "verifyKey is given without an inventory"),
        (("--expect-topics=x",), "expectTopics is given without an inventory"),
        ((f"--expect-inventory={file}", "--expect-topics=other"), "No inventory lists the topic other"),
        (("--expect-inventory=/none",), "/none cannot be read"),
        (("--expect-inventory-topic=not-there",), "does not have the topic not-there"),
    ):
        ended = audit(gapless, kafka, upstream, *more)
        assert ended.code == 2, more
        assert why in ended.err
        assert ended.bundle is None


@pytest.mark.parametrize("command", ["audit", "verify"])
def test_events_and_an_inventory_that_arrive_while_records_are_read_are_no_gaps(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    inventory: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    upstream, received, internal = topic(), topic(), topic()
    kafka.produce(upstream, [b"x"] * 100)
    deliver(kafka, upstream, received, lost={(0, 7)})
    read_cut = job.read_settled_cut
    with Receiver(kafka.bootstrap, internal_topic=internal) as receiver:
        way = {"topics": upstream, "targetIP": "127.0.0.1", "targetPort": receiver.port}
        inventory("early", **way)
        receiver.wait_idle()

        def look_and_receive_more(*arguments: Any, **options: Any) -> Any:
            cut = read_cut(*arguments, **options)
            kafka.produce(upstream, [b"x"] * 900)
            deliver(kafka, upstream, received, lost={(0, offset) for offset in range(100)})
            inventory("late", **way)
            receiver.wait_idle()
            return cut

        monkeypatch.setattr(job, "read_settled_cut", look_and_receive_more)
        where = (
            f"--bootstrap-servers={kafka.bootstrap}",
            f"--topics={received}",
            f"--expect-inventory-topic={internal}",
        )
        if command == "audit":
            ended = gapless("audit", *where)
            assert ended.gaps == {(upstream, 0): [[7]]}
            return
        report, older = tmp_path / "verified.json", tmp_path / "older.json"
        older.write_text('{"type":"all","results":[]}')
        with pytest.raises(SystemExit):
            run_verify(monkeypatch, str(older), *where, f"--report={report}")
        assert json.loads(report.read_text())["found"]["missing"] == 1


def run_verify(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run `gapless verify` in this process."""
    from gapless_api.cli import main  # noqa: PLC0415

    monkeypatch.setattr("sys.argv", ["gapless", "verify", *arguments])
    main.main()


def test_a_topic_that_was_recreated_upstream_is_refused_or_begun_anew_by_name(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path], tmp_path: Path
) -> None:
    upstream, other, received, state = topic(), topic(), topic(), f"--state={tmp_path / 'state'}"
    local = "--engine=local"
    kafka.produce(upstream, [b"x"] * 1000)
    kafka.produce(other, [b"x"] * 10)
    old = inventory("old", topics=f"{upstream},{other}")
    deliver(kafka, upstream, received)
    deliver(kafka, other, received, lost={(0, 3)})
    complete = audit(gapless, kafka, received, local, state, f"--expect-inventory={old}")
    assert complete.gaps == {(upstream, 0): [], (other, 0): [[3]]}
    kafka.delete_topic(upstream)
    kafka.create_topic(upstream)
    kafka.produce(upstream, [b"y"] * 1000)
    made = read_inventory(old).metadata.created.timestamp()
    wait_until(lambda: time.time() >= made + 1, what="a second in which no inventory was made")
    new = inventory("new", topics=f"{upstream},{other}")
    deliver(kafka, upstream, received, lost={(0, offset) for offset in range(500)})
    ids = [
        next(entry["topic_id"] for entry in json.loads(file.read_text())["manifest"] if entry["topic"] == upstream)
        for file in (old, new)
    ]
    sentence = f"The upstream topic {upstream} was deleted and recreated (topic ID {ids[0]} -> {ids[1]})"
    name_it = f"--new-generation={upstream}:{ids[1]}"
    for more in ((state, f"--expect-inventory={new}"), (f"--expect-inventory={old},{new}",)):
        refused = audit(gapless, kafka, received, local, *more)
        assert (refused.code, refused.bundle) == (2, None), more
        assert sentence in refused.err
        assert name_it in refused.err
    both = f"--expect-inventory={old},{new}"
    wrong = audit(gapless, kafka, received, local, state, both, f"--new-generation={upstream}:{ids[0]}")
    assert wrong.code == 2
    anew = audit(gapless, kafka, received, local, state, both, name_it)
    assert anew.gaps == {(upstream, 0): [[0, 499]], (other, 0): [[3]]}, anew.err
    following = audit(gapless, kafka, received, local, state, both)
    assert (following.code, following.gaps) == (0, anew.gaps), "the state knows the new one"
    back = audit(gapless, kafka, received, local, state, f"--expect-inventory={old}")
    assert back.code == 2
    assert f"(topic ID {ids[1]} -> {ids[0]})" in back.err
    of_one_second = moved_to(read_inventory(new).metadata.created, old)
    of_one = f"--expect-inventory={of_one_second},{new}"
    unknown = audit(gapless, kafka, received, local, of_one, name_it)
    assert unknown.code == 2
    assert f"Two inventories of the same second list the upstream topic {upstream} with the topic IDs " in unknown.err
    of_other = audit(gapless, kafka, received, local, of_one, f"--expect-topics={other}")
    assert (of_other.code, of_other.gaps[other, 0]) == (0, [[3]]), of_other.err


def test_an_upstream_log_that_was_truncated_between_two_inventories_is_named(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, inventory: Callable[..., Path]
) -> None:
    upstream, received = topic(), topic()
    kafka.produce(upstream, [b"x"] * 100)
    complete = inventory("complete", topics=upstream)
    deliver(kafka, upstream, received)
    listed = read_inventory(complete)
    about = listed.metadata
    later = complete.with_name("later")
    truncated = new_inventory(
        [replace(entry, last=49, epochs=None) for entry in listed.entries],
        created=about.created + timedelta(minutes=1),
        cluster=about.cluster,
        isolation=about.isolation,
        source=about.source,
    )
    write_inventory(later, truncated)
    for files in (f"{complete},{later}", f"{later},{complete}"):
        ended = audit(gapless, kafka, received, "--engine=local", f"--expect-inventory={files}")
        assert f"{upstream}/0 ended at 100 in the inventory {about.id}, and at 50 in the later inventory" in ended.err
        assert (ended.code, rows(ended)[0]["missing"], rows(ended)[0]["unknown"]) == (4, 0, 50)
    ended = audit(gapless, kafka, received, "--engine=local", f"--expect-inventory={complete}")
    assert "later inventory" not in ended.err


def moved_to(created: datetime, file: Path) -> Path:
    """Write the inventory of `file` as one that was made at another time."""
    inventory = read_inventory(file)
    about = inventory.metadata
    moved = new_inventory(
        inventory.entries, created=created, cluster=about.cluster, isolation=about.isolation, source=about.source
    )
    path = file.with_name("moved")
    write_inventory(path, moved)
    return path
