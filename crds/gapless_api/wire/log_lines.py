"""Finding and reading the messages of Gapless in the log of a pod; must not know where the log comes from.

The result of a scan can have several lines: see `result_lines`.
"""

from typing import Any, NamedTuple

from gapless_api.wire.archive_progress import ARCHIVE_LINE
from gapless_api.wire.compaction_result import COMPACTION_LINE
from gapless_api.wire.doctor_report import DOCTOR_REPORT
from gapless_api.wire.form import Form, WireError, parse_json
from gapless_api.wire.mirror_progress import MIRROR_LINE
from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_api.wire.reading_progress import READING_LINE
from gapless_api.wire.resend_plan import SHORT_PLAN
from gapless_api.wire.resend_report import SHORT_REPORT
from gapless_api.wire.restore_progress import RESTORE_LINE, RESTORE_PLAN_LINE

FORMS: dict[str, Form[Any]] = {
    form.event: form
    for form in (
        PROGRESS_LINE,
        READING_LINE,
        SHORT_REPORT,
        SHORT_PLAN,
        PREFLIGHT_LINE,
        ARCHIVE_LINE,
        COMPACTION_LINE,
        RESTORE_PLAN_LINE,
        RESTORE_LINE,
        MIRROR_LINE,
        DOCTOR_REPORT,
    )
}
"""The messages that are a single line, by their member ``event``."""


class LogLine(NamedTuple):
    """A message in a log."""

    event: str
    message: Any
    """The model; ``None`` if the line cannot be read."""
    problem: str
    """Why the line cannot be read; empty if it can."""


def read_line(line: str) -> LogLine | None:
    """Read a line of a log; ``None`` if it is not a message of Gapless."""
    members = parse_json(line) if line.startswith("{") else None
    event = members.get("event") if isinstance(members, dict) else None
    form = FORMS.get(event) if isinstance(event, str) else None
    if form is None:
        return None
    try:
        return LogLine(form.event, form.from_json(members), "")
    except WireError as error:
        return LogLine(form.event, None, str(error))
