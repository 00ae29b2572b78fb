"""``gapless scan``: it reads the gaps topic, and writes a bundle of the missing events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.bundle_origin import BundleOrigin, GapTopicLog, origin_member
from gapless_kafka.reading.cuts import Cut, slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.topics.topics import cleanup_policy
from gapless_spark.model.gap_windows import ScanOptions, WindowFindings, read_windows
from gapless_spark.model.scan_outcome import conclude_scan
from gapless_spark.output.jobs import run as run_job
from gapless_spark.runtime.job import MAX_LOCAL_BYTES, Job
from gapless_spark.scan.find_windows import find_in_process, find_with_spark
from gapless_spark.settings.jobs import JobSettings
from gapless_spark.settings.tables import SCAN, ScanSettings

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.runtime.task_reading import TaskReading

_TRANSACTION_SECONDS = 3.0
"""How long to wait for an open transaction: a detector that writes its records in transactions commits several times
per second, and a scan that begins in between must not end with unknown events."""


def run(settings: Resolved, *, command: str = "scan") -> int:
    """Scan as `settings` say and return the exit code. Raises GaplessError."""
    return run_job(*job_of(settings, command=command))


def job_of(settings: Resolved, *, command: str = "scan") -> tuple[Job, Resolved]:
    """Return the job for `settings`, and the complete settings. Raises ConfigurationError for invalid combinations."""
    # `create` has only the peer's settings; the others get their defaults.
    defaults = {setting.name: setting.default for setting in SCAN.settings}
    settings = replace(settings, values={**defaults, **settings.values})
    chosen, job_settings = ScanSettings.of(settings.values), JobSettings.of(settings.values)
    if chosen.infer_tails == "all" and not chosen.infer:
        raise ConfigurationError("inferTails has no effect without infer; give --infer, or delete inferTails.")
    topic = chosen.topic
    skip_stale = not _includes_stale(chosen, command)
    options = ScanOptions(chosen.infer, chosen.infer_tails == "all", skip_stale, chosen.detector_windows)

    def conclude(found: WindowFindings, cut: Cut, policy: str) -> Conclusion:
        has_lost_records = any(first for read in cut.topics for first in read.first_offsets)
        uncommitted = sum(read.uncommitted for read in cut.topics)
        conclusion = conclude_scan(topic, found, policy, has_lost_records=has_lost_records, uncommitted=uncommitted)
        return replace(conclusion, source={**conclusion.source, **origin_member(_origin(cut))})

    def policy_now(connection: KafkaConnection) -> str:
        return cleanup_policy(connection, topic, timeout_seconds=job_settings.engine.connect_timeout_seconds)

    def find(reading: TaskReading | None, cut: Cut) -> Conclusion:
        policy = policy_now(job_settings.kafka.with_client_id(f"gapless-{command}"))
        found = read_windows((), options=options) if reading is None else find_with_spark(reading, options)
        return conclude(found, cut, policy)

    def find_locally(connection: KafkaConnection, cut: Cut, progress: Progress) -> Conclusion | None:
        policy = policy_now(connection)
        records = read_slices(connection, slices_of(cut), progress, headers=False)
        found = find_in_process(records, options, max_bytes=MAX_LOCAL_BYTES)
        return None if found is None else conclude(found, cut, policy)

    def is_few(cut: Cut) -> bool:
        return cut.offsets <= chosen.spark_above

    job = Job(command, (topic,), find, find_locally, is_few, patience_seconds=_TRANSACTION_SECONDS)
    return job, settings


def _origin(cut: Cut) -> BundleOrigin:
    """Return the identity of the gaps topic that was read."""
    logs = tuple(
        GapTopicLog(
            cluster=cut.cluster_id,
            topic=read.topic,
            id=read.id,
            end_offsets=read.end_offsets,
            leader_epochs=read.leader_epochs if min(read.leader_epochs, default=-1) >= 0 else (),
        )
        for read in cut.topics
    )
    return BundleOrigin(gap_topics=logs)


def _includes_stale(chosen: ScanSettings, command: str) -> bool:
    """Return whether records of windows that the detector no longer tracks belong to the bundle.

    Raises:
        ConfigurationError: the settings contradict each other.
    """
    include, skip = chosen.include_stale, chosen.skip_stale
    if include is not None and include == skip:
        raise ConfigurationError("includeStale and skipStale contradict each other; delete one of them.")
    if include is None and skip is None:
        # The peer's create lists all records. Who infers has no audit, and wants whatever may be missing.
        return chosen.infer or command == "create"
    return bool(include) or skip is False
