"""Owns Ed25519 (RFC 8032) signatures with keys from PEM files; must not know what is signed, nor in which words.

Every kind of file has its own first line below, so that no signature of one kind can pass for that of another.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.pem_files import read_file, read_private_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_SETTING = "the signing key"


def signed_bytes(first_line: str, members: Mapping[str, Any]) -> bytes:
    """What is signed: `first_line`, and `members` as JSON without white space, keys in the alphabet's order, as UTF-8.

    The JSON has no escapes but those that it demands.
    """
    text = json.dumps(members, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{first_line}\n{text}".encode()


def signer_from_file(key_file: Path) -> Callable[[bytes], str]:
    """Read an Ed25519 private key (PEM, PKCS#8) and return a function that signs, in Base64.

    Raises:
        ConfigurationError: the file cannot be read or holds no such key.
    """
    key = read_private_key(key_file, setting=_SETTING)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"The key {key_file} to sign with is not an Ed25519 key; make one with openssl genpkey -algorithm ed25519."
        )
    return lambda content: base64.b64encode(key.sign(content)).decode("ascii")


def verifier_from_file(key_file: Path) -> Callable[[str, bytes], bool]:
    """Read an Ed25519 public key (PEM) and return a function that tells whether a Base64 signature fits what is signed.

    Raises:
        ConfigurationError: the file cannot be read or holds no Ed25519 public key.
    """
    content = read_file(key_file, setting="the public key")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(
            f"The file {key_file} holds no Ed25519 public key in PEM form; make it of the private key with openssl "
            f"pkey -pubout."
        )

    return _verifier(key)


def verifier_from_base64(public_key: str) -> Callable[[str, bytes], bool]:
    """The same for an Ed25519 public key as the Base64 between the lines of its PEM form.

    Raises:
        ValueError: it is none.
    """
    key = load_der_public_key(base64.b64decode(public_key, validate=True))
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("not an Ed25519 public key")  # noqa: TRY004 -- what it says is wrong, not its Python type
    return _verifier(key)


def _verifier(key: Ed25519PublicKey) -> Callable[[str, bytes], bool]:
    def fits(signature: str, signed: bytes) -> bool:
        try:
            key.verify(base64.b64decode(signature, validate=True), signed)
        except (InvalidSignature, ValueError):
            return False
        return True

    return fits
