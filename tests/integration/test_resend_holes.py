"""The proof that what Kafka no longer has is named with its reason, or filled, and the account adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.kafka.transactions import write_transactions
from kit.machine.processes import wait_until
from kit.story.resending import Ended, Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration


def partition_of(ended: Ended) -> dict[str, Any]:
    assert ended.report is not None, ended.stderr
    found: dict[str, Any] = ended.report["partitions"][0]
    return found


def test_expired_and_unwritten_offsets_are_listed_with_their_reasons(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 100)
    kafka.delete_records(name, 0, 40)
    ended = resend.run(resendFileName=resend.bundle({(name, 0): [[10], [30, 45], [95, 120]]}))
    assert ended.exit_code == 4
    assert ended.ledger == {
        "planned": 43, "sent": 11, "filtered": 0, "filled": 0, "unavailable": 32, "remaining": 0, "outsideTimeRange": 0,
    }  # fmt: skip
    ranges = partition_of(ended)["ranges"]
    assert ranges["Expired"] == [[10, 10], [30, 39]]
    assert ranges["NotYetWritten"] == [[100, 120]]
    assert ranges["sent"] == [[40, 45], [95, 99]]
    assert "11 Expired, 21 NotYetWritten" in ended.stderr
    assert len(events_of(listener.settled())) == 11


@pytest.mark.parametrize("behind", [11, 5_000])
def test_an_offset_behind_the_end_is_not_yet_written_however_it_is_requested(
    behind: int, kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 10)
    chosen = {"topic": name, "partition": 0, "offsetFrom": behind}
    for selection in (
        chosen,
        chosen | {"offsetTo": behind},
        {"resendFileName": resend.bundle({(name, 0): [[behind]]})},
        {"resendFileName": resend.bundle({(name, 0): [[behind]]}, kind="first")},
    ):
        ended = resend.run(**selection, eps=1000)
        assert ended.exit_code == 4, ended.stderr
        assert partition_of(ended)["ranges"] == {"NotYetWritten": [[behind, behind]]}
        assert "Sent 0 of 1 events; unavailable: 1 (1 NotYetWritten)" in ended.stderr
        plan = resend.run(**selection, eps=1000, plan=True).report
        assert plan is not None
        assert (plan["events"], plan["unavailable"]) == (0, {"NotYetWritten": 1})
    at_the_end = resend.run(topic=name, partition=0, offsetFrom=10, eps=1000)
    assert at_the_end.exit_code == 0, "nothing was written since: there is nothing to do"
    assert "Nothing to do: no events are selected" in at_the_end.stderr
    assert events_of(listener.settled()) == []


@pytest.mark.parametrize("kind", ["", "first"])
def test_an_open_range_that_begins_behind_the_end_gets_its_end_once_it_has_begun(
    kind: str, kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"early"] * 10)
    settings: dict[str, Any] = {"checkpoint": resend.folder / "checkpoint", "eps": 1000}
    if kind:
        settings["resendFileName"] = resend.bundle({(name, 0): [[12]]}, kind=kind)
    else:
        settings |= {"topic": name, "partition": 0, "offsetFrom": 12}
    for _ in range(2):
        assert resend.run(**settings).exit_code == 4
    kafka.produce(name, [b"later"] * 5)
    begun = resend.run(**settings)
    assert begun.exit_code == 0, begun.stderr
    assert partition_of(begun)["ranges"]["sent"] == [[12, 14]]
    kafka.produce(name, [b"too late"])
    again = resend.run(**settings)
    assert again.exit_code == 0
    assert "Nothing to do: everything was sent" in again.stderr
    assert sorted(ids_of(listener.settled())) == [f"{name}_0_{offset}" for offset in (12, 13, 14)]


def test_fill_closes_what_is_gone_but_not_what_may_still_come(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 100)
    kafka.delete_records(name, 0, 40)
    ended = resend.run(
        resendFileName=resend.bundle({(name, 0): [[10], [30, 45], [95, 120]]}),
        unavailable="fill",
        fill="NonExistent,Expired",
    )
    assert ended.exit_code == 4
    assert ended.ledger["filled"] == 11
    assert ended.ledger["unavailable"] == 21
    events = {ids_of([datagram])[0]: datagram for datagram in events_of(listener.settled())}
    assert len(events) == 22
    assert events[f"{name}_0_30"].endswith(b"427e\x00\x00")
    assert events[f"{name}_0_40"].endswith(b"\x00\x01x")


def test_transaction_markers_are_stepped_over_and_aborted_records_are_sent(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    write_transactions(kafka, name, True, False, True)
    # 0-2 data, 3 marker, 4-6 aborted data, 7 marker, 8-10 data, 11 marker
    settings = {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": 11}
    ended = resend.run(**settings)
    assert ended.exit_code == 4
    assert partition_of(ended)["ranges"] == {
        "sent": [[0, 2], [4, 6], [8, 10]],
        "NonExistent": [[3, 3], [7, 7], [11, 11]],
    }
    committed = resend.run(**settings, isolationLevel="read_committed")
    assert partition_of(committed)["ranges"]["NonExistent"] == [[3, 7], [11, 11]]
    listener.settled()
    listener.forget()
    filled = resend.run(**settings, unavailable="fill")
    assert filled.exit_code == 0, filled.stderr
    assert filled.ledger["filled"] == 3
    assert sorted(ids_of(listener.settled())) == sorted(f"{name}_0_{offset}" for offset in range(12))
    open_end = resend.run(topic=name, partition=0, offsetFrom=1)
    assert open_end.exit_code == 0, "an open end asks for what there is"
    assert open_end.ledger["planned"] == 8


def test_a_compacted_topic_is_resent_around_its_holes(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100"
    )
    keys = [b"%d" % (offset % 50) for offset in range(500)]
    kafka.produce(name, (b"value %d" % offset for offset in range(500)), keys=keys)

    def left() -> list[int]:
        kafka.produce(
            name, [b"end"], keys=[b"end"]
        )  # Each new record lets a segment end, which lets the cleaner begin.
        return [offset for offset in (message.offset() for message in kafka.read(name)) if offset < 500]

    wait_until(lambda: len(left()) == 50, timeout_seconds=240, what="the cleaner's round")
    ended = resend.run(resendFileName=resend.bundle({(name, 0): [[100, 200], [400, 499]]}))
    assert ended.exit_code == 4
    kept = set(range(450, 500))
    assert ended.ledger["sent"] == len(kept)
    assert ended.report is not None
    assert ended.report["unavailable"] == {"NonExistent": 201 - len(kept)}
    assert {int(identity.rpartition("_")[2]) for identity in ids_of(listener.settled())} == kept


def test_an_event_of_more_fragments_than_the_receiver_joins_is_reported(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"a", b"b" * 60_000, b"c"])
    settings = {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": 2, "maxFragments": 20}
    ended = resend.run(**settings)
    assert ended.exit_code == 4
    assert partition_of(ended)["ranges"] == {"sent": [[0, 0], [2, 2]], "TooLarge": [[1, 1]]}
    assert len(events_of(listener.settled())) == 2
    filled = resend.run(**settings, unavailable="fill", fill="TooLarge")
    assert filled.exit_code == 0
    assert partition_of(filled)["ranges"] == {"sent": [[0, 0], [2, 2]], "filled": [[1, 1]]}


def test_a_long_expired_range_is_filled_batch_by_batch(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 50_000)
    kafka.delete_records(name, 0, 49_990)
    ended = resend.run(
        topic=name,
        partition=0,
        offsetFrom=0,
        offsetTo=49_999,
        unavailable="fill",
        fill="Expired",
        checkpoint=resend.folder / "c",
    )
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["filled"] == 49_990
    assert ended.ledger["sent"] == 10
    assert len(set(ids_of(listener.settled()))) == 50_000
