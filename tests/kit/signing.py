"""Owns key pairs for signatures, as docs tell a person to make them. Must not import the product."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class KeyPair(NamedTuple):
    """Two PEM files of an Ed25519 key."""

    private: Path
    public: Path


def key_pair(folder: Path) -> KeyPair:
    """Make a key pair: signing.pem and public.pem in `folder`."""
    made = KeyPair(folder / "signing.pem", folder / "public.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", made.private], check=True)
    subprocess.run(["openssl", "pkey", "-in", made.private, "-pubout", "-out", made.public], check=True)
    return made
