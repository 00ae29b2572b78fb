"""The proof that events which Kafka has deleted are resent from an archive, each once and byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.kafka.transactions import end_transaction, in_transaction
from kit.object_store import ObjectStore
from kit.peer.opening import Opener
from kit.peer.reassembly import FragmentCache, parse
from kit.story.commands import GAPLESS
from kit.story.peer_segments import write_peer_segment
from kit.story.resending import Ended, Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

    Archive = Callable[..., None]

pytestmark = pytest.mark.integration

EVENTS = 20_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def archive(kafka: KafkaBroker, place: Path) -> Archive:
    """Archives topics as they are now."""

    def run(*topics: str, **settings: Any) -> None:
        given = {"bootstrapServers": kafka.bootstrap, "archive": place, "region": "here", "engine": "local", **settings}
        options = (f"--{name}={value}" for name, value in given.items())
        done = GAPLESS.run("archive", "--once", f"--topics={','.join(topics)}", *options)
        assert done.returncode == 0, done.stderr

    return run


def received(datagrams: list[bytes]) -> dict[str, bytes]:
    """The events as the peer's receiver puts them together, by their ids; each must have come once."""
    cache, opener = FragmentCache(), Opener(None)
    found: dict[str, bytes] = {}
    for datagram in events_of(datagrams):
        message = cache.add(parse(datagram), 0.0)
        if message is not None:
            event = opener.open(message, 0.0)
            assert event.event_id not in found
            found[event.event_id] = event.value
    return found


def in_kafka(kafka: KafkaBroker, topic: str) -> dict[str, bytes]:
    return {f"{topic}_{one.partition()}_{one.offset()}": one.value() or b"" for one in kafka.read(topic)}


def reasons(ended: Ended) -> dict[str, int]:
    assert ended.report is not None, ended.stderr
    found: dict[str, int] = ended.report["unavailable"]
    return found


def objects(place: Path) -> list[Path]:
    return sorted(place.rglob("*.parquet"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_events_come_from_both_places_byte_for_byte(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    resend: Resend,
    listener: Listener,
    parallelism: int,
) -> None:
    name, chance = topic(3), random.Random(5)
    for partition in range(3):
        values: list[Any] = [chance.randbytes(chance.choice([0, 1, 30, 5000])) for _ in range(500)]
        values[10], values[450] = None, None
        kafka.produce(name, values, partition=partition)
    end_transaction(in_transaction(kafka, name, [(b"k", b"aborted")] * 3), commit=False)
    everything = in_kafka(kafka, name)
    archive(name, maxSegmentRecords=100)
    for partition, low in enumerate((300, 0, 600)):
        kafka.delete_records(name, partition, min(low, kafka.watermarks(name)[partition][1]))
    wanted = {(name, number): [[0, 99], [150], [152], [250, 420], [499]] for number in range(3)}
    settings = {"resendFileName": resend.bundle(wanted), "parallelism": parallelism}
    asked = {
        f"{name}_{partition}_{offset}"
        for partition in range(3)
        for offset in (*range(100), 150, 152, *range(250, 421), 499)
    }
    without = resend.run(**settings)
    assert without.exit_code == 4
    assert without.ledger["unavailable"] == reasons(without)["Expired"] == 152 + 274
    listener.settled()
    listener.forget()
    ended = resend.run(**settings, archive=place)
    assert ended.exit_code == 0, ended.stderr
    assert ended.report is not None
    assert (ended.ledger["sent"], ended.report["fromArchive"]) == (3 * 274, 152 + 274)
    assert received(listener.settled()) == {identity: everything[identity] for identity in asked}


def test_events_come_from_segments_of_kafka_replicator(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, resend: Resend, listener: Listener
) -> None:
    name, chance = topic(), random.Random(7)
    kafka.produce(name, [chance.randbytes(chance.choice([1, 30, 5000])) for _ in range(300)])
    everything = in_kafka(kafka, name)
    records = {
        one.offset() or 0: {"value": one.value(), "timestamp": one.timestamp()[1] * 1_000_000}
        for one in kafka.read(name)
    }
    for first, end in ((0, 120), (90, 200)):
        write_peer_segment(place, range(first, end), records=records, region="here", topic=name)
    kafka.delete_records(name, 0, 180)
    asked = [*range(50, 55), *range(100, 190), 250]
    ended = resend.run(resendFileName=resend.bundle({(name, 0): [[50, 54], [100, 189], [250]]}), archive=place)
    assert ended.exit_code == 0, ended.stderr
    assert ended.report is not None
    assert (ended.ledger["sent"], ended.report["fromArchive"]) == (96, 85)
    assert "make sure that its events are those of the current topic" in ended.stderr
    found = received(listener.settled())
    assert found == {f"{name}_0_{offset}": everything[f"{name}_0_{offset}"] for offset in asked}


def test_events_come_from_what_we_have_archived_in_that_layout(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, resend: Resend, listener: Listener
) -> None:
    name, chance = topic(), random.Random(8)
    kafka.produce(name, [chance.randbytes(chance.choice([1, 30, 5000])) for _ in range(300)])
    everything = in_kafka(kafka, name)
    archive(name, layout="kafka-replicator", maxSegmentRecords=70)
    kafka.delete_records(name, 0, 290)
    asked = [*range(50, 55), *range(138, 142), 250, 295]
    bundle = resend.bundle({(name, 0): [[50, 54], [138, 141], [250], [295]]})
    ended = resend.run(resendFileName=bundle, archive=place)
    assert ended.exit_code == 0, ended.stderr
    assert ended.report is not None
    assert (ended.ledger["sent"], ended.report["fromArchive"]) == (11, 10)
    assert "in the layout of kafka-replicator, which stores null as empty" in ended.stderr
    found = received(listener.settled())
    assert found == {f"{name}_0_{offset}": everything[f"{name}_0_{offset}"] for offset in asked}


def test_the_plan_says_what_comes_from_where_and_what_is_in_neither(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, resend: Resend
) -> None:
    name = topic()
    kafka.produce(name, [b"x" * 100] * 100)
    end_transaction(in_transaction(kafka, name, [(b"k", b"v")]), commit=True)  # 100, and its marker is 101
    archive(name)
    kafka.produce(name, [b"y"] * 98)  # 102 to 199
    kafka.delete_records(name, 0, 110)
    settings = {"resendFileName": resend.bundle({(name, 0): [[90, 119], [190, 209]]}), "plan": True}
    plan = resend.run(**settings, archive=place).report
    assert plan is not None
    found = {member: plan[member] for member in ("events", "fromKafka", "fromArchive", "unavailable")}
    assert found == {
        "events": 31,
        "fromKafka": 20,
        "fromArchive": 11,
        "unavailable": {"Expired": 8, "NonExistent": 1, "NotYetWritten": 10},
    }
    (partition,) = plan["partitions"]
    assert (partition["fromArchive"], partition["expired"], partition["notYetWritten"]) == (11, 8, 10)
    without = resend.run(**settings).report
    assert without is not None
    assert (without["fromArchive"], without["unavailable"]["Expired"]) == (0, 20)


def test_a_time_range_has_what_only_the_archive_still_has(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"%d" % number for number in range(100)], timestamps=count(1_000_000, 1000))
    archive(name, maxSegmentRecords=10)
    kafka.delete_records(name, 0, 60)
    chosen = {"topic": name, "from": "1970-01-01T00:17:15Z", "to": "1970-01-01T00:17:55.500Z", "archive": place}
    plan = resend.run(**chosen, plan=True).report
    assert plan is not None
    # Segments that begin or end outside the range count in whole, because a plan reads no records.
    assert (plan["fromKafka"], plan["fromArchive"]) == (16, 30)
    ended = resend.run(**chosen)
    assert ended.exit_code == 0, ended.stderr
    assert received(listener.settled()) == {f"{name}_0_{number}": b"%d" % number for number in range(35, 76)}
    assert ended.report is not None
    assert ended.report["fromArchive"] == 25


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as found:
        yield found


def test_processes_killed_in_the_middle_go_on_from_a_store_and_send_no_more_twice_than_promised(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    store: ObjectStore,
    resend: Resend,
    listener: Listener,
    tmp_path: Path,
) -> None:
    name = topic(2)
    for partition in range(2):
        kafka.produce(name, (b"%d" % number for number in range(EVENTS)), partition=partition)
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    bucket = store.make_bucket(f"archive-{os.getpid()}")
    access = {
        "archive": f"s3://{bucket}/archive",
        "s3Endpoint": store.endpoint,
        "s3AccessKeyIdFile": tmp_path / "access",
        "s3SecretAccessKeyFile": tmp_path / "secret",
    }
    archive(name, **access, maxSegmentRecords=3000)
    for partition in range(2):
        kafka.delete_records(name, partition, EVENTS - 2000)
    settings = {
        "resendFileName": resend.bundle({(name, number): [[0, EVENTS - 1]] for number in range(2)}),
        "checkpoint": tmp_path / "checkpoint",
        "parallelism": 2,
        **access,
        "archiveRegion": "here",
    }
    eps = 4000
    process = resend.start(**settings, eps=eps, own_group=True)
    listener.wait_for(9000)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    sent_before = len(set(ids_of(listener.settled())))
    assert 8000 < sent_before < 2 * EVENTS
    ended = resend.run(**settings)
    assert ended.exit_code == 0, ended.stderr
    times = Counter(ids_of(listener.settled()))
    assert set(times) == {f"{name}_{partition}_{offset}" for partition in range(2) for offset in range(EVENTS)}
    assert sum(times.values()) - len(times) <= eps, "a kill repeats less than a second of the pace"
    assert ended.report is not None
    assert ended.ledger["sent"] == 2 * EVENTS
    assert ended.report["fromArchive"] == 2 * (EVENTS - 2000)


def test_a_damaged_segment_is_named_and_what_it_had_is_sent_when_it_is_back(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"%d" % number for number in range(90)])
    archive(name, maxSegmentRecords=30, maxSegmentBytes=500)
    kafka.delete_records(name, 0, 85)
    broken = objects(place)[0]
    content = broken.read_bytes()
    broken.unlink()
    settings = {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": 89, "archive": place}
    settings |= {"checkpoint": resend.folder / "checkpoint"}
    ended = resend.run(**settings)
    assert ended.exit_code == 4
    assert str(broken) in ended.stderr
    assert ended.report is not None
    (damaged,) = ended.report["damaged"]
    assert damaged["object"] == str(broken)
    lost = reasons(ended)["ArchiveDamaged"]
    assert 0 < lost < 85
    assert ended.ledger["sent"] == 90 - lost
    before = received(listener.settled())
    listener.forget()
    broken.write_bytes(content)
    again = resend.run(**settings)
    assert again.exit_code == 0, again.stderr
    after = received(listener.settled())
    assert len(after) == lost
    assert before | after == {f"{name}_0_{number}": b"%d" % number for number in range(90)}
    assert again.ledger["sent"] == 90
    assert again.report is not None
    assert again.report["partitions"][0]["ranges"] == {"sent": [[0, 89]]}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_had_expired_in_an_earlier_run_is_sent_once_an_archive_is_given(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    resend: Resend,
    listener: Listener,
    parallelism: int,
) -> None:
    name = topic(2)
    for partition in range(2):
        kafka.produce(name, [b"%d" % number for number in range(5000)], partition=partition)
        kafka.delete_records(name, partition, 10)
    archive(name)
    for partition in range(2):
        kafka.delete_records(name, partition, 4000)
    settings = {
        "resendFileName": resend.bundle({(name, number): [[0, 4999]] for number in range(2)}),
        "checkpoint": resend.folder / "checkpoint",
        "parallelism": parallelism,
    }
    assert reasons(resend.run(**settings)) == {"Expired": 8000}
    listener.settled()
    listener.forget()
    plan = resend.run(**settings, archive=place, plan=True).report
    assert plan is not None
    assert (plan["events"], plan["fromArchive"], plan["sentBefore"]) == (7980, 7980, 2000)
    process = resend.start(**settings, archive=place, eps=2000, own_group=True)
    listener.wait_for(3000)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    ended = resend.run(**settings, archive=place)
    assert ended.exit_code == 4
    assert reasons(ended) == {"Expired": 20}
    assert ended.ledger["sent"] == 2 * 4990
    assert ended.report is not None
    assert ended.report["fromArchive"] == 2 * 3990
    times = Counter(ids_of(listener.settled()))
    assert set(times) == {f"{name}_{partition}_{offset}" for partition in range(2) for offset in range(10, 4000)}
    assert sum(times.values()) - len(times) <= 2000, "a kill repeats less than a second of the pace"


def test_a_topic_that_kafka_no_longer_has_comes_from_the_archive_and_a_recreated_one_is_refused(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, resend: Resend, listener: Listener
) -> None:
    name = topic(2)
    kafka.produce(name, [b"a", b"b", b"c"], partition=1)
    archive(name)
    kafka.delete_topic(name)
    assert resend.run(topic=name, partition=1, offsetFrom=0, offsetTo=3).exit_code == 2
    gone = resend.run(topic=name, partition=1, offsetFrom=0, offsetTo=3, archive=place)
    assert gone.exit_code == 4
    assert reasons(gone) == {"Expired": 1}
    assert received(listener.settled()) == {f"{name}_1_{number}": b"abc"[number : number + 1] for number in range(3)}
    kafka.create_topic(name, 2)
    kafka.produce(name, [b"d", b"e", b"f"], partition=1)
    kafka.delete_records(name, 1, 2)
    listener.forget()
    recreated = resend.run(topic=name, partition=1, offsetFrom=0, offsetTo=2, archive=place)
    assert recreated.exit_code == 2
    assert "whose offsets identify other events" in recreated.stderr
    assert events_of(listener.settled()) == []


def test_nothing_of_an_archive_is_loaded_while_nothing_has_expired(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, place: Path
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 10)
    program = (
        "import sys\nfrom gapless_api.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('pyarrow', 'obstore') if name in sys.modules], file=sys.stderr)"
    )
    command = resend.command(topic=name, partition=0, offsetFrom=0, offsetTo=9, archive=place)
    done = subprocess.run([sys.executable, "-c", program, *command[1:]], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"
