"""Owns the format of parked records: records that could not be carried, with all their bytes, and why.

A parked record is one or several messages, the values of records of a topic or the lines of a file. All have what
identifies the record; its key, value and headers are split over them, so that a record that is too large for a topic
can still be parked there. Must not know where they are stored.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gapless_api.codec.canonical import moment_of
from gapless_api.wire.form import Form, Offset, PartitionNumber, WireError, parse_json

_HEAD_BYTES = 16 * 1024
"""More than a message has beside its part of the content: the topic, and a reason and a sentence of limited size."""
_MAX_SENTENCE = 1000
_MIN_PART_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRecord:
    """A record that could not be carried."""

    topic: str
    """Where it was read: of the source of a mirror, of the topic in an archive."""
    topic_id: str
    """Of the topic; empty if unknown."""
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970; ``None`` for a record without timestamp."""
    timestamp_type: int | None
    """0 for CreateTime and 1 for LogAppendTime; ``None`` for a record without timestamp."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    reason: str
    """One word, such as TargetRefuses."""
    message: str
    """What is wrong with it, in a sentence."""
    program: str
    """Such as mirror, archive or restore."""
    parked_at: str
    """Like 2026-11-20T10:00:00Z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One message of a parked record."""

    topic: str
    topic_id: str
    partition: PartitionNumber
    offset: Offset
    reason: str
    message: str
    program: str
    parked_at: str
    part: int
    """0 for the first."""
    parts: int
    """How many messages the record has."""
    content: str
    """A part of the JSON text of `_Content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a record holds; bytes are in Base64."""

    timestamp: int | None
    timestamp_type: int | None
    key: str | None
    value: str | None
    headers: tuple[tuple[str | None, ...], ...]
    """Pairs of key and value."""


_PART = Form("parked record", "gaplessParkedRecord", 1, _Part)
_CONTENT = Form("content of a parked record", "gaplessParkedContent", 1, _Content)


def parked_messages(record: ParkedRecord, most_bytes: int = 1024 * 1024) -> list[bytes]:
    """Encode `record` as messages of at most `most_bytes`, to be stored in this order.

    Args:
        record: to encode.
        most_bytes: of each message; at least 17 KiB.

    Raises:
        ValueError: `most_bytes` is too small.
    """
    size = most_bytes - _HEAD_BYTES
    if size < _MIN_PART_BYTES:
        raise ValueError(f"a parked record needs messages of {_HEAD_BYTES + _MIN_PART_BYTES} bytes, not {most_bytes}")
    content = json.dumps(
        _CONTENT.to_json(
            _Content(
                timestamp=record.timestamp,
                timestamp_type=record.timestamp_type,
                key=_text(record.key),
                value=_text(record.value),
                headers=tuple((_text(key), _text(value)) for key, value in record.headers),
            )
        ),
        separators=(",", ":"),
    )
    size //= 2  # a quotation mark takes two bytes within JSON, and nothing else of the content is escaped
    slices = [content[start : start + size] for start in range(0, len(content), size)]
    return [
        json.dumps(
            _PART.to_json(
                _Part(
                    topic=record.topic,
                    topic_id=record.topic_id,
                    partition=record.partition,
                    offset=record.offset,
                    reason=record.reason,
                    message=_short(record.message),
                    program=record.program,
                    parked_at=record.parked_at,
                    part=number,
                    parts=len(slices),
                    content=text,
                )
            ),
            separators=(",", ":"),
        ).encode("ascii")
        for number, text in enumerate(slices)
    ]


def read_parked(messages: Iterable[bytes]) -> Iterator[ParkedRecord]:
    """Decode messages of `parked_messages`; those of different records may be mixed, and some may be repeated.

    Raises:
        WireError: a message is anything else, or messages of a record are missing.
    """
    incomplete: dict[tuple[str, str, int, int, str, str], dict[int, _Part]] = {}
    complete: set[tuple[str, str, int, int, str, str]] = set()
    for message in messages:
        part = _PART.from_json(parse_json(message.decode("utf-8", "replace")))
        if part.part >= part.parts:
            raise WireError(f"the parked record {_name(part)} has the part {part.part + 1} of {part.parts}")
        key = (part.topic, part.topic_id, part.partition, part.offset, part.program, part.parked_at)
        if key in complete:
            continue
        parts = incomplete.setdefault(key, {})
        parts[part.part] = part
        if len(parts) == part.parts:
            yield _record([parts[number] for number in range(part.parts)])
            del incomplete[key]
            complete.add(key)
    for parts in incomplete.values():
        part = next(iter(parts.values()))
        raise WireError(f"{part.parts - len(parts):,} of {part.parts:,} parts of the record {_name(part)} are missing")


def describe_parked(record: ParkedRecord) -> str:
    """Describe a parked record in one line of a listing."""
    sizes = [len(record.key or b""), len(record.value or b"")]
    return (
        f"{record.topic}/{record.partition} offset {record.offset:,}: {record.reason} ({sizes[0]:,} bytes of key, "
        f"{sizes[1]:,} of value, {len(record.headers):,} headers; {record.program} at {record.parked_at}). "
        f"{record.message}"
    )


def _record(parts: list[_Part]) -> ParkedRecord:
    first, name = parts[0], _name(parts[0])
    if moment_of(first.parked_at) is None:
        raise WireError(f"parkedAt of the record {name} is {first.parked_at!r}, which is not a valid time")
    content = _CONTENT.from_json(parse_json("".join(part.content for part in parts)))
    headers = []
    for pair in content.headers:
        if len(pair) != 2 or pair[0] is None:
            raise WireError(f"a header of the parked record {name} is not a pair of key and value")
        headers.append((_bytes(pair[0], name) or b"", _bytes(pair[1], name)))
    return ParkedRecord(
        topic=first.topic,
        topic_id=first.topic_id,
        partition=first.partition,
        offset=first.offset,
        timestamp=content.timestamp,
        timestamp_type=content.timestamp_type,
        key=_bytes(content.key, name),
        value=_bytes(content.value, name),
        headers=tuple(headers),
        reason=first.reason,
        message=first.message,
        program=first.program,
        parked_at=first.parked_at,
    )


def _name(part: _Part) -> str:
    return f"{part.topic}/{part.partition} offset {part.offset:,}"


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_SENTENCE else f"{sentence[:_MAX_SENTENCE]}…"


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def _bytes(text: str | None, name: str) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WireError(f"the parked record {name} has bytes that are not in Base64") from None
