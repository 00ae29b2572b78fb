"""The periodic translation of consumer group offsets while a mirror runs, in a background thread.

The owner of the first lane does it. A failure is logged, and everything is retried after the interval.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_mirror.workers.groups_command import group_translation

if TYPE_CHECKING:
    from gapless_api.wire.mirror_groups import GroupsReport
    from gapless_mirror.groups.translation import GroupTranslation
    from gapless_mirror.workers.worker import WorkerObservation

log = structlog.get_logger("mirror")


class GroupKeeper:
    """Translates periodically while its ``with`` block lasts and the process owns the first lane."""

    def __init__(self, translation: GroupTranslation | None, *, interval_seconds: float, is_once: bool) -> None:
        """Translate nothing yet.

        Args:
            translation: ``None`` for no groups.
            interval_seconds: of translations.
            is_once: whether to translate only when `translate` is called.
        """
        self._is_once = is_once
        self._translation, self._interval = translation, interval_seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._owns_first = False
        self._logged: set[str] = set()

    def __enter__(self) -> Self:
        if self._translation is not None and not self._is_once:
            self._thread = threading.Thread(target=self._run, name="groups", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop without waiting for a running translation: the next run repeats it."""
        self._stopped.set()

    def tick(self, worker: WorkerObservation) -> None:
        """Update which lanes the process owns."""
        self._owns_first = any(lane.lane == 0 for lane in worker.lanes)

    def translate(self) -> None:
        """Translate once, and log what changed."""
        if self._translation is None:
            return
        try:
            report = self._translation.run(writes=True)
        except GaplessError as error:
            log.warning("group positions not translated", reason=str(error))
            return
        except Exception as error:  # noqa: BLE001 -- records are copied on, and groups are translated again
            sentence = unexpected_sentence("The positions of groups were not translated", error)
            log_unexpected(log, "group positions not translated", sentence, error)
            return
        self._log(report)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            if self._owns_first:
                self.translate()

    def _log(self, report: GroupsReport) -> None:
        moved = sum(move.state == "moved" for move in report.moves)
        if moved:
            log.info("group positions translated", groups=len(report.groups), positions=moved)
        findings = {
            f"{finding.group} {finding.topic} {finding.partition} {finding.reason}": finding
            for finding in report.findings
            if finding.is_problem and finding.reason != "AheadOfMirror"  # normal: the group reads what is copied next
        }
        for key, finding in findings.items():
            if key not in self._logged:
                log.warning("group position not translated", reason=finding.reason, message=finding.message)
        self._logged = set(findings)


def group_keeper(values: Mapping[str, Any]) -> GroupKeeper:
    """Return the translator of the groups that the settings select. Raises ConfigurationError."""
    return GroupKeeper(group_translation(values), interval_seconds=values["groupInterval"], is_once=values["once"])
