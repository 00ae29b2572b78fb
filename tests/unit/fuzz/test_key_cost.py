"""The proof that the fuzz target of keys tells costly keys from usual ones."""

from __future__ import annotations

import pytest

from fuzz.key_cost import CostlyKeyError, check_cost

MOST = 2_000_000


def sequence(*elements: bytes) -> bytes:
    content = b"".join(elements)
    size = len(content)
    long = b"\x81" + bytes((size,)) if size < 256 else b"\x82" + size.to_bytes(2, "big")
    return b"\x30" + (bytes((size,)) if size < 128 else long) + content


def integer(number: int) -> bytes:
    content = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return b"\x02" + bytes((len(content),)) + content


OID, SALT, BODY = b"\x06\x01\x2a", b"\x04\x08saltsalt", b"\x04\x02\x00\x00"


def encrypted(*numbers: int) -> bytes:
    """An EncryptedPrivateKeyInfo with these numbers behind the salt."""
    derivation = sequence(OID, sequence(SALT, *map(integer, numbers)))
    return sequence(sequence(OID, sequence(derivation, sequence(OID, SALT))), BODY)


@pytest.mark.parametrize("numbers", [(2048,), (MOST, 32), (16_384, 8, 1), (16_384, 8, 1, 32)])
def test_usual_costs_are_taken(numbers: tuple[int, ...]) -> None:
    check_cost(encrypted(*numbers), MOST)


@pytest.mark.parametrize(
    "numbers", [(MOST + 1,), (2**31 - 1, 32), (2**200,), (2**20, 8, 1), (16_384, 8, 64, 32), (2, 2**40, 1)]
)
def test_absurd_costs_are_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(CostlyKeyError):
        check_cost(encrypted(*numbers), MOST)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0",
        b"0\x00",
        b"0\x80\0\0",
        b"0\x84\xff\xff\xff\xff",
        encrypted(1)[:-1],
        encrypted(1) + b"0",
        BODY,
        sequence(BODY),
    ],
)
def test_what_is_no_encrypted_key_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        check_cost(content, MOST)
    assert not isinstance(refused.value, CostlyKeyError)


def test_a_hundred_sequences_in_one_another_are_refused() -> None:
    deep = b""
    for _ in range(100):
        deep = sequence(deep)
    with pytest.raises(ValueError, match="deep"):
        check_cost(sequence(deep, BODY), MOST)
