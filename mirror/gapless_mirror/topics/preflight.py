"""The checks before a mirror starts: the cluster IDs, and the mirrors that write to its source."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.access.errors import TopicMissingError
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import TopicChoice, choice_from, existing_topics
from gapless_mirror.lanes.control import read_first_lanes
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, Provenance
from gapless_mirror.lanes.records import FlowRecord, OppositeFlow
from gapless_mirror.topics.assembly import rename_rule
from gapless_mirror.topics.loops import (
    CONTROL_TOPIC_PREFIX,
    Flow,
    mirror_back,
    opposite_to,
    refuse_loop,
    why_returned,
)
from gapless_mirror.topics.names import RenameRule

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

_STARTUP_SECONDS, _STARTUP_INTERVAL_SECONDS, _INTERVAL_SECONDS = 180.0, 10.0, 600.0
"""During start-up, mirrors in the opposite direction are looked for more often."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True)
class Clusters:
    """The two clusters of a mirror."""

    ours: Flow
    """The flow of this mirror."""
    others: tuple[Flow, ...] = ()
    """The flows of mirrors whose target is our source."""

    @property
    def provenance(self) -> Provenance:
        """How the header of each record is handled."""
        ours = self.ours
        return Provenance(ours.provenance, source_id=ours.source_id, target_id=ours.target_id, adds_to=ours.adds_header)

    @property
    def record(self) -> FlowRecord:
        """The flow as stored in the control topic."""
        return flow_record(self.ours)

    def check_name(self, known: FlowRecord | None) -> None:
        """Check that the mirror of this name has the same source.

        Args:
            known: the flow in the control topic; ``None`` for none yet.

        Raises:
            ConfigurationError: it copies from another cluster, and this mirror would acquire its lanes.
        """
        ours = self.ours
        if known is not None and known.source_id and ours.source_id and known.source_id != ours.source_id:
            raise ConfigurationError(
                f"The mirror {ours.name} copies from the cluster {known.source_id}, and the source is "
                f"{ours.source_id}; give this mirror another name. If the source cluster was recreated, start with "
                f"--on-data-loss=skip-and-record."
            )

    def why_returned(self, topic: str) -> str | None:
        """Return why a source topic is a copy of a topic of the target; ``None`` if it is not."""
        return why_returned(self.ours, topic, self.others)

    def refuse(self, topic: str) -> None:
        """Raise ConfigurationError for a source topic that would be copied back."""
        refuse_loop(self.ours, [topic], self.others)


def check_clusters(values: Mapping[str, Any], source: KafkaConnection, target: KafkaConnection) -> Clusters:
    """Read the cluster IDs, and the flows of mirrors that write to the source.

    Raises:
        ConfigurationError: settings contradict each other.
        SourceUnreachableError: a cluster does not answer, or denies access.
    """
    timeout = values["connectTimeout"]
    ours = Flow(
        name=values["name"],
        source_id=TargetTopics(source, timeout_seconds=timeout).cluster().id,
        target_id=TargetTopics(target, timeout_seconds=timeout).cluster().id,
        choice=choice_from(values),
        rename=rename_rule(values),
        provenance=values["provenance"],
        target_name=values["targetName"],
    )
    own = CONTROL_TOPIC_PREFIX + ours.name if ours.source_id == ours.target_id else ""
    flows, is_incomplete = flows_to(source, own=own, timeout_seconds=timeout)
    if is_incomplete and ours.provenance == AUTO:
        ours = replace(ours, provenance=ALWAYS)  # the mirror that could not be read may copy any topic back
    return Clusters(replace(ours, opposite=opposite_to(ours, flows)), flows)


def flows_to(source: KafkaConnection, *, own: str, timeout_seconds: float) -> tuple[tuple[Flow, ...], bool]:
    """Return the flows of mirrors that write to the source, and whether the flow of some is unknown.

    Args:
        source: the cluster.
        own: the control topic of this mirror if it is on the source, otherwise empty.
        timeout_seconds: of each request.

    Raises:
        SourceUnreachableError: Kafka does not answer, or denies access.
    """
    existing = existing_topics(source, timeout_seconds=timeout_seconds)
    control_topics = sorted(topic for topic in existing if topic.startswith(CONTROL_TOPIC_PREFIX) and topic != own)
    flows, unknown = [], False
    for topic, state in read_first_lanes(source, control_topics, timeout_seconds=timeout_seconds).items():
        if isinstance(state, TopicMissingError):
            continue  # deleted since it was listed: no mirror writes by it
        if isinstance(state, GaplessError):
            log.warning("mirror not checked for loops", topic=topic, reason=str(state))
            unknown = True
        elif state.flow is not None:
            flows.append(flow_of(topic.removeprefix(CONTROL_TOPIC_PREFIX), state.flow))
    return tuple(flows), unknown


class LoopWatch:
    """Keeps looking for mirrors in the opposite direction: two that start at the same time do not see each other."""

    def __init__(
        self,
        clusters: Clusters,
        read_flows: Callable[[], tuple[tuple[Flow, ...], bool]],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            clusters: as they were at the start.
            read_flows: returns the mirrors that write to the source, like `flows_to`.
            now: a monotonic clock, in seconds.
        """
        self._clusters, self._read_flows, self._now = clusters, read_flows, now
        self._started_at = self._checked_at = now()

    def why_returned(self, topic: str) -> str | None:
        """Return why a source topic is a copy of a topic of the target; ``None`` if it is not."""
        self._look()
        return self._clusters.why_returned(topic)

    def refuse(self, topic: str) -> None:
        """Raise ConfigurationError for a source topic that would be copied back."""
        self._look()
        self._clusters.refuse(topic)
        ours = self._clusters.ours
        back = mirror_back(ours, topic, self._clusters.others)
        if back is not None and not ours.adds_header(topic):
            raise ConfigurationError(
                f"The mirror {back.name} was started at the same time and copies in the opposite direction, so records "
                f"of {topic} would be copied back; restart this mirror, so that its records get the header "
                f"gapless-mirror."
            )

    def _look(self) -> None:
        """Read the flows again, if it is time."""
        now = self._now()
        interval = _STARTUP_INTERVAL_SECONDS if now - self._started_at < _STARTUP_SECONDS else _INTERVAL_SECONDS
        if now - self._checked_at >= interval:
            self._checked_at = now
            with suppress(GaplessError):  # retried after the interval
                self._update(*self._read_flows())

    def _update(self, flows: tuple[Flow, ...], is_incomplete: bool) -> None:  # noqa: FBT001
        """Replace the known flows; if some could not be read, keep those that are not in `flows`."""
        names = {flow.name for flow in flows}
        kept = [flow for flow in self._clusters.others if is_incomplete and flow.name not in names]
        self._clusters = replace(self._clusters, others=(*flows, *kept))


def flow_record(flow: Flow) -> FlowRecord:
    """Return the record of a flow for the control topic."""
    return FlowRecord(
        source_id=flow.source_id,
        target_id=flow.target_id,
        **_selection(flow),
        provenance=flow.provenance,
        target_name=flow.target_name,
        opposite=tuple(OppositeFlow(name=other.name, **_selection(other)) for other in flow.opposite),
    )


def _selection(flow: Flow) -> dict[str, Any]:
    choice = flow.choice
    return {
        "topics": choice.names,
        "prefixes": choice.prefixes,
        "pattern": choice.pattern.pattern if choice.pattern is not None else None,
        "excluded": tuple(pattern.pattern for pattern in choice.excluded),
        "rename": flow.rename.template,
        "source_name": flow.rename.source_name,
    }


def flow_of(name: str, record: FlowRecord) -> Flow:
    """Return the flow of the mirror `name` from the record in its control topic."""
    opposite = (
        Flow(
            name=other.name,
            source_id=record.target_id,
            target_id=record.source_id,
            choice=_choice_of(other),
            rename=RenameRule(other.rename, other.source_name),
            provenance=AUTO,
        )
        for other in record.opposite
    )
    return Flow(
        name=name,
        source_id=record.source_id,
        target_id=record.target_id,
        choice=_choice_of(record),
        rename=RenameRule(record.rename, record.source_name),
        provenance=record.provenance,
        target_name=record.target_name,
        opposite=tuple(opposite),
    )


def _choice_of(record: FlowRecord | OppositeFlow) -> TopicChoice:
    return TopicChoice(
        record.topics,
        record.prefixes,
        re.compile(record.pattern) if record.pattern is not None else None,
        tuple(re.compile(pattern) for pattern in record.excluded),
    )
