"""One rule of all kinds: what would be refused now does not start, and does not keep running.

Must not know the checks of a kind. A kind passes the same checks before it starts something and while that runs, so
that lowering a limit or removing an entry from a list stops what was allowed before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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


def check_listed(field: str, chart_value: str, name: str | None, allowed: Collection[str]) -> None:
    """Check that a value is listed, or absent.

    Args:
        field: the field of the spec.
        chart_value: the value of the chart that contains the list.
        name: the value of the field.
        allowed: the list.

    Raises:
        ConfigurationError: it is not listed.
    """
    if name is not None and name not in allowed:
        raise ConfigurationError(
            f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it to "
            f"the chart's value {chart_value}."
        )
