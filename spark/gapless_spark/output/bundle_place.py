"""Owns where a bundle is written: a file, an object store, a log, or standard output; must not know what is in it.

For a store and a log the bundle is written to a temporary file first, because both need the complete bundle.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from gapless_api.base.files import temporary_folder
from gapless_archive.store.object_store import ObjectAddress, open_store

if TYPE_CHECKING:
    import tempfile

    from gapless_archive.store.access import S3Access
    from gapless_archive.store.object_store import ObjectStore
    from gapless_spark.settings.typed import OutputSettings


class BundlePlace:
    """The place configured for the bundle; a context manager."""

    def __init__(self, output: OutputSettings, access: S3Access) -> None:
        self._access = access
        self._named = output.bundle
        self._is_for_log = output.result_lines
        self._store: ObjectStore | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.file: Path | None = self._named if isinstance(self._named, Path) else None
        """Where to write the bundle; ``None`` for standard output."""

    @property
    def name(self) -> str | None:
        """The place in the report; ``None`` for standard output and a log."""
        return None if self._named is None else str(self._named)

    def __enter__(self) -> Self:
        if isinstance(self._named, ObjectAddress) or (self._named is None and self._is_for_log):
            self._folder = temporary_folder("gapless-bundle-")
            self.file = Path(self._folder.name) / "bundle.json"
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def check(self) -> None:
        """Check the place as far as possible before the bundle is written. Raises ConfigurationError."""
        if isinstance(self._named, ObjectAddress):
            self._store = open_store(self._named.bucket, self._access)

    def deliver(self) -> None:
        """Upload the file to the object store, if the place is one.

        Raises:
            ConfigurationError: the store refuses the upload.
            StoreUnreachableError: the store does not answer.
        """
        if self._store is not None and isinstance(self._named, ObjectAddress) and self.file is not None:
            self._store.put(self._named.key, self.file)
