"""How an exception that no rule expects is located, so that it stops one partition or one lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import describe

COPY_FAILED = "CopyFailed"
_Converted = TypeVar("_Converted")


class ConversionError(Exception):
    """A record cannot be converted, because of an exception that no rule expects."""

    def __init__(self, offset: int, cause: Exception, *, is_partly_written: bool = False) -> None:
        """`is_partly_written` is whether records before it may be in the open transaction already."""
        super().__init__(f"offset {offset}: {describe(cause)}")
        self.offset = offset
        self.cause = cause
        self.is_partly_written = is_partly_written


def each(function: Callable[[Any], _Converted], items: Iterable[Any], messages: Sequence[Any]) -> list[_Converted]:
    """Return `function` of each item; the items belong to `messages`, in their order.

    No record is converted again after it has failed: Kafka's client drops headers that it could not decode.

    Raises:
        ConversionError: it fails; the error names the record.
        GaplessError: as `function`.
    """
    results: list[_Converted] = []
    try:
        results.extend(map(function, items))  # keeps what there was before an exception
    except GaplessError:
        raise
    except Exception as error:
        raise ConversionError(messages[len(results)].offset() or 0, error) from error
    return results
