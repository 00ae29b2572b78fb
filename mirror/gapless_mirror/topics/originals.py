"""The selection of topics without those that were copied from the target; must not know how these are recognized.

A topic that is selected by its exact name stays selected, and is refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from gapless_kafka.topics.topic_choice import TopicChoice

log = structlog.get_logger("mirror")


class ChoiceOfOriginals:
    """A selection of source topics that leaves out copies of topics of the target."""

    def __init__(self, choice: TopicChoice, why_returned: Callable[[str], str | None], *, logs: bool = True) -> None:
        """Leave out topics for which `why_returned` returns a reason; log each once if `logs`."""
        self._choice, self._why_returned, self._logs = choice, why_returned, logs
        self._logged: set[str] = set()

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """Return the selected topics, sorted."""
        return [topic for topic in self._choice.chosen(existing) if not self._is_left_out(topic)]

    def _is_left_out(self, topic: str) -> bool:
        why = None if topic in self._choice.names else self._why_returned(topic)
        if why is not None and self._logs and topic not in self._logged:
            self._logged.add(topic)
            log.info("topic left out", topic=topic, reason=f"{why}; a mirror does not copy it back.")
        return why is not None
