"""The proof that packets captured from the open-source sender are read, and made again byte for byte."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gapless_api.offsets.ids import parse_event_id
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.wire.compression import gzip_body
from gapless_sender.wire.encryption import NONCE_BYTES, SessionKey
from gapless_sender.wire.packets import (
    GZIP_FLAG,
    KEY_ID,
    STATUS_ID,
    EventPacketizer,
    PacketType,
    packetize,
    status_packet,
)
from kit.peer.strict_packets import Message, Reassembler, parse_packet

VECTORS = Path(__file__).parents[1] / "vectors"
LIVE = sorted(VECTORS.glob("up-*.json"))
RESENT = sorted(VECTORS.glob("resend-*.json"))
DEFECT = VECTORS / "up-plain-exact-capacity-peer-defect.json"


def named(files: list[Path]) -> Any:
    return pytest.mark.parametrize("file", files, ids=lambda file: file.stem)


def read(file: Path) -> tuple[dict[str, Any], list[bytes]]:
    vector = json.loads(file.read_text())
    return vector, [bytes.fromhex(packet) for packet in vector["packets_hex"]]


def messages(packets: list[bytes]) -> Iterator[tuple[Message, list[bytes]]]:
    """Each message with the datagrams that carried it."""
    reassembler = Reassembler()
    carried: list[bytes] = []
    for packet in packets:
        carried.append(packet)
        message = reassembler.add(parse_packet(packet))
        if message is not None:
            yield message, carried
            carried = []
    assert len(reassembler) == 0
    assert not carried


def opened(key_hex: str, body: bytes) -> bytes:
    """Undo the encryption by making it again with the same key and nonce."""
    nonce, rest = body[:NONCE_BYTES], body[NONCE_BYTES:]
    clear = AESGCM(bytes.fromhex(key_hex)).decrypt(nonce, rest, None)
    key = SessionKey(bytes.fromhex(key_hex))
    key._prefix, key._messages = nonce[:-4], int.from_bytes(nonce[-4:], "big")
    assert key.seal_batch([clear])[0] == body, "the same key and nonce must give the same bytes"
    return clear


def test_there_are_vectors_of_every_kind() -> None:
    assert len(LIVE) == 14
    assert len(RESENT) == 8


@named([file for file in LIVE if file != DEFECT])
def test_a_live_senders_packets_are_read_and_made_again_byte_for_byte(file: Path) -> None:
    vector, packets = read(file)
    settings, payload_size = vector["settings"], vector["settings"]["payloadSize"]
    rules = InputFilter.parse(settings.get("inputFilterRules", ""))
    inputs = iter(vector["inputs"])
    for message, carried in messages(packets):
        kind = message.packet_type & ~GZIP_FLAG
        if kind == PacketType.STATUS:
            assert message.packet_id == STATUS_ID
            assert status_packet(message.body.decode(), payload_size) == carried[0]
            continue
        if kind == PacketType.KEY_EXCHANGE:
            assert packetize(PacketType.KEY_EXCHANGE, KEY_ID, message.body, payload_size) == carried
            continue
        given = next(inputs)
        value = bytes.fromhex(given["payload_hex"])
        body = message.body
        assert (kind == PacketType.ENCRYPTED) == bool(settings.get("encryption"))
        if kind == PacketType.ENCRYPTED:
            body = opened(vector["symmetric_key_hex"], body)
        is_packed = len(value) > settings.get("compressWhenLengthExceeds", 0) > 0
        assert is_packed == bool(message.packet_type & GZIP_FLAG)
        if is_packed:
            assert gzip_body(value)[:10] == body[:10], "the gzip header is the open-source sender's"
            body = gzip.decompress(body)
        assert body == (b"" if rules.denies(value) else value)
        event = parse_event_id(message.packet_id.decode())
        assert event is not None
        assert event.offset == given["offset"]
        made: list[bytes] = []
        EventPacketizer(event.topic, event.partition, payload_size).add_batch(
            made, (event.offset,), message.packet_type, (message.body,)
        )
        assert made == carried
    assert next(inputs, None) is None


def test_a_body_of_exactly_the_capacity_differs_from_the_open_source_senders_in_the_announced_number_only() -> None:
    vector, packets = read(DEFECT)
    assert [parse_packet(packet).fragments for packet in packets[1:]] == [2], "what the open-source sender announces"
    given = vector["inputs"][0]
    made: list[bytes] = []
    EventPacketizer(given["topic"], given["partition"], vector["settings"]["payloadSize"]).add_batch(
        made, (given["offset"],), PacketType.CLEAR, (bytes.fromhex(given["payload_hex"]),)
    )
    assert made == [packets[1][:3] + b"\x00\x01" + packets[1][5:]]
    assert Reassembler().add(parse_packet(made[0])) is not None
    assert Reassembler().add(parse_packet(packets[1])) is None, "theirs is never complete"


@named([file for file in LIVE if "encrypted" in file.stem])
def test_a_key_packet_holds_the_symmetric_key(file: Path) -> None:
    vector, packets = read(file)
    (body,) = (m.body for m, _ in messages(packets) if m.packet_type == PacketType.KEY_EXCHANGE)
    private = load_pem_private_key((VECTORS / vector["rsa_private_key_file"]).read_bytes(), None)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    assert body.startswith(KEY_ID)
    assert private.decrypt(body[len(KEY_ID) :], oaep) == KEY_ID + bytes.fromhex(vector["symmetric_key_hex"])


@named(RESENT)
def test_a_resends_packets_are_read_and_made_again_byte_for_byte(file: Path) -> None:
    _, packets = read(file)
    for message, carried in messages(packets):
        if message.packet_type == PacketType.KEY_EXCHANGE:
            assert packetize(PacketType.KEY_EXCHANGE, KEY_ID, message.body, 1400) == carried
            continue
        event = parse_event_id(message.packet_id.decode())
        assert event is not None
        made: list[bytes] = []
        EventPacketizer(event.topic, event.partition, 1400).add_batch(
            made, (event.offset,), message.packet_type, (message.body,)
        )
        assert made == carried
