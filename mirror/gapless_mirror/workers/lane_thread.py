"""The thread of a lane: it opens the lane, copies until it is stopped, and reopens the lane after failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_api.base.unexpected import calls_of, describe
from gapless_mirror.lanes.lane import Lane, LaneFencedError

if TYPE_CHECKING:
    from gapless_mirror.lanes.commits import UnconfirmedCommit
    from gapless_mirror.lanes.observations import LaneObservation
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView

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
    """For good; the other lanes go on if `LaneThread.failure` is ``None``."""


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
        self.failure: GaplessError | None = None
        """Why all lanes must end; ``None`` for no such reason."""
        self.ended_at = 0.0
        self._setup = setup
        self._view = view
        self._pause = _FIRST_PAUSE_SECONDS
        self._failing_since: float | None = None
        """When it first failed since the last commit."""
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
        except GaplessError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 -- it stops this lane only
            self._note_unexpected(error, is_final=True)
        finally:
            self._close()
            self.ended_at = time.monotonic()
            self.end = end

    def _copy(self) -> LaneEnd:
        while not self._stopping.is_set():
            try:
                end = self._copy_until_stopped()
            except LaneFencedError:
                self._lane.close()
                self._lane.check_run()
                return LaneEnd.MOVED
            except (ConfigurationError, _AbandonedError):
                raise
            except GaplessError as error:
                self._pause_after(error)
            except Exception as error:  # noqa: BLE001 -- it stops this lane only
                self._close()
                self._note_unexpected(error, is_final=self._setup.once)
                if self._setup.once:
                    return LaneEnd.FAILED
                self._stopping.wait(_LONGEST_PAUSE_SECONDS)
            else:
                if end is not None:
                    return end
        if self._lane.copier.has_unconfirmed_commit:
            with suppress(GaplessError, LaneFencedError):
                self._lane.open()  # reads the committed positions, so that the totals are exact
        return LaneEnd.STOPPED

    def _copy_until_stopped(self) -> LaneEnd | None:
        """Open the lane, and copy; return how it ended if that is known."""
        self._lane.open()
        while not self._stopping.is_set():
            self._lane.follow(self._view())
            if self._lane.step():
                self._pause, self._failing_since = _FIRST_PAUSE_SECONDS, None
            if self._setup.once and self._lane.copier.is_done and not self._lane.copier.has_moved:
                return LaneEnd.DONE
        return None

    def _pause_after(self, error: GaplessError) -> None:
        """Close the lane, and wait before it is opened again. Raises GaplessError if that has lasted too long."""
        self._lane.close()
        self._lane.note_failure(error)
        now = time.monotonic()
        self._failing_since = self._failing_since if self._failing_since is not None else now
        if self._setup.once and now - self._failing_since > _ONCE_PATIENCE_SECONDS:
            raise error
        log.warning("lane failed", lane=self.number, message=str(error), again_in_seconds=self._pause)
        self._stopping.wait(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)

    def _note_unexpected(self, error: Exception, *, is_final: bool) -> None:
        message = (
            f"Lane {self.number} of the mirror {self._setup.identity.name} is not copied: an unexpected error in "
            f"Gapless ({describe(error)}). Other lanes are copied. Report a bug with the log of the mirror, which has "
            f"no content of records. The lane is tried again automatically, or by the next run."
        )
        self._lane.note_unexpected(message, is_final=is_final)
        log.error("lane failed", lane=self.number, message=message, calls=calls_of(error), is_retried=not is_final)

    def _close(self) -> None:
        """Close the lane, although what is closed may be what has failed."""
        try:
            self._lane.close()
        except Exception as error:  # noqa: BLE001 -- the lane has ended; its text may have the content of a record
            log.warning("lane not closed", lane=self.number, error=describe(error), calls=calls_of(error))

    def _raise_if_abandoned(self) -> None:
        if self._abandoned.is_set():
            raise _AbandonedError
