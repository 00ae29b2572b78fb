"""Owns how content gets to the end of a file, and to the disk, beside the work; must not know what it says.

A disk may take its time, and whoever sends at an even pace has none to spare.
"""

from __future__ import annotations

import contextlib
import os
import threading


class BackgroundAppend:
    """Contents that a thread of their own adds to a file and brings to the disk, one after the other."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._content = b""
        self._error: OSError | None = None

    @property
    def under_way(self) -> bool:
        """Whether the disk has not yet taken what it was given last."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether the disk has said no, which `settle` will raise."""
        return self._error is not None and not self.under_way

    @property
    def refused(self) -> bool:
        """Whether, after `settle`, something is left that was not taken."""
        return bool(self._content)

    def begin(self, handle: int, content: bytes, size: int) -> None:
        """Begin to add `content` to a file of `size` bytes, after `settle`; with it goes what was refused before."""
        self._content += content
        self._thread = threading.Thread(target=self._write, args=(handle, size), name="background append")
        self._thread.start()

    def _write(self, handle: int, size: int) -> None:
        try:
            written = os.write(handle, self._content)
            if written < len(self._content):  # The disk is full now: writing on makes the kernel say so.
                os.write(handle, self._content[written:])
            os.fdatasync(handle)
        except OSError as error:
            self._error = error
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)

    def settle(self) -> int:
        """Wait for the disk; return how many bytes the file has grown. Raises OSError, and it has not grown then."""
        if self._thread is None:
            return 0
        self._thread.join()
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        grown, self._content = len(self._content), b""
        return grown
