"""Resources that all tests of a folder share until its last test has run; must not know what they are.

A session fixture would keep running after its last use: an idle broker takes 3 % of a CPU, an idle API server with
the kit's kubelet 7 %.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar, cast

Resource = TypeVar("Resource")
_running: dict[Path, tuple[ExitStack, dict[str, object]]] = {}


def shared_resource(folder: Path, name: str, create: Callable[[], AbstractContextManager[Resource]]) -> Resource:
    """Return the resource `name` of a folder; enter the context manager from `create` if it is not running."""
    stack, resources = _running.setdefault(folder, (ExitStack(), {}))
    if name not in resources:
        resources[name] = stack.enter_context(create())
    return cast("Resource", resources[name])


def close_shared_resources(folder: Path) -> None:
    """Close all resources of a folder in reverse order."""
    stack, _ = _running.pop(folder, (ExitStack(), {}))
    stack.close()
