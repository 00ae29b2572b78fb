"""The download of a bundle from an object store: the complete, verified file, or none.

Must not know how requests are sent, nor the format of a bundle.
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
    """Download a bundle to the file `output`, as it is stored (plain or gzipped), and return its content.

    Args:
        store: the bucket of `address`.
        address: of the bundle.
        output: the file; an existing one is replaced atomically, and stays when the bundle is invalid.
        sha256: the expected digest; ``None`` for the one in the bundle, if there is one.

    Raises:
        BundleError: it is truncated, altered, not a bundle, or has another digest.
        ConfigurationError: it does not exist, or permission to read it is missing.
        LocalStorageError: the file cannot be written.
        StoreUnreachableError: the store does not answer.
    """
    if output.exists() and not output.is_file():
        raise LocalStorageError(
            f"The bundle {output} cannot be written (it is not a regular file); choose another location."
        )
    with atomic_writer(output, what="bundle") as stream:
        store.get(address.key, stream)
        stream.flush()
        bundle = read_bundle(Path(stream.name), called=str(address))
        digest = bundle.sha256
        if sha256 is not None and digest != sha256.lower():
            raise BundleError(
                f"The bundle {address} has the digest {digest[:12]}…, but {sha256[:12]}… is expected; correct the "
                f"digest or the address."
            )
    return bundle
