"""Writing an inventory: one partition per line, the metadata last; must not know what exists upstream.

The same input gives the same bytes, except for the creation time and what depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gapless_api.base.files import atomic_writer_or_stdout
from gapless_api.inventory.form import Inventory, entry_line


def sign_inventory(inventory: Inventory, key_file: Path) -> Inventory:
    """Sign `inventory` with the Ed25519 private key (PEM, PKCS#8) in `key_file`.

    Raises:
        ConfigurationError: the key cannot be used.
    """
    from gapless_api.keys.signatures import signer_from_file  # noqa: PLC0415 -- cryptography is slow to import

    sign = signer_from_file(key_file)
    return replace(inventory, metadata=replace(inventory.metadata, signature=sign(inventory_signed_bytes(inventory))))


def inventory_signed_bytes(inventory: Inventory) -> bytes:
    """Return the bytes that the signature of `inventory` covers: its metadata without the signature."""
    from gapless_api.keys.signatures import signed_bytes  # noqa: PLC0415

    return signed_bytes("gapless manifest", replace(inventory.metadata, signature=None).members())


def inventory_pieces(inventory: Inventory) -> Iterator[bytes]:
    """Yield the content of the file in pieces of limited size."""
    yield b'{\n  "manifest": [\n'
    for index, entry in enumerate(inventory.entries):
        yield b",\n  " if index else b"  "
        yield from entry_line(entry)
    end_of_last = "\n" if inventory.entries else ""
    metadata = json.dumps(inventory.metadata.members(), ensure_ascii=False)
    yield f'{end_of_last}],\n  "gapless": {metadata}\n}}\n'.encode()


def write_inventory(path: Path | None, inventory: Inventory) -> None:
    """Write `inventory` to `path`, completely or not at all; ``None`` for standard output.

    Raises:
        LocalStorageError: it cannot be written.
    """
    with atomic_writer_or_stdout(path, what="inventory") as stream:
        stream.writelines(inventory_pieces(inventory))
