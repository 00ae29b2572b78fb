"""Owns what a job is, and who reads for it: this process or Spark's tasks, after one look at Kafka.

Must not know what a job computes, nor what becomes of its conclusion.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_spark.runtime.failures import explained
from gapless_spark.runtime.session import Engine, is_local, session
from gapless_spark.runtime.spark_progress import SparkReading, watched
from gapless_spark.runtime.task_reading import TaskReading

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.settings.typed import EngineSettings, JobSettings

MOST_LOCAL_BYTES = 256 * 1024 * 1024
"""About so much of what was read a command holds that reads without Spark."""


class Earlier(Protocol):
    """What earlier runs have read; nobody else changes it while the block lasts."""

    written: str
    """What was written of it in this run, or perhaps was; empty for nothing."""

    def __enter__(self) -> Self:
        """Take hold of it. Raises GaplessError."""

    def __exit__(self, *_: object) -> None:
        """Let go of it."""

    def unread(self, cut: Cut) -> Cut:
        """What of a cut is left to be read. Raises GaplessError."""


class _NothingEarlier(contextlib.nullcontext[Any]):
    written = ""

    def __enter__(self) -> Self:
        return self

    def unread(self, cut: Cut) -> Cut:
        return cut


@dataclass(frozen=True, slots=True)
class Job:
    """What a command reads and what it makes of it."""

    command: str
    topics: tuple[str, ...]
    find: Callable[[TaskReading | None, Cut], Conclusion]
    """Reads with Spark's tasks. Gets no reading when there is nothing to read, which spares the start of Spark."""
    find_locally: Callable[[KafkaConnection, Cut, Progress], Conclusion | None]
    """Reads in this process, without Spark, and says how far it is; ``None`` when more would have to be held than
    `MOST_LOCAL_BYTES`."""
    is_few: Callable[[Cut], bool]
    """Whether ``engine=auto`` reads so much in this process, as that is over before Spark would have started."""
    other_topics: tuple[str, ...] = ()
    """What is read beside `topics`, for their bounds."""
    earlier: Earlier = field(default_factory=_NothingEarlier)
    read_bounds: Callable[[], None] = lambda: None
    """Reads what says what should be there. It is called before Kafka is asked how far the topics reach: what only came
    afterwards would be expected and not read."""


def conclude(job: Job, settings: JobSettings, head: dict[str, Any]) -> tuple[Cut, Conclusion]:
    """Look at Kafka and do the job; `head` of the report is told what was read as soon as that is known.

    Raises:
        GaplessError: the job did not finish, or a topic must not be read.
    """
    engine = settings.engine
    if settings.allowed_topics is not None:
        settings.allowed_topics.check((*job.topics, *job.other_topics), what=f"The {job.command}")
    wanted = reader_of(engine)
    connection = settings.kafka.with_client_id(f"gapless-{job.command}")
    with (
        job.earlier as earlier,
        ReadingProgress(head["command"], interval_seconds=engine.progress_interval) as progress,
    ):
        job.read_bounds()

        def unread() -> Cut:
            there = read_cut(connection, job.topics, timeout_seconds=engine.connect_timeout_seconds)
            cut = earlier.unread(there)
            head["cluster_id"] = there.cluster_id
            head["read"] = [_read(topic) for topic in cut.topics]
            return cut

        cut = unread()
        head["read_by"] = None
        if cut.offsets == 0:
            return cut, job.find(None, cut)
        if wanted == "local" or (wanted == "auto" and job.is_few(cut)):
            head["read_by"] = "local"
            progress.begin(cut.offsets)
            found = job.find_locally(connection, cut, progress)
            if found is not None:
                return cut, found
            if wanted == "local":
                raise ConfigurationError(
                    f"What is in {', '.join(job.topics)} takes more memory than engine=local may use "
                    f"({MOST_LOCAL_BYTES >> 20} MiB); set engine=spark or auto (in a GapScan: engine.reader: Spark)."
                )
        head["read_by"] = "spark"
        return _find_with_spark(job, connection, cut, unread, engine, progress)


def reader_of(settings: EngineSettings) -> Literal["auto", "spark", "local"]:
    """What is to read Kafka; always Spark where somebody has started it, or named machines for it.

    Raises:
        ConfigurationError: ``engine=local`` contradicts that.
    """
    if is_local(settings.master):
        return settings.engine
    if settings.engine == "local":
        raise ConfigurationError(
            "engine=local reads without Spark, and Spark was requested by spark-submit or by the setting master; leave "
            "engine=local out, or run gapless by itself with master=local[*]."
        )
    return "spark"


def _find_with_spark(  # noqa: PLR0913, PLR0917 -- what a job needs
    job: Job,
    connection: KafkaConnection,
    cut: Cut,
    unread: Callable[[], Cut],
    settings: EngineSettings,
    progress: Progress,
) -> tuple[Cut, Conclusion]:
    engine = Engine(f"gapless {job.command}", settings.master, settings.driver_memory)
    _log().info("reading", topics=[topic.topic for topic in cut.topics], offsets=cut.offsets)
    progress.begin(cut.offsets)
    reading = SparkReading(cut)
    with watched(progress, reading), session(engine) as spark:
        cut = unread()  # again, for records expire while Spark starts
        progress.begin(cut.offsets)
        reading.begin(spark)
        with explained(engine):
            return cut, job.find(TaskReading(spark, connection, cut, settings.parallelism), cut)


def _read(topic: Any) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "partitions": len(topic.end_offsets),
        "offsets": topic.offsets,
        "uncommitted": topic.uncommitted,
    }


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
