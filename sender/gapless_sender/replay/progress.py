"""How the progress of a resend is shown; must not know how the work is done.

A terminal gets a bar, everything else JSON lines on standard error, which the Kubernetes operator reads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.cli.terminal_bar import BAR_SECONDS, TerminalBar
from gapless_api.wire.progress import PROGRESS_LINE, ProgressLine
from gapless_sender.base.lazy_log import log
from gapless_sender.base.sharding import UNSHARDED, Shard

if TYPE_CHECKING:
    from gapless_api.wire.totals import Totals
    from gapless_sender.replay.report import Traffic


class ProgressView:
    """Shows the account as it grows; computes it only when it is shown."""

    def __init__(
        self,
        *,
        interval_seconds: float,
        statistics_seconds: int,
        sender_id: str,
        shard: Shard = UNSHARDED,
        on_terminal: bool | None = None,
    ) -> None:
        """`interval_seconds` 0 means no lines, `statistics_seconds` 0 no statistics in the peer's form."""
        terminal = sys.stderr.isatty() if on_terminal is None else on_terminal
        self._bar = _Bar() if terminal and interval_seconds else None
        self._interval_seconds = BAR_SECONDS if self._bar else interval_seconds
        self._statistics = _Statistics(sender_id, statistics_seconds) if statistics_seconds else None
        self._shard = shard
        self._began = time.monotonic()
        self._shown_at = self._began
        self._before: Totals | None = None

    def update(self, current: Callable[[], tuple[Totals, Traffic]]) -> None:
        """Show progress if it is time to; `current` returns the account and what went over the link.

        Does nothing before `begin`.
        """
        if self._before is None:
            return
        now = time.monotonic()
        if self._interval_seconds and now - self._shown_at >= self._interval_seconds:
            self._show(*current(), now)
        if self._statistics is not None:
            self._statistics.update(current, now)

    def begin(self, totals: Totals) -> None:
        """Start from the account of earlier runs, which does not count for the speed of this one."""
        self._before = totals
        if self._statistics is not None:
            self._statistics.begin(totals)

    def end(self, totals: Totals, traffic: Traffic) -> None:
        """Show the final account."""
        if self._before is None:
            self.begin(totals)
        if self._interval_seconds:
            self._show(totals, traffic, time.monotonic())
        if self._statistics is not None:
            self._statistics.show(totals, traffic, time.monotonic())
        if self._bar is not None:
            self._bar.close()

    def _show(self, totals: Totals, traffic: Traffic, now: float) -> None:
        self._shown_at = now
        before = totals if self._before is None else self._before
        done = totals.done
        seconds = max(now - self._began, 1e-6)
        speed = (totals.handled - before.handled) / seconds
        done_per_second = (done - before.done) / seconds  # Unavailable events are done, too.
        eta = totals.remaining / done_per_second if done_per_second > 0 else None
        if self._bar is not None:
            self._bar.show(totals, done, speed)
            return
        line = ProgressLine(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            shard=self._shard.index,
            shards=self._shard.count,
            percent=round(100 * done / totals.planned, 2) if totals.planned else 100.0,
            ledger=totals,
            datagrams=traffic.datagrams,
            left_interface=traffic.left_interface,
            events_per_second=round(speed, 1),
            eta_seconds=None if eta is None else round(eta, 1),
        )
        sys.stderr.write(PROGRESS_LINE.to_line(line) + "\n")
        sys.stderr.flush()


class _Bar:
    """A bar on a terminal."""

    def __init__(self) -> None:
        self._bar = TerminalBar("resend")

    def show(self, totals: Totals, done: int, speed: float) -> None:
        parts = [f"{totals.sent:,} sent"]
        parts += [
            f"{getattr(totals, name):,} {name}"
            for name in ("filtered", "filled", "unavailable")
            if getattr(totals, name)
        ]
        parts.append(f"{speed:,.0f} events/s")
        self._bar.show(total=totals.planned, done=done, counts=", ".join(parts))

    def close(self) -> None:
        self._bar.close()


class _Statistics:
    """The peer's statistics line: events read and datagrams sent, in this interval and in total."""

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

    def update(self, current: Callable[[], tuple[Totals, Traffic]], now: float) -> None:
        if now - self._shown_at >= self._interval_seconds:
            self.show(*current(), now)

    def show(self, totals: Totals, traffic: Traffic, now: float) -> None:
        received, datagrams = totals.sent + totals.filtered - self._received_before, traffic.datagrams
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
