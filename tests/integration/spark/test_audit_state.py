"""The proof that audits with a state say what one audit of all says, and refuse a state that is not theirs."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.wire.audit_state import AUDIT_STATE
from gapless_archive.store.state_place import HEAD, open_place
from kit.kafka.broker import KafkaBroker
from kit.kafka.transactions import end_transaction, in_transaction
from kit.object_store import ObjectStore
from kit.peer.received_events import Stream, receive_many

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Ended, Gapless

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COUNTED = ("records", "foreign_keys", "received", "duplicates", "missing")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket("audits")
        yield running


def receive(kafka: KafkaBroker, topic: str, keys: Iterable[str | bytes | None], partition: int = 0) -> None:
    listed = [key.encode() if isinstance(key, str) else key for key in keys]
    kafka.produce(topic, [b"event"] * len(listed), partition=partition, keys=listed)


def audit(gapless: Gapless, kafka: KafkaBroker, topics: str, *more: str) -> Ended:
    return gapless("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topics}", *more)


def told(ended: Ended) -> dict[str, Any]:
    assert ended.report is not None
    return {name: ended.report[name] for name in COUNTED}


def of_state(ended: Ended) -> dict[str, Any]:
    assert ended.report is not None
    found: dict[str, Any] = ended.report["state"]
    return found


def refused(ended: Ended, words: str) -> None:
    assert (ended.code, ended.bundle) == (2, None)
    assert words in " ".join(ended.err.split())
    assert ended.report is not None
    assert ended.report["outcome"] == "bad-configuration"


def test_audits_that_go_on_say_what_one_audit_of_everything_says(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name, chance = topic(3), random.Random(11)
    keys: list[str | bytes | None] = []
    for partition in range(1000):
        start = chance.choice([0, 2**20 - 5, 2**53, MAX_OFFSET - 30])
        keys += [f"a_b.c_{partition}_{start + step}" for step in range(30) if chance.random() > 0.2]
    keys += [*chance.sample(keys, 3000), None, "STATUS", b"\xff_1_2", f"t_0_{MAX_OFFSET + 1}"]
    chance.shuffle(keys)
    before = 0
    for number, part in enumerate((keys[:9000], keys[9000:9001], [], keys[9001:])):
        for partition in range(3):
            receive(kafka, name, part[partition::3], partition)
        ended = audit(gapless, kafka, name, f"--state={state}")
        assert ended.code == 0
        kept = of_state(ended)
        assert (kept["records_before"], kept["records_new"]) == (before, len(part))
        assert (kept["continues"] is None) == (number == 0)
        assert kept["bytes"] == sum(file.stat().st_size for file in state.iterdir())
        before += len(part)
    whole = audit(gapless, kafka, name)
    assert ended.gaps == whole.gaps
    assert told(ended) == told(whole)
    assert told(whole)["foreign_keys"] == 4
    assert len(list(state.glob("blocks-*"))) == 1


def test_more_than_a_few_new_records_are_read_by_spark_and_add_up_as_well(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name = topic(2)
    receive(kafka, name, ["transfer_0_0", "transfer_1_0"])
    audit(gapless, kafka, name, f"--state={state}")
    receive_many(kafka, name, [Stream(partition=number) for number in range(2)], 500_100)
    ended = audit(gapless, kafka, name, f"--state={state}")
    assert of_state(ended)["records_new"] == 1_000_200
    streams = [[int(key.rpartition("_")[2]) for key in Stream(partition=number).keys(500_100)] for number in range(2)]
    expected = {("transfer", number): {0, *offsets} for number, offsets in enumerate(streams)}
    assert told(ended)["received"] == sum(len(seen) for seen in expected.values())
    assert told(ended)["missing"] == sum(max(seen) + 1 - len(seen) for seen in expected.values())


def test_transactions_that_end_later_and_what_was_taken_back_count_as_ever(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name = topic()
    for offset, commits in ((0, True), (1, False), (2, True), (3, None)):
        begun = in_transaction(kafka, name, [(f"t_0_{offset}", b"x")])
        if commits is not None:
            end_transaction(begun, commit=commits)
        if offset in {0, 3}:
            ended = audit(gapless, kafka, name, f"--state={state}")
    assert ended.gaps == {("t", 0): []}, "the open transaction may hold offset 1"
    assert told(ended)["received"] == 2
    assert ended.report is not None
    assert ended.report["unknown"] == 1
    end_transaction(begun, commit=True)
    receive(kafka, name, ["t_0_5"])
    ended = audit(gapless, kafka, name, f"--state={state}")
    assert ended.gaps == {("t", 0): [[1], [4]]}
    assert of_state(ended)["records_new"] == 2


def test_a_run_that_ended_between_the_files_and_the_head_is_repeated_without_harm(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name = topic()
    receive(kafka, name, ["t_0_0", "t_0_2"])
    state.mkdir()
    (state / "blocks-00000001-0000abcd.arrow").write_bytes(b"cut sho")  # before the first head
    (state / ".state.json.x1y2.tmp").write_bytes(b"{")
    assert audit(gapless, kafka, name, f"--state={state}").gaps == {("t", 0): [[1]]}
    first = {file.name: file.read_bytes() for file in state.iterdir()}
    assert sorted(first) == sorted(["lock", HEAD, next(file for file in first if file.startswith("blocks-"))])
    receive(kafka, name, ["t_0_4"])
    after = audit(gapless, kafka, name, f"--state={state}")
    second = {file.name: file.read_bytes() for file in state.iterdir()}
    # The new file is there, the head is still the old one: the new records are read again, and once.
    for file in state.iterdir():
        file.unlink()
    for file_name, content in {**second, **first}.items():
        (state / file_name).write_bytes(content)
    again = audit(gapless, kafka, name, f"--state={state}")
    assert (again.gaps, told(again)) == (after.gaps, told(after))
    # The new head is there, and the old file was not yet removed.
    for file_name, content in {**first, **second}.items():
        (state / file_name).write_bytes(content)
    assert told(audit(gapless, kafka, name, f"--state={state}")) == told(after)
    receive(kafka, name, ["t_0_1"])
    assert audit(gapless, kafka, name, f"--state={state}").gaps == {("t", 0): [[3]]}
    assert len(list(state.iterdir())) == 3


def test_a_damaged_or_later_state_is_refused_and_left_as_it_is(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path, tmp_path: Path
) -> None:
    name = topic()
    for key in ("t_0_0", "t_0_2"):
        receive(kafka, name, [key])
        audit(gapless, kafka, name, f"--state={state}")
    sound = tmp_path / "sound"
    shutil.copytree(state, sound)
    blocks = next(state.glob("blocks-*")).name
    content, head = (sound / blocks).read_bytes(), json.loads((sound / HEAD).read_text())
    later = AUDIT_STATE.version + 1
    damage: list[tuple[str, bytes | None, str]] = [
        (blocks, None, "cannot be read"),
        (blocks, content[:-1], "does not match its digest"),
        (blocks, content[:99] + bytes([content[99] ^ 1]) + content[100:], "does not match its digest"),
        (HEAD, None, "its head state.json is missing"),
        (HEAD, b"", "it is not a JSON object"),
        (HEAD, (sound / HEAD).read_bytes()[:-9], "it is not a JSON object"),
        (HEAD, json.dumps({**head, "records": 1}).encode(), "does not match its digest"),
        (
            HEAD,
            json.dumps({**head, AUDIT_STATE.marker: later}).encode(),
            f"has version {later}, and this program reads version {AUDIT_STATE.version}",
        ),
        (HEAD, b'{"name": "another program\'s"}', "the head of the audit state has no version"),
    ]
    for file, bad, words in damage:
        if bad is None:
            (state / file).unlink()
        else:
            (state / file).write_bytes(bad)
        refused(audit(gapless, kafka, name, f"--state={state}"), words)
        assert (state / file).read_bytes() == bad if bad is not None else not (state / file).exists()
        (state / file).write_bytes((sound / file).read_bytes())
    assert audit(gapless, kafka, name, f"--state={state}").code == 0


def test_a_state_of_something_else_is_refused(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path, tmp_path: Path
) -> None:
    name, other = topic(), topic()
    receive(kafka, name, ["t_0_0", "t_0_2"])
    audit(gapless, kafka, name, f"--state={state}")
    words = f"belongs to the topics {name}, but this audit reads {other}"
    refused(audit(gapless, kafka, other, f"--state={state}"), words)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    refused(audit(gapless, kafka, name, f"--state={tmp_path / 'mine'}"), "is not an audit's state")
    refused(audit(gapless, kafka, name, f"--state={tmp_path / 'no' / 'folder'}"), "No such file or directory")
    head = json.loads((state / HEAD).read_text())
    with KafkaBroker() as elsewhere:
        elsewhere.create_topic(name)
        refused(audit(gapless, elsewhere, name, f"--state={state}"), f"to the Kafka cluster {head['cluster_id']}")


def test_records_that_expire_when_they_were_read_do_no_harm_and_a_recreated_topic_is_refused(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name = topic(2)
    receive(kafka, name, [f"t_0_{offset}" for offset in range(5)])
    audit(gapless, kafka, name, f"--state={state}")
    receive(kafka, name, [f"t_0_{offset}" for offset in range(5, 12)])
    kafka.delete_records(name, 0, 5)
    ended = audit(gapless, kafka, name, f"--state={state}")
    assert (ended.code, told(ended)["received"]) == (0, 12)  # all that expired had been read
    kafka.delete_topic(name)
    kafka.create_topic(name, 2)
    refused(audit(gapless, kafka, name, f"--state={state}"), "was deleted and recreated")


def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    name = topic()
    receive(kafka, name, ["t_0_0"])
    audit(gapless, kafka, name, f"--state={state}")
    kafka.add_partitions(name, 3)
    receive(kafka, name, ["t_0_3", "t_0_1"], 2)
    ended = audit(gapless, kafka, name, f"--state={state}")
    assert ended.gaps == {("t", 0): [[2]]}
    assert of_state(ended)["records_new"] == 2


def test_a_state_in_use_is_refused_to_a_second_audit(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, state: Path
) -> None:
    from gapless_archive.store.access import S3Access  # noqa: PLC0415

    name = topic()
    receive(kafka, name, ["t_0_0"])
    with open_place(state, S3Access()):
        refused(audit(gapless, kafka, name, f"--state={state}"), f"Another audit uses the state {state}")
    assert audit(gapless, kafka, name, f"--state={state}").code == 0


def test_a_state_in_an_object_store_goes_on_and_only_one_of_two_audits_changes_it(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, store: ObjectStore, tmp_path: Path
) -> None:
    from gapless_archive.store.access import S3Access  # noqa: PLC0415
    from gapless_archive.store.object_store import ObjectAddress  # noqa: PLC0415
    from gapless_archive.store.state_place import StateError  # noqa: PLC0415

    name = topic()
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    access = [
        f"--s3-endpoint={store.endpoint}",
        f"--s3-access-key-id-file={tmp_path / 'access'}",
        f"--s3-secret-access-key-file={tmp_path / 'secret'}",
    ]
    receive(kafka, name, ["t_0_0", "t_0_4"])
    assert audit(gapless, kafka, name, f"--state=s3a://audits/{name}/", *access).gaps == {("t", 0): [[1, 3]]}
    mine = S3Access(store.endpoint, access_key_file=tmp_path / "access", secret_key_file=tmp_path / "secret")
    with open_place(ObjectAddress("audits", name), mine) as late:
        head = late.head()
        assert head is not None
        receive(kafka, name, ["t_0_2"])
        ended = audit(gapless, kafka, name, f"--state=s3://audits/{name}", *access)
        assert (ended.gaps, of_state(ended)["records_new"]) == ({("t", 0): [[1], [3]]}, 1)
        kept = store.keys("audits")
        with pytest.raises(StateError, match="Another audit has changed the state"):
            late.commit(head, json.loads(head)["blocks_file"])
    assert store.keys("audits") == kept
    assert [key.partition("/")[2][:7] for key in kept if key.startswith(f"{name}/")] == ["blocks-", "state.j"]
    again = audit(gapless, kafka, name, f"--state=s3://audits/{name}", *access)
    assert (again.gaps, told(again)) == (ended.gaps, told(ended))
