"""The name ``-`` for standard input, in place of a file that a command reads.

Must not know what is read. The content is copied to a temporary file first, because a bundle is read more than once,
and by more than one process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from gapless_api.base.errors import ConfigurationError, LocalStorageError

STANDARD_INPUT = "-"
_copies: list[Path] = []


def readable(file: Path) -> Path:
    """Return `file`, or a copy of standard input for ``-``, which is deleted when this process ends.

    Raises:
        ConfigurationError: standard input is a terminal or closed, or was asked for before.
        LocalStorageError: it cannot be copied.
    """
    if str(file) != STANDARD_INPUT:
        return file
    if _copies:
        raise ConfigurationError("Standard input (-) can be given once; give a file for the other.")
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        raise ConfigurationError("The file - is standard input, and nothing is written to it; give a file, or a pipe.")
    try:
        descriptor, name = tempfile.mkstemp(prefix="standard-input-")
        _copies.append(Path(name))
        atexit.register(_copies[0].unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(stream.buffer, copy)
    except OSError as error:
        raise LocalStorageError(
            f"Standard input cannot be copied to {tempfile.gettempdir()} ({error.strerror}); free some space, or set "
            f"TMPDIR to a larger folder."
        ) from None
    return _copies[0]
