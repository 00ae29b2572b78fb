"""How all mistakes of a file are named in one message; must not know what makes a setting a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.redaction import shown_name
from gapless_api.base.variables import similar_name

_MAX_LISTED = 1500
"""Characters of unknown names in a message, after which the rest is counted. The first is always named."""


IGNORED = "unknown"
"""Why an unknown name is ignored that may be ignored."""


class UnknownName(NamedTuple):
    """A name in a file that belongs to no setting. Sorted by place."""

    file: str
    line: int
    name: str


@dataclass(slots=True)
class Refusals:
    """The refusals of settings that were found so far."""

    sentences: list[str] = field(default_factory=list)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the ConfigurationError that the block raises."""
        try:
            yield
        except ConfigurationError as error:
            self.sentences.append(str(error))

    def settle(self) -> None:
        """Raise ConfigurationError with all refusals, if there are any."""
        if self.sentences:
            raise ConfigurationError(" ".join(dict.fromkeys(self.sentences)))


def refuse_unknown(unknown: Iterable[UnknownName], known: Iterable[str], *, noun: tuple[str, str], advice: str) -> None:
    """Raise ConfigurationError with all unknown names and their lines, if there are any.

    Args:
        unknown: what was found.
        known: the names among which a similar one may have been meant.
        noun: for one name, and for several.
        advice: what else helps than to correct or to delete the lines; may be empty.
    """
    found, names = sorted(set(unknown)), list(known)
    if not found:
        return
    listed, file = [], ""
    for each in found:
        where = f"line {each.line:,}" if each.file == file else f"in {each.file}, line {each.line:,}"
        listed.append(f"{shown_name(each.name)} {where}{similar_name(each.name, names)}")
        file = each.file
    lengths = accumulate(map(len, listed))
    shown = [text for text, length in zip(listed, lengths, strict=True) if length <= _MAX_LISTED] or listed[:1]
    if more := len(listed) - len(shown):
        shown.append(f"and {more:,} more")
    which, lines = (noun[0], "line") if len(found) == 1 else (f"{noun[1]}:", "lines")
    raise ConfigurationError(f"Unknown {which} {'; '.join(shown)}; correct or delete the {lines}{advice}.")
