from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kit.peer.opening import ENCRYPTED, KEY_EXCHANGE, STATUS, Opener, UnreadableEventError, base_type
from kit.peer.reassembly import FragmentCache, Packet, RefusedDatagramError, parse

VECTORS = Path(__file__).parents[1] / "vectors"
SENT = sorted(path.name for path in VECTORS.glob("up-*.json") if "peer-defect" not in path.name)


def datagram(event_id: bytes, payload: bytes, *, kind: int = 6, number: int = 1, announced: int = 1) -> bytes:
    """Spelled out, so that the reader is not tested against itself."""
    check = hashlib.md5(payload, usedforsecurity=False).hexdigest()[-4:].encode()
    head = struct.pack(">BHHH", kind, number, announced, len(event_id))
    return head + event_id + check + struct.pack(">H", len(payload)) + payload


def received(packets_hex: list[str]) -> dict[str, bytes]:
    """Read datagrams as the receiver does, with all the time in the world."""
    cache, opener, events = FragmentCache(), Opener(str(VECTORS / "test-private.pem")), {}
    for seconds, packet in enumerate(packets_hex):
        message = cache.add(parse(bytes.fromhex(packet)), seconds)
        if message is None or base_type(message.kind) == STATUS:
            continue
        if base_type(message.kind) == KEY_EXCHANGE:
            opener.exchange(message.body, seconds)
        else:
            event = opener.open(message, seconds)
            events[event.event_id] = event.value
    assert len(cache) == 0
    return events


@pytest.mark.parametrize("name", SENT)
def test_what_the_peer_sends_is_read_as_it_was(name: str) -> None:
    vector: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    settings = vector["settings"]
    translations = json.loads(settings.get("topicTranslations", "{}"))
    expected = {}
    for sent in vector["inputs"]:
        value = bytes.fromhex(sent["payload_hex"])
        if "inputFilterRules" in settings and b"secret" in value:
            value = b""
        topic, partition = translations.get(sent["topic"], sent["topic"]), sent["partition"]
        if "_" not in topic:
            partition += settings.get("partitionStartValue", 0)
        expected[f"{topic}_{partition}_{sent['offset']}"] = value
    assert received(vector["packets_hex"]) == expected


def test_a_message_that_announces_one_fragment_too_many_waits_for_ever() -> None:
    vector = json.loads((VECTORS / "up-plain-exact-capacity-peer-defect.json").read_text(encoding="utf-8"))
    cache = FragmentCache()
    messages = [cache.add(parse(bytes.fromhex(packet)), 0) for packet in vector["packets_hex"]]
    assert [message for message in messages if message is not None and message.kind != STATUS] == []
    assert len(cache) == 1


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (b"123456789012", "too short message. won't parse. length is: 12"),
        (b"", "too short message. won't parse. length is: 0"),
        (datagram(b"t_0_1", b"x", announced=4097), "nrMessages 4097 exceeds maximum 4096"),
        (struct.pack(">BHHH", 6, 1, 1, 500) + b"t_0_1" + b"0" * 8, "too long message id length. Won't parse. "),
        (datagram(b"t_0_1", b"xyz")[:-1], "reading payloadLength bytes will proceed outside of the message…"),
        (datagram(b"t_0_1", b"xyz") + b"!", "message length is: 22, but parsed data is: 21"),
        (datagram(b"t_0_1", b"xyz")[:-1] + b"Z", "invalid checksum"),
    ],
)
def test_malformed_datagrams_are_refused_with_the_peers_words(bad: bytes, text: str) -> None:
    with pytest.raises(RefusedDatagramError) as refusal:
        parse(bad)
    assert str(refusal.value).startswith(text)


def test_fragments_of_different_copies_join_in_any_order() -> None:
    cache = FragmentCache()
    packets = [Packet(6, number, 3, "t_0_1", b"%d" % number) for number in (3, 3, 1, 1, 2)]
    messages = [cache.add(packet, 0) for packet in packets]
    assert messages[:4] == [None] * 4
    assert messages[4] is not None
    assert messages[4].body == b"123"


def test_a_fragment_that_comes_again_after_completion_waits_in_vain() -> None:
    cache = FragmentCache()
    for number in (1, 2, 2):
        cache.add(Packet(6, number, 2, "t_0_1", b"x"), 0)
    assert len(cache) == 1


def test_the_first_fragment_seen_says_how_many_there_are() -> None:
    cache = FragmentCache()
    assert cache.add(Packet(6, 1, 2, "t_0_1", b"a"), 0) is None
    message = cache.add(Packet(6, 2, 9, "t_0_1", b"b"), 0)
    assert message is not None
    assert message.body == b"ab"


def test_when_too_many_messages_wait_new_ones_are_dropped() -> None:
    cache = FragmentCache(max_entries=2)
    for name in "abc":
        cache.add(Packet(6, 1, 2, name, b"x"), 0)
    assert (len(cache), cache.no_room) == (2, 1)
    assert cache.add(Packet(6, 2, 2, "a", b"y"), 0) is not None


def test_fragments_are_forgotten_by_a_slow_ticker() -> None:
    cache = FragmentCache()
    cache.sweep(0)
    cache.add(Packet(6, 1, 2, "a", b"x"), 5)
    cache.sweep(31)
    assert len(cache) == 1, "only 26 s old at the first tick"
    cache.sweep(59)
    assert len(cache) == 1, "old enough, but the ticker has not come round"
    cache.sweep(61)
    assert (len(cache), cache.expired) == (0, 1)


@pytest.mark.parametrize(
    ("kind", "sort"), [(0, ENCRYPTED), (32, ENCRYPTED), (33, ENCRYPTED), (6, 6), (38, 6), (70, 6), (3, 3), (2, 2)]
)
def test_a_flagged_type_that_is_not_clear_text_counts_as_encrypted(kind: int, sort: int) -> None:
    assert base_type(kind) == sort


def test_an_event_that_claims_encryption_without_a_key_is_lost() -> None:
    message = FragmentCache().add(Packet(0, 1, 1, "t_0_1", bytes(40)), 0)
    assert message is not None
    with pytest.raises(UnreadableEventError, match="no key"):
        Opener().open(message, 0)
