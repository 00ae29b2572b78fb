"""The proof that whatever becomes of records, and however they were written, each is sent or named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import stopped, wait_until
from kit.peer.reassembly import parse
from kit.story.resending import Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


def test_records_that_are_compacted_while_we_read_are_told_from_those_that_were_sent(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(segment_bytes=str(2 * MIB))
    events, keys = 8000, 40
    kafka.produce(
        name, (b"%d " % n + bytes(10_000) for n in range(events)), keys=(b"%d" % (n % keys) for n in range(events))
    )
    settings = {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": events - 1, "payloadSize": 12_000}
    process = resend.start(**settings, eps=500)
    listener.wait_for(300)

    def left() -> set[int]:
        return {message.offset() for message in kafka.read(name) if message.offset() < events}

    with stopped(process):
        kafka.alter_topic(
            name,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.001",
            max_compaction_lag_ms="100",
        )
        # The last segment is never compacted.
        kafka.produce(name, [bytes(MIB // 2)] * 6, keys=[b"end"] * 6)
        wait_until(lambda: len(left()) < events // 2, what="the cleaner's first round")
    ended = resend.ended(process)
    assert ended.exit_code == 4, ended.stderr
    assert ended.ledger["remaining"] == 0
    assert ended.report is not None
    assert set(ended.report["unavailable"]) == {"NonExistent"}
    came = {int(identity.rpartition("_")[2]) for identity in ids_of(listener.settled())}
    assert left() <= came, "what the topic still has was sent"
    gone = {n for first, last in ended.report["partitions"][0]["ranges"]["NonExistent"] for n in range(first, last + 1)}
    assert came | gone == set(range(events))
    assert not came & gone


def test_what_an_open_transaction_holds_back_is_not_yet_written_and_comes_in_the_next_run(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"before"] * 10)
    still_open = in_transaction(kafka, name, [(None, b"held back")] * 5)
    settings = {
        "resendFileName": resend.bundle({(name, 0): [[5, 14]]}),
        "checkpoint": resend.folder / "checkpoint",
        "isolationLevel": "read_committed",
    }
    first = resend.run(**settings)
    assert first.exit_code == 4, first.stderr
    assert first.report is not None
    assert first.report["partitions"][0]["ranges"] == {"sent": [[5, 9]], "NotYetWritten": [[10, 14]]}
    end_transaction(still_open, commit=True)
    second = resend.run(**settings)
    assert second.exit_code == 0, second.stderr
    assert second.ledger["sent"] == second.ledger["planned"] == 10
    assert sorted(ids_of(listener.settled())) == sorted(f"{name}_0_{offset}" for offset in range(5, 15))


def test_events_that_were_not_yet_written_are_sent_by_a_later_run_with_the_same_checkpoint(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(2)
    kafka.produce(name, [b"early"] * 100)
    wanted = {(name, 0): [[90, 95], [98, 109], [115, 119]], (name, 1): [[0, 9]]}
    settings = {"resendFileName": resend.bundle(wanted), "checkpoint": resend.folder / "checkpoint"}
    first = resend.run(**settings)
    assert first.exit_code == 4, first.stderr
    assert (first.ledger["sent"], first.ledger["unavailable"]) == (8, 25)
    kafka.produce(name, [b"later"] * 6)
    kafka.produce(name, [b"later"] * 10, partition=1)
    second = resend.run(**settings, parallelism=2)
    assert second.exit_code == 4, second.stderr
    assert (second.ledger["sent"], second.ledger["unavailable"]) == (24, 9)
    kafka.produce(name, [b"last"] * 14)
    third = resend.run(**settings)
    assert third.exit_code == 0, third.stderr
    assert third.ledger["sent"] == third.ledger["planned"] == 33
    again = resend.run(**settings, bootstrapServers="127.0.0.1:1")
    assert "Nothing to do" in again.stderr
    expected = [
        f"{name}_{part}_{n}" for (_, part), ranges in wanted.items() for a, b in ranges for n in range(a, b + 1)
    ]
    assert sorted(ids_of(listener.settled())) == sorted(expected)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_topic_that_was_compressed_is_read_with_every_codec(
    codec: str, kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    bodies = [b"%d of %s " % (n, codec.encode()) + b"much the same " * 20 for n in range(2000)]
    kafka.write(name, ({"value": text, "partition": 0} for text in bodies), compression_type=codec, linger_ms=50)
    ended = resend.run(resendFileName=resend.bundle({(name, 0): [[0, 1], [500, 999], [1998, 1999]]}), payloadSize=1400)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 504
    came = {packet.event_id: packet.payload for packet in map(parse, events_of(listener.settled()))}
    wanted = [0, 1, *range(500, 1000), 1998, 1999]
    assert came == {f"{name}_0_{n}": bodies[n] for n in wanted}


def test_an_event_of_20_mib_arrives_whole_or_is_named_as_too_large(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(max_message_bytes=str(22 * MIB))
    large = bytes(range(256)) * (20 * MIB // 256)
    kafka.produce(name, [b"before", large, b"behind"])
    settings = {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": 2, "payloadSize": 1400}
    refused = resend.run(**settings)
    assert refused.exit_code == 4, refused.stderr
    assert refused.report is not None
    assert refused.report["partitions"][0]["ranges"] == {"sent": [[0, 0], [2, 2]], "TooLarge": [[1, 1]]}
    assert len(events_of(listener.settled())) == 2
    listener.forget()
    ended = resend.run(**settings, maxFragments=65_535, bitsPerSecond="200M")
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 3
    packets = [parse(datagram, 65_535) for datagram in events_of(listener.settled())]
    fragments = {packet.number: packet.payload for packet in packets if packet.event_id == f"{name}_0_1"}
    assert len(fragments) == next(packet.announced for packet in packets if packet.event_id == f"{name}_0_1")
    assert b"".join(fragments[number] for number in sorted(fragments)) == large
