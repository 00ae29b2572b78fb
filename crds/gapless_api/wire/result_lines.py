r"""The transport of a scan result in the log of a pod; must not know Kubernetes, Spark or files.

The pods have no access to the API server, so the result goes to standard output as JSON lines, for anyone who may read
the log of the pod. A small result is one line::

    {"event":"result","report":{…},"bundle_gzip_base64":"…"}

A large result is split, because container runtimes split lines at 16 KiB. The joined pieces are the Base64 encoding of
the gzipped line above, and `sha256` is the digest of the Base64 text::

    {"event":"result","part":1,"parts":3,"sha256":"…","piece":"…"}
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gapless_api.wire.form import WireError, parse_json
from gapless_api.wire.scan_result import SCAN_RESULT, ScanReport

_EVENT = "result"
MAX_LINE_CHARACTERS = 12_000
"""Less than the 16 KiB at which container runtimes split lines, with room for additions of log collectors."""
_PIECE_CHARACTERS = MAX_LINE_CHARACTERS - 200
_MAX_RESULT_BYTES = 64 * 1024 * 1024
"""Limit of a decompressed result, so that no log can fill the memory."""


class ResultLinesError(ValueError):
    """A log contains no result, or an incomplete or altered one; the message says which."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a scan or an audit."""

    report: ScanReport
    bundle_gzip: bytes | None
    """The gzipped bundle; ``None`` if it was written to a volume or a bucket, or there is none."""


def result_lines(report: ScanReport, bundle: bytes | None) -> list[str]:
    """Encode a `report` and a `bundle` (plain or gzipped) as lines without line feeds that no runtime splits.

    The same input gives the same lines.
    """
    members: dict[str, Any] = {"event": _EVENT, "report": SCAN_RESULT.to_json(report)}
    if bundle is not None:
        compressed = bundle if bundle.startswith(b"\x1f\x8b") else gzip.compress(bundle, mtime=0)
        members["bundle_gzip_base64"] = base64.b64encode(compressed).decode("ascii")
    line = json.dumps(members, ensure_ascii=True, separators=(",", ":"))
    if len(line) <= MAX_LINE_CHARACTERS:
        return [line]
    text = base64.b64encode(gzip.compress(line.encode("ascii"), mtime=0)).decode("ascii")
    sha256 = hashlib.sha256(text.encode("ascii")).hexdigest()
    pieces = [text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS)]
    return [
        json.dumps(
            {"event": _EVENT, "part": part, "parts": len(pieces), "sha256": sha256, "piece": piece},
            separators=(",", ":"),
        )
        for part, piece in enumerate(pieces, start=1)
    ]


def find_result(lines: Iterable[str]) -> ScanResult:
    """Return the last result in the `lines` of a log; other lines are ignored.

    Raises:
        ResultLinesError: there is no result, or it is incomplete or altered.
    """
    complete: dict[str, Any] | None = None
    pieces: dict[int, str] = {}
    parts, sha256 = 0, ""
    for line in lines:
        entry = _entry(line)
        if entry is None:
            continue
        if "piece" not in entry:
            complete, pieces, parts, sha256 = entry, {}, 0, ""
            continue
        part, of, digest, piece = (entry.get(name) for name in ("part", "parts", "sha256", "piece"))
        if type(part) is not int or type(of) is not int or not isinstance(digest, str) or not isinstance(piece, str):
            raise ResultLinesError("a line of the result is malformed")
        if digest != sha256:
            complete, pieces, parts, sha256 = None, {}, of, digest
        pieces[part] = piece
    if parts:
        complete = _join_pieces(pieces, parts, sha256)
    if complete is None:
        raise ResultLinesError("the log contains no result")
    return _result(complete)


def _entry(line: str) -> dict[str, Any] | None:
    """Parse a line of a result; ``None`` for any other line."""
    if f'"{_EVENT}"' not in line:
        return None
    entry = parse_json(line)
    return entry if isinstance(entry, dict) and entry.get("event") == _EVENT else None


def _join_pieces(pieces: dict[int, str], parts: int, sha256: str) -> dict[str, Any]:
    missing = next((part for part in range(1, parts + 1) if part not in pieces), None)
    if missing is not None:
        raise ResultLinesError(f"part {missing} of {parts} of the result is missing from the log")
    text = "".join(pieces[part] for part in range(1, parts + 1))
    if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() != sha256:
        raise ResultLinesError("the parts of the result do not match their digest")
    try:
        members = json.loads(unpack_gzip(base64.b64decode(text, validate=True)))
    except (ValueError, RecursionError) as error:
        raise ResultLinesError("the parts of the result are not what a scan writes") from error
    if not isinstance(members, dict):
        raise ResultLinesError("the parts of the result are not what a scan writes")
    return members


def _result(members: dict[str, Any]) -> ScanResult:
    report, bundle = members.get("report"), members.get("bundle_gzip_base64")
    if not isinstance(report, dict) or not isinstance(bundle, str | None):
        raise ResultLinesError("the result has no report")
    try:
        scan_report = SCAN_RESULT.from_json(report)
    except WireError as error:
        raise ResultLinesError(str(error)) from None
    try:
        return ScanResult(scan_report, None if bundle is None else base64.b64decode(bundle, validate=True))
    except ValueError as error:
        raise ResultLinesError("the bundle in the result is not base64") from error


def unpack_gzip(content: bytes, *, max_bytes: int = _MAX_RESULT_BYTES) -> bytes:
    """Decompress gzipped `content` from an untrusted source.

    Raises:
        ResultLinesError: it is damaged, incomplete, or larger than `max_bytes`.
    """
    reader = zlib.decompressobj(wbits=31)
    try:
        decompressed = reader.decompress(content, max_bytes)
    except zlib.error as error:
        raise ResultLinesError("gzipped content is damaged") from error
    if reader.unconsumed_tail:
        raise ResultLinesError(f"gzipped content is larger than {max_bytes} bytes")
    if not reader.eof or reader.unused_data:
        raise ResultLinesError("gzipped content is truncated or followed by other content")
    return decompressed
