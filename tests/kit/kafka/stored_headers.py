"""How the headers of a small partition are read from the files of a broker, without any client of Kafka."""

from __future__ import annotations

import struct
from pathlib import Path

_BATCH = struct.Struct(">qiibIhiqqqhii")
_CODEC_BITS, _CONTROL_BIT = 0x07, 0x20

Headers = tuple[tuple[bytes, bytes | None], ...]


def stored_headers(folder: Path, topic: str, partition: int = 0) -> list[Headers]:
    """Return the headers of each record, in order, also of aborted ones.

    Args:
        folder: of the kit's cluster.
        topic: whose ``compression.type`` is ``uncompressed``.
        partition: of the topic.
    """
    found: list[Headers] = []
    for log in sorted(folder.glob(f"node*/data/{topic}-{partition}/*.log")):
        content = log.read_bytes()
        at = 0
        while at + _BATCH.size <= len(content):
            _, length, _, _, _, attributes, *_, count = _BATCH.unpack_from(content, at)
            if not length:
                break  # the rest of the file is not used yet
            if attributes & _CODEC_BITS:
                raise ValueError(f"{topic} is compressed")
            if not attributes & _CONTROL_BIT:
                records = _Records(content[at + _BATCH.size : at + 12 + length])
                found += [records.headers() for _ in range(count)]
            at += 12 + length
    return found


class _Records:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def headers(self) -> Headers:
        """Read a record; return its headers."""
        self._number()
        self._at += 1  # attributes
        for _ in range(2):  # timestamp and offset
            self._number()
        for _ in range(2):  # key and value
            self._bytes()
        return tuple((self._bytes() or b"", self._bytes()) for _ in range(self._number()))

    def _bytes(self) -> bytes | None:
        size = self._number()
        if size < 0:
            return None
        self._at += size
        return self._content[self._at - size : self._at]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
