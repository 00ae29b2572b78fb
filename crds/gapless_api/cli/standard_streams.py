"""The standard streams of a ``gapless`` process: all three are open, and write errors are no tracebacks.

Must not know what is written to them. The work does not end because the log is not read: lines that cannot be written
to standard error are dropped. Standard output carries results: a write error is an error of the command.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from gapless_api.base.errors import LocalStorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_WAIT_SECONDS = 1.0
"""How long a log line waits for a slow reader that made the stream non-blocking."""


class OutputClosedError(Exception):
    """The reader of standard output closed it, as ``head`` does.

    Not an OSError, because click would end with exit code 1 for a broken pipe, which is for defects.
    """


def guard_standard_streams() -> None:
    """Open standard streams that the parent process has closed, and handle write errors of output and error.

    Otherwise the next file or socket would get the number of the closed stream, and messages would go there.
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
    """Flush standard output, or drop its buffer if that fails, because the process would fail on it at its end."""
    try:
        sys.stdout.flush()
    except (OutputClosedError, LocalStorageError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _encoding(stream: TextIO | None) -> str:
    return stream.encoding if stream is not None else "utf-8"


class _Log(io.FileIO):
    """Drops lines that cannot be written."""

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            written: int | None = super().write(content)
            if written is None and select.select([], [self], [], _WAIT_SECONDS)[1]:
                written = super().write(content)
        except OSError:
            written = None
        return memoryview(content).nbytes if written is None else written


class _Result(io.FileIO):
    """Raises an error of Gapless if content cannot be written."""

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
                f"The result cannot be written to standard output ({error.strerror}); free some space, or write it "
                f"elsewhere."
            ) from None
