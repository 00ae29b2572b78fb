"""What a worker and the process that evaluates its SQL send each other, and its version.

A frame is one message of `multiprocessing.connection`, which carries bytes here and never objects. The worker sends a
`Statement`, and then batches of records; the other side answers each of them with one frame. The first byte of an
answer says what follows: an `Answer` in JSON, or a batch of results as an Arrow stream.

The worker holds passwords, and the evaluating process runs the SQL of a user. So the worker takes nothing from an
answer but the selected columns: it names its records by their row in the batch, and checks every answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from gapless_api.base.extras import not_installed
from gapless_api.wire.form import WireError, parse_json
from gapless_mirror.sql.messages import ANSWER, COLUMNS, SELECTABLE, STATEMENT, Answer, Statement

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RECORDS, MAX_BATCH_BYTES = 4096, 4 * 1024 * 1024
"""In one batch; a larger record is a batch of its own."""
MAX_FRAME_BYTES = 256 * 1024 * 1024
MAX_RESULT_BYTES = MAX_FRAME_BYTES // 2
"""Of the columns in one batch of results."""
MAX_WORDS_BYTES = 1024 * 1024
ROW = "row"
"""The column with the index of a record in its batch."""
_JSON, _RESULTS = b"J", b"R"
_MAX_SENTENCE = 4096


def arrow() -> Any:
    """Return the module pyarrow. Raises ConfigurationError if it is not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415 -- only a mirror with a transform needs it
    except ModuleNotFoundError:
        raise not_installed("pyarrow") from None
    return pa


def records_schema(reads: Collection[str] = COLUMNS) -> pa.Schema:
    """Return the columns of the records that a worker sends, which are those of `reads`; rows are numbered from 0."""
    module = arrow()
    kinds = {
        "key": module.binary(),
        "value": module.binary(),
        "headers": module.list_(module.struct([("key", module.binary()), ("value", module.binary())])),
        "topic": module.string(),
        "partition": module.int32(),
        "offset": module.int64(),
        "timestamp": module.timestamp("us", "UTC"),
    }
    return module.schema([(name, kinds[name]) for name in reads])


def results_schema(selected: Collection[str]) -> pa.Schema:
    """Return the columns of the results: the row of a record that is kept, and the selected columns."""
    module = arrow()
    headers = records_schema().field("headers").type
    kinds = [(name, headers if name == "headers" else module.binary()) for name in selected]
    return module.schema([(ROW, module.int32()), *kinds])


def encode_statement(statement: str) -> bytes:
    """Encode the first message of a worker."""
    return json.dumps(STATEMENT.to_json(Statement(statement=statement))).encode()


def decode_statement(frame: bytes) -> Statement:
    """Decode the first message of a worker. Raises WireError."""
    return STATEMENT.from_json(_json(frame))


def encode_answer(answer: Answer) -> bytes:
    """Encode an answer without results."""
    return _JSON + json.dumps(ANSWER.to_json(answer)).encode()


def encode_batch(rows: pa.RecordBatch, *, is_results: bool) -> bytes:
    """Encode records, or results."""
    module = arrow()
    sink = module.BufferOutputStream()
    with module.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    encoded: bytes = sink.getvalue().to_pybytes()
    return _RESULTS + encoded if is_results else encoded


def decode_answer(frame: bytes, schema: pa.Schema | None) -> Answer | pa.RecordBatch:
    """Decode an answer.

    Args:
        frame: the frame.
        schema: of the results; ``None`` where none may come.

    Raises:
        WireError: it is neither an `Answer` nor results with this schema.
    """
    if frame[:1] == _JSON:
        answer = ANSWER.from_json(_json(frame[1:]))
        for named, columns in ((answer.selected, SELECTABLE), (answer.reads, COLUMNS)):
            if not set(named) <= set(columns) or len(set(named)) < len(named):
                raise WireError("it reads or selects columns that a statement cannot have")
        if len(answer.refused) > _MAX_SENTENCE or not answer.refused.isprintable():
            raise WireError("its reason is no sentence")  # a line feed could begin a line of the worker's own log
        return answer
    if frame[:1] != _RESULTS or schema is None:
        raise WireError("it is of an unknown kind")
    return decode_batch(frame[1:], schema)


def decode_batch(content: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Decode one batch, and check every buffer of it. Raises WireError unless it has the columns of `schema`."""
    module = arrow()
    try:
        with module.ipc.open_stream(content) as stream:
            if not stream.schema.equals(schema):
                raise WireError("it has other columns")
            batch = stream.read_next_batch()
            batch.validate(full=True)
    except (module.ArrowException, StopIteration, OSError) as error:
        raise WireError(f"it cannot be read ({type(error).__name__})") from None
    return batch


def _json(frame: bytes) -> Any:
    if len(frame) > MAX_WORDS_BYTES:
        raise WireError(f"it has {len(frame):,} bytes")
    return parse_json(frame.decode("utf-8", "replace"))
