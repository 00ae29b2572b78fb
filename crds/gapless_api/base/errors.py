"""The root classes of all errors that users see, and who must act on each; must not know how errors are printed.

::

    GaplessError
    ├── ConfigurationError        the user's settings or files
    │   └── BundleError           the transferred bundle
    ├── LocalStorageError         this machine's disk (checkpoint, report, bundle)
    ├── SourceUnreachableError    the environment: Kafka cannot be reached or denies access
    │   ├── SourceStalledError    Kafka was reached and stopped answering within the deadline
    │   └── StoreUnreachableError the object store cannot be reached or does not answer
    ├── UndeliveredError          finished, but some events could not be delivered or read; the report lists them
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
    """A bundle is truncated, altered or not a bundle; it must be transferred again."""


class LocalStorageError(GaplessError):
    """A checkpoint, report or bundle cannot be written on this machine."""


class SourceUnreachableError(GaplessError):
    """Kafka cannot be reached or denies access; the platform team must act."""


class SourceStalledError(SourceUnreachableError):
    """Kafka made no progress within the deadline; another run continues from the checkpoint."""


class StoreUnreachableError(SourceUnreachableError):
    """The object store cannot be reached or does not answer; run again when it can be reached."""


class UndeliveredError(GaplessError):
    """The work is finished, but some events could not be delivered or read; they are listed."""


class LinkError(GaplessError):
    """The one-way link does not accept datagrams; the network must be checked."""


class StoppedError(GaplessError):
    """A signal stopped the work; progress is saved."""

    def __init__(self, message: str, *, by_terminal: bool) -> None:
        super().__init__(message)
        self.exit_code = ExitCode.INTERRUPTED if by_terminal else ExitCode.TERMINATED


class ErrorOutcome(NamedTuple):
    """What an error means to a script (`exit_code`) and to Kubernetes (`condition_reason`)."""

    exit_code: ExitCode
    condition_reason: str


ERROR_OUTCOMES: dict[type[GaplessError], ErrorOutcome] = {
    ConfigurationError: ErrorOutcome(ExitCode.BAD_CONFIGURATION, "BadConfiguration"),
    BundleError: ErrorOutcome(ExitCode.BAD_CONFIGURATION, "BadBundle"),
    LocalStorageError: ErrorOutcome(ExitCode.BAD_CONFIGURATION, "StorageFailed"),
    SourceUnreachableError: ErrorOutcome(ExitCode.SOURCE_UNREACHABLE, "SourceUnreachable"),
    SourceStalledError: ErrorOutcome(ExitCode.SOURCE_UNREACHABLE, "SourceStalled"),
    StoreUnreachableError: ErrorOutcome(ExitCode.SOURCE_UNREACHABLE, "StoreUnreachable"),
    UndeliveredError: ErrorOutcome(ExitCode.INCOMPLETE, "Incomplete"),
    LinkError: ErrorOutcome(ExitCode.LINK_FAILED, "LinkFailed"),
    StoppedError: ErrorOutcome(ExitCode.TERMINATED, "Stopped"),
}


def error_outcome(error: GaplessError) -> ErrorOutcome:
    """Return the outcome of the nearest class of `error` in `ERROR_OUTCOMES`.

    Raises:
        KeyError: no class of `error` is in the table, which a test rules out.
    """
    for kind in type(error).__mro__:
        if kind in ERROR_OUTCOMES:
            outcome = ERROR_OUTCOMES[kind]
            return outcome._replace(exit_code=error.exit_code) if isinstance(error, StoppedError) else outcome
    raise KeyError(type(error).__name__)


_REASON_BY_CODE = {outcome.exit_code: outcome.condition_reason for outcome in reversed(ERROR_OUTCOMES.values())} | {
    ExitCode.INTERRUPTED: ERROR_OUTCOMES[StoppedError].condition_reason
}


def reason_of_exit_code(code: int | None) -> str | None:
    """Return the condition reason for a program that failed without a report; ``None`` if `code` is no failure.

    Several errors share a code: the reason is that of the first one in `ERROR_OUTCOMES`. `INCOMPLETE` and `MISSING` are
    no failures.
    """
    if code not in set(ExitCode) or code in {ExitCode.INCOMPLETE, ExitCode.MISSING}:
        return None
    return _REASON_BY_CODE.get(ExitCode(code))
