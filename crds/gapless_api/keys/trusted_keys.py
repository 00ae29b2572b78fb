"""The formats of trusted public keys: PEM in a resource, ``NAME:BASE64,…`` in a setting.

Must not know how signatures are verified. ``--help`` needs this module, so it must not import anything slow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BODY = "MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}="
"""An Ed25519 public key (RFC 8410) in Base64: a fixed prefix of 12 bytes and the 32 bytes of the key."""
PEM = rf"\s*-----BEGIN PUBLIC KEY-----\s+{_BODY}\s+-----END PUBLIC KEY-----\s*"
"""The pattern of a PEM file; it means the same in Python, RE2 and JSON schema."""
_ENTRY = re.compile(rf"(?P<name>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?):(?P<key>{_BODY})")


def public_key_base64(pem: str) -> str:
    """Return the Base64 body of a public key in PEM form. Raises ValueError."""
    body = re.search(_BODY, pem)
    if body is None:
        raise ValueError("not an Ed25519 public key in PEM form")
    return body[0]


def format_keys(keys: Mapping[str, str]) -> str:
    """Format public keys (Base64 by name) as the setting that `parse_keys` reads."""
    return ",".join(f"{name}:{key}" for name, key in keys.items())


def parse_keys(text: str) -> dict[str, str]:
    """Parse the setting into Base64 keys by name. Raises ValueError with the end of "it must be …"."""
    keys: dict[str, str] = {}
    for part in text.split(","):
        entry = _ENTRY.fullmatch(part.strip())
        if entry is None or entry["name"] in keys:
            raise ValueError("NAME:KEY for each trusted key, separated by commas; KEY is the middle line of its PEM")
        keys[entry["name"]] = entry["key"]
    return keys
