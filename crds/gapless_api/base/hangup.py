"""Owns what SIGHUP does in this process: everybody who wants to know is told, and the process goes on.

Must not know who that is. Without this, the last handler of the signal replaces the one before.
"""

from __future__ import annotations

import contextlib
import signal
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_told: list[weakref.WeakMethod[Callable[[], None]]] = []


def survive_hangups() -> None:
    """From now on, SIGHUP does not end this process."""
    with contextlib.suppress(ValueError):  # not in the main thread: then the program handles signals itself
        signal.signal(signal.SIGHUP, _tell)


def at_hangup(method: Callable[[], None]) -> None:
    """Call `method`, of an object that is referenced elsewhere, at each SIGHUP.

    It may only take a note, for it can run in the middle of anything.
    """
    _told[:] = [each for each in _told if each() is not None]
    _told.append(weakref.WeakMethod(method))
    survive_hangups()


def _tell(*_: object) -> None:
    for each in _told.copy():
        method = each()
        if method is not None:
            method()
