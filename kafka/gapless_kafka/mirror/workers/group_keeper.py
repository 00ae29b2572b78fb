"""Owns that positions of consumer groups stay translated while a mirror runs, beside the work.

The owner of the first lane does it. A failure is logged, and all is tried again after the interval.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import structlog

from gapless_api.base.errors import GaplessError
from gapless_kafka.mirror.workers.groups_command import group_translation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.wire.mirror_groups import GroupsReport
    from gapless_kafka.mirror.groups.translation import GroupTranslation
    from gapless_kafka.mirror.workers.worker import WorkerObservation

log = structlog.get_logger("mirror")


class GroupKeeper:
    """Translates now and then while its ``with`` block lasts and the process owns the first lane."""

    def __init__(self, translation: GroupTranslation | None, *, interval_seconds: float, is_once: bool) -> None:
        """Nothing is translated yet.

        Args:
            translation: ``None`` for no groups.
            interval_seconds: from one translation to the next.
            is_once: whether only `translate` does it.
        """
        self._is_once = is_once
        self._translation, self._interval = translation, interval_seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._owns_first = False
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        if self._translation is not None and not self._is_once:
            self._thread = threading.Thread(target=self._run, name="groups", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """A translation that runs is not waited for: the next run repeats it."""
        self._stopped.set()

    def tick(self, seen: WorkerObservation) -> None:
        """Take note of the lanes that the process owns."""
        self._owns_first = any(lane.lane == 0 for lane in seen.lanes)

    def translate(self) -> None:
        """Translate once, and log what changed."""
        if self._translation is None:
            return
        try:
            report = self._translation.run(writes=True)
        except GaplessError as error:
            log.warning("group positions not translated", reason=str(error))
            return
        self._tell(report)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            if self._owns_first:
                self.translate()

    def _tell(self, report: GroupsReport) -> None:
        moved = sum(move.state == "moved" for move in report.moves)
        if moved:
            log.info("group positions translated", groups=len(report.groups), positions=moved)
        # A group is ahead of the mirror by a moment all the time.
        lasting = [one for one in report.findings if one.is_problem and one.reason != "AheadOfMirror"]
        places = {f"{one.group} {one.topic} {one.partition} {one.reason}": one for one in lasting}
        for place, finding in places.items():
            if place not in self._told:
                log.warning("group position not translated", reason=finding.reason, message=finding.message)
        self._told = set(places)


def group_keeper(values: Mapping[str, Any]) -> GroupKeeper:
    """What keeps the groups that settings choose. Raises ConfigurationError."""
    return GroupKeeper(group_translation(values), interval_seconds=values["groupInterval"], is_once=values["once"])
