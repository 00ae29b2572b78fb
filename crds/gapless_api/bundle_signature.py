"""Owns the signature of a bundle's mark; must not know files of bundles, nor how the digest in the mark came about.

Ed25519 (RFC 8032) over the line ``gapless bundle`` and the mark without its signature as JSON without white space, keys
in the alphabet's order, no escapes but those that JSON demands, as UTF-8. The mark holds the digest of everything else.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from gapless_api.errors import BundleError, ConfigurationError
from gapless_api.pem_files import read_file, read_private_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gapless_api.bundle_form import BundleMark

_SETTING = "the signing key"


def load_signer(key_file: Path) -> Callable[[BundleMark], BundleMark]:
    """Read an Ed25519 private key (PEM, PKCS#8) and return a function that gives a mark its signature.

    Raises:
        ConfigurationError: the file cannot be read or holds no such key.
    """
    key = read_private_key(key_file, setting=_SETTING)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"The key {key_file} to sign with is not an Ed25519 key; make one with openssl genpkey -algorithm ed25519."
        )

    def sign(mark: BundleMark) -> BundleMark:
        return replace(mark, signature=base64.b64encode(key.sign(_signed_bytes(mark))).decode("ascii"))

    return sign


def verify_mark(mark: BundleMark | None, key_file: Path, *, bundle: Path) -> None:
    """Make sure that `mark` was signed with the private half of the public key (PEM) in `key_file`.

    Raises:
        ConfigurationError: the file cannot be read or holds no Ed25519 public key.
        BundleError: the mark is not signed, or not with that key, or was altered since.
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
    if mark is None or mark.signature is None:
        raise BundleError(f"The bundle {bundle} is not signed; have it signed where it was made, or ask for it again.")
    try:
        key.verify(base64.b64decode(mark.signature, validate=True), _signed_bytes(mark))
    except (InvalidSignature, ValueError):
        raise BundleError(
            f"The signature of the bundle {bundle} does not fit the public key {key_file}; the bundle was altered or "
            f"signed by somebody else: do not use it."
        ) from None


def _signed_bytes(mark: BundleMark) -> bytes:
    members = replace(mark, signature=None).members()
    text = json.dumps(members, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"gapless bundle\n{text}".encode()
