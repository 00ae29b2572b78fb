from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclOperation
from pyroaring import BitMap

from gapless_api.bundle.reader import read_bundle_text
from gapless_api.bundle.signature import check_trusted
from gapless_api.keys.trusted_keys import public_key_base64
from gapless_api.offsets.ids import MAX_OFFSET
from kit.kafka.cluster import USERS
from kit.kafka.transactions import end_transaction, in_transaction
from kit.signing import key_pair
from kit.story.commands import GAPLESS

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

VECTORS = Path(__file__).parents[2] / "unit" / "vectors"
Record = tuple[bytes | None, bytes | None]


@pytest.fixture
def gapless(gapless_of_both_readers: Gapless) -> Gapless:
    """Spark and this process must agree on every scan of this file."""
    return gapless_of_both_readers


def gap(topic: str, partition: int, window_min: int, window_max: int, missing: Iterable[int] = ()) -> Record:
    bitmap = BitMap(offset - window_min for offset in missing)
    bitmap.run_optimize()
    value = struct.pack(">Bqq", 1, window_min, window_max) + bitmap.serialize()
    return f"{topic}:{partition}:{window_min}".encode(), value


def old_gap(topic: str, partition: int, window_min: int, window_max: int, gaps: list[list[int]]) -> Record:
    value = {"topic": topic, "window_min": window_min, "gaps": gaps, "partition": partition, "window_max": window_max}
    return f"{topic}_{partition}:{window_min}".encode(), json.dumps(value).encode()


def write(kafka: KafkaBroker, topic: str, records: Iterable[Record], partition: int = 0) -> None:
    listed = list(records)
    kafka.produce(topic, [value for _, value in listed], partition=partition, keys=[key for key, _ in listed])


def vector_records() -> list[Record]:
    records = json.loads((VECTORS / "bundle-in-gap-topic.json").read_text())["records"]
    return [(r["key"].encode(), bytes.fromhex(r["value_hex"]) or None) for r in records]


def scan(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *more)


def test_the_vector_topic_gives_the_peers_bundle_in_a_fixed_order(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    write(kafka, name, vector_records())
    ended = scan(gapless, kafka, name)
    assert ended.code == 0
    assert ended.bundle is not None
    assert ended.bundle["type"] == "all"
    peers = json.loads((VECTORS / "bundle-out-all.json").read_text())["results"]
    old = {"gaps": [[1005], [1010, 1015]], "partition": 3, "topic": "transfer", "window_max": 1999, "window_min": 0}
    assert ended.bundle["results"] == [*peers, old]
    assert ended.bundle["gapless"]["source"]["topics"] == name
    assert ended.report is not None
    assert (ended.report["outcome"], ended.report["missing"]) == ("gaps-found", 916)
    assert (ended.report["tombstones"], ended.report["unreadable"], ended.report["windows"]) == (1, 0, 6)
    assert "916 events are missing, in 7 ranges of 3 partitions; 1 of 4 partitions is complete." in ended.out


def test_a_scan_signs_its_bundle_as_a_diode_asks_for(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name, keys = topic(), key_pair(tmp_path)
    write(kafka, name, vector_records())
    ended = scan(gapless, kafka, name, f"--signing-key={keys.private}")
    carried = read_bundle_text(json.dumps(ended.bundle).encode(), name="carried")
    check_trusted(carried.metadata, {"receiving-side": public_key_base64(keys.public.read_text())}, bundle="carried")
    unsigned = scan(gapless, kafka, name)
    assert unsigned.bundle is not None
    assert "signature" not in unsigned.bundle["gapless"]
    refused = scan(gapless, kafka, name, f"--signing-key={keys.public}")
    assert refused.code == 2
    assert "contains no PEM private key" in refused.err


def test_more_windows_than_one_process_shall_hold_are_left_to_spark(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    write(kafka, name, [gap("t", 0, first, first + 999, [first]) for first in range(0, 3_000_000, 1000)])
    alone = scan(gapless, kafka, name, "--include-stale")
    assert "reading" not in alone.err
    monkeypatch.setattr("gapless_spark.scan.command.MAX_LOCAL_BYTES", 1_000_000)
    with_spark = scan(gapless, kafka, name, "--include-stale", f"--spark-above={MAX_OFFSET}")
    assert "reading" in with_spark.err
    assert with_spark.gaps == alone.gaps == {("t", 0): [[first] for first in range(0, 3_000_000, 1000)]}


def test_old_records_alone_are_nothing_missing_now_and_only_in_the_bundle_that_asks_for_them(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name = topic(cleanup_policy="compact")
    windows = [gap("t", 0, first, first + 9, [first + 3] if first == 0 else []) for first in range(0, 70, 10)]
    write(kafka, name, windows)
    told = "Nothing is missing now: 7 windows of 1 partition"
    untracked = "1 event in 1 window is no longer tracked by the detector"
    page = tmp_path / "page.html"
    for options, listed in (
        ((), []),
        (("--include-stale",), [[3]]),
        (("--skip-stale=false",), [[3]]),
        (("--skip-stale",), []),
        (("--detector-windows=9",), [[3]]),
    ):
        ended = scan(gapless, kafka, name, "--exit-code", f"--html={page}", *options)
        assert ended.gaps == {("t", 0): listed}
        assert ended.report is not None
        is_tracked = options == ("--detector-windows=9",)
        assert ended.code == (10 if is_tracked else 0), "what is missing now decides, and not what the bundle lists"
        assert (told in ended.out, untracked in ended.out) == (not is_tracked, not is_tracked), ended.out
        assert ended.report["missing_now"] == is_tracked
        assert ended.report["missing"] == len(listed)
        text = page.read_text()
        assert ("--include-stale" in text) is (not listed)
        assert ("Nothing is missing now" in text) is not is_tracked
    bundle = tmp_path / "peer.json"
    peers = GAPLESS.run(
        "create", f"--bootstrapServers={kafka.bootstrap}", f"--topic={name}", f"--resendFileName={bundle}"
    )
    assert peers.returncode == 0, peers.stderr
    assert json.loads(bundle.read_text())["results"][0]["gaps"] == [[3]], "the peer's create lists all records"
    assert f"{untracked}: missing when it last wrote the record, and unknown since. It is in the bundle" in peers.stdout


def test_the_limit_first_keeps_the_first_range_of_each_partition(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    write(kafka, name, vector_records())
    ended = scan(gapless, kafka, name, "--limit=first", "--source-name=site B")
    assert ended.bundle is not None
    assert ended.bundle["type"] == "first"
    assert [ended.gaps["transfer", p] for p in range(4)] == [[[5]], [[0, 899]], [], [[1005]]]
    assert ended.bundle["gapless"]["source"]["name"] == "site B"
    assert ended.report is not None
    assert ended.report["missing"] == 916


def test_transactions_count_when_they_are_committed(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    name = topic(2)
    end_transaction(in_transaction(kafka, name, [gap("t", 0, 0, 9, [1, 2])]), commit=True)
    end_transaction(in_transaction(kafka, name, [gap("t", 0, 0, 9, [7])]), commit=False)
    ended = scan(gapless, kafka, name)
    assert (ended.code, ended.gaps) == (0, {("t", 0): [[1, 2]]})


def test_a_scan_behind_an_open_transaction_is_unknown_and_closes_nothing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name = topic(2, cleanup_policy="compact")
    write(kafka, name, [gap("t", 0, 0, 9, [1, 2])])
    assert scan(gapless, kafka, name).code == 0
    older = (tmp_path / "bundle.json").rename(tmp_path / "older.json")
    write(kafka, name, [gap("t", 0, 0, 9)])
    still_open = in_transaction(kafka, name, [gap("t", 0, 0, 9, [9]), gap("t", 1, 0, 9, [4])])
    options = (f"--compare-with={older}", "--exit-code")
    ended = scan(gapless, kafka, name, *options)
    end_transaction(still_open, commit=True)
    after = scan(gapless, kafka, name, *options)
    assert ended.code == 4
    assert ended.gaps == {("t", 0): []}
    assert ended.report is not None
    assert after.report is not None
    assert "It is unknown whether anything is missing: 2 records of topic" in ended.err
    assert (ended.report["outcome"], ended.report["exit_code"]) == ("unknown-events", 4)
    assert ended.report["unread_behind_transactions"] == 2
    compared = ended.report["reconciliation"]
    assert (compared["closed"], compared["unknown"], compared["settled"]) == (0, 2, False)
    assert (after.code, after.gaps) == (10, {("t", 0): [[9]], ("t", 1): [[4]]})
    assert after.report["unread_behind_transactions"] == 0


def test_the_latest_record_of_a_window_counts_whatever_its_form(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    records = [
        gap("with_under_score", 0, 0, 9, [1]),
        old_gap("with_under_score", 0, 0, 9, [[2], [4, 6]]),  # newer, in the old form
        old_gap("dotted.topic-x", 3, 10, 19, [[1]]),
        gap("dotted.topic-x", 3, 10, 19, [18, 19]),  # newer, in the new form
        gap("t", 1, 0, 9, [5]),
        (b"t_1:0", None),  # taken back under the old form of its key
        gap("t", 1, 10, 19, [15]),
        (b"t:1:10", b""),  # taken back by a tool that cannot write null
        gap("t", 2, 0, 9, [5]),
        gap("t", 2, 0, 9),  # complete meanwhile
    ]
    write(kafka, name, records)
    ended = scan(gapless, kafka, name)
    assert ended.code == 0
    expected = {("with_under_score", 0): [[2], [4, 6]], ("dotted.topic-x", 3): [[18, 19]], ("t", 2): []}
    assert ended.gaps == expected
    assert ended.report is not None
    assert (ended.report["tombstones"], ended.report["complete_windows"]) == (2, 1)


def test_between_partitions_of_the_gaps_topic_the_latest_timestamp_counts(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(2)
    new_key, new_value = gap("t", 0, 0, 9, [3])
    old_key, old_value = gap("t", 0, 0, 9, [4])
    kafka.produce(name, [new_value], partition=0, keys=[new_key], timestamps=[2_000_000])
    kafka.produce(name, [old_value] * 3, partition=1, keys=[old_key] * 3, timestamps=[1_000_000] * 3)
    assert scan(gapless, kafka, name).gaps == {("t", 0): [[3]]}


def test_within_a_partition_the_highest_offset_counts_whatever_its_timestamp(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    (key, first), (_, second) = gap("t", 0, 0, 9, [3]), gap("t", 0, 0, 9, [4])
    kafka.produce(name, [first, second], keys=[key, key], timestamps=[2_000_000, 1_000_000])
    assert scan(gapless, kafka, name).gaps == {("t", 0): [[4]]}


def test_offsets_beyond_what_a_float_holds_are_exact(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    name = topic()
    far, end = 2**53, MAX_OFFSET - 999
    write(
        kafka,
        name,
        [
            gap("t", 0, far, far + 999, [far + 1, far + 3]),
            gap("t", 0, end, MAX_OFFSET, [end, MAX_OFFSET - 1, MAX_OFFSET]),
            gap("t", 1, end, MAX_OFFSET),
        ],
    )
    ended = scan(gapless, kafka, name)
    assert ended.gaps == {("t", 0): [[far + 1], [far + 3], [end], [MAX_OFFSET - 1, MAX_OFFSET]], ("t", 1): []}
    assert ended.bundle is not None
    assert {r["window_max"] for r in ended.bundle["results"]} == {MAX_OFFSET}


def test_many_records_that_replace_each_other_give_what_a_dictionary_gives(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name, chance = topic(4), random.Random(20261120)
    latest: dict[tuple[str, int, int], set[int] | None] = {}
    records: dict[int, list[Record]] = {p: [] for p in range(4)}
    for _ in range(6000):
        source, partition, window = chance.choice(["a", "b_c"]), chance.randrange(3), chance.randrange(40)
        first, last = 100 * window, 100 * window + 99
        missing = set(chance.sample(range(first, last + 1), chance.choice([0, 0, 1, 30])))
        home = hash((source, partition, window)) % 4
        if chance.random() < 0.05:
            latest[source, partition, window] = None
            records[home].append((f"{source}:{partition}:{first}".encode(), None))
            continue
        latest[source, partition, window] = missing
        if chance.random() < 0.3:
            gaps = [[offset - first] for offset in sorted(missing)]
            records[home].append(old_gap(source, partition, first, last, gaps))
        else:
            records[home].append(gap(source, partition, first, last, missing))
    for home, listed in records.items():
        write(kafka, name, listed, home)
    ended = scan(gapless, kafka, name, "--include-stale")
    assert ended.code == 0
    expected: dict[tuple[str, int], set[int]] = {}
    for (source, partition, _), found in latest.items():
        if found is not None:
            expected.setdefault((source, partition), set()).update(found)
    assert {p: {o for g in gaps for o in range(g[0], g[-1] + 1)} for p, gaps in ended.gaps.items()} == expected
    assert ended.report is not None
    assert ended.report["windows"] == sum(found is not None for found in latest.values())
    assert ended.report["complete_windows"] == sum(found == set() for found in latest.values())


def test_records_that_cannot_be_read_are_counted_and_listed_and_the_rest_is_written(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(2)
    superseded = (b"t:9:0", b"\x02 another version")
    records: list[Record] = [gap("t", 0, 0, 9, [3]), superseded, gap("t", 9, 0, 9)]
    records += [(b"taken back", b"x"), (b"taken back", None)]
    write(kafka, name, records)
    garbage: list[Record] = [(b"foreign-%d" % n, b"x" * 5000) for n in range(30)]
    garbage += [(None, b"no key"), (None, b"no key"), (b"t:1:0", b"\x02"), (b"t:2:0", b"{not json"), (b"\xff", b"x")]
    write(kafka, name, garbage, 1)
    ended = scan(gapless, kafka, name, "--include-stale")
    assert ended.code == 4
    assert ended.gaps == {("t", 0): [[3]], ("t", 9): []}
    assert ended.report is not None
    assert (ended.report["outcome"], ended.report["exit_code"]) == ("unreadable-records", 4)
    assert ended.report["unreadable"] == 35
    listed = ended.report["first_unreadable"]
    assert [(r["partition"], r["offset"]) for r in listed] == [(1, n) for n in range(20)]
    assert listed[0]["reason"] == "the key 'foreign-0' is not topic:partition:windowMin"
    assert "35 records of topic" in ended.err
    assert "the bundle holds only what the others report (1 event missing)" in ended.err


def test_a_topic_without_records_is_nothing_to_do(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    name = topic(3)
    ended = scan(gapless, kafka, name)
    assert ended.code == 0
    assert ended.bundle is not None
    assert ended.bundle["results"] == []
    assert ended.report is not None
    assert ended.report["outcome"] == "nothing-to-do"
    assert f"Nothing to do: topic {name} holds no gap records; the bundle is empty." in ended.out


def test_a_topic_of_nothing_but_aborted_transactions_is_nothing_to_do_and_no_hang(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    end_transaction(in_transaction(kafka, name, [gap("t", 0, 0, 9, [1])]), commit=False)
    ended = scan(gapless, kafka, name)
    assert (ended.code, ended.report and ended.report["outcome"]) == (0, "nothing-to-do")


def test_a_compacted_and_trimmed_topic_is_read_to_its_end(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    write(kafka, name, [gap("t", 0, 0, 9, [1]), gap("t", 1, 0, 9, [2]), gap("t", 2, 0, 9, [3])])
    kafka.delete_records(name, 0, 2)
    assert scan(gapless, kafka, name).gaps == {("t", 2): [[3]]}
    kafka.delete_records(name, 0, 3)
    assert scan(gapless, kafka, name).gaps == {}


def test_windows_without_gaps_are_nothing_missing(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    name = topic(cleanup_policy="compact")
    write(kafka, name, [gap("t", 0, 0, 999), gap("t", 0, 1000, 1999)])
    ended = scan(gapless, kafka, name)
    assert (ended.code, ended.gaps) == (0, {("t", 0): []})
    assert ended.report is not None
    assert ended.report["outcome"] == "nothing-missing"
    assert "Nothing is missing: 2 windows of 1 partition" in ended.out


def test_a_missing_topic_is_2_and_is_not_created(kafka: KafkaBroker, gapless: Gapless) -> None:
    ended = scan(gapless, kafka, "no-such-topic")
    assert (ended.code, ended.bundle) == (2, None)
    assert ended.report is not None
    assert ended.report["outcome"] == "topic-missing"
    assert f"gapless: Kafka at {kafka.bootstrap} does not have the topic no-such-topic; correct" in ended.err
    assert "no-such-topic" not in kafka.admin().list_topics(timeout=10).topics


def test_an_unreachable_kafka_is_3_after_the_connect_timeout(gapless: Gapless) -> None:
    ended = gapless("scan", "--bootstrap-servers=127.0.0.1:9", "--topic=gaps", "--spark-above=1", "--connect-timeout=2")
    assert (ended.code, ended.bundle) == (3, None)
    assert ended.report is not None
    assert ended.report["outcome"] == "unreachable"
    assert "Kafka at 127.0.0.1:9 cannot be reached" in ended.err


def test_a_failure_leaves_an_older_bundle_as_it_is(gapless: Gapless, tmp_path: Path) -> None:
    older = tmp_path / "older.json"
    older.write_text("older")
    unreachable = ("--bootstrap-servers=127.0.0.1:9", "--topic=gaps", "--connect-timeout=0.5")
    assert gapless("scan", *unreachable, f"--resend-file-name={older}").code == 3
    assert older.read_text() == "older"


def test_a_denied_topic_is_3_and_says_so(secure_kafka: KafkaBroker, gapless: Gapless, tmp_path: Path) -> None:
    name = secure_kafka.create_topic("denied-gaps")
    write(secure_kafka, name, [gap("t", 0, 0, 9, [1])])
    (tmp_path / "password").write_text(USERS["bob"])
    login = [
        f"--bootstrap-servers={secure_kafka.address('SASL_PLAINTEXT')}",
        f"--topic={name}",
        "--saslMechanism=SCRAM-SHA-512",
        "--sasl-username=bob",
        f"--sasl-password-file={tmp_path / 'password'}",
    ]
    assert gapless("scan", *login).gaps == {("t", 0): [[1]]}
    secure_kafka.deny(name, "bob", AclOperation.READ)
    secure_kafka.allow(name, "bob", AclOperation.DESCRIBE)
    unreadable = gapless("scan", *login)
    assert (unreadable.code, unreadable.bundle) == (3, None)
    assert f"denies access to the topic {name}" in unreadable.err
    secure_kafka.deny(name, "bob")
    hidden = gapless("scan", *login)
    assert (hidden.code, hidden.bundle) == (3, None)
    assert f"denies access to the topic {name}" in hidden.err


def test_a_wrong_password_is_3_and_is_said_at_once(secure_kafka: KafkaBroker, gapless: Gapless, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("not it")
    ended = gapless(
        "scan",
        f"--bootstrap-servers={secure_kafka.address('SASL_PLAINTEXT')}",
        "--topic=any",
        "--connect-timeout=3600",  # Which it must not wait for.
        "--saslMechanism=PLAIN",
        "--sasl-username=alice",
        f"--sasl-password-file={tmp_path / 'password'}",
    )
    assert ended.code == 3
    assert "refuses the connection" in ended.err
    assert "not it" not in ended.err


@pytest.mark.parametrize("form", ["key", "key_encrypted", "key_encrypted_legacy"])
def test_mutual_tls_works_with_a_key_in_every_form(secure_kafka: KafkaBroker, gapless: Gapless, form: str) -> None:
    files, authority = secure_kafka.client_files, secure_kafka.authority
    assert files is not None
    assert authority is not None
    name = secure_kafka.create_topic(f"mutual-{form.replace('_', '-')}")
    write(secure_kafka, name, [gap("t", 0, 0, 9, [1])])
    password = [] if form == "key" else [f"--keyPasswordFile={files.password_file}"]
    ended = gapless(
        "scan",
        f"--bootstrapServers={secure_kafka.address('MTLS')}",
        f"--topic={name}",
        f"--caFile={authority.file}",
        f"--certFile={files.certificate}",
        f"--keyFile={getattr(files, form)}",
        *password,
    )
    assert ended.gaps == {("t", 0): [[1]]}


def test_sasl_over_tls_with_an_authority_only_works(
    secure_kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    assert secure_kafka.authority is not None
    name = secure_kafka.create_topic("sasl-over-tls")
    write(secure_kafka, name, [gap("t", 0, 0, 9, [1])])
    (tmp_path / "password").write_text(USERS["alice"])
    ended = gapless(
        "scan",
        f"--bootstrap-servers={secure_kafka.address('SASL_SSL')}",
        f"--topic={name}",
        f"--ca-file={secure_kafka.authority.file}",
        "--sasl-mechanism=PLAIN",
        "--sasl-username=alice",
        f"--sasl-password-file={tmp_path / 'password'}",
    )
    assert ended.gaps == {("t", 0): [[1]]}


def test_create_as_a_program_writes_the_bundle_to_standard_output_and_nothing_else(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    write(kafka, name, vector_records())
    (tmp_path / "create.properties").write_text(
        f"# for create\nbootstrapServers={kafka.bootstrap}\ntopic={name}\ntargetIP=10.0.0.1\nlogLevel=warn\n"
    )
    ended = subprocess.run(
        [Path(sys.executable).with_name("gapless"), "create", tmp_path / "create.properties"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stderr
    peers = json.loads((VECTORS / "bundle-out-all.json").read_text())["results"]
    assert json.loads(ended.stdout)["results"][:3] == peers
    lines = ended.stderr.splitlines()
    assert lines[0].split()[:2] == ["partition", "missing"]
    assert lines[-1].startswith("916 events are missing")
    assert lines[-2] == "Read by this process, without Spark."
    assert len(lines) == 7, ended.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["create.properties"]


def test_sigterm_ends_a_scan_with_143_and_nothing_written(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    write(kafka, name, vector_records())
    arguments = [f"--bootstrapServers={kafka.bootstrap}", f"--topic={name}", f"--resendFileName={tmp_path / 'bundle'}"]
    running = subprocess.Popen(
        [Path(sys.executable).with_name("gapless"), "scan", "--engine=spark", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert running.stderr is not None
    assert "reading" in running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 143, said
    assert "Stopped by SIGTERM; nothing was written." in said
    assert list(tmp_path.iterdir()) == []
