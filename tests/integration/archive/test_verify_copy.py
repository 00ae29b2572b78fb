"""The proof that ``gapless verify-copy`` calls copies identical when they are, and names every difference."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AclOperation

from gapless_api.cli import main
from gapless_api.keys.trusted_keys import public_key_base64
from gapless_api.wire.copy_report import COPY_REPORT, CopyReport, Difference
from gapless_spark.archiving.verify_copy import command
from gapless_spark.archiving.verify_copy.engines import compare_copies
from gapless_spark.archiving.verify_copy.plan import plan_of
from integration.archive.conftest import REGION, Archive, segments
from kit.kafka.broker import KafkaBroker
from kit.kafka.cluster import USERS
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import wait_until
from kit.signing import key_pair

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Row(NamedTuple):
    """A record without its place."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_000


@dataclass(frozen=True)
class Ended:
    """How the comparison ended."""

    code: int
    out: str
    err: str
    found: CopyReport | None

    @property
    def report(self) -> CopyReport:
        assert self.found is not None, self.err
        return self.found

    @property
    def words(self) -> str:
        return " ".join((self.out + self.err).split())

    @property
    def differences(self) -> list[tuple[Any, ...]]:
        return [_short(each) for each in self.report.differences]


def _short(one: Difference) -> tuple[Any, ...]:
    spans = (None if span is None else (span.first, span.last) for span in (one.a, one.b))
    return (one.partition, one.kind, one.parts, *spans)


class VerifyCopy(Protocol):
    """Runs ``gapless verify-copy`` with a report."""

    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture
def verify_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> VerifyCopy:
    def run(*arguments: str) -> Ended:
        file = tmp_path / "evidence.json"
        file.unlink(missing_ok=True)
        monkeypatch.setattr(sys, "argv", ["gapless", "verify-copy", *arguments, f"--report={file}"])
        with pytest.raises(SystemExit) as ended:
            main.main()
        told = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        report = COPY_REPORT.from_json(json.loads(file.read_text())) if file.exists() else None
        if report is not None:
            assert report.exit_code == ended.value.code
            totals = report.totals
            same = totals.equal + totals.different + totals.moved
            only_in_a, only_in_b = totals.only_in_a + totals.compacted_in_b, totals.only_in_b + totals.compacted_in_a
            assert (totals.records_in_a, totals.records_in_b) == (same + only_in_a, same + only_in_b)
        return Ended(ended.value.code, told.out, told.err, report)

    return run


def write(kafka: KafkaBroker, topic: str, rows: Sequence[Row], partition: int = 0) -> None:
    kafka.write(
        topic,
        (
            {
                "value": row.value,
                "key": row.key,
                "headers": list(row.headers),
                "timestamp": row.timestamp,
                "partition": partition,
            }
            for row in rows
        ),
    )


def mirror(kafka: KafkaBroker, source: str, target: str) -> None:
    """Write what a plain consumer reads to another topic, whose offsets have no gaps."""
    rows: dict[int, list[Row]] = {}
    for message in kafka.read(source):
        row = Row(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])  # type: ignore[arg-type]
        rows.setdefault(message.partition() or 0, []).append(row)
    for partition, some in rows.items():
        write(kafka, target, some, partition)


ROWS = [
    Row(b"key %d" % number, b"value %d" % number, (("h", b"%d" % number),), 1_700_000_000_000 + number)
    for number in range(40)
]
ODD = [
    Row(None, None),
    Row(b"", b""),
    Row(b"", None, (("a", None), ("a", b""), ("a", b"2"))),
    Row(None, b"", (("b", b"1"), ("a", b"2"), ("b", b"1"))),
    Row(b"\0\xff", b"\xff" * 900_000, (("empty", b""),)),
    Row(b"key", None),
]


@pytest.fixture
def mixed(kafka: KafkaBroker, topic: TopicFactory) -> str:
    """A topic with everything that a record can be, transactions, and a partition without records."""
    name, chance = topic(4), random.Random(3)
    for commit in (True, False, True, True, False):
        records = [(b"in", chance.randbytes(40)) for _ in range(chance.randrange(1, 6))]
        end_transaction(in_transaction(kafka, name, records), commit=commit)
        write(kafka, name, ODD)
    write(kafka, name, ROWS, 1)
    write(kafka, name, ODD * 3, 2)
    return name


def at(kafka: KafkaBroker, topic: str) -> str:
    """The address of a topic."""
    return f"kafka://{kafka.bootstrap}/{topic}"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_topic_and_its_archive_are_identical(  # noqa: PLR0917
    kafka: KafkaBroker,
    mixed: str,
    archive: Archive,
    place: Path,
    verify_copy: VerifyCopy,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    assert archive(f"--topics={mixed}", "--max-segment-records=7", "--engine=local").code == 0
    for a, b in ((at(kafka, mixed), f"{place}#{mixed}"), (f"{place}#{REGION}/{mixed}", at(kafka, mixed))):
        ended = verify_copy(a, b, f"--engine={engine}")
        assert ended.code == 0, ended.words
        report = ended.report
        assert (report.alignment, report.outcome, report.read_by) == ("offsets", "identical", engine)
        assert (report.not_compared, report.differences) == ((), ())
        assert report.a.topic_id == report.b.topic_id != ""
        assert report.a.cluster_id == report.b.cluster_id != ""
        assert [(one.partition, one.equal) for one in report.partitions][1:] == [(1, 40), (2, 18)]
        for one in report.partitions:
            assert one.a is not None
            assert one.b is not None
            assert (one.a.digest, one.a.ranges) == (one.b.digest, one.b.ranges)
        assert "The copies are identical:" in ended.words
        assert "in 3 partitions compared by key, value, headers and timestamp." in ended.words


def test_a_compacted_topic_and_its_archive_are_identical_where_both_have_the_offsets(
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    verify_copy: VerifyCopy,
) -> None:
    name = topic(1, **{"cleanup.policy": "compact,delete"})
    write(kafka, name, [Row(b"%d" % (number % 9), b"%d" % number) for number in range(60)])
    kafka.delete_records(name, 0, 7)
    assert archive(f"--topics={name}").code in {0, 4}
    ended = verify_copy(at(kafka, name), f"{place}#{name}")
    assert ended.code == 0, ended.words
    assert ended.report.totals.equal > 0


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_compaction_removed_is_told_apart_from_what_is_lost(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    verify_copy: VerifyCopy,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    name, copy, lossy = topic(**{"cleanup.policy": "compact"}), topic(), topic()
    write(kafka, name, [Row(b"key %d" % (number % 5), b"%d" % number) for number in range(50)])
    assert archive(f"--topics={name}", "--engine=local").code == 0
    kafka.alter_topic(name, segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100")

    def is_compacted() -> bool:
        kafka.produce(name, [b"roll"], keys=[b"roll"])  # a segment is closed by the record after its time
        return sum(message.key() != b"roll" for message in kafka.read(name)) == 5

    wait_until(is_compacted, what="the compaction")
    kafka.end_compaction(name)
    archived = f"{place}#{name}"
    mirror(kafka, name, copy)
    kept = [row for row in kafka.read(name) if row.key() != b"key 3"]
    write(kafka, lossy, [Row(row.key(), row.value(), (), row.timestamp()[1]) for row in kept])  # type: ignore[arg-type]

    named = verify_copy(archived, at(kafka, name), "--common-only", f"--engine={engine}")
    assert (named.code, named.report.outcome, named.differences) == (4, "different", [])
    assert (named.report.totals.equal, named.report.totals.compacted_in_b) == (5, 45)
    assert "The copies differ only by compaction; 5 records equal." in named.words
    assert "Compaction removed 45 records from B, which --ignore=compacted accepts." in named.words
    ignore = ("--common-only", "--ignore=null-as-empty,compacted", f"--engine={engine}")
    accepted = verify_copy(archived, at(kafka, name), *ignore)
    assert (accepted.code, accepted.report.outcome) == (0, "identical"), accepted.words
    assert (accepted.report.read_by, accepted.report.ignored) == (engine, ("nullAsEmpty", "compacted"))
    assert "The copies are identical except for compaction: 5 records" in accepted.words
    assert _short(accepted.report.compacted[0]) == (0, "compactedInB", (), (0, 44), None)

    mirrored = verify_copy(at(kafka, copy), at(kafka, name), *ignore)
    assert (mirrored.code, mirrored.report.alignment, mirrored.report.totals.compacted_in_b) == (0, "order", 0)
    lost = verify_copy(archived, at(kafka, lossy), *ignore)
    assert (lost.code, lost.report.alignment) == (4, "order")
    assert (lost.report.totals.only_in_a, lost.report.totals.compacted_in_b) == (10, 36)
    assert {one[1] for one in lost.differences} == {"onlyInA", "onlyInB"}  # the topic has grown since it was archived


def test_a_word_to_ignore_that_is_unknown_is_refused(verify_copy: VerifyCopy) -> None:
    for words in ("compacted,nulls", "compaction", ","):
        ended = verify_copy("kafka://h:1/a", "kafka://h:1/b", f"--ignore={words}")
        assert (ended.code, ended.found) == (2, None)
        assert "one or several of timestamps, headers, null-as-empty and compacted" in ended.words


def test_without_access_to_the_configuration_it_is_unknown_what_compaction_removed(
    secure_kafka: KafkaBroker, verify_copy: VerifyCopy, tmp_path: Path
) -> None:
    secure_kafka.create_topic("undescribed")
    write(secure_kafka, "undescribed", ROWS)
    secure_kafka.allow("undescribed", "alice", AclOperation.READ)
    assert secure_kafka.authority is not None
    (tmp_path / "password").write_text(USERS["alice"])
    login = (
        f"--ca-file={secure_kafka.authority.file}",
        "--sasl-mechanism=SCRAM-SHA-512",
        "--sasl-username=alice",
        f"--sasl-password-file={tmp_path / 'password'}",
    )
    address = f"kafka://{secure_kafka.address('SASL_SSL')}/undescribed"
    assert verify_copy(address, address, *login).code == 0
    refused = verify_copy(address, address, *login, "--ignore=compacted")
    assert (refused.code, refused.found) == (3, None)
    assert "allow DescribeConfigs on it" in refused.words


def test_a_copy_with_other_offsets_is_identical_whatever_markers_and_timestamp_types_there_are(
    kafka: KafkaBroker, mixed: str, topic: TopicFactory, verify_copy: VerifyCopy
) -> None:
    copy = topic(4)
    mirror(kafka, mixed, copy)
    ended = verify_copy(at(kafka, mixed), at(kafka, copy))
    assert (ended.code, ended.report.alignment) == (0, "order"), ended.words

    appended, restored = topic(**{"message.timestamp.type": "LogAppendTime"}), topic()
    write(kafka, appended, ROWS)
    mirror(kafka, appended, restored)
    ended = verify_copy(at(kafka, appended), at(kafka, restored))
    assert ended.code == 0, ended.words
    (only,) = ended.report.partitions
    assert only.a is not None
    assert only.b is not None
    assert (only.a.timestamp_types.log_append_time, only.b.timestamp_types.create_time) == (40, 40)
    strict = verify_copy(at(kafka, appended), at(kafka, restored), "--timestamp-type")
    assert (strict.code, strict.differences) == (4, [(0, "different", ("timestampType",), (0, 39), (0, 39))])


EDITS: dict[str, tuple[Callable[[list[Row]], list[Row]], list[tuple[Any, ...]]]] = {
    "value": (
        lambda rows: [*rows[:9], rows[9]._replace(value=b"value 8"), *rows[10:]],
        [(0, "different", ("value",), (9, 9), (9, 9))],
    ),
    "key": (
        lambda rows: [*rows[:9], rows[9]._replace(key=b""), *rows[10:]],
        [(0, "different", ("key",), (9, 9), (9, 9))],
    ),
    "headers": (
        lambda rows: [*rows[:9], rows[9]._replace(headers=(("h", b"9"), ("h", None))), *rows[10:]],
        [(0, "different", ("headers",), (9, 9), (9, 9))],
    ),
    "timestamp": (
        lambda rows: [*rows[:9], rows[9]._replace(timestamp=1_700_000_000_008), *rows[10:]],
        [(0, "different", ("timestamp",), (9, 9), (9, 9))],
    ),
    "lost": (lambda rows: [*rows[:9], *rows[10:]], [(0, "onlyInA", (), (9, 9), None)]),
    "added": (lambda rows: [*rows[:9], Row(b"more", b""), *rows[9:]], [(0, "onlyInB", (), None, (9, 9))]),
    "swapped": (
        lambda rows: [*rows[:9], rows[10], rows[9], *rows[11:]],
        [(0, "moved", (), (9, 9), (10, 10))],
    ),
    "cut": (lambda rows: rows[:30], [(0, "onlyInA", (), (30, 39), None)]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_one_edit_is_one_difference_at_its_offsets(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy, edit: str
) -> None:
    edited, expected = EDITS[edit]
    source, copy = topic(), topic()
    write(kafka, source, ROWS)
    write(kafka, copy, edited(list(ROWS)))
    ended = verify_copy(at(kafka, source), at(kafka, copy))
    assert (ended.code, ended.report.outcome) == (4, "different")
    assert ended.differences == expected
    assert "The copies differ: " in ended.words
    if edit in {"headers", "timestamp"}:
        ignored = verify_copy(at(kafka, source), at(kafka, copy), "--ignore=timestamps,headers")
        assert ignored.code == 0, ignored.words
        assert ignored.report.compared == ("key", "value")


def test_of_many_small_partitions_each_is_compared_once(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = topic(60), topic(60)
    for name in (source, copy):
        same = {"key": b"key", "timestamp": 1_700_000_000_000}
        kafka.write(
            name,
            [
                {
                    "value": b"changed" if (name, partition, number) == (copy, 57, 3) else b"%d" % number,
                    "partition": partition,
                    **same,
                }
                for partition in range(60)
                for number in range(partition)
            ],
        )
    ended = verify_copy(at(kafka, source), at(kafka, copy))
    assert (ended.code, ended.differences) == (4, [(57, "different", ("value",), (3, 3), (3, 3))])
    assert [(one.partition, one.equal + one.different) for one in ended.report.partitions] == [
        (partition, partition) for partition in range(1, 60)
    ]

    def expired_after_the_plan(*arguments: Any) -> Any:
        found = plan_of(*arguments)
        kafka.delete_records(source, 31, 5)
        return found

    monkeypatch.setattr(command, "plan_of", expired_after_the_plan)
    refused = verify_copy(at(kafka, source), at(kafka, copy))
    assert (refused.code, "Offsets 0 to 4 of partition 31 were deleted" in refused.words) == (3, True)


def test_headers_in_another_order_are_different(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy
) -> None:
    source, copy = topic(), topic()
    write(kafka, source, [Row(b"k", b"v", (("a", b"1"), ("a", b"2")))])
    write(kafka, copy, [Row(b"k", b"v", (("a", b"2"), ("a", b"1")))])
    ended = verify_copy(at(kafka, source), at(kafka, copy))
    assert ended.differences == [(0, "different", ("headers",), (0, 0), (0, 0))]


def test_what_kafka_has_deleted_and_what_is_not_archived_yet_is_listed(
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    verify_copy: VerifyCopy,
) -> None:
    name = topic(2)
    write(kafka, name, ROWS)
    assert archive(f"--topics={name}").code == 0
    write(kafka, name, ROWS[:5])
    write(kafka, name, ROWS[:3], 1)
    kafka.delete_records(name, 0, 12)
    ended = verify_copy(at(kafka, name), f"{place}#{name}")
    assert (ended.code, ended.report.outcome, ended.differences) == (4, "incomplete", [])
    listed = [(one.partition, one.side, one.reason, one.span.first, one.span.last) for one in ended.report.not_compared]
    assert listed == [(0, "a", "Expired", 0, 11), (0, "b", "NotArchived", 40, 44), (1, "b", "NotArchived", 0, 2)]
    assert ended.report.totals.offsets_not_compared == 20
    assert "12 that Kafka has deleted (A), 8 that the archive does not cover (B)" in ended.words
    common = verify_copy(at(kafka, name), f"{place}#{name}", "--common-only")
    assert (common.code, common.report.outcome, common.report.totals.equal) == (0, "identical", 28)
    assert common.report.not_compared == ended.report.not_compared


def test_a_damaged_segment_is_named_and_everything_else_compared(
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    verify_copy: VerifyCopy,
) -> None:
    name, copy = topic(), topic()
    for number in range(0, 40, 10):
        write(kafka, name, ROWS[number : number + 10])
        assert archive(f"--topics={name}", "--max-segment-records=10").code == 0
    mirror(kafka, name, copy)
    second, third = segments(place, name, 0)[1:3]
    for other, alignment in ((name, "offsets"), (copy, "order")):
        file = place / second["object"]
        sound = file.read_bytes()
        values = pq.read_metadata(file).row_group(0).column(5)  # their pages have checksums, the footer has none
        middle = values.data_page_offset + values.total_compressed_size - 1
        file.write_bytes(sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :])
        (place / third["object"]).rename(place / "gone")
        ended = verify_copy(f"{place}#{name}", at(kafka, other), "--common-only")
        file.write_bytes(sound)
        (place / "gone").rename(place / third["object"])
        assert (ended.code, ended.report.outcome, ended.report.alignment) == (4, "incomplete", alignment)
        assert (ended.report.totals.equal, ended.differences) == (20, [])
        bad, gone = ended.report.not_compared
        assert (bad.side, bad.reason, bad.span.first, bad.span.last, bad.records) == ("a", "Damaged", 10, 19, 10)
        assert (gone.reason, gone.span.first, gone.span.last, gone.records) == ("Damaged", 20, 29, 10)
        assert second["object"] in bad.detail
        assert f"{third['object']} is missing" in gone.detail
        assert "20 that are in damaged segments (A)" in ended.words
        assert verify_copy(f"{place}#{name}", at(kafka, other)).code == 0


def test_a_topic_that_is_recreated_while_it_is_compared_is_noticed(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = topic(), topic()
    for name in (source, copy):
        write(kafka, name, ROWS)

    def compared_and_recreated(*arguments: Any) -> Any:
        found = compare_copies(*arguments)
        kafka.delete_topic(copy)
        kafka.create_topic(copy)
        return found

    monkeypatch.setattr(command, "compare_copies", compared_and_recreated)
    ended = verify_copy(at(kafka, source), at(kafka, copy))
    assert (ended.code, ended.found) == (2, None)
    assert f"The topic {copy}" in ended.words
    assert "was deleted and recreated while it was compared" in ended.words


def test_records_that_expire_before_they_are_read_are_no_differences(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = topic(), topic()
    for name in (source, copy):
        write(kafka, name, ROWS)

    def expired_after_the_plan(*arguments: Any) -> Any:
        found = plan_of(*arguments)
        kafka.delete_records(source, 0, 15)
        return found

    monkeypatch.setattr(command, "plan_of", expired_after_the_plan)
    ended = verify_copy(at(kafka, source), at(kafka, copy), "--align=offsets")
    assert (ended.code, ended.differences, ended.report.totals.equal) == (4, [], 25)
    (missing,) = ended.report.not_compared
    assert (missing.side, missing.reason, missing.span.first, missing.span.last) == ("a", "Expired", 0, 14)
    write(kafka, source, ROWS)

    def expired_again(*arguments: Any) -> Any:
        found = plan_of(*arguments)
        kafka.delete_records(source, 0, 30)
        return found

    monkeypatch.setattr(command, "plan_of", expired_again)
    refused = verify_copy(at(kafka, source), at(kafka, copy), "--align=order")
    assert (refused.code, refused.found) == (3, None)
    assert "Offsets 15 to 29 of partition 0 were deleted from" in refused.words


def test_a_report_is_signed_on_request_and_refused_when_it_was_altered(
    kafka: KafkaBroker,
    topic: TopicFactory,
    verify_copy: VerifyCopy,
    tmp_path: Path,
) -> None:
    (tmp_path / "foreign").mkdir()
    private, public = key_pair(tmp_path)
    _, foreign = key_pair(tmp_path / "foreign")
    trusted = (
        f"--trusted-keys=ours:{public_key_base64(public.read_text())},other:{public_key_base64(foreign.read_text())}"
    )
    source, copy = topic(), topic()
    write(kafka, source, ROWS)
    write(kafka, copy, ROWS[1:])
    ended = verify_copy(at(kafka, source), at(kafka, copy), f"--signing-key={private}")
    assert (ended.code, ended.report.signature is not None) == (4, True)
    kept = tmp_path / "kept.json"
    kept.write_text((tmp_path / "evidence.json").read_text())

    checked = verify_copy(f"--check-report={kept}", trusted)
    assert (checked.code, checked.found) == (4, None)
    assert "is signed with the trusted key ours" in checked.words
    assert "The copies differ: 1 record only in A" in checked.words

    refused = verify_copy(f"--check-report={kept}", f"--trusted-keys=other:{public_key_base64(foreign.read_text())}")
    assert (refused.code, "matches none of the trusted keys (other)" in refused.words) == (2, True)
    altered = COPY_REPORT.to_json(replace(ended.report, exit_code=0, outcome="identical"))
    kept.write_text(json.dumps(altered))
    refused = verify_copy(f"--check-report={kept}", trusted)
    assert (refused.code, "the report was altered or signed with another key" in refused.words) == (2, True)
    kept.write_text(json.dumps(COPY_REPORT.to_json(replace(ended.report, signature=None))))
    refused = verify_copy(f"--check-report={kept}", trusted)
    assert (refused.code, "is not signed; write it with --signing-key" in refused.words) == (2, True)


def test_copies_on_clusters_with_other_certificates_and_accounts_are_compared_in_one_command(
    secure_kafka: KafkaBroker, verify_copy: VerifyCopy, tmp_path: Path
) -> None:
    secure_kafka.create_topic("copied")
    write(secure_kafka, "copied", ROWS)
    assert secure_kafka.authority is not None
    (tmp_path / "password").write_text(USERS["alice"])
    private, public = key_pair(tmp_path)
    with KafkaBroker(secured=True) as other:
        other.create_topic("copied")
        write(other, "copied", ROWS)
        assert other.authority is not None
        assert other.client_files is not None
        settings = tmp_path / "b.properties"
        settings.write_text(
            f"caFile={other.authority.file}\ncertFile={other.client_files.certificate}\n"
            f"keyFile={other.client_files.key}\n"
        )
        for broker, user in ((secure_kafka, "alice"), (other, "client")):
            broker.allow("copied", user)
        places = (f"kafka://{secure_kafka.address('SASL_SSL')}/copied", f"kafka://{other.address('MTLS')}/copied")
        login = (
            f"--ca-file={secure_kafka.authority.file}",
            "--sasl-mechanism=SCRAM-SHA-512",
            "--sasl-username=alice",
            f"--sasl-password-file={tmp_path / 'password'}",
        )
        refused = verify_copy(*places, *login, "--connect-timeout=3")
        assert (refused.code, refused.found) == (3, None), refused.words
        ended = verify_copy(*places, *login, f"--b-settings={settings}", f"--signing-key={private}")
    assert (ended.code, ended.report.totals.equal, ended.report.alignment) == (0, 40, "order"), ended.words
    assert ended.report.a.cluster_id == secure_kafka.cluster_id != ended.report.b.cluster_id == other.cluster_id
    assert USERS["alice"] not in (tmp_path / "evidence.json").read_text()
    (tmp_path / "kept.json").write_text((tmp_path / "evidence.json").read_text())
    trusted = f"--trusted-keys=ours:{public_key_base64(public.read_text())}"
    checked = verify_copy(f"--check-report={tmp_path / 'kept.json'}", trusted)
    assert (checked.code, "is signed with the trusted key ours" in checked.words) == (0, True), checked.words


def test_copies_without_records_and_with_other_partitions(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy
) -> None:
    one, two = topic(1), topic(2)
    ended = verify_copy(at(kafka, one), at(kafka, topic(1)))
    assert (ended.code, ended.report.outcome, ended.report.read_by) == (0, "nothing-to-compare", None)
    assert "Nothing to compare" in ended.words
    write(kafka, one, ROWS)
    write(kafka, two, ROWS)
    write(kafka, two, ROWS[:3], 1)
    ended = verify_copy(at(kafka, one), at(kafka, two))
    assert (ended.code, ended.differences) == (4, [(1, "onlyInB", (), None, (0, 2))])
    assert ended.report.partitions[1].a is None
    assert "1 partition in A and 2 in B" in ended.words


def test_what_cannot_be_read_ends_with_a_sentence(
    kafka: KafkaBroker, topic: TopicFactory, verify_copy: VerifyCopy, tmp_path: Path
) -> None:
    name = topic()
    there = at(kafka, name)
    settings = tmp_path / "b.properties"
    settings.write_text("caFile=/no/such/file\n")
    for arguments, code, text in (
        ((there, "kafka://127.0.0.1:1/x", "--connect-timeout=1"), 3, "127.0.0.1:1"),
        ((there, at(kafka, "no-such-topic")), 2, "no-such-topic"),
        ((there, f"{tmp_path}#orders"), 2, "holds no archived topic"),
        ((there, "orders"), 2, "must be kafka://HOST:PORT/TOPIC, or PLACE#TOPIC"),
        ((there, "kafka://k/"), 2, "must be kafka://HOST:PORT/TOPIC"),
        ((there,), 2, "A and B are missing"),
        ((there, there, f"--b-settings={settings}"), 2, "/no/such/file"),
        ((there, there, "--allowed-topics=other"), 2, "may be used"),
        ((there, f"{tmp_path}#r/x", "--archive-allowed-topics=y"), 2, "The comparison requests the archived topic x"),
        ((there, f"{tmp_path}#x", "--region=r", "--archive-allowed-regions=s"), 2, "requests the region r, and only s"),
        ((f"--check-report={settings}",), 2, "give --trusted-keys"),
    ):
        ended = verify_copy(*arguments)
        assert (ended.code, ended.found) == (code, None), ended.words
        assert text in ended.words
    assert verify_copy(there, there).code == 0
    assert kafka.running
