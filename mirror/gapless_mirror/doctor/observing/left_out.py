"""Which checked topics a mirror leaves out, by its selection and its rules against loops; derives no findings.

The selection is the one that the mirror last started with, from its control topic. A topic that the selection does not
name is checked all the same: it may be about to be selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.topics.topic_choice import INTERNAL
from gapless_mirror.doctor.observed import Unknown
from gapless_mirror.lanes.control import read_lanes
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC, MirrorIdentity
from gapless_mirror.topics.loops import Flow, refuse_loop, why_returned
from gapless_mirror.topics.preflight import flow_of, flows_to

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The topics that a mirror leaves out."""

    reasons: dict[str, str]
    """A sentence without its period, by source topic."""
    unknown: tuple[Unknown, ...] = ()
    """Why further topics may be left out."""


def topics_left_out(
    mirror: MirrorIdentity,
    topics: Iterable[str],
    source: KafkaConnection,
    target: KafkaConnection,
    *,
    timeout_seconds: float,
) -> LeftOut:
    """Return those of the source topics that a mirror leaves out; none if it has never started.

    Args:
        mirror: the mirror, whose control topic exists at the target.
        topics: the source topics to check.
        source: the source cluster of the mirror.
        target: its target cluster.
        timeout_seconds: of each request.
    """
    try:
        record = read_lanes(target, mirror.control_topic, [0])[0].flow
        if record is None:
            return LeftOut(reasons={})
        ours = flow_of(mirror.name, record)
        own = mirror.control_topic if ours.source_id == ours.target_id else ""
        others, is_incomplete = flows_to(source, own=own, timeout_seconds=timeout_seconds)
    except GaplessError as error:
        reason = f"Which topics the mirror {mirror.name} leaves out was not checked: {str(error).rstrip('.')}"
        return LeftOut(reasons={}, unknown=(Unknown(reason),))
    reasons = {topic: _why_left_out(ours, topic, others) for topic in topics}
    incomplete = Unknown(
        f"The mirror {mirror.name} may leave out more topics: the control topic of another mirror, which writes to the "
        f"source, could not be read"
    )
    return LeftOut(
        reasons={topic: why for topic, why in reasons.items() if why is not None},
        unknown=(incomplete,) if is_incomplete else (),
    )


def _why_left_out(ours: Flow, topic: str, others: Sequence[Flow]) -> str | None:
    """Return why a mirror does not copy a topic, in the words of the mirror; ``None`` if it may copy it."""
    if f"{topic}.".startswith(f"{HEARTBEAT_TOPIC}."):
        return f"The topic {topic} has heartbeats of a mirror"
    if topic not in ours.choice.names:
        if topic.startswith(INTERNAL):
            return f"The topic {topic} is internal, and the mirror does not select it by name"
        why = why_returned(ours, topic, others)
        if why is not None:
            return why
    if not ours.copies(topic):
        everything = replace(ours.choice, excluded=())
        return f"The topic {topic} is excluded" if topic in everything.chosen([topic]) else None
    try:
        refuse_loop(ours, [topic], others)
    except ConfigurationError as error:
        return str(error).rstrip(".")
    return None
