"""Owns how a manifest is written: one partition a line, the mark last; must not know what exists upstream.

The same input gives the same bytes, but for the time of making and what follows from it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.files import written_whole_or_shown
from gapless_api.inventory.form import extent_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gapless_api.inventory.form import Manifest


def signed(manifest: Manifest, key_file: Path) -> Manifest:
    """Sign `manifest` with the Ed25519 private key (PEM, PKCS#8) in `key_file`.

    Raises:
        ConfigurationError: the key cannot be used.
    """
    from gapless_api.keys.signatures import load_signing  # noqa: PLC0415 -- cryptography is slow to import

    sign = load_signing(key_file)
    return replace(manifest, mark=replace(manifest.mark, signature=sign(manifest_signed_bytes(manifest))))


def manifest_signed_bytes(manifest: Manifest) -> bytes:
    """What the signature of `manifest` is over: its mark without the signature."""
    from gapless_api.keys.signatures import signed_bytes  # noqa: PLC0415

    return signed_bytes("gapless manifest", replace(manifest.mark, signature=None).members())


def manifest_pieces(manifest: Manifest) -> Iterator[bytes]:
    """Yield the file in pieces of bounded size."""
    yield b'{\n  "manifest": [\n'
    for index, extent in enumerate(manifest.extents):
        yield b",\n  " if index else b"  "
        yield from extent_line(extent)
    end_of_last = "\n" if manifest.extents else ""
    mark = json.dumps(manifest.mark.members(), ensure_ascii=False)
    yield f'{end_of_last}],\n  "gapless": {mark}\n}}\n'.encode()


def write_manifest(path: Path | None, manifest: Manifest) -> None:
    """Write `manifest` to `path`, whole or not at all; ``None`` for standard output.

    Raises:
        LocalStorageError: it cannot be written.
    """
    with written_whole_or_shown(path, what="manifest") as stream:
        stream.writelines(manifest_pieces(manifest))
