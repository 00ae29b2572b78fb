"""Owns what is found in the log of one of our pods: progress, reports, plans, results, the final complaint.

Must not know how a log is read, nor what follows from it. Our pods have no access to the API server, so their log is
all they can say; a log may be cut at either end and hold lines of other programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from gapless_api.wire.archive_progress import ARCHIVE_LINE
from gapless_api.wire.compaction_result import COMPACTION_LINE
from gapless_api.wire.doctor_report import DOCTOR_REPORT
from gapless_api.wire.log_lines import LogLine, read_line
from gapless_api.wire.mirror_progress import MIRROR_LINE
from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_api.wire.reading_progress import READING_LINE
from gapless_api.wire.resend_plan import SHORT_PLAN
from gapless_api.wire.resend_report import SHORT_REPORT
from gapless_api.wire.restore_progress import RESTORE_LINE, RESTORE_PLAN_LINE
from gapless_api.wire.result_lines import ResultLinesError, ScanResult, find_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.wire.archive_progress import ArchiveLine
    from gapless_api.wire.compaction_result import CompactionLine
    from gapless_api.wire.doctor_report import DoctorReport
    from gapless_api.wire.mirror_progress import MirrorLine
    from gapless_api.wire.preflight import PreflightLine
    from gapless_api.wire.progress import ProgressLine
    from gapless_api.wire.reading_progress import ReadingLine
    from gapless_api.wire.resend_plan import ShortPlan
    from gapless_api.wire.resend_report import ShortReport
    from gapless_api.wire.restore_progress import RestoreLine, RestorePlanLine

_COMPLAINT = "gapless: "
_LONGEST_COMPLAINT = 1000


@dataclass(frozen=True, slots=True)
class PodOutput:
    """The last of each kind of message in one log."""

    progress: ProgressLine | None = None
    """How far a sender is."""
    reading: ReadingLine | None = None
    """How far a scan has read."""
    report: ShortReport | None = None
    """The final report of a resend."""
    plan: ShortPlan | None = None
    """What a resend would send."""
    preflight: PreflightLine | None = None
    """What ``gapless link preflight`` found."""
    archive: ArchiveLine | None = None
    """How far an archive is."""
    compaction: CompactionLine | None = None
    """What a compaction has done."""
    restore_plan: RestorePlanLine | None = None
    """What a restore would write."""
    restore: RestoreLine | None = None
    """How far a restore is."""
    mirror: MirrorLine | None = None
    """How far a worker of a mirror is."""
    doctor: DoctorReport | None = None
    """What ``gapless doctor`` found."""
    result: ScanResult | None = None
    result_error: str = ""
    """Why there is no `result`."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """By event, why the last message of that kind cannot be read; there is none then."""
    complaint: str = ""
    """The sentence with which a command ended that failed."""

    def after(self, before: PodOutput) -> PodOutput:
        """This, and what an earlier look `before` at the same log has found and the end of it no longer reaches.

        A message that cannot be read stays one: the one before it is not the last.
        """
        if self.problems:
            return self
        missing = [one.name for one in fields(self) if getattr(self, one.name) is None]
        return replace(self, **{name: getattr(before, name) for name in missing})

    @property
    def is_complete(self) -> bool:
        """Whether the log holds the last word of any program of ours."""
        found = (self.preflight, self.result, self.compaction, self.restore_plan, self.doctor)
        return self.tells_the_end or any(message is not None for message in found)

    @property
    def tells_the_end(self) -> bool:
        """Whether the log holds what a sender or a planner says when it ends, readable or not."""
        is_read = self.report is not None or self.plan is not None or bool(self.complaint)
        return is_read or not self.problems.keys().isdisjoint((SHORT_REPORT.event, SHORT_PLAN.event))


def complaint_in(text: str) -> str:
    """The sentence with which a command ended, out of the end of its log; empty for none."""
    found = [line for line in text.splitlines() if line.startswith(_COMPLAINT)]
    return found[-1].removeprefix(_COMPLAINT).strip()[:_LONGEST_COMPLAINT] if found else ""


def read_output(log: str) -> PodOutput:
    """Find in a `log` what our programs say; anything else is passed over."""
    found: dict[str, LogLine] = {}
    complaint = ""
    lines = log.splitlines()
    for line in lines:
        if line.startswith(_COMPLAINT):
            complaint = complaint_in(line)
        elif (message := read_line(line)) is not None:
            found[message.event] = message
    result, result_error = None, ""
    try:
        result = find_result(lines)
    except ResultLinesError as error:
        result_error = str(error)
    messages = {event: line.message for event, line in found.items()}
    return PodOutput(
        progress=messages.get(PROGRESS_LINE.event),
        reading=messages.get(READING_LINE.event),
        report=messages.get(SHORT_REPORT.event),
        plan=messages.get(SHORT_PLAN.event),
        preflight=messages.get(PREFLIGHT_LINE.event),
        archive=messages.get(ARCHIVE_LINE.event),
        compaction=messages.get(COMPACTION_LINE.event),
        restore_plan=messages.get(RESTORE_PLAN_LINE.event),
        restore=messages.get(RESTORE_LINE.event),
        mirror=messages.get(MIRROR_LINE.event),
        doctor=messages.get(DOCTOR_REPORT.event),
        result=result,
        result_error=result_error,
        problems={event: line.problem for event, line in found.items() if line.problem},
        complaint=complaint,
    )
