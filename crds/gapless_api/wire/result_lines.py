r"""Owns how a scan's result travels in a pod's log and is found there again; must not know Kubernetes, Spark or files.

A pod of ours has no access to the API server, so what it found goes to standard output as lines of JSON, which anybody
who may read the pod's log puts together. A small result is one line::

    {"event":"result","report":{…},"bundle_gzip_base64":"…"}

A large one is cut, because container runtimes cut lines at 16 KiB. The pieces, joined, are the base64 form of the
gzipped JSON of the line above, and `sha256` is the digest of that base64 text::

    {"event":"result","part":1,"parts":3,"sha256":"…","piece":"…"}
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.wire.form import WireError, parse_json
from gapless_api.wire.scan_result import SCAN_RESULT, ScanReport

if TYPE_CHECKING:
    from collections.abc import Iterable

_EVENT = "result"
MAX_LINE_CHARACTERS = 12_000
"""Below the 16 KiB at which container runtimes cut lines, with room for what log collectors put around one."""
_PIECE_CHARACTERS = MAX_LINE_CHARACTERS - 200
_MAX_RESULT_BYTES = 64 * 1024 * 1024
"""What a result may hold when it is unpack_gzip: a guard against a log that would fill our memory."""


class ResultLinesError(ValueError):
    """A log holds no result, or not all of it; the text says which."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan or an audit found, as it travels."""

    report: ScanReport
    bundle_gzip: bytes | None
    """The bundle, gzipped; ``None`` when it went to a volume or a bucket, or there is none."""


def result_lines(report: ScanReport, bundle: bytes | None) -> list[str]:
    """Turn a `report` and a `bundle` (plain or gzipped) into lines without line feeds, each short enough not to be cut.

    The same input gives the same lines.
    """
    members: dict[str, Any] = {"event": _EVENT, "report": SCAN_RESULT.to_json(report)}
    if bundle is not None:
        packed = bundle if bundle.startswith(b"\x1f\x8b") else gzip.compress(bundle, mtime=0)
        members["bundle_gzip_base64"] = base64.b64encode(packed).decode("ascii")
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
    """Find the last result among the `lines` of a log, whatever stands between.

    Raises:
        ResultLinesError: there is none, or it is cut or altered.
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
        complete = _joined(pieces, parts, sha256)
    if complete is None:
        raise ResultLinesError("the log holds no result")
    return _result(complete)


def _entry(line: str) -> dict[str, Any] | None:
    """Read a line of the result; ``None`` for any other line."""
    if f'"{_EVENT}"' not in line:
        return None
    entry = parse_json(line)
    return entry if isinstance(entry, dict) and entry.get("event") == _EVENT else None


def _joined(pieces: dict[int, str], parts: int, sha256: str) -> dict[str, Any]:
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
        read = SCAN_RESULT.from_json(report)
    except WireError as error:
        raise ResultLinesError(str(error)) from None
    try:
        return ScanResult(read, None if bundle is None else base64.b64decode(bundle, validate=True))
    except ValueError as error:
        raise ResultLinesError("the bundle in the result is not base64") from error


def unpack_gzip(content: bytes, *, most_bytes: int = _MAX_RESULT_BYTES) -> bytes:
    """Unpack gzipped `content`, which may come from anywhere.

    Raises:
        ResultLinesError: it is incomplete, or larger than `most_bytes`.
    """
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(content, most_bytes)
    except zlib.error as error:
        raise ResultLinesError("gzipped content is damaged") from error
    if reader.unconsumed_tail:
        raise ResultLinesError(f"gzipped content is larger than {most_bytes} bytes")
    if not reader.eof or reader.unused_data:
        raise ResultLinesError("gzipped content is cut or goes on after its end")
    return found
