"""How joins are carried out in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.errors import StoppedError
from gapless_archive.compaction.join import DamagedInput, write_joins

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.compaction.plan import Join
    from gapless_archive.store.places import Place


class LocalRunner:
    """Carries out joins in the threads that call it."""

    def __init__(
        self, place_of_level: Callable[[int], Place], *, parallelism: int = 1, max_row_group_records: int | None = None
    ) -> None:
        """Set up the runner.

        Args:
            place_of_level: returns where new segments of a level are stored, always in the same archive.
            parallelism: how many joins are carried out at once.
            max_row_group_records: of a row group; ``None`` for as many as its size permits.
        """
        self._place_of_level = place_of_level
        self._max_row_group_records = max_row_group_records
        self.parallelism = parallelism
        self._stopped = threading.Event()

    def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
        """Write the new segments of joins of one level; see `write_joins`."""
        place = self._place_of_level(joins[0].level)
        return write_joins(
            place,
            prefix,
            joins,
            max_row_group_records=self._max_row_group_records,
            check_stopped=self._check_stopped,
        )

    def stop(self) -> None:
        """Make `run` raise StoppedError soon in all threads."""
        self._stopped.set()

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise StoppedError("Stopped; nothing of this join was committed.", by_terminal=False)
