"""The exit codes that scripts and the operator rely on; must not know which commands use which.

Both "done" and "nothing to do" are 0; the message and the ``outcome`` of the report tell them apart. A source that
cannot be reached is always 3.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a ``gapless`` command ended. 1 is reserved for defects of Gapless (an unexpected exception)."""

    DONE = 0
    """The work is complete, or there was nothing to do."""
    BAD_CONFIGURATION = 2
    """A setting, a file or this machine is invalid; nothing was sent."""
    SOURCE_UNREACHABLE = 3
    """Kafka (or the archive) could not be reached, or stopped making progress."""
    INCOMPLETE = 4
    """Finished, but events could not be delivered, records not read, or checks found errors; they are listed."""
    LINK_FAILED = 5
    """The one-way link did not accept the datagrams."""
    MISSING = 10
    """With ``--exit-code``: the command has finished, and something is missing."""
    INTERRUPTED = 130
    """Stopped by SIGINT; progress is saved."""
    TERMINATED = 143
    """Stopped by SIGTERM; progress is saved."""
