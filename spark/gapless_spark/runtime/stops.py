"""A stop stays a stop: a handler of a signal raises it anywhere, and libraries turn it into errors of theirs.

Python's own `threading`, PySpark and code in C do so. Must not know what a command says when it is stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from gapless_api.base.errors import StoppedError

_raised: StoppedError | None = None
"""What a handler has raised in the current block; handlers run in the main thread, and blocks are not nested."""


def raise_stop(error: StoppedError) -> NoReturn:
    """Raise `error` from the handler of a signal, inside a block of `keep_stop`."""
    global _raised  # noqa: PLW0603 -- a handler has no other place
    _raised = error
    raise error


@contextlib.contextmanager
def keep_stop() -> Iterator[None]:
    """Raise the stop again if the block ends with another exception after a handler has raised one.

    Raises:
        StoppedError: as given to `raise_stop`.
    """
    global _raised  # noqa: PLW0603
    _raised = None
    try:
        yield
    except BaseException:
        check_stop()
        raise
    finally:
        _raised = None


def check_stop() -> None:
    """Raise the stop again if a handler has raised one; for code that handles exceptions and goes on after them."""
    if _raised is not None:
        raise _raised from None
