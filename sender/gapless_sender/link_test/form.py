"""The format of probes, the datagrams of ``gapless link test``; must not know sockets nor counting.

All numbers are unsigned and big-endian:

======  =====  ========================================================================================================
offset  bytes  what
======  =====  ========================================================================================================
0       8      the magic bytes ``47 4c 50 ff ff ff ff 01``; the last byte is the version
8       8      number of the run, random
16      1      kind: 0 probe, 1 a step has ended, 2 the run has ended
17      1      number of the step, from 1 (kind 2: of the last one)
18      1      steps of the run
19      1      bytes of the UDP and IP headers (28 or 48)
20      2      bytes of the payload of every probe of the run
22      2      0
24      4      kind 0: number of the probe in its step, from 0; kind 1: how many were sent
28      4      planned number of probes in the step
32      8      requested rate of the step, in probes per 1,000 seconds
40      8      kind 0: microseconds since the start of the step; kind 1: duration of the step in microseconds
48      4      CRC-32 (zlib) of everything else: what follows, then bytes 0 to 47
52      …      the bytes 0, 1, … 255, repeated up to the payload's size
======  =====  ========================================================================================================

The magic bytes protect programs that do not know probes: where the receiver of a diode expects the number of fragments
and the length of an id (bytes 3 and 5), it reads 65,535 twice, and refuses the datagram.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

MARK = b"GLP\xff\xff\xff\xff\x01"
_FIELDS = struct.Struct(">8sQBBBBHHIIQQ")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = _FIELDS.size + _CHECKSUM.size
MIN_PAYLOAD_BYTES = 64
MAX_STEPS = 100
MAX_PROBES = 100_000_000
"""In one step; a receiver remembers each with one bit."""
PORT = 24117
"""The default port of probes: not a receiver's, which would log an error for each."""


class Kind(IntEnum):
    """The kind of a probe."""

    PROBE = 0
    STEP_ENDED = 1
    RUN_ENDED = 2


class Step(NamedTuple):
    """A step of a run, as described in each of its probes."""

    run: int
    number: int
    """From 1."""
    steps: int
    header_bytes: int
    payload_bytes: int
    probes: int
    """The planned number."""
    asked_millihertz: int
    """Probes per 1,000 seconds."""


class Probe(NamedTuple):
    """A probe that has arrived."""

    step: Step
    kind: Kind
    number: int
    """Of the probe in its step, from 0; for the end of a step, how many were sent."""
    microseconds: int


class Damaged(NamedTuple):
    """A datagram with the magic bytes whose checksum or fields are wrong."""

    run: int
    """Unless this field is damaged."""


class ProbeMaker:
    """Makes the probes of one step."""

    def __init__(self, step: Step) -> None:
        self._step = step
        length = step.payload_bytes - HEAD_BYTES
        self._filler = (bytes(range(256)) * (length // 256 + 1))[:length]
        self._filler_checksum = zlib.crc32(self._filler)

    def make(self, kind: Kind, number: int, microseconds: int) -> bytes:
        """Return the payload of one datagram."""
        step = self._step
        fields = _FIELDS.pack(
            MARK,
            step.run,
            kind,
            step.number,
            step.steps,
            step.header_bytes,
            step.payload_bytes,
            0,
            number,
            step.probes,
            step.asked_millihertz,
            microseconds,
        )
        return fields + _CHECKSUM.pack(zlib.crc32(fields, self._filler_checksum)) + self._filler


def read(datagram: memoryview) -> Probe | Damaged | None:
    """Parse `datagram`; ``None`` when it is not a probe."""
    if datagram[: len(MARK)] != MARK:
        return None
    if len(datagram) < HEAD_BYTES:
        return Damaged(0)
    _, run, kind, number, steps, header_bytes, payload_bytes, _, count, probes, asked, microseconds = (
        _FIELDS.unpack_from(datagram)
    )
    (checksum,) = _CHECKSUM.unpack_from(datagram, _FIELDS.size)
    is_intact = checksum == zlib.crc32(datagram[: _FIELDS.size], zlib.crc32(datagram[HEAD_BYTES:]))
    is_valid = (
        len(datagram) == payload_bytes
        and kind <= Kind.RUN_ENDED
        and 1 <= number <= steps <= MAX_STEPS
        and count <= probes <= MAX_PROBES
        and (kind != Kind.PROBE or count < probes)
    )
    if not (is_intact and is_valid):
        return Damaged(run)
    return Probe(Step(run, number, steps, header_bytes, payload_bytes, probes, asked), Kind(kind), count, microseconds)
