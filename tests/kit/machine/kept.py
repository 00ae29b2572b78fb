"""Owns what all tests of a folder share, and that it ends with the last of them; must not know what it is.

A fixture for the whole run goes on when nobody needs it any more: an idle broker takes 3 % of a processor,
an idle API server with the kubelet of the kit 7 %.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

Kept = TypeVar("Kept")
_running: dict[Path, tuple[ExitStack, dict[str, object]]] = {}


def kept(folder: Path, name: str, make: Callable[[], AbstractContextManager[Kept]]) -> Kept:
    """Enter what `make` gives, or return what it gave before under this name, if that has not ended yet."""
    stack, found = _running.setdefault(folder, (ExitStack(), {}))
    if name not in found:
        found[name] = stack.enter_context(make())
    return cast("Kept", found[name])


def end_of(folder: Path) -> None:
    """End all that the tests of a folder share, the youngest first."""
    stack, _ = _running.pop(folder, (ExitStack(), {}))
    stack.close()
