"""The option ``--exit-code``: the exit code of a command then says whether something is missing.

Must not know what a command compares. What could not be found out is no result: errors keep their exit codes.
"""

from __future__ import annotations

from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.quantities import boolean
from gapless_api.base.settings import Setting

EXIT_CODE = Setting(
    "exitCode",
    "Whether to end with exit code 10 if something is missing, for loops in a shell. Errors, and what could not be "
    "found out, keep their exit codes.",
    parse=boolean,
    default=False,
    group="Output",
)


def result_code(*, is_missing: bool, is_requested: bool, otherwise: ExitCode = ExitCode.DONE) -> ExitCode:
    """Return the exit code of a command that has finished without an error.

    Args:
        is_missing: whether something is missing.
        is_requested: the value of `EXIT_CODE`.
        otherwise: the code for missing things without the option.
    """
    if not is_missing:
        return ExitCode.DONE
    return ExitCode.MISSING if is_requested else otherwise
