"""How a worker has the SQL of its mirror evaluated, and what it takes from the answers.

Must not know where the records come from or go. The process that answers is not trusted: it runs a user's statement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.wire.form import WireError
from gapless_mirror.sql.exchange import (
    MAX_BATCH_BYTES,
    MAX_FRAME_BYTES,
    MAX_RECORDS,
    arrow,
    decode_answer,
    encode_batch,
    encode_statement,
    records_schema,
    results_schema,
)
from gapless_mirror.sql.messages import Answer

if TYPE_CHECKING:
    import pyarrow as pa

START_SECONDS = 180.0
"""How long the evaluating process may take to start: Spark and Java on a busy node."""
_CONNECT_SECONDS = 2.0
"""How long a lane waits for it, before it says so and tries again."""
_ANSWER_SECONDS = 120.0
_POLL_SECONDS = 0.2
_RECORD_BYTES = 64
"""Of a record besides key, value and headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """The SQL of a mirror, and where it is evaluated."""

    statement: str
    socket: Path
    """On which the evaluating process listens."""
    targets: frozenset[str] = frozenset()
    """The topics to which the statement may send records, besides that of their partition."""


class Transformed:
    """A record after the statement, with the methods of `confluent_kafka.Message` that a lane calls."""

    __slots__ = ("_headers", "_key", "_message", "_value", "is_dropped", "target")

    def __init__(self, message: Any, key: Any, value: Any, headers: Any, target: str | None) -> None:
        self._message, self._key, self._value, self._headers = message, key, value, headers
        self.target = target
        """The target topic; ``None`` for that of the partition."""
        self.is_dropped = False

    @classmethod
    def dropped(cls, message: Any) -> Transformed:
        """Return a record that the statement leaves out: only its offset counts."""
        record = cls(message, None, None, None, None)
        record.is_dropped = True
        return record

    def offset(self) -> Any:
        """Return the source offset."""
        return self._message.offset()

    def timestamp(self) -> Any:
        """Return the type of the timestamp, and the timestamp in milliseconds."""
        return self._message.timestamp()

    def leader_epoch(self) -> Any:
        """Return the leader epoch of the source; ``None`` if it is unknown."""
        return self._message.leader_epoch()

    def key(self) -> Any:
        """Return the key, or ``None``."""
        return self._key

    def value(self) -> Any:
        """Return the value; ``None`` for a tombstone."""
        return self._value

    def headers(self) -> Any:
        """Return pairs of key and value, or ``None``."""
        return self._headers


class Evaluation:
    """A connection to the evaluating process. Not thread-safe; after an exception it must be closed."""

    def __init__(
        self,
        transform: Transform,
        *,
        pulse: Callable[[], None] = lambda: None,
        patience_seconds: float = _CONNECT_SECONDS,
    ) -> None:
        """Connect, and have the statement checked.

        Args:
            transform: what is evaluated, and where.
            pulse: called while waiting; it may raise.
            patience_seconds: how long the process may take until it accepts a connection.

        Raises:
            ConfigurationError: the statement is not accepted.
            SourceStalledError: the evaluating process does not answer.
        """
        self._transform, self._pulse = transform, pulse
        self._targets = {topic.encode(): topic for topic in transform.targets}
        self._connection = self._connect(patience_seconds)
        try:
            answer = self._check_statement()
        except BaseException:
            self.close()
            raise
        self._selected = answer.selected
        self._columns, self._results = records_schema(answer.reads), results_schema(answer.selected)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def apply(self, messages: Sequence[Any]) -> list[Transformed]:
        """Apply the statement to records; the result has one for each, in their order.

        Raises:
            ConfigurationError: the statement fails on a record, or names a topic that is not allowed.
            SourceStalledError: the evaluating process does not answer, or its answer cannot be read.
        """
        results: list[Transformed] = []
        for batch in _batches(messages):
            results += self._apply(batch)
        return results

    def _apply(self, messages: Sequence[Any]) -> list[Transformed]:
        answer = self._ask(encode_batch(self._rows(messages), is_results=False), self._results)
        if isinstance(answer, Answer):
            if answer.is_temporary or not answer.refused:
                raise self._stalled(answer.refused or "it sent no results")
            raise ConfigurationError(f"The transform fails{_place(messages, answer.row)}{answer.refused}")
        rows, *columns = (column.to_pylist() for column in answer.columns)
        if any(row is None for row in rows) or any(
            not before < row < len(messages) for before, row in zip([-1, *rows], rows, strict=False)
        ):
            raise self._stalled("its answer has other rows than it was sent")
        by_name = dict(zip(self._selected, columns, strict=True))
        if "headers" in by_name:
            by_name["headers"] = _pairs(answer.column("headers"))
        results = [Transformed.dropped(message) for message in messages]
        for index, row in enumerate(rows):
            message = messages[row]
            results[row] = Transformed(
                message,
                by_name["key"][index] if "key" in by_name else message.key(),
                by_name["value"][index] if "value" in by_name else message.value(),
                by_name["headers"][index] if "headers" in by_name else message.headers(),
                self._target(by_name["topic"][index], message) if "topic" in by_name else None,
            )
        return results

    def _target(self, name: bytes | None, message: Any) -> str | None:
        if name is None:
            return None
        target = self._targets.get(name)
        if target is None:
            raise ConfigurationError(
                f"The transform sends the record {_name(message)} to a topic that is not in transformTopics (its name "
                f"is not shown, because it may be the content of a record); add it there, or correct the statement."
            )
        return target

    def _rows(self, messages: Sequence[Any]) -> pa.RecordBatch:
        module, schema = arrow(), self._columns
        columns = [_COLUMNS[field.name](module, messages, field.type) for field in schema]
        return module.RecordBatch.from_arrays(columns, schema=schema)

    def _connect(self, patience_seconds: float) -> Connection:
        deadline = time.monotonic() + patience_seconds
        while True:
            self._pulse()
            try:
                return Client(str(self._transform.socket), "AF_UNIX")
            except OSError as error:
                if time.monotonic() > deadline:
                    reason = f"{error.strerror or type(error).__name__} for {patience_seconds:.0f} s"
                    raise self._stalled(reason) from None
            time.sleep(_POLL_SECONDS)

    def _check_statement(self) -> Answer:
        answer = self._ask(encode_statement(self._transform.statement), None)
        if not isinstance(answer, Answer) or answer.is_temporary:
            raise self._stalled(answer.refused if isinstance(answer, Answer) else "it sent results without records")
        if answer.refused:
            raise ConfigurationError(answer.refused)
        if not answer.reads:
            raise self._stalled("it reads nothing of a record")
        return answer

    def _ask(self, frame: bytes, schema: pa.Schema | None) -> Answer | pa.RecordBatch:
        deadline = time.monotonic() + _ANSWER_SECONDS
        try:
            self._connection.send_bytes(frame)
            while not self._connection.poll(_POLL_SECONDS):
                self._pulse()
                if time.monotonic() > deadline:
                    raise self._stalled(f"no answer for {_ANSWER_SECONDS:.0f} s")
            return decode_answer(self._connection.recv_bytes(MAX_FRAME_BYTES), schema)
        except (OSError, EOFError) as error:
            reason = "it has ended" if isinstance(error, EOFError) else error.strerror or type(error).__name__
            raise self._stalled(reason) from None
        except WireError as error:
            raise self._stalled(f"its answer cannot be read: {error}") from None

    def _stalled(self, reason: str) -> SourceStalledError:
        return SourceStalledError(
            f"The process that evaluates the transform does not answer on {self._transform.socket} ({reason}). Its log "
            f"tells why; on Kubernetes it is the container sql of the pod."
        )


def _simple(method: str) -> Callable[[Any, Sequence[Any], pa.DataType], pa.Array]:
    """Return a function for the column with what a method of each record returns."""

    def column(module: Any, messages: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return module.array([getattr(message, method)() for message in messages], kind)

    return column


def _timestamps(module: Any, messages: Sequence[Any], kind: pa.DataType) -> pa.Array:
    stamps = [at if at >= 0 else None for _, at in (message.timestamp() for message in messages)]
    return module.array(stamps, module.timestamp("ms", "UTC")).cast(kind)


def _headers(module: Any, messages: Sequence[Any], kind: pa.DataType) -> pa.Array:
    headers = [message.headers() or () for message in messages]
    bounds = [0]
    for pairs in headers:
        bounds.append(bounds[-1] + len(pairs))
    parts = ([pair[part] for pairs in headers for pair in pairs] for part in (0, 1))
    columns = [module.array(part, module.binary()) for part in parts]
    pairs_column = module.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return module.ListArray.from_arrays(module.array(bounds, module.int32()), pairs_column)


_COLUMNS: dict[str, Callable[[Any, Sequence[Any], pa.DataType], pa.Array]] = {
    **{name: _simple(name) for name in ("key", "value", "topic", "partition", "offset")},
    "timestamp": _timestamps,
    "headers": _headers,
}


def _batches(messages: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Divide records into batches that fit into a frame."""
    first = size = 0
    for index, message in enumerate(messages):
        own = _RECORD_BYTES + len(message.key() or b"") + len(message.value() or b"")
        own += sum(len(name) + len(value or b"") for name, value in message.headers() or ())
        if index > first and (index - first >= MAX_RECORDS or size + own > MAX_BATCH_BYTES):
            yield messages[first:index]
            first, size = index, 0
        size += own
    if messages:
        yield messages[first:]


def _pairs(headers: pa.ListArray) -> list[list[tuple[bytes, bytes | None]] | None]:
    """Return the headers of each record as pairs; ``None`` for none."""
    keys, values = (part.to_pylist() for part in headers.flatten().flatten())
    pairs = iter(zip(keys, values, strict=True))
    counts = headers.value_lengths().to_pylist()
    return [
        [(key or b"", value) for key, value in (next(pairs) for _ in range(count or 0))] or None for count in counts
    ]


def _name(message: Any) -> str:
    return f"{message.topic()}/{message.partition()}/{message.offset()}"


def _place(messages: Sequence[Any], row: int | None) -> str:
    """Return which record a statement fails on, as far as it is known."""
    if row is not None and row < len(messages):
        return f" on the record {_name(messages[row])}: "
    return f" on one of the records from {_name(messages[0])} to {_name(messages[-1])}: "
