"""Owns what a mirror finds out before it starts: which clusters these are, and which mirrors write to its source."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.provenance import ALWAYS, Provenance
from gapless_kafka.mirror.lanes.records import FlowRecord
from gapless_kafka.mirror.topics.assembly import rename_rule
from gapless_kafka.mirror.topics.loops import CONTROL_TOPIC_PREFIX, Flow, mirror_back, refuse_loop
from gapless_kafka.mirror.topics.names import RenameRule
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import TopicChoice, choice_from, existing_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_kafka.access.connection import KafkaConnection

_BEGINNING_SECONDS, _SOON_SECONDS, _LATER_SECONDS = 180.0, 10.0, 600.0
"""In the beginning the mirrors the other way are looked for more often."""
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

    def check_name(self, known: FlowRecord | None) -> None:
        """Refuse the name of a mirror from another cluster, whose lanes this one would take. Raises ConfigurationError.

        Args:
            known: what the control topic says of the mirror with this name; ``None`` for none yet.
        """
        ours = self.ours
        if known is not None and known.source_id and ours.source_id and known.source_id != ours.source_id:
            raise ConfigurationError(
                f"The mirror {ours.name} copies from the cluster {known.source_id}, and the source is "
                f"{ours.source_id}; give this mirror another name. If the source was set up again, start with "
                f"--on-data-loss=skip-and-record."
            )

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
    own = CONTROL_TOPIC_PREFIX + ours.name if ours.source_id == ours.target_id else ""
    flows, unknown = flows_to(source, own=own, timeout_seconds=timeout)
    goes_both_ways = unknown or any(flow.source_id == ours.target_id for flow in flows)
    return Clusters(ours, flows, goes_both_ways)


def flows_to(source: KafkaConnection, *, own: str, timeout_seconds: float) -> tuple[tuple[Flow, ...], bool]:
    """The mirrors that write to our source, and whether there are some of which nothing is known.

    Args:
        source: the cluster.
        own: the control topic of the mirror that asks, if it is there; empty for none.
        timeout_seconds: how long an answer may take.

    Raises:
        SourceUnreachableError: it does not answer, or refuses us.
    """
    found = existing_topics(source, timeout_seconds=timeout_seconds)
    controls = sorted(topic for topic in found if topic.startswith(CONTROL_TOPIC_PREFIX) and topic != own)
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
    return tuple(flows), unknown


class LoopWatch:
    """Looks again for mirrors the other way: of two that begin at the same moment, none has seen the other."""

    def __init__(
        self,
        clusters: Clusters,
        look: Callable[[], tuple[tuple[Flow, ...], bool]],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            clusters: as they were found at the start.
            look: finds the mirrors that write to our source, as `flows_to` does.
            now: seconds of a clock that nobody sets.
        """
        self._clusters, self._look, self._now = clusters, look, now
        self._adds = clusters.provenance.adds
        self._began = self._looked_at = now()

    def refuse(self, topic: str) -> None:
        """Refuse a source topic that would come back. Raises ConfigurationError."""
        now = self._now()
        pause = _SOON_SECONDS if now - self._began < _BEGINNING_SECONDS else _LATER_SECONDS
        if now - self._looked_at >= pause:
            self._looked_at = now
            with suppress(GaplessError):  # the next look may find more
                self._take(*self._look())
        self._clusters.refuse(topic)
        back = mirror_back(self._clusters.ours, topic, self._clusters.others)
        if back is not None and not self._adds:
            raise ConfigurationError(
                f"The mirror {back.name} has begun at the same time and copies the other way, so records of {topic} "
                f"would come back; start this mirror again, so that its records get the header gapless-mirror."
            )

    def _take(self, found: tuple[Flow, ...], is_incomplete: bool) -> None:  # noqa: FBT001
        """Take over what a look has found; what could not be read is as it was."""
        names = {flow.name for flow in found}
        kept = [flow for flow in self._clusters.others if is_incomplete and flow.name not in names]
        self._clusters = replace(self._clusters, others=(*found, *kept))


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
