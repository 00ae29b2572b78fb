"""Owns what a mirror finds out before it starts: which clusters these are, and which mirrors write to its source."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.provenance import ALWAYS, Provenance
from gapless_kafka.mirror.lanes.records import FlowRecord
from gapless_kafka.mirror.topics.assembly import rename_rule
from gapless_kafka.mirror.topics.loops import CONTROL_TOPIC_PREFIX, Flow, refuse_loop
from gapless_kafka.mirror.topics.names import RenameRule
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import TopicChoice, choice_from, existing_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_kafka.access.connection import KafkaConnection

log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True)
class Clusters:
    """The two clusters of a mirror."""

    ours: Flow
    """What the mirror does."""
    others: tuple[Flow, ...] = ()
    """Mirrors whose target is our source."""
    goes_both_ways: bool = False
    """Whether one of them copies from our target, or may."""

    @property
    def provenance(self) -> Provenance:
        """What happens to the header of each record."""
        ours = self.ours
        return Provenance(
            ours.provenance,
            source_id=ours.source_id,
            target_id=ours.target_id,
            goes_both_ways=self.goes_both_ways,
        )

    @property
    def record(self) -> FlowRecord:
        """What the control topic tells other mirrors."""
        effective = ALWAYS if self.provenance.adds else self.ours.provenance
        return flow_record(replace(self.ours, provenance=effective))

    def refuse(self, topic: str) -> None:
        """Refuse a source topic that would come back. Raises ConfigurationError."""
        refuse_loop(self.ours, [topic], self.others)


def look_at_clusters(values: Mapping[str, Any], source: KafkaConnection, target: KafkaConnection) -> Clusters:
    """Ask both clusters who they are, and the source for mirrors that write to it.

    Raises:
        ConfigurationError: settings do not fit together.
        SourceUnreachableError: a cluster does not answer, or refuses us.
    """
    timeout = values["connectTimeout"]
    ours = Flow(
        name=values["name"],
        source_id=TargetTopics(source, timeout_seconds=timeout).cluster().id,
        target_id=TargetTopics(target, timeout_seconds=timeout).cluster().id,
        choice=choice_from(values),
        rename=rename_rule(values),
        provenance=values["provenance"],
    )
    found = existing_topics(source, timeout_seconds=timeout)
    controls = sorted(topic for topic in found if topic.startswith(CONTROL_TOPIC_PREFIX))
    if ours.source_id == ours.target_id:
        controls = [topic for topic in controls if topic != CONTROL_TOPIC_PREFIX + ours.name]
    flows, unknown = [], False
    for topic in controls:
        try:
            record = read_lanes(source, topic, [0])[0].flow
        except GaplessError as error:
            log.warning("mirror not checked for loops", topic=topic, reason=str(error))
            unknown = True
            continue
        if record is not None:
            flows.append(flow_of(topic.removeprefix(CONTROL_TOPIC_PREFIX), record))
    goes_both_ways = unknown or any(flow.source_id == ours.target_id for flow in flows)
    return Clusters(ours, tuple(flows), goes_both_ways)


def flow_record(flow: Flow) -> FlowRecord:
    """A flow as the control topic holds it."""
    choice = flow.choice
    return FlowRecord(
        source_id=flow.source_id,
        target_id=flow.target_id,
        topics=choice.names,
        prefixes=choice.prefixes,
        pattern=choice.pattern.pattern if choice.pattern is not None else None,
        excluded=tuple(pattern.pattern for pattern in choice.excluded),
        rename=flow.rename.template,
        source_name=flow.rename.source_name,
        provenance=flow.provenance,
    )


def flow_of(name: str, record: FlowRecord) -> Flow:
    """The flow of a mirror, from its control topic."""
    choice = TopicChoice(
        record.topics,
        record.prefixes,
        re.compile(record.pattern) if record.pattern is not None else None,
        tuple(re.compile(pattern) for pattern in record.excluded),
    )
    return Flow(
        name=name,
        source_id=record.source_id,
        target_id=record.target_id,
        choice=choice,
        rename=RenameRule(record.rename, record.source_name),
        provenance=record.provenance,
    )
