"""Signing and verifying the metadata of a bundle; must not know bundle files, or how the digest is computed.

The Ed25519 signature (RFC 8032) covers the line ``gapless bundle`` and the metadata without the signature, as JSON in
UTF-8 without white space, with sorted keys and only the escapes that JSON requires. The metadata contains the digest of
the content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import BundleError
from gapless_api.keys.signatures import signed_bytes, signer_from_file, verifier_from_base64, verifier_from_file

if TYPE_CHECKING:
    from gapless_api.bundle.form import BundleMetadata


def load_signer(key_file: Path) -> Callable[[BundleMetadata], BundleMetadata]:
    """Read an Ed25519 private key (PEM, PKCS#8) and return a function that signs metadata.

    Raises:
        ConfigurationError: the file cannot be read or contains no such key.
    """
    sign = signer_from_file(key_file)
    return lambda metadata: replace(metadata, signature=sign(_signed_bytes(metadata)))


def verify_metadata(metadata: BundleMetadata | None, key_file: Path, *, bundle: Path) -> None:
    """Check that `metadata` was signed with the private key of the public key (PEM) in `key_file`.

    Raises:
        ConfigurationError: the file cannot be read or contains no Ed25519 public key.
        BundleError: the metadata is not signed, was signed with another key, or was altered since.
    """
    is_valid = verifier_from_file(key_file)
    metadata, signature = _signed(metadata, str(bundle))
    if not is_valid(signature, _signed_bytes(metadata)):
        raise BundleError(
            f"The signature of the bundle {bundle} does not match the public key {key_file}; the bundle was altered or "
            f"signed with another key: do not use it."
        )


def check_trusted(metadata: BundleMetadata | None, keys: Mapping[str, str], *, bundle: str) -> None:
    """Check that `metadata` was signed with the private key of one of `keys`.

    Args:
        metadata: the metadata of the bundle.
        keys: Ed25519 public keys in Base64, by name, as `trusted_keys.parse_keys` returns them.
        bundle: the name of the bundle in messages.

    Raises:
        BundleError: the metadata is not signed, was signed with another key, or was altered since.
    """
    metadata, signature = _signed(metadata, bundle)
    signed = _signed_bytes(metadata)
    if not any(verifier_from_base64(key)(signature, signed) for key in keys.values()):
        raise BundleError(
            f"The signature of the bundle {bundle} matches none of the trusted keys ({', '.join(sorted(keys))}); the "
            f"bundle was altered or signed with another key: do not use it, or ask the platform team to trust its "
            f"signer."
        )


def _signed(metadata: BundleMetadata | None, bundle: str) -> tuple[BundleMetadata, str]:
    if metadata is None or metadata.signature is None:
        raise BundleError(f"The bundle {bundle} is not signed; sign it where it was created, or request a new one.")
    return metadata, metadata.signature


def _signed_bytes(metadata: BundleMetadata) -> bytes:
    return signed_bytes("gapless bundle", replace(metadata, signature=None).members())
