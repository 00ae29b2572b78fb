"""Owns the thread of a lane: it opens the lane, copies until it is stopped, and reopens the lane after failures."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.mirror.lanes.lane import Lane, LaneFencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_kafka.mirror.lanes.commits import UnconfirmedCommit
    from gapless_kafka.mirror.lanes.observations import LaneObservation
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_ONCE_PATIENCE_SECONDS = 60.0
"""How long a run with ``once`` retries."""
log = structlog.get_logger("mirror")


class LaneEnd(StrEnum):
    """How the thread of a lane ended."""

    DONE = "done"
    """With ``once``: everything is copied."""
    STOPPED = "stopped"
    MOVED = "moved"
    """Another worker has fenced the lane."""
    FAILED = "failed"


class _AbandonedError(Exception):
    """The lane must stop at once."""


class LaneThread:
    """A lane and its thread."""

    def __init__(
        self,
        number: int,
        setup: LaneSetup,
        view: Callable[[], SourceView],
        unconfirmed: UnconfirmedCommit | None = None,
    ) -> None:
        self.number = number
        self.end: LaneEnd | None = None
        """``None`` while it runs."""
        self.failure: Exception | None = None
        self.ended_at = 0.0
        self._setup = setup
        self._view = view
        self._stopping, self._abandoned = threading.Event(), threading.Event()
        self._lane = Lane(
            number, setup, pulse=self._raise_if_abandoned, must_commit=self._stopping.is_set, unconfirmed=unconfirmed
        )
        self._thread = threading.Thread(target=self._run, name=f"lane-{number}", daemon=True)

    def start(self) -> None:
        """Start the thread, which opens the lane."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the open transaction is committed."""
        self._stopping.set()

    def abandon(self) -> None:
        """Stop at once, and abort the open transaction."""
        self._abandoned.set()
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the thread, and return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def observation(self) -> LaneObservation:
        """Return the state of the lane."""
        return self._lane.observation()

    def _run(self) -> None:
        end = LaneEnd.FAILED
        try:
            end = self._copy()
        except _AbandonedError:
            end = LaneEnd.STOPPED
        except Exception as error:  # noqa: BLE001 -- the worker raises it again, in the main thread
            self.failure = error
        finally:
            self._lane.close()
            self.ended_at = time.monotonic()
            self.end = end

    def _copy(self) -> LaneEnd:
        pause, failing_since = _FIRST_PAUSE_SECONDS, None
        while not self._stopping.is_set():
            try:
                self._lane.open()
                while not self._stopping.is_set():
                    self._lane.follow(self._view())
                    if self._lane.step():
                        pause, failing_since = _FIRST_PAUSE_SECONDS, None
                    if self._setup.once and self._lane.copier.is_done and not self._lane.copier.has_moved:
                        return LaneEnd.DONE
            except LaneFencedError:
                self._lane.close()
                self._lane.check_run()
                return LaneEnd.MOVED
            except ConfigurationError:
                raise
            except GaplessError as error:
                self._lane.close()
                self._lane.note_failure(error)
                now = time.monotonic()
                failing_since = failing_since if failing_since is not None else now
                if self._setup.once and now - failing_since > _ONCE_PATIENCE_SECONDS:
                    raise
                log.warning("lane failed", lane=self.number, message=str(error), again_in_seconds=pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        if self._lane.copier.has_unconfirmed_commit:
            with suppress(GaplessError, LaneFencedError):
                self._lane.open()  # reads the committed positions, so that the totals are exact
        return LaneEnd.STOPPED

    def _raise_if_abandoned(self) -> None:
        if self._abandoned.is_set():
            raise _AbandonedError
