"""Ed25519 (RFC 8032) signatures with keys from PEM files; must not know what is signed.

The signed bytes start with a line that names the kind of file, so that no signature is valid for another kind.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.pem_files import read_file, read_private_key

_SETTING = "the signing key"


def signed_bytes(first_line: str, members: Mapping[str, Any]) -> bytes:
    """Return the bytes to sign: `first_line`, then `members` as JSON in UTF-8.

    The JSON has no white space, sorted keys, and only the escapes that JSON requires.
    """
    text = json.dumps(members, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{first_line}\n{text}".encode()


def signer_from_file(key_file: Path) -> Callable[[bytes], str]:
    """Read an Ed25519 private key (PEM, PKCS#8) and return a function that signs bytes, in Base64.

    Raises:
        ConfigurationError: the file cannot be read or contains no such key.
    """
    key = read_private_key(key_file, setting=_SETTING)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"The signing key {key_file} is not an Ed25519 key; create one with openssl genpkey -algorithm ed25519."
        )
    return lambda content: base64.b64encode(key.sign(content)).decode("ascii")


def verifier_from_file(key_file: Path) -> Callable[[str, bytes], bool]:
    """Read an Ed25519 public key (PEM) and return a function that verifies a Base64 signature of bytes.

    Raises:
        ConfigurationError: the file cannot be read or contains no Ed25519 public key.
    """
    content = read_file(key_file, setting="the public key")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(
            f"The file {key_file} contains no Ed25519 public key in PEM form; create it from the private key with "
            f"openssl pkey -pubout."
        )
    return _verifier(key)


def verifier_from_base64(public_key: str) -> Callable[[str, bytes], bool]:
    """Return a function that verifies signatures with `public_key`, the Base64 body of an Ed25519 public key in PEM.

    Raises:
        ValueError: `public_key` is no Ed25519 public key.
    """
    key = load_der_public_key(base64.b64decode(public_key, validate=True))
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("not an Ed25519 public key")  # noqa: TRY004 -- the content is wrong, not the Python type
    return _verifier(key)


def _verifier(key: Ed25519PublicKey) -> Callable[[str, bytes], bool]:
    def verify(signature: str, signed: bytes) -> bool:
        try:
            key.verify(base64.b64decode(signature, validate=True), signed)
        except (InvalidSignature, ValueError):
            return False
        return True

    return verify
