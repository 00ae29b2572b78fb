"""How a cut is given to Spark's tasks: how many there are, and that no secret travels to executors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.runtime import task_reading
from gapless_spark.runtime.task_reading import TaskReading

CORES = 4


class Session:
    """Keeps what would be sent to executors."""

    sparkContext = SimpleNamespace(defaultParallelism=CORES)  # noqa: N815 -- Spark's name

    def __init__(self) -> None:
        self.ranges: list[tuple[int, ...]] = []
        self.sent = b""

    def range(self, *bounds: int) -> Session:
        self.ranges.append(bounds)
        return self


@pytest.fixture(autouse=True)
def _sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(session: Session, function: Any, _schema: str) -> Session:
        session.sent = cloudpickle.dumps(function)
        return session

    monkeypatch.setattr(task_reading, "map_in_arrow", send)


def reading(session: Session, offsets: int, min_tasks: int | None = None, **connection: Any) -> TaskReading:
    kafka = KafkaConnection(bootstrap_servers="kafka:9092", **connection)
    cut = Cut("cluster", (TopicCut("t", (0, 0), (offsets - offsets // 3, offsets // 3), 0),))
    return TaskReading(session, kafka, cut, min_tasks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offsets", "least", "tasks"),
    [
        (500, None, 1),
        (60_000, None, 3),
        (1_000_000, None, 3 * CORES),
        (100_000_000, None, 50),
        (500, 8, 8),
        (100_000_000, 8, 50),
    ],
)
def test_tasks_suit_the_cores_and_the_cut(offsets: int, least: int | None, tasks: int) -> None:
    session = Session()
    found = reading(session, offsets, least)
    found.fold(lambda _: iter(()), "x long")
    assert found.tasks == tasks
    assert session.ranges == [(0, tasks, 1, tasks)]


def test_executors_get_the_paths_of_secrets_and_not_their_contents(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("of-nobody-s-business")
    session = Session()
    given = {"sasl_mechanism": "PLAIN", "sasl_username": "reader", "sasl_password_file": password}
    found = reading(session, 500, **given)
    assert found.connection.sasl_password() == "of-nobody-s-business"
    found.fold(lambda _: iter(()), "x long")
    assert tmp_path.name.encode() in session.sent
    assert b"of-nobody-s-business" not in session.sent
