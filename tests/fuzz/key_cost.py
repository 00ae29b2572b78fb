"""The cost estimate for decrypting a PKCS#8 key, so that fuzzing spends no time on expensive ones.

The file itself contains the number of rounds and the memory cost (PBKDF2: RFC 8018, scrypt: RFC 7914).
"""

from __future__ import annotations

from math import prod

_INTEGER, _SEQUENCE = 0x02, 0x30
_MAX_DEPTH = 8
_SCRYPT_PARAMETERS = 3


class CostlyKeyError(ValueError):
    """Decrypting the key would need more rounds or memory than allowed."""


def check_cost(encrypted_pkcs8: bytes, max_rounds: int) -> None:
    """Check the DER of an EncryptedPrivateKeyInfo before it is decrypted.

    Every scheme has its parameters as integers in one sequence: for PBKDF2 the rounds and optionally the key length;
    for scrypt N, r, p and optionally the key length.

    Raises:
        CostlyKeyError: decrypting would take too long.
        ValueError: it is not an EncryptedPrivateKeyInfo.
    """
    tag, scheme, _ = _element(_single(encrypted_pkcs8, _SEQUENCE))
    if tag != _SEQUENCE:
        raise ValueError("no encryption algorithm")
    _check_sequence(scheme, _MAX_DEPTH, max_rounds)


def _check_sequence(content: bytes, depth: int, max_rounds: int) -> None:
    if depth == 0:
        raise ValueError("nested too deeply")
    numbers = []
    while content:
        tag, inner, content = _element(content)
        if tag == _SEQUENCE:
            _check_sequence(inner, depth - 1, max_rounds)
        elif tag == _INTEGER:
            numbers.append(int.from_bytes(inner, "big"))  # a negative integer becomes large
    cost = prod(numbers[:3]) if len(numbers) >= _SCRYPT_PARAMETERS else max(numbers, default=0)
    if cost > max_rounds:
        raise CostlyKeyError


def _single(content: bytes, expected: int) -> bytes:
    tag, inner, rest = _element(content)
    if tag != expected or rest:
        raise ValueError("not a single element")
    return inner


def _element(content: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and contents of the first DER element, and the rest of `content`."""
    if len(content) < 2:
        raise ValueError("truncated")
    tag, length, start = content[0], content[1], 2
    if length >= 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(content[2:start], "big")
        if start == 2:
            raise ValueError("indefinite length")
    if start + length > len(content):
        raise ValueError("truncated")
    return tag, content[start : start + length], content[start + length :]
