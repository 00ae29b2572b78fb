"""Owns the report as a file, a partition a paragraph; must not know how a report is made nor what it looks like."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.files import written_whole
from gapless_api.wire.resend_report import report_text

if TYPE_CHECKING:
    from pathlib import Path

    from gapless_api.wire.resend_report import ResendReport


def write_report(path: Path, report: ResendReport) -> None:
    """Write `report`; if there is no room for it, it goes to standard error, so that it is not lost.

    Raises:
        LocalStorageError: the file cannot be written.
    """
    try:
        with written_whole(path, what="report") as stream:
            stream.writelines(part.encode() for part in report_text(report))
    except LocalStorageError:
        sys.stderr.writelines(report_text(report))
        sys.stderr.flush()
        raise
