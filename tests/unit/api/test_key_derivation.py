"""Owns the proof that no key file keeps a program busy for long, and that honest ones are read."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.key_derivation import MOST_ROUNDS, CostlyKeyError, check_cost
from gapless_api.keys.pem_files import read_certificates, read_password, read_private_key

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = b"secret"


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


def with_rounds(rounds: int) -> bytes:
    """A key of PBES2 (PBKDF2 with SHA-256, AES-256-CBC), which really has so many rounds if they are few."""
    plain = Ed25519PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    salt, vector = b"saltsalt", bytes(16)
    key = hashlib.pbkdf2_hmac("sha256", PASSWORD, salt, min(rounds, 100_000), 32)
    padder = PKCS7(128).padder()
    cipher = Cipher(AES(key), CBC(vector)).encryptor()
    body = cipher.update(padder.update(plain) + padder.finalize()) + cipher.finalize()
    pkcs5 = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05"
    sha256 = sequence(b"\x06\x08\x2a\x86\x48\x86\xf7\x0d\x02\x09", b"\x05\x00")
    derivation = sequence(pkcs5 + b"\x0c", sequence(SALT, integer(rounds), sha256))
    aes = sequence(b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x01\x2a", b"\x04\x10" + vector)
    scheme = sequence(pkcs5 + b"\x0d", sequence(derivation, aes))
    der = sequence(scheme, b"\x04" + bytes((len(body),)) + body)
    label = b"ENCRYPTED PRIVATE KEY-----\n"
    return b"-----BEGIN " + label + base64.encodebytes(der) + b"-----END " + label


def read(folder: Path, content: bytes) -> object:
    (folder / "key.pem").write_bytes(content)
    (folder / "password").write_bytes(PASSWORD)
    return read_private_key(folder / "key.pem", setting="keyFile", password_file=folder / "password")


@pytest.mark.parametrize("numbers", [(2048,), (MOST_ROUNDS, 32), (16_384, 8, 1), (16_384, 8, 1, 32)])
def test_usual_costs_are_taken(numbers: tuple[int, ...]) -> None:
    check_cost(encrypted(*numbers))


@pytest.mark.parametrize(
    "numbers", [(MOST_ROUNDS + 1,), (2**31 - 1, 32), (2**200,), (2**20, 8, 1), (16_384, 8, 64, 32), (2, 2**40, 1)]
)
def test_absurd_costs_are_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(CostlyKeyError):
        check_cost(encrypted(*numbers))


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
        check_cost(content)
    assert not isinstance(refused.value, CostlyKeyError)


def test_a_hundred_sequences_in_one_another_are_refused() -> None:
    deep = b""
    for _ in range(100):
        deep = sequence(deep)
    with pytest.raises(ValueError, match="deep"):
        check_cost(sequence(deep, BODY))


def test_a_key_that_asks_for_eight_million_rounds_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"takes more than 2000000 rounds to decrypt; .*-iter 600000\.$"):
        read(tmp_path, with_rounds(2**23 - 1))


def test_a_key_with_a_hundred_thousand_rounds_is_read(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, with_rounds(100_000)), Ed25519PrivateKey)


def test_a_file_of_many_beginnings_or_white_space_is_refused(tmp_path: Path) -> None:
    begins = b"-----BEGIN PRIVATE KEY-----\n"
    with pytest.raises(ConfigurationError, match="holds no PEM private key"):
        read(tmp_path, begins * 100_000)
    spaces = b"-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-192-CBC,%b%b-x-----END RSA PRIVATE KEY-----\n"
    with pytest.raises(ConfigurationError, match="is damaged"):
        read(tmp_path, spaces % (b"0" * 32, b" " * 30_000))


def test_no_file_of_keys_is_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(ConfigurationError, match="larger than"):
        read_password(tmp_path / "endless", setting="keyPasswordFile")
    with pytest.raises(ConfigurationError, match="larger than"):
        read_certificates(tmp_path / "endless", setting="certFile")
