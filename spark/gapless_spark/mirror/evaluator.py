"""Owns the process that evaluates the SQL of a mirror: it answers workers on a socket, and needs nothing of Kafka.

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
    ROW,
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
_WAITING = 128
"""How many workers may wait to be accepted."""
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
        threading.Thread(target=_accept, args=(listener, answers), name="evaluator", daemon=True).start()
        yield answers


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
            connection.send_bytes(encode_answer(Answer(selected=transform.selected)))
            schema = records_schema()
            while True:
                rows = decode_batch(connection.recv_bytes(MAX_FRAME_BYTES), schema)
                connection.send_bytes(self.answer(transform, rows))

    def answer(self, transform: Transform, rows: pa.RecordBatch) -> bytes:
        """Return the encoded answer to a batch: its results, or why there are none."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            return encode_batch(self.apply(transform, rows), is_results=True)
        except (PySparkException, Py4JError) as error:
            text = str(error)  # fetched from the JVM; it may contain the content of a record
            condition = _SQL_ERROR.search(text)
            if condition is not None:
                return encode_answer(Answer(refused=_advice(condition[1]), row=self._failing_row(transform, rows)))
            failure = machine_failure(text, self._engine)
            if failure is not None:
                return encode_answer(Answer(refused=str(failure), is_temporary=True))
            log.exception("evaluation failed", error=describe(error))
            return encode_answer(Answer(refused=f"Spark failed ({describe(error)})", is_temporary=True))

    def apply(self, transform: Transform, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Apply a statement to records. Raises PySparkException and Py4JError.

        Args:
            transform: the statement.
            rows: with the columns of `records_schema`.

        Returns:
            Rows with the columns of `results_schema`, in the order of the records.
        """
        numbers = pa.array(range(rows.num_rows), pa.int32())
        headers = with_header_keys(rows.column("headers"), pa.string())  # Spark's strings may hold any bytes
        columns = [*rows.columns[:-1], headers, numbers]
        table = pa.Table.from_arrays(columns, names=[*rows.schema.names, ROW])
        results = transform.apply(self._spark.createDataFrame(table)).toArrow().combine_chunks()
        schema = results_schema(transform.selected)
        by_name = {name: _column(results, name, schema.field(name).type) for name in schema.names}
        if "headers" in by_name:
            by_name["headers"] = with_header_keys(by_name["headers"], pa.binary())
        return pa.RecordBatch.from_arrays(list(by_name.values()), schema=schema)

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


def _column(results: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    column = results.column(name)
    if column.num_chunks:
        return column.chunk(0)
    return pa.array([], column.type if name == "headers" else kind)


def _advice(condition: str) -> str:
    return (
        f"{condition}; use a function that returns null instead, such as try_cast, or leave such records out with "
        f"WHERE."
    )


def _accept(listener: Listener, answers: Evaluator) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:  # it is closed
            return
        threading.Thread(target=_serve, args=(answers, connection), name="evaluation", daemon=True).start()


def _serve(answers: Evaluator, connection: Connection) -> None:
    try:
        answers.serve(connection)
    except Exception as error:
        log.exception("connection failed", error=describe(error))


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
