"""Owns one rule of all kinds: what would be refused now does not start, and does not keep running.

Must not know any check. A kind passes the same checks before it starts something and while that runs, so that lowering
a limit or removing an entry from a list stops what was allowed before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError, error_outcome
from gapless_api.v1alpha1.reasons import Reason


class Refusal(NamedTuple):
    """Why work may not run."""

    reason: Reason
    message: str

    def stops(self, name: str) -> str:
        """Return the message about something with a `name` that was allowed when it started."""
        return f"{name} was stopped, because it would be refused now. {self.message}"


def refusal_of(*checks: Callable[[], object]) -> Refusal | None:
    """Return why the first failing check refuses the work; ``None`` if all pass.

    Args:
        checks: each raises ConfigurationError if the work may not run.
    """
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            return Refusal(Reason(error_outcome(error).condition_reason), str(error))
    return None
