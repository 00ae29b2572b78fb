"""What the library between Python and Java may log: nothing, because it raises each error as well.

It logs a trace of each command that finds Java dead, some on the root logger, and texts of exceptions, which may have
the content of records. Must not know the commands.
"""

from __future__ import annotations

import logging
from pathlib import PurePath

_LIBRARY = "py4j"


def silence() -> None:
    """Keep everything that the library logs from all handlers; it may be called again."""
    logging.getLogger(_LIBRARY).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return PurePath(record.pathname).parent.name != _LIBRARY
