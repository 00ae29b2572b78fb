"""The progress line of ``gapless resend``, which the operator reads; must not know when one is written."""

from dataclasses import dataclass
from typing import Annotated

from gapless_api.wire.form import Flat, Form
from gapless_api.wire.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """Progress of one shard of a resend."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    shard: int
    """Number of the shard, from 0."""
    shards: int
    percent: float
    ledger: Annotated[Totals, Flat]
    datagrams: int
    """Accepted by the kernel so far in this run."""
    left_interface: int
    """Of these, those that have left the interface."""
    events_per_second: float
    """Average of this run."""
    eta_seconds: float | None
    """Estimated remaining time; null while the rate is 0."""


PROGRESS_LINE = Form("progress line", "gaplessProgress", 3, ProgressLine, event="progress")
"""Version 1 had no version, and names in snake_case; version 2 had no `leftInterface`."""
