"""Owns the root of every error that a user can meet, and who must act on it; must not know how errors are printed.

::

    GaplessError
    ├── ConfigurationError        the user's settings or files
    │   └── BundleError           the transferred bundle
    ├── LocalStorageError         this machine's disk (checkpoint, report, bundle)
    ├── SourceUnreachableError    the environment: Kafka cannot be reached or denies access
    │   ├── SourceStalledError    Kafka was reached and stopped answering within the deadline
    │   └── StoreUnreachableError the object store cannot be reached or does not answer
    ├── UndeliveredError          finished, and the report lists what could not be delivered or read
    ├── LinkError                 the environment: the one-way link
    └── StoppedError              a signal; progress is saved

Every message is one sentence that says what is wrong, where, and what to do.
"""

from typing import NamedTuple

from gapless_api.base.exit_codes import ExitCode


class GaplessError(Exception):
    """An error that the user sees as one sentence."""


class ConfigurationError(GaplessError):
    """A setting or a file named in the settings is wrong; the user must correct it."""


class BundleError(ConfigurationError):
    """A bundle is cut short, altered or not a bundle; it must be carried again."""


class LocalStorageError(GaplessError):
    """A checkpoint, report or bundle cannot be written on this machine."""


class SourceUnreachableError(GaplessError):
    """Kafka cannot be reached or refuses us; the platform team must act."""


class SourceStalledError(SourceUnreachableError):
    """Kafka made no progress within the deadline; run again to go on from the checkpoint."""


class StoreUnreachableError(SourceUnreachableError):
    """The object store that bundles are kept in cannot be reached; run again when it can."""


class UndeliveredError(GaplessError):
    """The work is finished and something is left that could not be delivered or read; it is listed."""


class LinkError(GaplessError):
    """The one-way link does not accept datagrams; the network must be checked."""


class StoppedError(GaplessError):
    """A signal stopped the work; progress is saved."""

    def __init__(self, message: str, *, by_terminal: bool) -> None:
        super().__init__(message)
        self.exit_code = ExitCode.INTERRUPTED if by_terminal else ExitCode.TERMINATED


def raised_by_handler(error: BaseException) -> BaseException:
    """What a signal handler has raised, if `error` is what became of that in C code; else `error`.

    A library in C that goes on although a handler has raised returns a result with an exception set, of which the
    interpreter makes a SystemError; its cause is what was raised.
    """
    return error.__cause__ if isinstance(error, SystemError) and error.__cause__ is not None else error


class Verdict(NamedTuple):
    """What an error means to a script (`exit_code`) and to Kubernetes (`condition_reason`)."""

    exit_code: ExitCode
    condition_reason: str


VERDICTS: dict[type[GaplessError], Verdict] = {
    ConfigurationError: Verdict(ExitCode.BAD_CONFIGURATION, "BadConfiguration"),
    BundleError: Verdict(ExitCode.BAD_CONFIGURATION, "BadBundle"),
    LocalStorageError: Verdict(ExitCode.BAD_CONFIGURATION, "StorageFailed"),
    SourceUnreachableError: Verdict(ExitCode.SOURCE_UNREACHABLE, "SourceUnreachable"),
    SourceStalledError: Verdict(ExitCode.SOURCE_UNREACHABLE, "SourceStalled"),
    StoreUnreachableError: Verdict(ExitCode.SOURCE_UNREACHABLE, "StoreUnreachable"),
    UndeliveredError: Verdict(ExitCode.INCOMPLETE, "Incomplete"),
    LinkError: Verdict(ExitCode.LINK_FAILED, "LinkFailed"),
    StoppedError: Verdict(ExitCode.TERMINATED, "Stopped"),
}


def verdict(error: GaplessError) -> Verdict:
    """Look up what `error` means, by the nearest class in `VERDICTS`.

    Raises:
        KeyError: `error` belongs to no class of the table, which a test rules out.
    """
    for kind in type(error).__mro__:
        if kind in VERDICTS:
            found = VERDICTS[kind]
            if isinstance(error, StoppedError):
                return Verdict(error.exit_code, found.condition_reason)
            return found
    raise KeyError(type(error).__name__)


_REASON_BY_CODE = {found.exit_code: found.condition_reason for found in reversed(VERDICTS.values())} | {
    ExitCode.INTERRUPTED: VERDICTS[StoppedError].condition_reason
}


def reason_of_exit_code(code: int | None) -> str | None:
    """The condition reason of a program that failed and left no report; ``None`` for other codes.

    Several errors share a code: the reason is that of the first one in `VERDICTS`. `INCOMPLETE` is no failure.
    """
    if code not in set(ExitCode) or code == ExitCode.INCOMPLETE:
        return None
    return _REASON_BY_CODE.get(ExitCode(code))
