"""Owns how progress is shown while a resend runs; must not know how the work is done.

A terminal gets a bar, everything else JSON lines on standard error, which the operator of a cluster reads.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.cli.terminal_bar import BAR_SECONDS, TerminalBar
from gapless_api.wire.progress import PROGRESS_LINE, ProgressLine
from gapless_sender.base.lazy_log import log
from gapless_sender.base.sharding import UNSHARDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.wire.totals import Totals
    from gapless_sender.base.sharding import Shard


class ProgressView:
    """Shows accounts as they grow; asks for one only when it is time to show it."""

    def __init__(
        self,
        *,
        interval_seconds: float,
        statistics_seconds: int,
        sender_id: str,
        shard: Shard = UNSHARDED,
        on_terminal: bool | None = None,
    ) -> None:
        """`interval_seconds` 0 is for no lines, `statistics_seconds` 0 for no statistics in the peer's form."""
        terminal = sys.stderr.isatty() if on_terminal is None else on_terminal
        self._bar = _Bar() if terminal and interval_seconds else None
        self._interval_seconds = BAR_SECONDS if self._bar else interval_seconds
        self._statistics = _Statistics(sender_id, statistics_seconds) if statistics_seconds else None
        self._shard = shard
        self._began = time.monotonic()
        self._shown_at = self._began
        self._before: Totals | None = None

    def advanced(self, look: Callable[[], tuple[Totals, int]]) -> None:
        """Something was done; `look` gives the account and the number of datagrams. Before `begin` it is not shown."""
        if self._before is None:
            return
        now = time.monotonic()
        if self._interval_seconds and now - self._shown_at >= self._interval_seconds:
            self._show(*look(), now)
        if self._statistics is not None:
            self._statistics.advanced(look, now)

    def begin(self, totals: Totals) -> None:
        """Remember what was done before this run, which says nothing about its speed."""
        self._before = totals
        if self._statistics is not None:
            self._statistics.begin(totals)

    def end(self, totals: Totals, datagrams: int) -> None:
        """Show the account a last time."""
        if self._before is None:
            self.begin(totals)
        if self._interval_seconds:
            self._show(totals, datagrams, time.monotonic())
        if self._statistics is not None:
            self._statistics.show(totals, datagrams, time.monotonic())
        if self._bar is not None:
            self._bar.close()

    def _show(self, totals: Totals, datagrams: int, now: float) -> None:
        self._shown_at = now
        before = totals if self._before is None else self._before
        done = totals.done
        seconds = max(now - self._began, 1e-6)
        speed = (totals.handled - before.handled) / seconds
        going = (done - before.done) / seconds  # What turns out to be unavailable is behind us, too.
        eta = totals.remaining / going if going > 0 else None
        if self._bar is not None:
            self._bar.show(totals, done)
            return
        line = ProgressLine(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            shard=self._shard.index,
            shards=self._shard.count,
            percent=round(100 * done / totals.planned, 2) if totals.planned else 100.0,
            ledger=totals,
            datagrams=datagrams,
            events_per_second=round(speed, 1),
            eta_seconds=None if eta is None else round(eta, 1),
        )
        sys.stderr.write(PROGRESS_LINE.to_line(line) + "\n")
        sys.stderr.flush()


class _Bar:
    """A bar on a terminal."""

    def __init__(self) -> None:
        self._bar = TerminalBar("resend")

    def show(self, totals: Totals, done: int) -> None:
        parts = [f"{totals.sent:,} sent"]
        parts += [
            f"{getattr(totals, name):,} {name}"
            for name in ("filtered", "filled", "unavailable")
            if getattr(totals, name)
        ]
        self._bar.show(total=totals.planned, done=done, counts=", ".join(parts))

    def close(self) -> None:
        self._bar.close()


class _Statistics:
    """The peer's statistics line: counts of events read and datagrams sent, in this interval and in all."""

    def __init__(self, sender_id: str, interval_seconds: int) -> None:
        self._sender_id = sender_id
        self._interval_seconds = interval_seconds
        self._began = int(time.time())
        self._shown_at = time.monotonic()
        self._received_before = 0
        self._received = 0
        self._sent = 0

    def begin(self, totals: Totals) -> None:
        self._received_before = totals.sent + totals.filtered

    def advanced(self, look: Callable[[], tuple[Totals, int]], now: float) -> None:
        if now - self._shown_at >= self._interval_seconds:
            self.show(*look(), now)

    def show(self, totals: Totals, datagrams: int, now: float) -> None:
        received = totals.sent + totals.filtered - self._received_before
        log(
            "info",
            "statistics",
            id=self._sender_id,
            interval=self._interval_seconds,
            received=received - self._received,
            sent=datagrams - self._sent,
            time=int(time.time()),
            time_start=self._began,
            total_received=received,
            total_sent=datagrams,
        )
        self._shown_at, self._received, self._sent = now, received, datagrams
