"""Owns whether an attempt that runs has been silent for too long: what it said last is no news any more.

Must not know what it says. A program that waits for Kafka or a store logs no progress; neither does one that hangs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.pod_output import PodOutput

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_operator.engines.engine import Attempt

NO_PROGRESS_AFTER = timedelta(minutes=15)
"""After how long without progress a person should look."""


def silence(attempt: Attempt, now: datetime) -> ConditionUpdate | None:
    """Why a person should look at an attempt that says nothing; ``None`` while it does, or its log cannot be read."""
    driver = attempt.driver
    if attempt.started is None or (driver is not None and (driver.is_unread or driver.log_problem or driver.is_lost)):
        return None
    output_changed_at = driver.output_changed_at if driver is not None and driver.output != PodOutput() else None
    since = max(filter(None, (attempt.started, output_changed_at)))
    if now - since < NO_PROGRESS_AFTER:
        return None
    what = f"The {attempt.engine} {attempt.name}"
    if output_changed_at is None:
        return ConditionUpdate(True, Reason.NO_PROGRESS, f"{what} has logged no progress since it started.")
    return ConditionUpdate(
        True,
        Reason.NO_PROGRESS,
        f"{what} has logged no progress since {since:%Y-%m-%d %H:%M} UTC; its log says whether it waits for Kafka or "
        f"the store.",
    )
