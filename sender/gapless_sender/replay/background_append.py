"""Owns how content is appended to a file and synced in the background; must not know what the content is.

A slow disk must not delay a sender that keeps an even pace.
"""

from __future__ import annotations

import contextlib
import os
import threading


class BackgroundAppend:
    """Appends content to a file and syncs it, in a thread, one append at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._content = b""
        self._error: OSError | None = None

    @property
    def in_progress(self) -> bool:
        """Whether the last append has not finished."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether the last append failed; `wait` will raise the error."""
        return self._error is not None and not self.in_progress

    @property
    def has_unwritten(self) -> bool:
        """Whether, after `wait`, there is content that could not be written."""
        return bool(self._content)

    def begin(self, handle: int, content: bytes, size: int) -> None:
        """Begin to append what could not be written before, and `content`, to a file of `size` bytes, after `wait`."""
        self._content += content
        self._thread = threading.Thread(target=self._write, args=(handle, size), name="background append")
        self._thread.start()

    def _write(self, handle: int, size: int) -> None:
        try:
            written = os.write(handle, self._content)
            if written < len(self._content):  # The disk is full: another write makes the kernel report it.
                os.write(handle, self._content[written:])
            os.fdatasync(handle)
        except OSError as error:
            self._error = error
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)

    def wait(self) -> int:
        """Wait for the append; return how many bytes the file has grown. Raises OSError if it has not grown."""
        if self._thread is None:
            return 0
        self._thread.join()
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        grown, self._content = len(self._content), b""
        return grown
