"""Strict reading of JSON files, as a stream, plain or gzip: everything ambiguous is refused.

Must not know the content of a file: the reader of a kind of file is a subclass of `StrictReading`. Only what the
subclass stores is kept in memory. `_where` is the JSON path that error messages name.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import ijson

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.range_accumulator import RangeAccumulator

if TYPE_CHECKING:
    import io

    from gapless_api.base.errors import ConfigurationError

TRANSFER_AGAIN = "transfer it again or create a new one"
_MAX_SOURCE_MEMBERS = 1000
_RANGES_PER_BATCH = 1024
GZIP_MAGIC = b"\x1f\x8b"

Plain: TypeAlias = "IO[bytes] | gzip.GzipFile"

Reading = TypeVar("Reading", bound="StrictReading")
Result = TypeVar("Result")


def read_stream(
    reading: type[Reading], read: Callable[[Reading], Result], name: str, stream: io.BufferedReader
) -> Result:
    """Call `read` with a `reading` of `stream`, which is decompressed if it is gzip; a byte order mark is skipped.

    Raises:
        ConfigurationError: the compression is damaged or truncated, or `read` refuses the content.
    """
    if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):  # from an editor on Windows
        stream.read(len(codecs.BOM_UTF8))
    if not stream.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
        return read(reading(name, stream))
    try:
        with gzip.GzipFile(fileobj=stream) as decompressed:
            return read(reading(name, decompressed))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = "truncated" if isinstance(error, EOFError) else "damaged"
        raise reading.REFUSAL(
            f"The gzip compression of the {reading.KIND} {name} is {problem}; {TRANSFER_AGAIN}."
        ) from None


class StrictReading:
    """One reading of one file."""

    KIND: str
    """The kind of file in messages."""
    REFUSAL: type[ConfigurationError]
    """The class of all errors about the content."""

    def __init__(self, name: str, stream: Plain) -> None:
        self._name = name
        self._stream = _Counted(stream)
        self._events: Iterator[tuple[str, Any]] = ijson.basic_parse(self._stream)
        self._where = ""
        self._complete = False

    def _parsed(self, parse: Callable[[], Result]) -> Result:
        """Return the result of `parse`; raise `REFUSAL` for invalid JSON. Errors of the stream pass through."""
        try:
            result = parse()
        except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
            # ijson raises the last three for numbers of thousands of digits, and for those like 0e9223372036854775808.
            self._stream.raise_failure()
            self._refuse_text(error)
        self._stream.raise_failure()
        return result

    def _end(self) -> None:
        """Check that nothing follows the end of the object."""
        self._complete = True
        self._where = ""
        for _ in self._events:  # the parser raises an error for anything that follows
            pass

    def _ranges(self) -> RangeAccumulator | None:  # noqa: C901 -- the inner loop of reading
        """Read a list of ``[offset]`` and ``[first, last]``; ``None`` for null."""
        ranges = RangeAccumulator()
        firsts: list[int] = []
        lasts: list[int] = []
        take = self._events.__next__
        ascending = True
        event, _ = take()
        if event == "null":
            return None
        if event != "start_array":
            self._refuse("is not a list")
        previous = -2
        while True:
            event, _ = take()
            if event == "end_array":
                ranges.extend(firsts, lasts, ascending=ascending)
                return ranges
            if event != "start_array":
                self._refuse_range(len(ranges) + len(firsts), "is not a list of one or two offsets")
            _, first = take()
            event, last = take()
            if event == "end_array":
                last = first
            elif take()[0] != "end_array":
                self._refuse_range(len(ranges) + len(firsts), "is not a list of one or two offsets")
            if type(first) is not int or type(last) is not int or not 0 <= first <= last <= MAX_OFFSET:
                self._refuse_range(len(ranges) + len(firsts), _range_problem(first, last))
            if first <= previous + 1:
                ascending = False
            previous = last
            firsts.append(first)
            lasts.append(last)
            if len(firsts) == _RANGES_PER_BATCH:
                ranges.extend(firsts, lasts, ascending=ascending)
                firsts, lasts = [], []

    def _source(self) -> dict[str, str]:
        self._expect("start_map", "is not an object")
        source: dict[str, str] = {}
        for name in self._members(None):
            source[name] = self._text()
            if len(source) > _MAX_SOURCE_MEMBERS:
                self._refuse(f"is one of more than {_MAX_SOURCE_MEMBERS:,}")
        return source

    def _members(self, known: frozenset[str] | None) -> Iterator[str]:
        """Yield the names of the members of the current object that are `known`, and skip the values of others.

        The caller must read the complete value of a name before it requests the next name.
        """
        outer = self._where
        names: set[str] = set()
        for event, name in self._events:
            if event == "end_map":
                self._where = outer
                return
            shown = "".join(character if character.isprintable() else "?" for character in name[:80])
            self._where = f"{outer}.{shown}" if outer else shown
            if known is not None and name not in known:
                self._skip()
                continue
            if name in names:
                self._refuse("is duplicated")
            names.add(name)
            yield name

    def _skip(self) -> None:
        depth = 0
        for event, _ in self._events:
            if event in {"start_map", "start_array"}:
                depth += 1
            elif event in {"end_map", "end_array"}:
                depth -= 1
            if depth == 0:
                return

    def _scalar(self) -> tuple[str, Any]:
        event, value = next(self._events)
        if event in {"start_map", "start_array"}:
            self._refuse("is not a single value")
        return event, value

    def _text(self) -> str:
        event, text = self._scalar()
        if event != "string":
            self._refuse("is not text")
        return str(text)

    def _integer(self, maximum: int | None) -> int:
        _, number = self._scalar()
        if type(number) is not int or number < 0 or (maximum is not None and number > maximum):
            self._refuse(f"is not an integer {'of 0 or more' if maximum is None else f'from 0 to {maximum}'}")
        return number

    def _expect(self, event: str, problem: str) -> None:
        if next(self._events)[0] != event:
            self._refuse(problem)

    def _refuse_range(self, index: int, problem: str) -> NoReturn:
        self._where = f"{self._where}[{index}]"
        self._refuse(problem)

    def _refuse(self, problem: str, remedy: str = TRANSFER_AGAIN) -> NoReturn:
        place = f": {self._where}" if self._where else ""
        raise self.REFUSAL(f"The {self.KIND} {self._name}{place} {problem}; {remedy}.")

    def _refuse_text(self, error: Exception) -> NoReturn:
        """Refuse invalid JSON: empty, truncated, followed by other content, or malformed."""
        place = f" (in {self._where})" if self._where else ""
        self._where = ""
        if self._stream.bytes_read == 0:
            self._refuse("is empty", "the program that wrote it failed: create a new one")
        if self._complete:
            self._refuse("has content after its end", "delete what follows the last brace, or " + TRANSFER_AGAIN)
        if self._stream.ended and isinstance(error, ijson.IncompleteJSONError):
            self._refuse(f"is truncated after {self._stream.bytes_read} bytes{place}")
        self._refuse(f"is not valid JSON{place}")


def _range_problem(first: Any, last: Any) -> str:
    if type(first) is not int or type(last) is not int:
        return "is not a list of one or two integers"
    if last < first:
        return f"is reversed: it goes from {first} to {last}"
    return f"has an offset that is not within 0 to {MAX_OFFSET}"


class _Counted:
    """A stream that counts the bytes that were read and records whether its end was reached.

    A failure looks like the end of the stream to the parser, because the Python parser prints tracebacks of a stream
    to standard error.
    """

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self.bytes_read = 0
        self.ended = False
        self._failure: OSError | EOFError | zlib.error | None = None

    def raise_failure(self) -> None:
        """Raise the error of the stream, if any."""
        if self._failure is not None:
            raise self._failure

    def read(self, size: int = -1) -> bytes:
        try:
            piece = self._stream.read(size)
        except (OSError, EOFError, zlib.error) as failure:
            self._failure = failure
            piece = b""
        self.bytes_read += len(piece)
        self.ended = self.ended or (size != 0 and not piece)
        return piece
