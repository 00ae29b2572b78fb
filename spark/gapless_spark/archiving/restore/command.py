"""``gapless restore``: it runs a restore, and writes report, table and exit code; must not know how that works."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import GaplessError, StoppedError, UndeliveredError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.cli.json_output import write_report
from gapless_api.codec.canonical import moment_text
from gapless_spark.archiving.restore.account import DELETED, Account
from gapless_spark.archiving.restore.following import Follower
from gapless_spark.archiving.restore.output import show
from gapless_spark.archiving.restore.report import report_of
from gapless_spark.archiving.restore.restorer import Restorer
from gapless_spark.archiving.restore.settings import RestoreSettings
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.output.jobs import log_ignored_settings, stop_on_signals

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved


def run(settings: Resolved) -> int:
    """Restore as `settings` say and return the exit code.

    Raises:
        GaplessError: nothing or not everything was restored; a requested report is written in this case, too.
    """
    chosen = RestoreSettings.of(settings.values)
    configure_logging(chosen.log_level, chosen.log_file_name)
    log_ignored_settings(settings)
    collect_rarely()
    account = Account(created=moment_text(datetime.now(UTC)), is_plan=chosen.plan, started=time.monotonic())
    try:
        check_output("report", chosen.report)
        with stop_on_signals(lambda: ""):
            restorer = Restorer(chosen, settings.values, account)
            if chosen.follow and not chosen.plan:
                Follower(restorer).run()
            restorer.run()
    except GaplessError as error:
        failure = _with_progress(error, account)
        outcome, code = str(outcome_of(failure)), exit_code_of(failure)
        if isinstance(error, UndeliveredError) and account.outcome == DELETED:
            outcome = DELETED
        write_report(chosen.report, report_of(account, outcome=outcome, exit_code=code, message=str(failure)))
        show(account)
        raise failure from None
    message = account.sentence()
    write_report(chosen.report, report_of(account, outcome=account.outcome, exit_code=0, message=message))
    show(account)
    print(message)  # noqa: T201 -- the command's output
    return exit_code_of(None)


def _with_progress(error: GaplessError, account: Account) -> GaplessError:
    if not isinstance(error, StoppedError):
        return error
    by_terminal = error.exit_code is ExitCode.INTERRUPTED
    name = "SIGINT" if by_terminal else "SIGTERM"
    return StoppedError(
        f"Stopped by {name}; {account.progress()} Run the same command again to continue.", by_terminal=by_terminal
    )
