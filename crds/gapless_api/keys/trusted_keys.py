"""Owns how trusted public keys are written: PEM in a resource, ``NAME:BASE64,…`` in a setting.

Must not know how a signature is verified; nothing slow may be imported here, because ``--help`` needs this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BODY = "MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}="
"""Of an Ed25519 public key (RFC 8410): 12 bytes that say so and the 32 bytes of the key, in Base64."""
PEM = rf"\s*-----BEGIN PUBLIC KEY-----\s+{_BODY}\s+-----END PUBLIC KEY-----\s*"
"""A complete text; Python, RE2 and JSON schema read it alike."""
_ENTRY = re.compile(rf"(?P<name>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?):(?P<key>{_BODY})")


def public_key_base64(pem: str) -> str:
    """The Base64 of a public key in PEM form. Raises ValueError when it is none."""
    body = re.search(_BODY, pem)
    if body is None:
        raise ValueError("not an Ed25519 public key in PEM form")
    return body[0]


def format_keys(keys: Mapping[str, str]) -> str:
    """The setting for public keys in Base64, by name."""
    return ",".join(f"{name}:{key}" for name, key in keys.items())


def parse_keys(text: str) -> dict[str, str]:
    """Read the setting: Base64 of each key by its name. Raises ValueError with the end of "it must be …"."""
    found: dict[str, str] = {}
    for part in text.split(","):
        entry = _ENTRY.fullmatch(part.strip())
        if entry is None or entry["name"] in found:
            raise ValueError("NAME:KEY for each trusted key, separated by commas; KEY is the middle line of its PEM")
        found[entry["name"]] = entry["key"]
    return found
