"""What a job is, and what reads Kafka for it: this process or Spark's tasks, depending on the number of offsets.

Must not know what a job computes, nor how its conclusion is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import how_to_install, not_installed
from gapless_api.cli.reading_progress import Progress, ReadingProgress
from gapless_kafka.reading.topic_offsets import read_settled_cut
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.session import Engine, is_installed, is_local, session
from gapless_spark.runtime.spark_progress import SparkReading, report_progress
from gapless_spark.runtime.task_reading import TaskReading

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.settings.engine import EngineSettings
    from gapless_spark.settings.jobs import JobSettings

MAX_LOCAL_BYTES = 256 * 1024 * 1024
"""The approximate limit of memory for what a command holds that reads without Spark."""
_WITH_SPARK = "set engine=spark or auto (in a GapScan: engine.reader: Spark)"


class PreviousReads(Protocol):
    """What earlier runs have read; in a folder it is locked inside the ``with`` block."""

    written: str
    """What this run has written of it, or may have; empty for nothing."""

    def __enter__(self) -> Self:
        """Lock it. Raises GaplessError."""

    def __exit__(self, *_: object) -> None:
        """Release it."""

    def unread(self, cut: Cut) -> Cut:
        """Return the part of a cut that is left to read. Raises GaplessError."""


class _NoPreviousReads(contextlib.nullcontext[Any]):
    written = ""

    def __enter__(self) -> Self:
        return self

    def unread(self, cut: Cut) -> Cut:
        return cut


@dataclass(frozen=True, slots=True)
class Job:
    """What a command reads, and how it finds its conclusion."""

    command: str
    topics: tuple[str, ...]
    find: Callable[[TaskReading | None, Cut], Conclusion]
    """Reads with Spark's tasks. There is no reading if there is nothing to read, so that Spark need not start."""
    find_locally: Callable[[KafkaConnection, Cut, Progress], Conclusion | None]
    """Reads in this process, without Spark, and reports progress; ``None`` if it needs more memory than
    `MAX_LOCAL_BYTES`."""
    is_few: Callable[[Cut], bool]
    """Whether ``engine=auto`` reads a cut in this process, which is faster than Spark starts."""
    other_topics: tuple[str, ...] = ()
    """Topics that are read to determine what is expected in `topics`."""
    patience_seconds: float = 0.0
    """How long to wait for transactions in `topics` that are open when the job begins."""
    previous: PreviousReads = field(default_factory=_NoPreviousReads)
    read_bounds: Callable[[], None] = lambda: None
    """Reads what is expected. It is called before the end offsets of the topics are read: events that came later would
    be expected and not read."""


def conclude(job: Job, settings: JobSettings, head: dict[str, Any]) -> tuple[Cut, Conclusion]:
    """Run the job on the unread offsets of its topics, and add what is read to `head` of the report.

    Raises:
        GaplessError: the job did not finish, or a topic must not be read.
    """
    engine = settings.engine
    if settings.allowed_topics is not None:
        settings.allowed_topics.check((*job.topics, *job.other_topics), what=f"The {job.command}")
    reader = reader_of(engine)
    connection = settings.kafka.with_client_id(f"gapless-{job.command}")
    with (
        job.previous as previous,
        ReadingProgress(head["command"], interval_seconds=engine.progress_interval) as progress,
    ):
        job.read_bounds()

        def unread() -> Cut:
            everything = read_settled_cut(
                connection,
                job.topics,
                timeout_seconds=engine.connect_timeout_seconds,
                patience_seconds=job.patience_seconds,
            )
            cut = previous.unread(everything)
            head["cluster_id"] = everything.cluster_id
            head["read"] = [_read(topic) for topic in cut.topics]
            return cut

        cut = unread()
        head["read_by"] = None
        if cut.offsets == 0:
            return cut, job.find(None, cut)
        if reader == "local" or (reader == "auto" and job.is_few(cut)):
            head["read_by"] = "local"
            progress.begin(cut.offsets)
            conclusion = job.find_locally(connection, cut, progress)
            if conclusion is not None:
                return cut, conclusion
            if reader == "local":
                raise ConfigurationError(
                    f"Reading {', '.join(job.topics)} takes more memory than this process may use for it "
                    f"({MAX_LOCAL_BYTES >> 20} MiB); {_WITH_SPARK if is_installed() else how_to_install('spark')}."
                )
        head["read_by"] = "spark"
        return _find_with_spark(job, connection, cut, unread, engine, progress)


def reader_of(settings: EngineSettings) -> Literal["auto", "spark", "local"]:
    """Return what reads Kafka; always Spark under spark-submit, or with a master on other machines.

    If PySpark is not installed, ``auto`` is this process.

    Raises:
        ConfigurationError: ``engine=local`` contradicts that, or PySpark is not installed and Spark is requested.
    """
    if settings.engine != "local" and not is_installed():
        if settings.engine == "spark" or not is_local(settings.master):
            raise not_installed("pyspark")
        return "local"
    if is_local(settings.master):
        return settings.engine
    if settings.engine == "local":
        raise ConfigurationError(
            "engine=local reads without Spark, but spark-submit or the setting master requests Spark; leave out "
            "engine=local, or run gapless without spark-submit and with master=local[*]."
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
    with report_progress(progress, reading), session(engine) as spark:
        cut = unread()  # again, because records expire while Spark starts
        progress.begin(cut.offsets)
        reading.begin(spark)
        with translate_spark_errors(engine):
            return cut, job.find(TaskReading(spark, connection, cut, settings.parallelism), cut)


def _read(topic: Any) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "id": topic.id,
        "partitions": len(topic.end_offsets),
        "offsets": topic.offsets,
        "uncommitted": topic.uncommitted,
    }


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
