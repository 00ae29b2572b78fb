"""The process that evaluates the SQL of a mirror: it answers workers on a socket, and needs nothing of Kafka.

On Kubernetes it is a container of its own, which has no passwords: whatever a statement might do in it, there is
nothing to read. Must not know where records come from or go.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from gapless_api.base.errors import GaplessError, LocalStorageError
from gapless_api.base.unexpected import describe
from gapless_api.wire.form import WireError
from gapless_archive.segments.rows import with_header_keys
from gapless_mirror.sql.exchange import (
    MAX_FRAME_BYTES,
    MAX_RESULT_BYTES,
    decode_batch,
    decode_statement,
    encode_answer,
    encode_batch,
    records_schema,
    results_schema,
)
from gapless_mirror.sql.messages import Answer
from gapless_spark.mirror.transform import Transform
from gapless_spark.runtime.session import Engine, machine_failure, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL_ERROR = re.compile(r"\[([A-Z_.]+)\][^\n]*SQLSTATE: 22")
"""Spark's message for a value that a function cannot handle: a data exception, SQLSTATE class 22."""
_TOO_LARGE = f"the results are larger than {MAX_RESULT_BYTES:,} bytes; let the statement return less."
_WAITING = 128
"""How many workers may wait to be accepted."""
_PAUSE_SECONDS = 1.0
log = structlog.get_logger("mirror")


@contextmanager
def evaluator(engine: Engine, path: Path) -> Iterator[Evaluator]:
    """Answer workers on the socket `path` during the ``with`` block. A socket that is left over there is replaced.

    Raises:
        ConfigurationError: Spark or Java is not installed, or Java does not start.
        LocalStorageError: the socket cannot be created.
    """
    with session(engine) as spark, _listener(path) as listener:
        answers = Evaluator(spark, engine)
        is_over = threading.Event()
        threading.Thread(target=_accept, args=(listener, answers, is_over), name="evaluator", daemon=True).start()
        try:
            yield answers
        finally:
            is_over.set()


class Evaluator:
    """Evaluates statements in one session. Thread-safe."""

    def __init__(self, spark: SparkSession, engine: Engine) -> None:
        """`engine` is that of the session."""
        self._spark, self._engine = spark, engine

    @property
    def is_alive(self) -> bool:
        """Whether Java runs."""
        java: Any = self._spark.sparkContext._gateway  # noqa: SLF001 -- PySpark does not tell
        return java.proc.poll() is None

    def serve(self, connection: Connection) -> None:
        """Answer one worker, until it closes the connection."""
        with connection, suppress(EOFError, ConnectionError):
            try:
                statement = decode_statement(connection.recv_bytes(MAX_FRAME_BYTES)).statement
                transform = Transform(self._spark, statement)
            except (GaplessError, WireError) as error:
                connection.send_bytes(encode_answer(Answer(refused=str(error))))
                return
            connection.send_bytes(encode_answer(Answer(reads=transform.reads, selected=transform.selected)))
            schema = records_schema(transform.reads)
            while True:
                rows = decode_batch(connection.recv_bytes(MAX_FRAME_BYTES), schema)
                connection.send_bytes(self.answer(transform, rows))

    def answer(self, transform: Transform, rows: pa.RecordBatch) -> bytes:
        """Return the encoded answer to a batch: its results, or why there are none."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            results = self.apply(transform, rows)
            if results.get_total_buffer_size() > MAX_RESULT_BYTES:
                return encode_answer(Answer(refused=_TOO_LARGE))
            return encode_batch(results, is_results=True)
        except (PySparkException, Py4JError) as error:
            text = str(error)  # fetched from the JVM; it may contain the content of a record
            condition = _SQL_ERROR.search(text)
            if condition is not None:
                return encode_answer(Answer(refused=_advice(condition[1]), row=self._failing_row(transform, rows)))
            failure = machine_failure(text, self._engine)
            if failure is not None:
                return encode_answer(Answer(refused=str(failure), is_temporary=True))
            return _failed(error)
        except OSError as error:
            return _failed(error)

    def apply(self, transform: Transform, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Apply a statement to records. Raises PySparkException and Py4JError.

        Args:
            transform: the statement.
            rows: with the columns of `records_schema` that the statement reads.

        Returns:
            Rows with the columns of `results_schema`, in the order of the records.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if "headers" in columns:
            columns["headers"] = with_header_keys(columns["headers"], pa.string())  # Spark's strings may hold any bytes
        results = transform.apply(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        returned = dict(zip(results.schema.names, results.columns, strict=True))
        if "headers" in returned:
            returned["headers"] = with_header_keys(returned["headers"], pa.binary())
        return pa.RecordBatch.from_arrays(list(returned.values()), schema=results_schema(transform.selected))

    def _failing_row(self, transform: Transform, rows: pa.RecordBatch) -> int | None:
        """Return the first row on which a statement fails, found by halves; ``None`` if it fails on none alone."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
        from pyspark.errors import PySparkException  # noqa: PLC0415

        first, end = 0, rows.num_rows
        while end - first > 1:
            middle = (first + end) // 2
            try:
                self.apply(transform, rows.slice(first, middle - first))
                first = middle
            except (PySparkException, Py4JError):
                end = middle
        return first if end > first else None


def _failed(error: Exception) -> bytes:
    """Return the answer about an exception that may pass; its text is not shown, because it may have content."""
    described = f"{describe(error)}: {error.strerror}" if isinstance(error, OSError) else describe(error)
    log.error("evaluation failed", error=described)
    return encode_answer(Answer(refused=described, is_temporary=True))


def _advice(condition: str) -> str:
    return (
        f"{condition}; use a function that returns null instead, such as try_cast, or leave such records out with "
        f"WHERE."
    )


def _accept(listener: Listener, answers: Evaluator, is_over: threading.Event) -> None:
    while not is_over.is_set():
        try:
            connection = listener.accept()
        except OSError as error:  # it is closed, or a worker could not be accepted, as without file descriptors
            if not is_over.wait(_PAUSE_SECONDS):
                _log_end(error)
            continue
        threading.Thread(target=_serve, args=(answers, connection), name="evaluation", daemon=True).start()


def _serve(answers: Evaluator, connection: Connection) -> None:
    try:
        answers.serve(connection)
    except Exception as error:  # noqa: BLE001 -- it ends this connection only
        _log_end(error)


def _log_end(error: Exception) -> None:
    """Log without the text of an exception, which may have the content of a record."""
    log.error("connection failed", error=describe(error))


@contextmanager
def _listener(path: Path) -> Iterator[Listener]:
    try:
        if path.is_socket():
            path.unlink()
        listener = Listener(str(path), "AF_UNIX", backlog=_WAITING)
    except OSError as error:
        raise LocalStorageError(
            f"The socket {path} cannot be created ({error.strerror or error}); give transformSocket in a folder that "
            f"this user may write to, with a path of at most 100 characters."
        ) from None
    with listener:
        yield listener
