"""How the log of a pod is parsed: progress, reports, plans, results, the final error message.

Must not know how a log is fetched, nor how it is used. Our pods have no access to the API server, so the log is their
only output. A log may be truncated at both ends and contain lines of other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from gapless_api.wire.archive_progress import ARCHIVE_LINE, ArchiveLine
from gapless_api.wire.compaction_result import COMPACTION_LINE, CompactionLine
from gapless_api.wire.doctor_report import DOCTOR_REPORT, DoctorReport
from gapless_api.wire.log_lines import LogLine, read_line
from gapless_api.wire.mirror_progress import MIRROR_LINE, MirrorLine
from gapless_api.wire.preflight import PREFLIGHT_LINE, PreflightLine
from gapless_api.wire.progress import PROGRESS_LINE, ProgressLine
from gapless_api.wire.reading_progress import READING_LINE, ReadingLine
from gapless_api.wire.resend_plan import SHORT_PLAN, ShortPlan
from gapless_api.wire.resend_report import SHORT_REPORT, ShortReport
from gapless_api.wire.restore_progress import RESTORE_LINE, RESTORE_PLAN_LINE, RestoreLine, RestorePlanLine
from gapless_api.wire.result_lines import ResultLinesError, ScanResult, find_result

_ERROR_PREFIX = "gapless: "
_MAX_ERROR_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class PodOutput:
    """The last message of each kind in a log."""

    progress: ProgressLine | None = None
    """Progress of a sender."""
    reading: ReadingLine | None = None
    """Progress of a scan."""
    report: ShortReport | None = None
    """Final report of a resend."""
    plan: ShortPlan | None = None
    """Plan of a resend."""
    preflight: PreflightLine | None = None
    """Result of ``gapless link preflight``."""
    archive: ArchiveLine | None = None
    """Progress of an archive."""
    compaction: CompactionLine | None = None
    """Result of a compaction."""
    restore_plan: RestorePlanLine | None = None
    """Plan of a restore."""
    restore: RestoreLine | None = None
    """Progress of a restore."""
    mirror: MirrorLine | None = None
    """Progress of a mirror worker."""
    doctor: DoctorReport | None = None
    """Report of ``gapless doctor``."""
    result: ScanResult | None = None
    result_error: str = ""
    """Why there is no `result`."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """By event: why the last message of that kind cannot be parsed. The message is then ``None``."""
    error_message: str = ""
    """The final error message of a failed command."""

    def after(self, before: PodOutput) -> PodOutput:
        """Return this output, completed from an earlier read `before` of the same log, whose start may be gone now.

        A message that cannot be parsed is not replaced by an earlier one.
        """
        if self.problems:
            return self
        missing = [field.name for field in fields(self) if getattr(self, field.name) is None]
        return replace(self, **{name: getattr(before, name) for name in missing})

    @property
    def is_complete(self) -> bool:
        """Whether the log contains the final message of any of our programs."""
        messages = (self.preflight, self.result, self.compaction, self.restore_plan, self.doctor)
        return self.has_final_message or any(message is not None for message in messages)

    @property
    def has_final_message(self) -> bool:
        """Whether the log contains the final message of a sender or a planner, valid or not."""
        is_read = self.report is not None or self.plan is not None or bool(self.error_message)
        return is_read or not self.problems.keys().isdisjoint((SHORT_REPORT.event, SHORT_PLAN.event))


def find_error_message(text: str) -> str:
    """Return the final error message in the end of a log; empty if there is none."""
    lines = [line for line in text.splitlines() if line.startswith(_ERROR_PREFIX)]
    return lines[-1].removeprefix(_ERROR_PREFIX).strip()[:_MAX_ERROR_LENGTH] if lines else ""


def read_output(log: str) -> PodOutput:
    """Parse the messages of our programs in a `log`; other lines are ignored."""
    log_lines: dict[str, LogLine] = {}
    error_message = ""
    lines = log.splitlines()
    for line in lines:
        if line.startswith(_ERROR_PREFIX):
            error_message = find_error_message(line)
        elif (message := read_line(line)) is not None:
            log_lines[message.event] = message
    result, result_error = None, ""
    try:
        result = find_result(lines)
    except ResultLinesError as error:
        result_error = str(error)
    messages = {event: line.message for event, line in log_lines.items()}
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
        problems={event: line.problem for event, line in log_lines.items() if line.problem},
        error_message=error_message,
    )
