"""Owns the standard streams of a ``gapless`` process: all three exist, and an error is a message, not a traceback.

Must not know what is written to them. Work does not end because its log is not read: what standard error does not take
is dropped. Standard output carries results: what it does not take is an error.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING

from gapless_api.base.errors import LocalStorageError

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

_WAIT_SECONDS = 1.0
"""So long a log line may wait for a reader that is slow and has made the stream non-blocking."""


class OutputClosedError(Exception):
    """The reader of our standard output has gone, as ``head`` does.

    No OSError: click would make a broken pipe exit code 1, which is for defects.
    """


def guard_standard_streams() -> None:
    """Open the streams that our parent has closed, and guard the two that we write to.

    A closed one would otherwise lend its number to the next file or socket, and a message would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    out, log = sys.stdout, sys.stderr
    result = _Result(1, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(result), encoding=_encoding(out), errors=out.errors if out else None, line_buffering=True
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Log(2, "wb", closefd=False)),
        encoding=_encoding(log),
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )


def settle_output() -> None:
    """Write out what is buffered for standard output, or drop it, over which the process would trip at its end."""
    try:
        sys.stdout.flush()
    except (OutputClosedError, LocalStorageError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _encoding(stream: TextIO | None) -> str:
    return stream.encoding if stream is not None else "utf-8"


class _Log(io.FileIO):
    """Drops what the file behind it does not take."""

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            written: int | None = super().write(content)
            if written is None and select.select([], [self], [], _WAIT_SECONDS)[1]:
                written = super().write(content)
        except OSError:
            written = None
        return memoryview(content).nbytes if written is None else written


class _Result(io.FileIO):
    """Says in a sentence what the file behind it does not take."""

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            while True:
                written: int | None = super().write(content)
                if written is not None:
                    return written
                select.select([], [self], [])
        except BrokenPipeError:
            raise OutputClosedError from None
        except OSError as error:
            raise LocalStorageError(
                f"Standard output does not take the result ({error.strerror}); make room, or write to another place."
            ) from None
