"""The translation of consumer group offsets to the target: they are read, planned, committed and verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_api.wire.mirror_groups import GroupFinding, GroupMove, GroupReason, GroupsReport
from gapless_kafka.topics.consumer_groups import GroupCommit, UnstableOffsetsError, consumer_groups, group_commits
from gapless_kafka.topics.group_position import publish_position
from gapless_kafka.topics.leaderless import existing_partitions
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.groups.mapped import ControlRecords, control_records, mirrored_partitions
from gapless_mirror.groups.planning import GroupPlan, MirroredPartition, plan_group, unmirrored
from gapless_mirror.lanes.comparisons import compare_all
from gapless_mirror.lanes.control import lane_state, read_lane_records
from gapless_mirror.lanes.layout import lanes_of

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.groups.choice import GroupChoice
    from gapless_mirror.lanes.identity import MirrorIdentity


class GroupTranslation:
    """Translates consumer group offsets from the source to the target of a mirror."""

    def __init__(
        self,
        source: KafkaConnection,
        target: KafkaConnection,
        identity: MirrorIdentity,
        choice: GroupChoice,
        *,
        timeout_seconds: float,
    ) -> None:
        """Kafka is not called before `run`; `timeout_seconds` is the timeout of each request."""
        self._source, self._target = source, target
        self._identity, self._choice, self._timeout = identity, choice, timeout_seconds
        self._topics = TargetTopics(target, timeout_seconds=timeout_seconds)

    def run(self, *, writes: bool) -> GroupsReport:
        """Translate the offsets of all selected groups, and commit them in the target if `writes`.

        Raises:
            ConfigurationError: there is no such mirror, or a record of its control topic cannot be read.
            SourceUnreachableError: a cluster does not answer, or denies access.
        """
        existing = consumer_groups(self._source, timeout_seconds=self._timeout)
        active = consumer_groups(self._target, timeout_seconds=self._timeout)
        groups = self._choice.chosen(existing)
        control = self._control_records()
        copied = {*control.positions, *control.unreadable}
        asked = sorted(copied | set(existing_partitions(self._source, timeout_seconds=self._timeout))) if groups else []
        commits, unstable = self._commits(groups, asked)
        partitions = self._partitions(control, {each for of_group in commits.values() for each in of_group})
        moves: list[GroupMove] = []
        findings = [_no_group(group) for group in self._choice.missing(existing)]
        findings += [_not_allowed(group) for group in self._choice.not_allowed(existing)]
        findings += unstable
        for group in commits:
            unreadable = sorted(commits[group].keys() & control.unreadable.keys())
            findings += [_unreadable(group, each, control) for each in unreadable]
            try:
                plan = self._plan(group, commits[group], partitions, is_active=active.get(group, False))
            except UnstableOffsetsError as error:
                findings.append(_transaction_open(group, error))
                continue
            if writes and plan.writes:
                plan = self._write(group, plan)
            moves += plan.moves
            findings += [*plan.findings, *unmirrored(group, commits[group], copied, self._identity.name)]
        return GroupsReport(
            name=self._identity.name, groups=tuple(groups), moves=tuple(moves), findings=tuple(findings)
        )

    def _commits(
        self, groups: Iterable[str], partitions: Sequence[TopicPartition]
    ) -> tuple[dict[str, dict[TopicPartition, GroupCommit]], list[GroupFinding]]:
        """Return what groups have committed in the source, and findings about those of which it is not known yet."""
        commits, findings = {}, []
        for group in groups:
            try:
                commits[group] = group_commits(self._source, group, partitions, timeout_seconds=self._timeout)
            except UnstableOffsetsError as error:
                findings.append(_transaction_open(group, error))
        return commits, findings

    def _control_records(self) -> ControlRecords:
        name = self._identity.control_topic
        topic = self._topics.describe([name]).get(name)
        if topic is None:
            raise ConfigurationError(
                f"Kafka at {self._target.bootstrap_servers} has no mirror {self._identity.name} (there is no topic "
                f"{name}); correct name or targetBootstrapServers."
            )
        read = read_lane_records(self._target, name, range(topic.partitions))
        states = {lane: lane_state(each.records, name, lane) for lane, each in read.items()}
        lanes = lanes_of(name, topic.partitions, states)
        return control_records(name, {lane: read[lane].records for lane in range(lanes)})

    def _partitions(
        self, control: ControlRecords, needed: set[TopicPartition]
    ) -> dict[TopicPartition, MirroredPartition]:
        if not needed:
            return {}
        positions = {each: control.positions[each] for each in needed if each in control.positions}
        compared = compare_all(positions, self._source, self._target, timeout_seconds=self._timeout)
        return mirrored_partitions(control, needed, compared)

    def _plan(
        self,
        group: str,
        source: Mapping[TopicPartition, GroupCommit],
        partitions: Mapping[TopicPartition, MirroredPartition],
        *,
        is_active: bool,
    ) -> GroupPlan:
        targets = [(partitions[each].target, each[1]) for each in sorted(source) if each in partitions]
        # The partitions of a deleted topic have no positions, and no end.
        target = group_commits(self._target, group, targets, timeout_seconds=self._timeout) if targets else {}
        end = partial(self._topics.end_offset, committed=True)
        return plan_group(group, source, target, partitions, is_active=is_active, end=end)

    def _write(self, group: str, plan: GroupPlan) -> GroupPlan:
        """Commit the planned offsets, and read them again."""
        problem = ""
        try:
            publish_position(self._target, group, plan.writes, timeout_seconds=self._timeout, metadata=plan.metadata)
        except GaplessError as error:
            problem = str(error)
        committed = group_commits(self._target, group, list(plan.writes), timeout_seconds=self._timeout)
        moves, findings = [], list(plan.findings)
        for move in plan.moves:
            is_committed = committed.get((move.target, move.partition)) == (move.target_offset, move.metadata)
            if move.state != "planned":
                moves.append(move)
            elif is_committed and not problem:
                moves.append(replace(move, state="moved"))
            else:
                reason = f" ({problem})" if problem else ""
                sentence = (
                    f"The position of group {group} in {move.target}/{move.partition} was not "
                    f"committed{reason}; stop the members of the group at the target and translate again."
                )
                findings.append(
                    GroupFinding(
                        group=group,
                        topic=move.topic,
                        partition=move.partition,
                        reason="NotConfirmed",
                        message=sentence,
                    )
                )
        return GroupPlan(tuple(moves), tuple(findings))


def _about_group(group: str, reason: GroupReason, message: str) -> GroupFinding:
    return GroupFinding(group=group, topic=None, partition=None, reason=reason, message=message)


def _no_group(group: str) -> GroupFinding:
    return _about_group(group, "NoGroup", f"The source has no consumer group {group}; correct groups.")


def _transaction_open(group: str, error: UnstableOffsetsError) -> GroupFinding:
    return _about_group(group, "TransactionOpen", f"Group {group} was not translated. {error}")


def _not_allowed(group: str) -> GroupFinding:
    sentence = f"Group {group} was not translated: allowedGroups does not list it; list it in groups, or leave it out."
    return _about_group(group, "GroupNotAllowed", sentence)


def _unreadable(group: str, topic_partition: TopicPartition, control: ControlRecords) -> GroupFinding:
    topic, partition = topic_partition
    return GroupFinding(
        group=group,
        topic=topic,
        partition=partition,
        reason="PositionUnreadable",
        message=f"Group {group} was not translated in {topic}/{partition}. {control.unreadable[topic_partition]}",
    )
