"""Owns how our JSON files are read: as a stream, plain or gzip, and everything that could be misunderstood is refused.

Must not know what a file is about: a reader of one kind of file is a subclass of `StrictReading`. Memory holds what the
subclass keeps and nothing else; `_where` is the place that an error message names.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import ijson

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.range_accumulator import RangeAccumulator

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

    from gapless_api.base.errors import ConfigurationError

TRANSFER_AGAIN = "transfer it again or create a new one"
_MAX_SOURCE_MEMBERS = 1000
_RANGES_AT_ONCE = 1024
_GZIP_MAGIC = b"\x1f\x8b"

Plain: TypeAlias = "IO[bytes] | gzip.GzipFile"

Reading = TypeVar("Reading", bound="StrictReading")
Result = TypeVar("Result")


def read_stream(
    reading: type[Reading], read: Callable[[Reading], Result], name: str, stream: io.BufferedReader
) -> Result:
    """Make a `reading` of `stream`, without a byte order mark and unpacked if it is gzip, and `read` it.

    Raises:
        ConfigurationError: the compression is damaged or cut, or what `read` refuses.
    """
    if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):  # an editor of Windows has been there
        stream.read(len(codecs.BOM_UTF8))
    if not stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        return read(reading(name, stream))
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            return read(reading(name, unpacked))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = "is cut off" if isinstance(error, EOFError) else "is damaged"
        raise reading.REFUSAL(
            f"The {reading.KIND} {name} {problem} within its gzip compression; {TRANSFER_AGAIN}."
        ) from None


class StrictReading:
    """One reading of one file."""

    KIND: str
    """What messages call the file."""
    REFUSAL: type[ConfigurationError]
    """What is raised when it is refused."""

    def __init__(self, name: str, stream: Plain) -> None:
        self._name = name
        self._stream = _Counted(stream)
        self._events: Iterator[tuple[str, Any]] = ijson.basic_parse(self._stream)
        self._where = ""
        self._complete = False

    def _parsed(self, parse: Callable[[], Result]) -> Result:
        """Call `parse`, and say in one sentence why a text is no JSON. Raises what reading raises."""
        try:
            found = parse()
        except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
            # The last three are for numbers of thousands of digits, and for those like 0e9223372036854775808.
            self._stream.raise_failure()
            self._refuse_text(error)
        self._stream.raise_failure()
        return found

    def _end(self) -> None:
        """Make sure that nothing stands behind the end."""
        self._complete = True
        self._where = ""
        for _ in self._events:  # the parser finds what stands there
            pass

    def _ranges(self) -> RangeAccumulator | None:  # noqa: C901 -- the inner loop of reading
        """Read a list of ``[offset]`` and ``[first, last]``; ``None`` for null. The inner loop of reading, so flat."""
        listed = RangeAccumulator()
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
                listed.extend(firsts, lasts, ascending=ascending)
                return listed
            if event != "start_array":
                self._refuse_range(len(listed) + len(firsts), "is not a list of one or two offsets")
            _, first = take()
            event, last = take()
            if event == "end_array":
                last = first
            elif take()[0] != "end_array":
                self._refuse_range(len(listed) + len(firsts), "is not a list of one or two offsets")
            if type(first) is not int or type(last) is not int or not 0 <= first <= last <= MAX_OFFSET:
                self._refuse_range(len(listed) + len(firsts), _why_no_range(first, last))
            if first <= previous + 1:
                ascending = False
            previous = last
            firsts.append(first)
            lasts.append(last)
            if len(firsts) == _RANGES_AT_ONCE:
                listed.extend(firsts, lasts, ascending=ascending)
                firsts, lasts = [], []

    def _source(self) -> dict[str, str]:
        self._expect("start_map", "is not an object")
        source: dict[str, str] = {}
        for name in self._members(None):
            event, text = self._scalar()
            if event != "string":
                self._refuse("is not text")
            source[name] = text
            if len(source) > _MAX_SOURCE_MEMBERS:
                self._refuse("is one of too many")
        return source

    def _members(self, known: frozenset[str] | None) -> Iterator[str]:
        """Go through the members of the object just begun: yield `known` names once each, skip others' values.

        The caller must take the complete value of a name before it goes on.
        """
        outer = self._where
        found: set[str] = set()
        for event, name in self._events:
            if event == "end_map":
                self._where = outer
                return
            shown = "".join(each if each.isprintable() else "?" for each in name[:80])
            self._where = f"{outer}.{shown}" if outer else shown
            if known is not None and name not in known:
                self._skip()
                continue
            if name in found:
                self._refuse("is there twice")
            found.add(name)
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

    def _whole(self, most: int | None) -> int:
        _, number = self._scalar()
        if type(number) is not int or number < 0 or (most is not None and number > most):
            self._refuse(f"is not an integer {'of 0 or more' if most is None else f'from 0 to {most}'}")
        return number

    def _expect(self, event: str, otherwise: str) -> None:
        if next(self._events)[0] != event:
            self._refuse(otherwise)

    def _refuse_range(self, index: int, problem: str) -> NoReturn:
        self._where = f"{self._where}[{index}]"
        self._refuse(problem)

    def _refuse(self, problem: str, cure: str = TRANSFER_AGAIN) -> NoReturn:
        place = f": {self._where}" if self._where else ""
        raise self.REFUSAL(f"The {self.KIND} {self._name}{place} {problem}; {cure}.")

    def _refuse_text(self, error: Exception) -> NoReturn:
        """Say why the text is no JSON: it is empty, cut, followed by something, or wrong in the middle."""
        place = f" (in {self._where})" if self._where else ""
        self._where = ""
        if self._stream.bytes_read == 0:
            self._refuse("is empty", "the program that wrote it failed: create a new one")
        if self._complete:
            self._refuse("goes on after its end", "delete what follows the last brace, or " + TRANSFER_AGAIN)
        if self._stream.ended and isinstance(error, ijson.IncompleteJSONError):
            self._refuse(f"is cut off after {self._stream.bytes_read} bytes{place}", TRANSFER_AGAIN)
        self._refuse(f"is not valid JSON{place}", TRANSFER_AGAIN)


def _why_no_range(first: Any, last: Any) -> str:
    if type(first) is not int or type(last) is not int:
        return "is not a list of one or two integers"
    if last < first:
        return f"is reversed: it goes from {first} to {last}"
    return f"has an offset that is not within 0 to {MAX_OFFSET}"


class _Counted:
    """A stream that knows how far it was read and whether its end was reached.

    One that fails ends there for the parser: the one in Python says on standard error what an error kept it from.
    """

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self.bytes_read = 0
        self.ended = False
        self._failure: OSError | EOFError | zlib.error | None = None

    def raise_failure(self) -> None:
        """Raise what the stream raised, if it did."""
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
