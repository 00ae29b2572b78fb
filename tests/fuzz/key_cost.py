"""Owns what it costs to decrypt an encrypted PKCS#8 key, so that fuzzing spends no time on costly ones.

The file itself tells how many rounds that takes, and how much memory (PBKDF2: RFC 8018, scrypt: RFC 7914).
"""

from __future__ import annotations

from math import prod

_INTEGER, _SEQUENCE = 0x02, 0x30
_MOST_DEPTH = 8
_NUMBERS_OF_SCRYPT = 3


class CostlyKeyError(ValueError):
    """To decrypt the key would take more rounds or memory than the target spends."""


def check_cost(encrypted_pkcs8: bytes, most_rounds: int) -> None:
    """Look at the DER of an EncryptedPrivateKeyInfo before anybody tries to decrypt it.

    Every scheme has a sequence of its parameters with the numbers side by side: rounds, for PBKDF2 perhaps with the
    key's length; for scrypt N, r, p and perhaps that length.

    Raises:
        CostlyKeyError: it would take too long.
        ValueError: it is no such thing.
    """
    tag, scheme, _ = _element(_single(encrypted_pkcs8, _SEQUENCE))
    if tag != _SEQUENCE:
        raise ValueError("no description of an encryption")
    _check_sequence(scheme, _MOST_DEPTH, most_rounds)


def _check_sequence(content: bytes, depth: int, most_rounds: int) -> None:
    if depth == 0:
        raise ValueError("nested too deeply")
    numbers = []
    while content:
        tag, inner, content = _element(content)
        if tag == _SEQUENCE:
            _check_sequence(inner, depth - 1, most_rounds)
        elif tag == _INTEGER:
            numbers.append(int.from_bytes(inner, "big"))  # a negative one becomes large
    cost = prod(numbers[:3]) if len(numbers) >= _NUMBERS_OF_SCRYPT else max(numbers, default=0)
    if cost > most_rounds:
        raise CostlyKeyError


def _single(content: bytes, expected: int) -> bytes:
    tag, inner, rest = _element(content)
    if tag != expected or rest:
        raise ValueError("not one element")
    return inner


def _element(content: bytes) -> tuple[int, bytes, bytes]:
    """Take the first DER element of `content`: its tag, what is in it, and what follows it."""
    if len(content) < 2:
        raise ValueError("cut off")
    tag, length, start = content[0], content[1], 2
    if length >= 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(content[2:start], "big")
        if start == 2:
            raise ValueError("of no definite length")
    if start + length > len(content):
        raise ValueError("cut off")
    return tag, content[start : start + length], content[start + length :]
