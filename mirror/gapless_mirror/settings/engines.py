"""Which engines can run a mirror: the workers of this package, and those that other packages register.

An engine is registered as an entry point of the group "gapless.mirror_engines"; its settings become settings of
``gapless mirror``. Must not know any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gapless_api.base.settings import Setting
    from gapless_mirror.lanes.setup import LaneSetup

WORKERS = "workers"
"""The engine of this package."""
SPARK = "spark"
_GROUP = "gapless.mirror_engines"


class MirrorEngine(Protocol):
    """An engine of another package."""

    settings: tuple[Setting, ...]
    """The settings that only engines of this kind have."""

    def evaluator(self, values: Mapping[str, Any]) -> AbstractContextManager[Path]:
        """Evaluate the SQL of a mirror in this process during a ``with`` block, which gets the socket for workers.

        Raises:
            ConfigurationError: it cannot be started.
        """

    def run(
        self,
        values: Mapping[str, Any],
        setup: LaneSetup,
        sources: Any,
        is_stopping: Callable[[], bool],
        on_tick: Callable[[Any], None],
    ) -> Any:
        """Copy until `is_stopping`, or with ``once`` until everything is copied; return a WorkerTotals.

        Args:
            values: of the settings.
            setup: what all lanes have in common; this process copies all of them.
            sources: a SourceWatch, refreshed at least once.
            is_stopping: whether to stop.
            on_tick: to be called several times a second with a WorkerObservation.

        Raises:
            GaplessError: why it has failed.
        """


@cache
def engines() -> dict[str, MirrorEngine]:
    """Load the engines of other packages, by name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=_GROUP), key=lambda entry: entry.name)}


def engine_name(text: str) -> str:
    """Check the name of an engine. Raises ValueError with the completion of "it must be …"."""
    if text == WORKERS or text in engines():
        return text
    if text == SPARK:
        raise ValueError(f"{WORKERS}, or spark once the package gapless-spark is installed")
    raise ValueError(" or ".join([WORKERS, *engines()]))
