"""Key pairs for signatures, generated as the documentation describes. Must not import the product."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class KeyPair(NamedTuple):
    """Two PEM files of an Ed25519 key."""

    private: Path
    public: Path


def key_pair(folder: Path) -> KeyPair:
    """Generate a key pair: signing.pem and public.pem in `folder`."""
    pair = KeyPair(folder / "signing.pem", folder / "public.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", pair.private], check=True)
    subprocess.run(["openssl", "pkey", "-in", pair.private, "-pubout", "-out", pair.public], check=True)
    return pair
