"""Owns the signature of a bundle's metadata; must not know files of bundles, nor how the digest in it came about.

Ed25519 (RFC 8032) over the line ``gapless bundle`` and the metadata without its signature as JSON without white space,
keys in the alphabet's order, no escapes but those that JSON demands, as UTF-8. The metadata holds the digest of
everything else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import BundleError
from gapless_api.keys.signatures import signed_bytes, signer_from_file, verifier_from_base64, verifier_from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gapless_api.bundle.form import BundleMetadata


def load_signer(key_file: Path) -> Callable[[BundleMetadata], BundleMetadata]:
    """Read an Ed25519 private key (PEM, PKCS#8) and return a function that signs metadata.

    Raises:
        ConfigurationError: the file cannot be read or holds no such key.
    """
    sign = signer_from_file(key_file)
    return lambda metadata: replace(metadata, signature=sign(_signed_bytes(metadata)))


def verify_metadata(metadata: BundleMetadata | None, key_file: Path, *, bundle: Path) -> None:
    """Make sure that `metadata` was signed with the private half of the public key (PEM) in `key_file`.

    Raises:
        ConfigurationError: the file cannot be read or holds no Ed25519 public key.
        BundleError: the metadata is not signed, or not with that key, or was altered since.
    """
    fits = verifier_from_file(key_file)
    metadata, signature = _signed(metadata, str(bundle))
    if not fits(signature, _signed_bytes(metadata)):
        raise BundleError(
            f"The signature of the bundle {bundle} does not match the public key {key_file}; the bundle was altered or "
            f"signed with another key: do not use it."
        )


def check_trusted(metadata: BundleMetadata | None, keys: Mapping[str, str], *, bundle: str) -> None:
    """Make sure that `metadata` was signed with the private half of one of `keys`.

    Args:
        metadata: of the bundle.
        keys: Ed25519 public keys in Base64, by name, as `trusted_keys.parse_keys` reads them.
        bundle: what the message calls it.

    Raises:
        BundleError: the metadata is not signed, or with no trusted key, or was altered since.
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
