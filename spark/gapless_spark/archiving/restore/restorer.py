"""One run of ``gapless restore``: plan, check the target, fence earlier runs, write, and finish.

Must not know how records are read or written. Nothing is changed before the preflight check has passed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_api.base.errors import ConfigurationError, GaplessError, SourceUnreachableError, UndeliveredError
from gapless_api.cli.reading_progress import Progress, ReadingProgress
from gapless_archive.store.access import access_from
from gapless_archive.store.places import open_place
from gapless_kafka.access.connection import connection_from
from gapless_kafka.topics.consumer_groups import consumer_groups
from gapless_kafka.topics.target_topics import TargetTopics, TopicDescription
from gapless_kafka.writing.control_topic import ControlState, ControlTopic
from gapless_kafka.writing.positions import RunOfWork
from gapless_kafka.writing.takeover import Takeover
from gapless_kafka.writing.transactions import batch_bytes
from gapless_kafka.writing.writer import WriterOptions
from gapless_spark.archiving.restore.engine import RestoreEngine
from gapless_spark.archiving.restore.followed_generations import keep_generations
from gapless_spark.archiving.restore.groups import (
    GroupOffset,
    check_group_offsets,
    commit_group_offsets,
    read_group_offsets,
)
from gapless_spark.archiving.restore.lines import RestoreLines
from gapless_spark.archiving.restore.no_records import reasons_without_records
from gapless_spark.archiving.restore.orders import RunContext, Selection, slot_orders
from gapless_spark.archiving.restore.target import (
    Target,
    change_settings,
    check_targets,
    create_missing,
    restore_settings,
    target_findings,
)
from gapless_spark.archiving.restore.target_records import deleted_from_target
from gapless_spark.archiving.restore.task import PROGRAM, PartitionResult
from gapless_spark.archiving.restore.works import (
    TopicRestore,
    generation_findings,
    layout_findings,
    missing_segment_findings,
    needs_of,
    open_topics,
    plan_restores,
)
from gapless_spark.settings.engine import EngineSettings

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.account import Account
    from gapless_spark.archiving.restore.preflight import Finding
    from gapless_spark.archiving.restore.settings import RestoreSettings

_POSITION_SECONDS = 5.0
_KNOWN_SECONDS, _PAUSE_SECONDS = 30.0, 0.2
"""The timeout for brokers to learn about a new topic, and the pause between two requests."""


@dataclass(slots=True)
class _SparkProgress:
    """The progress of the Spark tasks, according to their positions."""

    restorer: Restorer
    before: int
    looked_at: float = 0.0
    seen: int = 0

    def offsets_read(self) -> int:
        if time.monotonic() - self.looked_at > _POSITION_SECONDS:
            self.looked_at = time.monotonic()
            self.seen = self.restorer.offsets_done() - self.before
        return self.seen


class Restorer:
    """One run of the command."""

    def __init__(self, settings: RestoreSettings, values: Mapping[str, Any], account: Account) -> None:
        """Open the archive and the connection to Kafka. Raises ConfigurationError."""
        self.settings = settings
        self.engine_settings = EngineSettings.of(values)
        self.account = account
        self.access = access_from(values)
        self._bounds = ArchiveBounds.of(values)
        self.address = settings.archive
        if self.address.folder is not None:  # Spark's tasks run in another folder
            self.address = replace(self.address, folder=self.address.folder.absolute())
        self.place = open_place(self.address, self.access)
        self.connection = connection_from(values, client_id="gapless-restore")
        self.topics = TargetTopics(self.connection, timeout_seconds=self.engine_settings.connect_timeout_seconds)
        self.control = ControlTopic(self.connection, self.topics, settings.control_topic, waiting=_log_waiting)
        self.options = WriterOptions(
            control_topic=settings.control_topic,
            compression=settings.compression,
            transactional=settings.delivery == "exactly-once",
        )
        self.restores: list[TopicRestore] = []
        self._begun: dict[tuple[str, str], str] = {}
        """The generation of each region and topic that is followed."""
        self._epochs: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        """The number of slots of the run of each work."""
        self._logged: list[Finding] = []
        self.lines = RestoreLines(account, interval_seconds=self.engine_settings.progress_interval)

    def run(self) -> None:
        """Plan, and write unless only the plan is requested. Raises GaplessError."""
        targets = self.plan_and_check()
        offsets = self._checked_group_offsets()
        timeout_seconds = self.engine_settings.connect_timeout_seconds
        self.account.deleted = deleted_from_target(
            self.restores,
            self.control,
            self.connection,
            timeout_seconds,
            transactional=self.options.transactional,
        )
        self.account.without_records = reasons_without_records(self.restores)
        if self.settings.plan:
            self.lines.plan()
            return
        with self.engine() as engine, self.progress() as progress:
            if any(restore.remaining for restore in self.restores):
                self.prepare(targets)
                skips = self.settings.on_lost == "skip"
                selections = [
                    Selection(restore, plan, plan.ranges | plan.unexplained if skips else plan.ranges, skips)
                    for restore in self.restores
                    for plan in restore.remaining
                ]
                self.account.add_results(self.write(engine, targets, progress, selections))
            else:
                self.create_empty(targets)
            self.lines.progress("done")
            self.finish(offsets)

    def plan_and_check(self) -> list[Target]:
        """Plan, and raise an error for a finding that refuses the restore. Raises GaplessError."""
        targets = self.plan()
        holes = (
            []
            if self.settings.follow
            else missing_segment_findings(self.restores, skips=self.settings.on_lost == "skip")
        )
        about_archive = (*generation_findings(self.restores, self.settings), *layout_findings(self.restores))
        self.account.findings = (*target_findings(targets), *about_archive, *holes)
        self.account.new_topics = tuple(target.created for target in targets if target.created is not None)
        for finding in self.account.findings:
            if finding.refuses:
                raise (SourceUnreachableError if finding.is_transient else ConfigurationError)(finding.sentence)
            if not self.settings.plan and finding not in self._logged:
                self._logged.append(finding)
                _log().warning("preflight", finding=finding.sentence)
        return targets

    def engine(self) -> RestoreEngine:
        """Return what writes records."""
        return RestoreEngine(self.engine_settings, self.settings.spark_above)

    def progress(self) -> ReadingProgress:
        """Return the display of the progress."""
        return ReadingProgress(PROGRAM, interval_seconds=self.engine_settings.progress_interval)

    def plan(self) -> list[Target]:
        """Read the state of the archive and the target, and plan what is left to write. Raises GaplessError."""
        self._open_topics()
        names = [restore.target for restore in self.restores]
        allowed = self.settings.allowed_topics
        if allowed is not None:
            allowed.check(names, what="The restore")
        self.topics.cluster()
        described = self._describe_targets()
        state = self._state()
        follows_newest = self.settings.follow and self.settings.generation is None
        if follows_newest and keep_generations(self.restores, described, state, self._begun):
            self._open_topics()
        plan_restores(self.restores, described, state, self.settings)
        self.account.restores = self.restores
        if not self._epochs and state is not None:
            self.account.restored_before = self._records_done(state)
        return check_targets(needs_of(self.restores, self.settings), self.topics, described)

    def _open_topics(self) -> None:
        self.restores, absent = open_topics(self.place, self.settings, self._begun, self._bounds)
        if absent and absent != self.account.waits_for:
            _log().warning("the restore waits for topics that the archive has nothing of", topics=absent)
        self.account.waits_for = absent

    def prepare(self, targets: Sequence[Target]) -> None:
        """Create missing topics. Raises GaplessError."""
        self.control.ensure()
        create_missing(targets, self.topics, self.settings)
        described = self._wait_for_targets()
        self.options = replace(self.options, batch_bytes=batch_bytes(described.values()))
        plan_restores(self.restores, described, None, self.settings)  # to determine the works of new topics

    def create_empty(self, targets: Sequence[Target]) -> None:
        """Create missing topics of which the archive has no records. Raises GaplessError."""
        if any(target.created is not None for target in targets):
            self.prepare(targets)
            self.account.created_topics = self.account.new_topics

    def _checked_group_offsets(self) -> list[GroupOffset]:
        """Return the positions of consumer groups. Raises ConfigurationError for one that could not be committed."""
        file = self.settings.group_offsets
        if file is None:
            return []
        offsets = read_group_offsets(file, self.settings.group_name)
        allowed = self.settings.allowed_groups
        if allowed is not None:
            allowed.check((each.group for each in offsets), what=f"The file {file} of groupOffsets")
        groups = consumer_groups(self.connection, timeout_seconds=self.engine_settings.connect_timeout_seconds)
        check_group_offsets(offsets, self.restores, groups, skips_lost=self.settings.on_lost == "skip")
        return offsets

    def fence_earlier_runs(self, slots: int) -> ControlState:
        """Fence earlier runs, so that they can no longer write, and plan again from their positions."""
        takeover = self._takeover()
        for restore in self.restores:
            # More slots make another run: a later one must know all slots that it has to fence.
            if slots > self._slots.get(restore.work, 0):
                if restore.work in self._epochs:
                    takeover.state_of_run(restore.work, self._epochs[restore.work])
                run = RunOfWork(
                    epoch=0,
                    slots=slots,
                    source=str(restore.source),
                    source_id=restore.source.topic_id,
                    topic=restore.target,
                    topic_id=restore.target_id,
                    since=restore.limits.since,
                    until=restore.limits.until,
                )
                self._epochs[restore.work] = takeover.begin(restore.work, run).epoch
                self._slots[restore.work] = slots
        state = self.control.state()
        plan_restores(self.restores, self._wait_for_targets(), state, self.settings)
        return state

    def write(
        self, engine: RestoreEngine, targets: Sequence[Target], progress: Progress, selections: Sequence[Selection]
    ) -> dict[str, list[PartitionResult]]:
        """Write the selected offsets, except those that an earlier run has written meanwhile. Raises GaplessError."""
        slots = engine.slots(sum(selection.plan.records for selection in selections))
        is_first = not self._epochs
        state = self.fence_earlier_runs(slots)
        if is_first:
            self.account.restored_before = self._records_done(state)
        self.account.remaining = sum(restore.records for restore in self.restores)
        change_settings(targets, self.restores, state, self.topics, self._takeover(), self.settings)
        progress.begin(sum(selection.ranges.count for selection in selections))
        counter = _SparkProgress(self, self._offsets_done(state))
        common = RunContext(
            epochs=self._epochs,
            place=self.address,
            access=self.access,
            connection=self.connection,
            options=self.options,
            batch_size=self.settings.batch_size,
            skip_refused=self.settings.on_bad_record == "skip-and-record",
        )
        orders = [order for restore in self.restores for order in slot_orders(restore, selections, slots, common)]
        try:
            results = engine.write(orders, progress, counter, lambda: None)  # signals raise exceptions
        except BaseException:
            self._abandon(slots, by_spark=engine.written_by == "spark")
            raise
        self.account.written_by = engine.written_by
        return results

    def finish(self, offsets: Sequence[GroupOffset] = ()) -> None:
        """Restore the settings of targets, commit positions of consumer groups, and report what was not restored.

        Raises:
            UndeliveredError: some offsets could not be read, or records not be written.
            GaplessError: Kafka does not answer, or a position cannot be translated.
        """
        failed = self.account.failures()
        if self.control.exists() and self.account.is_finished:
            self.account.notes += restore_settings(self.restores, self.control.state(), self.topics, self._takeover())
        if failed and not self.account.is_finished:
            raise UndeliveredError(failed)
        if self.account.deleted and not self.account.results:
            raise UndeliveredError(self.account.sentence())
        if offsets:
            self.account.group_offsets = commit_group_offsets(
                offsets,
                self.restores,
                self.control,
                self.topics,
                self.connection,
                self.engine_settings.connect_timeout_seconds,
            )
        if failed:
            raise UndeliveredError(failed)

    def offsets_done(self) -> int:
        """Return about how many source offsets were written in all runs."""
        return self._offsets_done(self.control.state(settled=False))

    def _offsets_done(self, state: ControlState) -> int:
        return sum(
            position.ranges.count for restore in self.restores for position in state.positions(restore.work).values()
        )

    def _records_done(self, state: ControlState) -> int:
        return sum(position.records for restore in self.restores for position in state.positions(restore.work).values())

    def _describe_targets(self) -> dict[str, TopicDescription]:
        return self.topics.describe([restore.target for restore in self.restores])

    def _wait_for_targets(self) -> dict[str, TopicDescription]:
        """Describe all targets; wait until the broker that answers knows the topics that were created.

        Raises:
            SourceUnreachableError: a topic is still missing, or Kafka does not answer.
        """
        deadline = time.monotonic() + _KNOWN_SECONDS
        while True:
            found = self._describe_targets()
            missing = {restore.target for restore in self.restores} - found.keys()
            if not missing:
                return found
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"The topic {min(missing)} was created, but a broker does not know it yet; check the brokers, and "
                    f"run again."
                )
            time.sleep(_PAUSE_SECONDS)

    def _state(self) -> ControlState | None:
        return self.control.state(settled=False) if self.control.exists() else None

    def _takeover(self) -> Takeover:
        return Takeover(self.connection, self.control, self.options, PROGRAM)

    def _abandon(self, slots: int, *, by_spark: bool) -> None:
        """Abort the transactions that Spark tasks have left open, and read the positions of this run."""
        try:
            takeover = self._takeover()
            for work, epoch in self._epochs.items() if by_spark else ():
                run = self.control.run(work)
                if run is not None and run.epoch == epoch:  # otherwise they belong to a later run
                    takeover.fence(work, slots)
            self.account.reached = self.control.state(settled=False)
        except GaplessError as error:  # the error that ended the run is more important
            _log().debug("open transactions will time out", reason=str(error))


def _log_waiting() -> None:
    _log().info("waiting for an open transaction of a terminated program to time out, for two minutes at most")


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
