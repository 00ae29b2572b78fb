"""The format of a bundle as short lines that a person can type where no file may cross.

One or more lines for each partition with missing offsets; lines that begin with # are ignored::

    transfer 0 5 005 0-5 50 nfy1         topic, partition, ranges, check word
    =1 0-899 emjg                        the same topic, partition 1
    end 97m2

A line that begins with ``+`` continues the partition of the previous line. Numbers are shortened to their last digits:
a number is the smallest one above the previous number that ends with them (5, 1005, 1010 to 1015, 1050 above). ``?``
before a range marks it as inferred. A bundle of type first begins with a line ``first``. A topic with other characters
than ASCII letters, digits and ``._-`` is a JSON string in quotation marks.

The check word has 20 bits in base 32 (without i, l, o, u): a 16-bit CRC over the check word of the previous line, a
space and the line, which always detects one wrong character, two swapped characters, and missing or reordered lines;
then 4 bits of the SHA-256 of the same text, for errors that the CRC does not detect.
"""

from __future__ import annotations

import binascii
import hashlib
import heapq
import json
import re
from collections.abc import Iterator
from itertools import starmap
from operator import itemgetter

from gapless_api.base.errors import BundleError
from gapless_api.bundle.algebra import Portion, inferred_of
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps, canonical_results
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_topic, unpadded_decimal
from gapless_api.offsets.ranges import OffsetRanges

DEFAULT_WIDTH = 72
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MISTAKEN = str.maketrans({"i": "1", "l": "1", "o": "0"})
_CHECK_LETTERS = 4
_END, _FIRST = "end", "first"
_MAX_NAMED_LINES = 5
_PLAIN_TOPIC = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_RANGE = re.compile(r"(\??)(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_COMPARE = "compare it with the original, character by character"


def typed_lines(bundle: Bundle, *, width: int = DEFAULT_WIDTH) -> Iterator[str]:
    """Yield `bundle` as lines of at most `width` characters, except a line with a long topic and one range."""
    check = ""
    for line in _lines(bundle, width - _CHECK_LETTERS - 1):
        check = _check_word(check, line)
        yield f"{line} {check}"


def read_typed(text: str) -> Portion:
    """Parse lines of `typed_lines` that a person typed; windows begin at 0 and end with the last gap.

    Raises:
        BundleError: lines are mistyped, missing or out of order; the message names the first of them.
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
        shown = ", ".join(wrong[:_MAX_NAMED_LINES]) + (", …" if len(wrong) > _MAX_NAMED_LINES else "")
        raise BundleError(
            f"The checksum of line {shown} does not match: a word in it, or a line before it, is mistyped, missing or "
            f"out of order; {_COMPARE}."
        )
    if not payloads or payloads.pop()[1] != _END:
        raise BundleError("The line that begins with end is missing, or is not the last; type all lines.")
    return _read(payloads)


def _lines(bundle: Bundle, width: int) -> Iterator[str]:
    if bundle.kind is BundleKind.FIRST:
        yield _FIRST
    inferred_ranges = {(entry.topic, entry.partition): entry.ranges for entry in inferred_of(bundle)}
    topic = ""
    for entry in bundle.results:
        if not len(entry.ranges):
            continue
        head = f"={entry.partition}" if entry.topic == topic else f"{_shown(entry.topic)} {entry.partition}"
        topic = entry.topic
        line, previous = head, -1
        inferred = inferred_ranges.get((entry.topic, entry.partition), OffsetRanges())
        for index, (mark, first, last) in enumerate(_mark_inferred(entry.ranges, inferred)):
            word = mark + _shorten(first, previous) + (f"-{_shorten(last, first)}" if last > first else "")
            previous = last
            if index and len(line) + 1 + len(word) > width:
                yield line
                line = "+"
            line += f" {word}"
        yield line
    yield _END


def _mark_inferred(ranges: OffsetRanges, inferred: OffsetRanges) -> Iterator[tuple[str, int, int]]:
    """Yield all ranges in order, with ``?`` for inferred ones."""
    recorded = (("", *offsets) for offsets in (ranges - inferred if len(inferred) else ranges))
    return heapq.merge(recorded, (("?", *offsets) for offsets in inferred), key=itemgetter(1))


def _shorten(number: int, previous: int) -> str:
    """Return the fewest last digits that identify `number`, which comes after `previous`."""
    digits = len(str(number - previous - 1))
    return f"{number % 10**digits:0{digits}}"


def _expand(digits: str, previous: int) -> int:
    """Return the smallest number above `previous` that ends with `digits`."""
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
    pairs: dict[TopicPartition, list[tuple[int, int]]] = {}
    inferred_pairs: dict[TopicPartition, list[tuple[int, int]]] = {}
    topic_partition: TopicPartition | None = None
    previous = -1
    for number, payload in payloads:
        if payload.startswith("+ "):
            words = payload.split(" ")[1:]
        else:
            topic_partition, words = _parse_partition(payload, topic_partition, number)
            previous = -1
        if topic_partition is None or not words:
            raise _malformed(number)
        for word in words:
            match = _RANGE.fullmatch(word)
            if match is None:
                raise _malformed(number)
            first = last = _expand(match[2], previous)
            if match[3] is not None:
                last = _expand(match[3], first)
            if last > MAX_OFFSET:
                raise _malformed(number)
            pairs.setdefault(topic_partition, []).append((first, last))
            if match[1]:
                inferred_pairs.setdefault(topic_partition, []).append((first, last))
            previous = last
    results, inferred = (list(starmap(_entry, listed.items())) for listed in (pairs, inferred_pairs))
    return Portion(kind, canonical_results(kind, results), canonical_results(BundleKind.ALL, inferred))


def _entry(topic_partition: TopicPartition, pairs: list[tuple[int, int]]) -> PartitionGaps:
    ranges = OffsetRanges(pairs)
    return PartitionGaps(*topic_partition, 0, ranges.last_offset, ranges)


def _parse_partition(payload: str, previous: TopicPartition | None, number: int) -> tuple[TopicPartition, list[str]]:
    """Parse a line into its partition and its ranges."""
    if payload.startswith("=") and previous is not None:
        topic, rest = previous[0], payload[1:]
    elif payload.startswith('"'):
        try:
            topic, end = json.JSONDecoder().raw_decode(payload)
        except ValueError:
            raise _malformed(number) from None
        rest = payload[end:].lstrip()
    else:
        topic, _, rest = payload.partition(" ")
    partition_text, *words = rest.split() or [""]
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    if partition is None or not isinstance(topic, str) or not is_topic(topic):
        raise _malformed(number)
    return (topic, partition), words


def _malformed(number: int) -> BundleError:
    return BundleError(
        f"Line {number} is malformed, although its checksum matches; print the lines again with gapless bundle text of "
        f"this version."
    )
