"""The behaviour of the wire format beside the captured vectors."""

from __future__ import annotations

import contextlib
import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET, EventId
from gapless_sender.wire.packets import (
    GZIP_FLAG,
    HEADER_BYTES,
    MAX_FRAGMENTS,
    RECEIVER_FRAGMENTS,
    RECEIVER_KEEPS_SECONDS,
    EventPacketizer,
    PacketError,
    PacketType,
    event_fragments,
    finished_text,
    fragment_count,
    packetize,
    rfc3339,
    starting_text,
    status_packet,
    stopping_text,
)
from kit.machine.examples import examples
from kit.peer.strict_packets import MalformedPacketError, Message, Packet, Reassembler, parse_packet

MIB = 1024 * 1024
types = st.sampled_from(
    [PacketType.CLEAR, PacketType.CLEAR | GZIP_FLAG, PacketType.ENCRYPTED, PacketType.ENCRYPTED | GZIP_FLAG]
)
topics = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249)
partitions = st.integers(0, 2**31 - 1)
offsets = st.integers(0, MAX_OFFSET)
payload_sizes = st.integers(500, 65459)


def body_of(length: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(length)


def joined(packets: list[bytes], order: random.Random | None = None) -> list[Message]:
    packets = list(packets)
    if order is not None:
        order.shuffle(packets)
    reassembler = Reassembler()
    found = [message for packet in packets if (message := reassembler.add(parse_packet(packet))) is not None]
    assert len(reassembler) == 0
    return found


@settings(max_examples=examples(150), deadline=None)
@given(topics, partitions, offsets, types, payload_sizes, st.integers(0, MIB), st.integers(0, 2**32))
@example("t", 0, 0, PacketType.CLEAR, 500, 0, 0)
@example("t", 0, 0, PacketType.CLEAR, 500, MIB, 0)
@example("t" * 249, 2**31 - 1, MAX_OFFSET, PacketType.ENCRYPTED, 500, MIB, 0)
@example("t", 0, 0, PacketType.CLEAR, 65459, 65459 - HEADER_BYTES - 5, 0)
def test_any_body_comes_back_whole_whatever_the_order_of_its_packets(  # noqa: PLR0917 -- what hypothesis draws
    topic: str, partition: int, offset: int, packet_type: int, payload_size: int, length: int, seed: int
) -> None:
    body = body_of(length, seed)
    event_id = str(EventId(topic, partition, offset)).encode()
    made: list[bytes] = []
    EventPacketizer(topic, partition, payload_size).add_batch(made, (offset,), packet_type, (body,))
    assert made == packetize(packet_type, event_id, body, payload_size)
    assert max(map(len, made)) <= payload_size
    assert len(made) == fragment_count(length, len(event_id), payload_size)
    assert [parse_packet(packet).fragments for packet in made] == [len(made)] * len(made)
    assert joined(made, random.Random(seed)) == [Message(packet_type, event_id, body)]


@pytest.mark.parametrize("multiple", [1, 2, 3, 7])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_body_of_a_multiple_of_the_capacity_announces_just_the_packets_that_are_sent(
    multiple: int, more: int
) -> None:
    capacity = 1400 - HEADER_BYTES - len("transfer_0_42")
    body = body_of(multiple * capacity + more, 1)
    made = packetize(PacketType.CLEAR, b"transfer_0_42", body, 1400)
    assert len(made) == multiple + (more > 0)
    assert joined(made) == [Message(PacketType.CLEAR, b"transfer_0_42", body)]


def test_an_empty_body_is_one_packet() -> None:
    (packet,) = packetize(PacketType.CLEAR, b"transfer_0_50", b"", 1400)
    assert parse_packet(packet) == Packet(PacketType.CLEAR, 1, 1, b"transfer_0_50", b"")
    assert packet.hex() == "0600010001000d7472616e736665725f305f3530343237650000"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(offsets, types, st.integers(0, 3000)), max_size=30), st.integers(0, 2**32))
def test_a_batch_gives_the_packets_of_its_events_in_order(events: list[tuple[int, int, int]], seed: int) -> None:
    packetizer = EventPacketizer("some-topic", 3, 700)
    bodies = [body_of(length, seed) for _, _, length in events]
    made: list[bytes] = []
    packetizer.add_batch(made, [offset for offset, _, _ in events], [kind for _, kind, _ in events], bodies)
    expected = [
        packet
        for (offset, kind, _), body in zip(events, bodies, strict=True)
        for packet in packetize(kind, b"some-topic_3_%d" % offset, body, 700)
    ]
    assert made == expected


def test_a_batch_of_one_type_crosses_every_number_of_digits() -> None:
    numbers = [number for digits in range(19) for number in (10**digits - 1, 10**digits)] + [MAX_OFFSET]
    made: list[bytes] = []
    EventPacketizer("t", 1, 1400).add_batch(made, numbers, PacketType.CLEAR, [b"x"] * len(numbers))
    assert [parse_packet(packet).packet_id for packet in made] == [b"t_1_%d" % number for number in numbers]


def test_a_batch_may_go_back_to_offsets_of_fewer_digits() -> None:
    numbers = [1000, 999, 100, 50, 20, 10, 9, 1, 0]
    made: list[bytes] = []
    EventPacketizer("t", 1, 1400).add_batch(made, numbers, PacketType.CLEAR, [b"x"] * len(numbers))
    assert [parse_packet(packet).packet_id for packet in made] == [b"t_1_%d" % number for number in numbers]


@pytest.mark.parametrize("offset", [7, 12345, MAX_OFFSET])
@pytest.mark.parametrize("more", [-1, 0, 1, 2, 40])
def test_an_event_around_the_size_of_a_packet_is_cut_as_any_message(offset: int, more: int) -> None:
    name = b"some-topic_3_%d" % offset
    body = body_of(700 - HEADER_BYTES - len(name) + more, 1)
    made: list[bytes] = []
    EventPacketizer("some-topic", 3, 700).add_batch(made, (offset,), PacketType.CLEAR, (body,))
    assert made == packetize(PacketType.CLEAR, name, body, 700)
    assert len(made) == (2 if more > 0 else 1)
    assert max(map(len, made)) <= 700


def test_the_numbers_of_the_wire() -> None:
    assert {kind.name: int(kind) for kind in PacketType} == {
        "ENCRYPTED": 0, "ERROR": 1, "STATUS": 2, "KEY_EXCHANGE": 3, "CLEAR": 6,
    }  # fmt: skip
    assert (GZIP_FLAG, HEADER_BYTES, MAX_FRAGMENTS, RECEIVER_FRAGMENTS) == (32, 13, 65535, 4096)
    assert RECEIVER_KEEPS_SECONDS == 30


def test_the_datagrams_of_many_events_are_cut_into_those_of_each() -> None:
    events = [packetize(PacketType.CLEAR, b"t_0_%d" % size, bytes(size), 100) for size in (3, 30_000, 0, 200, 3)]
    assert [len(event) for event in events] == [1, 385, 1, 3, 1]
    assert list(event_fragments([datagram for event in events for datagram in event])) == events
    assert list(event_fragments([])) == []


def test_a_packet_without_id_and_payload_is_the_shortest() -> None:
    (shortest,) = packetize(PacketType.STATUS, b"", b"", 14)
    assert len(shortest) == HEADER_BYTES
    assert parse_packet(shortest) == Packet(PacketType.STATUS, 1, 1, b"", b"")


def test_a_batch_whose_lists_differ_in_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        EventPacketizer("t", 1, 1400).add_batch([], [1, 2], PacketType.CLEAR, [b"x"])


def test_a_body_that_needs_more_packets_than_can_be_numbered_is_refused_with_its_sizes() -> None:
    capacity = 500 - HEADER_BYTES - len("t_0_1")
    largest = MAX_FRAGMENTS * capacity
    assert fragment_count(largest, 5, 500) == MAX_FRAGMENTS
    with pytest.raises(PacketError, match=rf"{largest + 1} bytes needs 65536 packets of 500 bytes.* at least 501\."):
        fragment_count(largest + 1, 5, 500)
    with pytest.raises(PacketError):
        EventPacketizer("t", 0, 500).add_batch([], (1,), PacketType.CLEAR, (bytes(largest + 1),))


def test_the_size_named_in_the_refusal_is_enough() -> None:
    assert fragment_count(MAX_FRAGMENTS * 1000 + 1, 5, 1001 + HEADER_BYTES + 5) <= MAX_FRAGMENTS


def test_the_largest_body_for_the_usual_receiver_fits_with_the_longest_offset() -> None:
    packetizer = EventPacketizer("transfer", 0, 1400)
    assert packetizer.fragment_count(MAX_OFFSET, packetizer.largest_body()) == RECEIVER_FRAGMENTS
    assert packetizer.fragment_count(MAX_OFFSET, packetizer.largest_body() + 1) == RECEIVER_FRAGMENTS + 1


def test_a_payload_size_without_room_for_a_payload_is_refused() -> None:
    with pytest.raises(PacketError, match="no room"):
        packetize(PacketType.CLEAR, b"transfer_0_42", b"x", HEADER_BYTES + 13)
    assert len(packetize(PacketType.CLEAR, b"transfer_0_42", b"xy", HEADER_BYTES + 14)) == 2
    with pytest.raises(ConfigurationError, match="payload size 60 is too small for the events of a-long-topic"):
        EventPacketizer("a-long-topic" * 3, 0, 60)
    longest_id = len(f"t_0_{MAX_OFFSET}")
    with pytest.raises(ConfigurationError, match=rf"take up to {longest_id} bytes and the header 13"):
        EventPacketizer("t", 0, HEADER_BYTES + longest_id)
    assert EventPacketizer("t", 0, HEADER_BYTES + longest_id + 1).largest_body(7) == 7


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "too short"),
        (bytes(12), "too short"),
        (bytes.fromhex("06000100010032") + b"x" * 20, "does not fit"),
        (bytes.fromhex("0600000001000161") + b"427e" + b"\0\0", "impossible"),
        (bytes.fromhex("0600020001000161") + b"427e" + b"\0\0", "impossible"),
        (bytes.fromhex("0600010001000161") + b"427e" + b"\0\1", "states 1 bytes"),
        (bytes.fromhex("0600010001000161") + b"427e" + b"\0\0z", "has 1"),
        (bytes.fromhex("0600010001000161") + b"427f" + b"\0\0", "checksum"),
    ],
)
def test_a_datagram_that_is_no_packet_is_refused(datagram: bytes, reason: str) -> None:
    with pytest.raises(MalformedPacketError, match=reason):
        parse_packet(datagram)


@settings(max_examples=examples(300))
@given(st.binary(max_size=64))
def test_noise_is_a_packet_or_a_packet_error_and_nothing_else(noise: bytes) -> None:
    with contextlib.suppress(MalformedPacketError):
        parse_packet(noise)


@settings(max_examples=examples(200))
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_an_altered_payload_or_length_is_noticed(place: int, change: int) -> None:
    (packet,) = packetize(PacketType.CLEAR, b"t_0_1", b"some payload", 1400)
    start = 7 + len(b"t_0_1")
    index = start + place % (len(packet) - start)
    altered = bytearray(packet)
    altered[index] ^= change
    with pytest.raises(MalformedPacketError):
        parse_packet(bytes(altered))


def test_fragments_of_copies_are_joined_and_repeats_do_not_disturb() -> None:
    body = body_of(5000, 1)
    packets = packetize(PacketType.CLEAR, b"t_0_1", body, 700)
    first_copy, second_copy = packets[::2], packets[1::2]
    reassembler = Reassembler()
    found = [reassembler.add(parse_packet(packet)) for packet in [*first_copy, *first_copy, *second_copy]]
    assert [message for message in found if message] == [Message(PacketType.CLEAR, b"t_0_1", body)]


def test_fragments_of_another_encoding_of_the_same_event_do_not_mix_in() -> None:
    clear = packetize(PacketType.CLEAR, b"t_0_1", bytes(1200), 700)
    sealed = packetize(PacketType.ENCRYPTED, b"t_0_1", bytes(range(250)) * 5, 700)
    reassembler = Reassembler()
    assert reassembler.add(parse_packet(clear[0])) is None
    assert reassembler.add(parse_packet(sealed[1])) is None
    assert reassembler.add(parse_packet(clear[1])) == Message(PacketType.CLEAR, b"t_0_1", bytes(1200))
    assert reassembler.add(parse_packet(sealed[0])) == Message(PacketType.ENCRYPTED, b"t_0_1", bytes(range(250)) * 5)


def test_incomplete_messages_are_given_up_when_they_are_old_or_too_many() -> None:
    first_fragments = [parse_packet(packetize(PacketType.CLEAR, b"t_0_%d" % n, bytes(1200), 700)[0]) for n in range(4)]
    reassembler = Reassembler(keep_seconds=30, max_pending=2)
    reassembler.add(first_fragments[0], 0.0)
    reassembler.add(first_fragments[1], 10.0)
    reassembler.add(first_fragments[2], 31.0)
    assert (len(reassembler), reassembler.dropped) == (2, 1)
    reassembler.add(first_fragments[3], 32.0)
    assert (len(reassembler), reassembler.dropped) == (2, 2)


def first_fragment(number: int) -> Packet:
    return Packet(PacketType.CLEAR, 1, 2, b"t_0_%d" % number, b"x")


def test_unless_told_otherwise_fragments_wait_for_30_seconds() -> None:
    reassembler = Reassembler()
    reassembler.add(first_fragment(0))
    reassembler.expire(30.0)
    assert (len(reassembler), reassembler.dropped) == (1, 0)
    reassembler.expire(30.5)
    assert (len(reassembler), reassembler.dropped) == (0, 1)
    reassembler.add(first_fragment(1), 100.0)
    reassembler.add(first_fragment(2), 131.0)
    assert (len(reassembler), reassembler.dropped) == (1, 2), "whoever comes lets go of what is too old"


def test_unless_told_otherwise_100_000_messages_may_be_incomplete() -> None:
    reassembler = Reassembler()
    for number in range(100_000):
        reassembler.add(first_fragment(number))
    assert (len(reassembler), reassembler.dropped) == (100_000, 0)
    reassembler.add(first_fragment(100_000))
    assert (len(reassembler), reassembler.dropped) == (100_000, 1)


def test_a_status_without_room_is_refused_and_what_is_no_text_is_replaced() -> None:
    with pytest.raises(PacketError, match="no room"):
        status_packet("x", HEADER_BYTES + len("STATUS"))
    with pytest.raises(PacketError, match="no room"):
        status_packet("x", 5)
    assert parse_packet(status_packet("xy", HEADER_BYTES + len("STATUS") + 1)).payload == b"x"
    assert parse_packet(status_packet("a\ud800b")).payload == b"a?b"
    assert len(status_packet("x" * 2000)) == 1400


def test_a_status_is_one_packet_however_long_its_text() -> None:
    packet = parse_packet(status_packet("ä" * 2000, 1400))
    assert (packet.packet_type, packet.number, packet.fragments, packet.packet_id) == (2, 1, 1, b"STATUS")
    assert packet.payload.decode() == "ä" * 690, "cut between characters, within 1400 bytes"


def test_status_texts_are_the_open_source_senders() -> None:
    moment = datetime(2026, 11, 20, 23, 17, 10, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert starting_text(moment, "Resend", "b.json") == (
        "2026-11-20T23:17:10+01:00 Resend starting up with resendFileName: b.json"
    )
    assert finished_text(moment, "Resend") == "2026-11-20T23:17:10+01:00 Resend finished"
    assert stopping_text(moment, "Resend") == "2026-11-20T23:17:10+01:00 Resend shutting down"


@pytest.mark.parametrize(
    ("minutes", "ending"),
    [(0, "Z"), (60, "+01:00"), (-60, "-01:00"), (-210, "-03:30"), (345, "+05:45"), (-30, "-00:30")],
)
def test_a_moment_is_written_with_its_zone(minutes: int, ending: str) -> None:
    zone = timezone(timedelta(minutes=minutes)) if minutes else UTC
    assert rfc3339(datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone)) == f"2026-01-02T03:04:05{ending}"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        rfc3339(datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001
