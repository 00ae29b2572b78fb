"""Owns a bundle as few short lines that a person can type where no file may cross; must not know who types them.

One line, or a few, for each partition that something is missing of; lines that begin with # do not count::

    transfer 0 5 005 0-5 50 nfy1         topic, partition, ranges, check word
    =1 0-899 emjg                        the same topic, partition 1
    end 97m2

A line that begins with ``+`` goes on with the partition of the line before. A number is cut down to its last digits: it
is the smallest one above the number before it that ends so (5, 1005, 1010 to 1015, 1050 above). ``?`` before a range
says that it was only inferred. A bundle of type first begins with a line ``first``. A topic that is not made of ASCII
letters, digits, ``._-`` stands in quotation marks, as JSON has it.

The check word is 20 bits in base 32 (without i, l, o, u): a CRC of 16 bits over the check word of the line before, a
space and the line, so that any one wrong character and any two that changed places are noticed for certain, and so are
lines that are missing or in the wrong order; then 4 bits of the SHA-256 of the same, against what a CRC cannot see.
"""

from __future__ import annotations

import binascii
import hashlib
import heapq
import json
import re
from operator import itemgetter
from typing import TYPE_CHECKING

from gapless_api.base.errors import BundleError
from gapless_api.bundle.algebra import Portion, inferred_of
from gapless_api.bundle.form import BundleKind, PartitionGaps, canonical_results
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_topic, unpadded_decimal
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.bundle.form import Bundle

USUAL_WIDTH = 72
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MISTAKEN = str.maketrans({"i": "1", "l": "1", "o": "0"})
_CHECK_LETTERS = 4
_END, _FIRST = "end", "first"
_NAMED_LINES = 5
_PLAIN_TOPIC = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_RANGE = re.compile(r"(\??)(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_COMPARE = "compare it with the original, character by character"


def typed_lines(bundle: Bundle, *, width: int = USUAL_WIDTH) -> Iterator[str]:
    """Write `bundle` as lines that are no wider than `width`, but for a line with a long topic and one range."""
    check = ""
    for line in _lines(bundle, width - _CHECK_LETTERS - 1):
        check = _check_word(check, line)
        yield f"{line} {check}"


def read_typed(text: str) -> Portion:
    """Read lines that `typed_lines` wrote and a person has typed; windows begin at 0 and end with the last gap.

    Raises:
        BundleError: a line is mistyped, missing or in the wrong place; the sentence names the first ones.
    """
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    payloads: list[tuple[int, str]] = []
    wrong = []
    check = ""
    for number, line in lines:
        payload, _, word = (line if line.startswith('"') else " ".join(line.split())).rpartition(" ")
        word = word.lower().translate(_MISTAKEN)
        if word != _check_word(check, payload):
            wrong.append(str(number))
        check = word
        payloads.append((number, payload))
    if wrong:
        shown = ", ".join(wrong[:_NAMED_LINES]) + (", …" if len(wrong) > _NAMED_LINES else "")
        raise BundleError(
            f"The checksum of line {shown} does not match: a word in it or before it is mistyped, missing or out of "
            f"order; {_COMPARE}."
        )
    if not payloads or payloads.pop()[1] != _END:
        raise BundleError("The line that begins with end is missing or not the last; type all lines.")
    return _read(payloads)


def _lines(bundle: Bundle, width: int) -> Iterator[str]:
    if bundle.kind is BundleKind.FIRST:
        yield _FIRST
    guessed = {(entry.topic, entry.partition): entry.ranges for entry in inferred_of(bundle)}
    topic = ""
    for entry in bundle.results:
        if not len(entry.ranges):
            continue
        head = f"={entry.partition}" if entry.topic == topic else f"{_shown(entry.topic)} {entry.partition}"
        topic = entry.topic
        line, previous = head, -1
        inferred = guessed.get((entry.topic, entry.partition), OffsetRanges())
        for index, (mark, first, last) in enumerate(_marked(entry.ranges, inferred)):
            word = mark + _shortened(first, previous) + (f"-{_shortened(last, first)}" if last > first else "")
            previous = last
            if index and len(line) + 1 + len(word) > width:
                yield line
                line = "+"
            line += f" {word}"
        yield line
    yield _END


def _marked(ranges: OffsetRanges, inferred: OffsetRanges) -> Iterator[tuple[str, int, int]]:
    """All ranges in order, those that were only inferred with their prefix."""
    known = (("", *found) for found in (ranges - inferred if len(inferred) else ranges))
    return heapq.merge(known, (("?", *found) for found in inferred), key=itemgetter(1))


def _shortened(number: int, previous: int) -> str:
    """The fewest last digits by which `number` is known, given that it comes after `previous`."""
    digits = len(str(number - previous - 1))
    return f"{number % 10**digits:0{digits}}"


def _lengthened(digits: str, previous: int) -> int:
    """The smallest number above `previous` that ends in `digits`."""
    return previous + 1 + (int(digits) - previous - 1) % int("1" + "0" * len(digits))


def _shown(topic: str) -> str:
    plain = _PLAIN_TOPIC.fullmatch(topic) and topic not in {_END, _FIRST}
    return topic if plain else json.dumps(topic, ensure_ascii=False)


def _check_word(previous: str, line: str) -> str:
    content = f"{previous} {line}".encode()
    number = binascii.crc_hqx(content, 0xFFFF) << 4 | hashlib.sha256(content).digest()[0] >> 4
    return "".join(_ALPHABET[number >> shift & 31] for shift in (15, 10, 5, 0))


def _read(payloads: list[tuple[int, str]]) -> Portion:
    kind = BundleKind.ALL
    if payloads and payloads[0][1] == _FIRST:
        kind, payloads = BundleKind.FIRST, payloads[1:]
    pairs: dict[TopicPartition, list[tuple[bool, int, int]]] = {}
    place: TopicPartition | None = None
    previous = -1
    for number, payload in payloads:
        if payload.startswith("+ "):
            words = payload.split(" ")[1:]
        else:
            place, words = _place(payload, place, number)
            previous = -1
        if place is None or not words:
            raise _no_line(number)
        for word in words:
            found = _RANGE.fullmatch(word)
            if found is None:
                raise _no_line(number)
            first = last = _lengthened(found[2], previous)
            if found[3] is not None:
                last = _lengthened(found[3], first)
            if last > MAX_OFFSET:
                raise _no_line(number)
            pairs.setdefault(place, []).append((bool(found[1]), first, last))
            previous = last
    results = [_entry(*place, [found[1:] for found in listed]) for place, listed in pairs.items()]
    inferred = [_entry(*place, [found[1:] for found in listed if found[0]]) for place, listed in pairs.items()]
    return Portion(
        kind,
        canonical_results(kind, results),
        tuple(entry for entry in canonical_results(BundleKind.ALL, inferred) if len(entry.ranges)),
    )


def _entry(topic: str, partition: int, pairs: list[tuple[int, int]]) -> PartitionGaps:
    ranges = OffsetRanges(pairs)
    return PartitionGaps(topic, partition, 0, ranges.last_offset if len(ranges) else 0, ranges)


def _place(payload: str, before: TopicPartition | None, number: int) -> tuple[TopicPartition, list[str]]:
    """Read where a line is about, and its ranges."""
    if payload.startswith("=") and before is not None:
        topic, rest = before[0], payload[1:]
    elif payload.startswith('"'):
        try:
            topic, end = json.JSONDecoder().raw_decode(payload)
        except ValueError:
            raise _no_line(number) from None
        rest = payload[end:].lstrip()
    else:
        topic, _, rest = payload.partition(" ")
    partition_text, *words = rest.split() or [""]
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    if partition is None or not isinstance(topic, str) or not is_topic(topic):
        raise _no_line(number)
    return (topic, partition), words


def _no_line(number: int) -> BundleError:
    return BundleError(
        f"Line {number} is no line of a bundle as gapless bundle text writes them, although its checksum matches; have "
        f"the lines made again by the same version."
    )
