"""What a worker and the process that evaluates its SQL tell each other in words, and the versions of that."""

from dataclasses import dataclass

from gapless_api.wire.form import Form

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""The columns of a record that a statement may read."""
SELECTABLE = ("key", "value", "headers", "topic")
"""Those that it may select."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The first message of a worker."""

    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a `Statement`, or to a batch that cannot be evaluated."""

    reads: tuple[str, ...] = ()
    """Of `COLUMNS`: what the statement reads, and all that the worker sends. Empty in a refusal."""
    selected: tuple[str, ...] = ()
    """Of `SELECTABLE`, in the order of the columns of the results. Empty for none, and in a refusal."""
    refused: str = ""
    """Why the statement, or the batch, is refused; empty if it is not."""
    row: int | None = None
    """The record on which the statement fails."""
    is_temporary: bool = False
    """Whether the same batch may be evaluated later."""


STATEMENT = Form("statement of a worker", "gaplessStatement", 1, Statement)
ANSWER = Form("answer about a statement", "gaplessAnswer", 1, Answer)
