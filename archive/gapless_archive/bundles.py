"""Owns how a bundle comes from an object store to this machine: complete, checked, or not at all.

Must not know how a store is asked, nor what a bundle must be like.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import BundleError, LocalStorageError
from gapless_api.base.files import atomic_writer
from gapless_api.bundle.reader import read_bundle

if TYPE_CHECKING:
    from gapless_api.bundle.form import Bundle
    from gapless_archive.store.object_store import ObjectAddress, ObjectStore


def fetch_bundle(store: ObjectStore, address: ObjectAddress, output: Path, *, sha256: str | None = None) -> Bundle:
    """Bring a bundle into the file `output`, as it is kept (plain or gzipped), and return what it says.

    Args:
        store: the bucket of `address`.
        address: where the bundle is.
        output: the file; an older one is replaced in one step, and stays when the bundle is bad.
        sha256: the digest that it must have; ``None`` for the one that it carries itself, if it does.

    Raises:
        BundleError: it is cut, altered, no bundle, or another one.
        ConfigurationError: it is not there, or we may not read it.
        LocalStorageError: the file cannot be written.
        StoreUnreachableError: the store does not answer.
    """
    if output.exists() and not output.is_file():
        raise LocalStorageError(
            f"The bundle {output} cannot be written (it is not a regular file); give another place."
        )
    with atomic_writer(output, what="bundle") as stream:
        store.get(address.key, stream)
        stream.flush()
        bundle = read_bundle(Path(stream.name), called=str(address))
        digest = bundle.sha256
        if sha256 is not None and digest != sha256.lower():
            raise BundleError(
                f"The bundle {address} is another one: its digest is {digest[:12]}… and {sha256[:12]}… is expected; "
                f"give the digest of this one, or the address of the other."
            )
    return bundle
