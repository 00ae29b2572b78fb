"""The checks of what a worker takes from the process that evaluates its SQL, which runs a stranger's statement."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_mirror.sql import evaluation
from gapless_mirror.sql.evaluation import Evaluation, Transform
from gapless_mirror.sql.exchange import decode_batch, encode_answer, encode_batch, records_schema, results_schema
from gapless_mirror.sql.messages import COLUMNS, Answer

SELECTED = ("value", "topic")
Reply = Callable[[bytes], bytes]


class Record:
    """A record of Kafka's client."""

    def __init__(self, offset: int, value: bytes | None = b"v", key: bytes | None = b"k") -> None:
        self._offset, self._value, self._key = offset, value, key
        self.pairs: list[tuple[bytes, bytes | None]] | None = [(b"\xff", None), (b"a", b"")] if offset else None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000) if self._offset else (0, -1)

    def leader_epoch(self) -> int:
        return 7

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[bytes, bytes | None]] | None:
        return self.pairs


@contextmanager
def answering(folder: Path, answers: Sequence[bytes | Reply]) -> Iterator[Transform]:
    """Answer each frame of a worker with the next of `answers`, and then end."""
    path = folder / "s"
    listener = Listener(str(path), "AF_UNIX")

    def serve() -> None:
        with listener.accept() as connection, suppress(BrokenPipeError):
            for answer in answers:
                frame = connection.recv_bytes()
                connection.send_bytes(answer if isinstance(answer, bytes) else answer(frame))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield Transform(statement="SELECT …", socket=path, targets=frozenset({"errors"}))
    thread.join(10)


def accepted(*selected: str, reads: tuple[str, ...] = COLUMNS) -> bytes:
    return encode_answer(Answer(reads=reads, selected=selected))


def results(rows: Sequence[int | None], **columns: Sequence[Any]) -> bytes:
    schema = results_schema(tuple(columns))
    arrays = [pa.array(values, schema.field(name).type) for name, values in {"row": rows, **columns}.items()]
    return encode_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), is_results=True)


def test_a_worker_sends_all_of_a_record_and_takes_only_what_is_selected(tmp_path: Path) -> None:
    sent: list[bytes] = []

    def reply(frame: bytes) -> bytes:
        sent.append(frame)
        return results([0, 2], value=[None, b"new"], topic=[None, b"errors"])

    records = [Record(0, None, None), Record(1), Record(2, b"")]
    with answering(tmp_path, [accepted(*SELECTED), reply]) as transform:
        applied = Evaluation(transform).apply(records)
    rows = decode_batch(sent[0], records_schema()).to_pylist()
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("orders", 3, n) for n in range(3)]
    assert (rows[0]["timestamp"], rows[0]["key"], rows[0]["value"], rows[0]["headers"]) == (None, None, None, [])
    assert rows[1]["headers"] == [{"key": b"\xff", "value": None}, {"key": b"a", "value": b""}]
    assert rows[2]["value"] == b""
    first, left_out, last = applied
    assert (first.key(), first.value(), first.headers(), first.target) == (None, None, None, None)
    assert (left_out.is_dropped, left_out.offset(), left_out.leader_epoch()) == (True, 1, 7)
    assert (last.key(), last.value(), last.headers(), last.target) == (b"k", b"new", records[2].headers(), "errors")
    assert (last.is_dropped, last.offset(), last.timestamp()) == (False, 2, (1, 1_700_000_000_000))


def test_a_worker_sends_nothing_but_what_the_statement_reads(tmp_path: Path) -> None:
    sent: list[bytes] = []

    def reply(frame: bytes) -> bytes:
        sent.append(frame)
        return results([0], value=[b"new"])

    with answering(tmp_path, [accepted("value", reads=("offset", "key")), reply]) as transform:
        (applied,) = Evaluation(transform).apply([Record(4)])
    assert decode_batch(sent[0], records_schema(("offset", "key"))).to_pylist() == [{"offset": 4, "key": b"k"}]
    assert applied.value() == b"new"


def test_headers_that_are_selected_replace_all_of_a_record(tmp_path: Path) -> None:
    pairs = [[{"key": b"\xfe", "value": b"1"}, {"key": b"a", "value": None}], [], None]
    with answering(tmp_path, [accepted("headers"), results([0, 1, 2], headers=pairs)]) as transform:
        applied = Evaluation(transform).apply([Record(1), Record(2), Record(3)])
    assert [each.headers() for each in applied] == [[(b"\xfe", b"1"), (b"a", None)], None, None]


def test_records_are_sent_in_batches_that_fit_into_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_RECORDS", 3)
    monkeypatch.setattr(evaluation, "MAX_BATCH_BYTES", 1000)
    sizes: list[list[int]] = []

    def reply(frame: bytes) -> bytes:
        offsets = decode_batch(frame, records_schema()).column("offset").to_pylist()
        sizes.append(offsets)
        return results(range(len(offsets)), value=[b"%d" % offset for offset in offsets], topic=[None] * len(offsets))

    records = [Record(n, b"x" * (900 if n in {4, 5} else 1)) for n in range(8)]
    records[7].pairs = [(b"h", b"x" * 900)]
    with answering(tmp_path, [accepted(*SELECTED), *[reply] * 6]) as transform:
        applied = Evaluation(transform).apply(records)
    assert sizes == [[0, 1, 2], [3], [4], [5], [6], [7]]
    assert [each.value() for each in applied] == [b"%d" % n for n in range(8)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (results([0, 0], value=[b"", b""], topic=[None, None]), "other rows"),
        (results([1, 0], value=[b"", b""], topic=[None, None]), "other rows"),
        (results([2], value=[b""], topic=[None]), "other rows"),
        (results([-1], value=[b""], topic=[None]), "other rows"),
        (results([None], value=[b""], topic=[None]), "other rows"),
        (results([0], value=[b""]), "other columns"),
        (results([0], topic=[None], value=[b""]), "other columns"),
        (b"R" + b"\0" * 40, "cannot be read"),
        (results([0], value=[b"x" * 100], topic=[None])[:-60], "cannot be read"),
        (b"X", "unknown kind"),
        (b"", "unknown kind"),
        (b"J[]", "no version"),
        (b"J" + json.dumps({"gaplessAnswer": 2}).encode(), "version 2"),
        (b"J" + b"{" * 100_000, "no version"),
        (accepted(*SELECTED), "no results"),
        (encode_answer(Answer(refused='no.\n{"event":"mirror-progress"}')), "no sentence"),
        (encode_answer(Answer(refused="no. " * 2000)), "no sentence"),
        (encode_answer(Answer(refused="Java is tired", is_temporary=True)), "Java is tired"),
    ],
)
def test_an_answer_that_is_not_one_is_never_taken_for_results(tmp_path: Path, answer: bytes, words: str) -> None:
    with answering(tmp_path, [accepted(*SELECTED), answer]) as transform:
        opened = Evaluation(transform)
        with pytest.raises(SourceStalledError, match=words) as raised:
            opened.apply([Record(0), Record(1)])
        opened.close()
    assert "container sql of the pod" in str(raised.value)


@pytest.mark.parametrize("selected", [("offset",), ("value", "value"), ("row",)])
def test_columns_that_no_statement_can_select_are_refused(tmp_path: Path, selected: tuple[str, ...]) -> None:
    for answer in (accepted(*selected), accepted(reads=(*selected, "password")), accepted(reads=())):
        with answering(tmp_path, [answer]) as transform, pytest.raises(SourceStalledError, match="reads"):
            Evaluation(transform)


def test_a_refused_statement_is_a_matter_of_the_user(tmp_path: Path) -> None:
    answer = encode_answer(Answer(refused="The transform cannot be applied: it is not valid SQL."))
    with answering(tmp_path, [answer]) as transform, pytest.raises(ConfigurationError, match="not valid SQL"):
        Evaluation(transform)


def test_a_topic_that_is_not_allowed_ends_the_mirror_and_is_not_shown(tmp_path: Path) -> None:
    with answering(tmp_path, [accepted("topic"), results([1], topic=[b"payroll"])]) as transform:
        opened = Evaluation(transform)
        with pytest.raises(
            ConfigurationError, match="record orders/3/1 to a topic that is not in transformT"
        ) as raised:
            opened.apply([Record(0), Record(1)])
        opened.close()
    assert "payroll" not in str(raised.value), "a topic may be made from the content of a record"


@pytest.mark.parametrize(("row", "words"), [(1, "on the record orders/3/1: "), (None, "orders/3/0 to orders/3/1")])
def test_a_failure_names_the_record(tmp_path: Path, row: int | None, words: str) -> None:
    failed = encode_answer(Answer(refused="CAST_INVALID_INPUT; use try_cast.", row=row))
    with answering(tmp_path, [accepted("value"), failed]) as transform:
        opened = Evaluation(transform)
        with pytest.raises(ConfigurationError, match=words):
            opened.apply([Record(0), Record(1)])
        opened.close()


def test_an_evaluation_that_ends_or_is_not_there_is_not_silence(tmp_path: Path) -> None:
    with answering(tmp_path, [accepted("value")]) as transform:
        opened = Evaluation(transform)
        with pytest.raises(SourceStalledError, match="does not answer"):
            opened.apply([Record(0)])
        opened.close()
    with pytest.raises(SourceStalledError, match="No such file or directory for 0 s"):
        Evaluation(Transform(statement="", socket=tmp_path / "none"), patience_seconds=0)


def test_a_worker_that_is_stopped_waits_for_no_answer(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    is_stopping = threading.Event()

    def pulse() -> None:
        if is_stopping.is_set():
            raise StopError

    def reply(_frame: bytes) -> bytes:
        is_stopping.set()
        threading.Event().wait(2)
        return accepted()

    with answering(tmp_path, [accepted("value"), reply]) as transform:
        opened = Evaluation(transform, pulse=pulse)
        with pytest.raises(StopError):
            opened.apply([Record(0)])
        opened.close()
