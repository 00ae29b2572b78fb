"""The fuzz targets of the formats between programs: records, bundles, inventories, lines.

Must not know how inputs are generated.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct

from pyroaring import BitMap

from fuzz.target import Target, as_file
from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.bundle.reader import read_bundle_text
from gapless_api.bundle.typed_lines import _check_word, read_typed, typed_lines
from gapless_api.codec.roaring import MalformedBitmapError, bitmap_ranges
from gapless_api.gaps.keys import UndecodableRecordError, decode_gap_key
from gapless_api.gaps.records import decode_gap_record
from gapless_api.inventory.parts import PartAssembler, parse_part
from gapless_api.inventory.reader import read_inventory_text
from gapless_api.offsets.window_files import read_window_files
from gapless_api.wire.resend_report_files import read_resend_reports
from gapless_api.wire.result_lines import ResultLinesError, find_result


def _gap_record(content: bytes) -> None:
    """Decode a gap record: two bytes with the length of the key, the key, the value."""
    length = int.from_bytes(content[:2], "big")
    key, value = content[2 : 2 + length], content[2 + length :]
    window = decode_gap_key(key)
    record = decode_gap_record(key, value)
    assert window == (record.topic, record.partition, record.window_min)
    if len(record.missing):
        assert record.window_min <= record.missing.first_offset <= record.missing.last_offset <= record.window_max


def _bitmap(content: bytes) -> None:
    """Decode a bitmap, and compare it with the reference library."""
    ranges = list(bitmap_ranges(content))
    assert sum(last - first + 1 for first, last in ranges) == len(BitMap.deserialize(content))


def _bundle(content: bytes) -> None:
    """Read a bundle, and its typed lines; a leading z compresses the rest, because a mutator cannot produce gzip."""
    packed = gzip.compress(content[1:], 1, mtime=0) if content[:1] == b"z" else content
    bundle = read_bundle_text(packed, name="input")
    typed = read_typed("\n".join(typed_lines(bundle)))
    expected = [(entry.topic, entry.partition, entry.ranges) for entry in bundle.results if len(entry.ranges)]
    assert [(entry.topic, entry.partition, entry.ranges) for entry in typed.results] == expected


def _typed_lines(content: bytes) -> None:
    """Read typed lines; a leading ! appends correct check words, because a mutator cannot find them."""
    text = content.decode("utf-8", "replace")
    if text.startswith("!"):
        lines, check = [], ""
        for line in text[1:].splitlines():
            payload = line.strip() if line.strip().startswith('"') else " ".join(line.split())
            if not payload or payload.startswith("#"):
                continue
            check = _check_word(check, payload)
            lines.append(f"{payload} {check}")
        text = "\n".join(lines)
    read_typed(text)


def _inventory(content: bytes) -> None:
    packed = gzip.compress(content[1:], 1, mtime=0) if content[:1] == b"z" else content
    read_inventory_text(packed, name="input")


def _inventory_parts(content: bytes) -> None:
    """Join lines, which are status texts, to inventories, and read these."""
    held = PartAssembler(max_incomplete=4)
    for line in content.split(b"\n"):
        part = parse_part(line)
        joined = held.add(part) if part is not None else None
        if joined is not None:
            read_inventory_text(joined, name="input")


def _result_lines(content: bytes) -> None:
    """Read result lines; a leading ! encodes the rest as a result in two pieces with a correct digest."""
    text = content.decode("utf-8", "replace")
    if text.startswith("!"):
        coded = base64.b64encode(gzip.compress(text[1:].encode(), 1, mtime=0)).decode()
        digest, half = hashlib.sha256(coded.encode()).hexdigest(), len(coded) // 2
        text = "\n".join(
            json.dumps({"event": "result", "part": part, "parts": 2, "sha256": digest, "piece": piece})
            for part, piece in ((1, coded[:half]), (2, coded[half:]))
        )
    find_result(text.splitlines())


def _report(content: bytes) -> None:
    read_resend_reports([as_file(content, "report.json")])


def _windows(content: bytes) -> None:
    read_window_files([as_file(content, "windows.yaml")])


_JSON = (
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'":',
    b",",
    b"[[0,5],[7]]",
    b"9223372036854775807",
    b"1e999",
    b"\\ud800",
    b"-1",
)
_MARK = tuple(
    b'"%b":' % name
    for name in (b"gapless", b"version", b"id", b"created", b"source", b"sha256", b"signature", b"topic", b"partition")
)

CONTRACT_TARGETS = (
    Target(
        "gap-records",
        _gap_record,
        (UndecodableRecordError,),
        tokens=(*_JSON, b'"window_min":', b'"window_max":', b'"gaps":', b"\x01", b"\x3a\x30\x00\x00", b"\x3b\x30"),
    ),
    Target(
        "bitmaps",
        _bitmap,
        (MalformedBitmapError,),
        tokens=(struct.pack("<II", 12346, 1), struct.pack("<I", 12347), b"\xff\xff", b"\x00\x10"),
        max_bytes=32_768,
    ),
    Target(
        "bundles",
        _bundle,
        (BundleError,),
        tokens=(*_JSON, *_MARK, b'"type":', b'"all"', b'"first"', b'"results":', b'"gaps":', b'"inferred":', b"z{"),
    ),
    Target(
        "typed-lines", _typed_lines, (BundleError,), tokens=(b"!", b"end", b"first", b"+ ", b"=1 ", b"?", b"0-9", b'"')
    ),
    Target(
        "manifests",
        _inventory,
        (ConfigurationError,),
        tokens=(*_JSON, *_MARK, b'"manifest":', b'"absent":', b'"first":', b'"last":', b'"events":', b'"isolation":'),
    ),
    Target(
        "manifest-parts",
        _inventory_parts,
        (ConfigurationError,),
        tokens=(b" gapless-manifest 20261120-100000-0123abcd ", b"1/2 ", b"1/1 ", b"H4sI"),
    ),
    Target(
        "result-lines",
        _result_lines,
        (ResultLinesError,),
        tokens=(
            *_JSON,
            b'{"event":"result"',
            b'"report":{"gapless_scan_result":3,',
            b'"findings":null',
            b'"bundle_gzip_base64":"',
            b'"part":',
            b'"piece":',
            b"!",
        ),
    ),
    Target(
        "resend-reports",
        _report,
        (ConfigurationError,),
        tokens=(
            *_JSON,
            b'"gaplessReport":1',
            b'"gaplessReport":3,"form":"full"',
            b'"ArchiveDamaged":',
            b'"partitions":[{',
            b'"ranges":{',
            b'"sent":',
            b'"filled":',
            b'"Expired":',
        ),
    ),
    Target(
        "window-files",
        _windows,
        (ConfigurationError,),
        tokens=(
            b"windows:",
            b"cluster: ",
            b"start: ",
            b"count: ",
            b"<<: *a",
            b"&a ",
            b"*a",
            b"!!int ",
            b"!!timestamp ",
        ),
        max_bytes=1024,
    ),
)
