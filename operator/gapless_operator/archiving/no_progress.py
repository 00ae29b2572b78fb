"""When an attempt that logs no progress counts as stalled.

A program that waits for Kafka or a store logs no progress, and neither does one that hangs. Must not know the
content of progress lines.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.pod_output import PodOutput

if TYPE_CHECKING:
    from gapless_operator.engines.engine import Attempt

NO_PROGRESS_AFTER = timedelta(minutes=15)
"""How long an attempt may run without progress before it is reported."""


def find_no_progress(attempt: Attempt, now: datetime) -> ConditionUpdate | None:
    """Return the problem of an attempt that logs no progress; ``None`` if it does, or its log cannot be read."""
    driver = attempt.driver
    if attempt.started is None or (driver is not None and (driver.is_unread or driver.log_problem or driver.is_lost)):
        return None
    last_progress = driver.output_changed_at if driver is not None and driver.output != PodOutput() else None
    since = max(filter(None, (attempt.started, last_progress)))
    if now - since < NO_PROGRESS_AFTER:
        return None
    start = "it started" if last_progress is None else f"{since:%Y-%m-%d %H:%M} UTC"
    return ConditionUpdate(
        True,
        Reason.NO_PROGRESS,
        f"The {attempt.engine} {attempt.name} has logged no progress since {start}; check in its log whether it waits "
        f"for Kafka or the store.",
    )
