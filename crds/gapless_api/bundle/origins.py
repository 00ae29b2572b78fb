"""Whether two bundles are about the same logs, so that the silence of the newer one can close gaps of the older.

Must not know how offsets are compared. What differs makes offsets unknown; what no bundle says is reported as not
verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.bundle_origin import BundleOrigin, GapTopicLog, origin_in
from gapless_api.wire.form import WireError

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

_NO_RECORD = "so a missing record closes no gap; run gapless audit to find out what has arrived"
_NOT_VERIFIED = (
    "Could not verify that both results come from the same gaps topic, because {who} without its topic ID (an older "
    "release, another program, or old brokers)."
)


class OriginDifference(NamedTuple):
    """How the logs of an older bundle and of newer findings differ."""

    gap_topics: str = ""
    """Why no record of the newer gaps topic closes a gap; empty if nothing is known against it."""
    recreated: frozenset[TopicPartition] = frozenset()
    """The source partitions of upstream topics that were recreated in between."""
    caution: str = ""
    """What could not be verified; empty for nothing."""

    @property
    def why_unknown(self) -> str:
        """Why offsets are unknown; empty without a difference."""
        if self.gap_topics or not self.recreated:
            return self.gap_topics
        topics = sorted({topic for topic, _ in self.recreated})
        return (
            f"The upstream topic {', '.join(topics)} was deleted and recreated between the two results, so the offsets "
            f"in the older bundle belong to events that no longer exist, and no event of the new topic closes them."
        )


def read_origin(source: Mapping[str, str]) -> BundleOrigin | None:
    """Return the origin in a bundle's source; ``None`` if it has none. Raises ConfigurationError."""
    try:
        return origin_in(source)
    except WireError as error:
        raise ConfigurationError(f"The bundle cannot be compared: {error}.") from None


def compare_origins(
    older: BundleOrigin | None, newer: BundleOrigin | None, *, by_records: bool, truncated: str = ""
) -> OriginDifference:
    """Compare the logs of two results.

    Args:
        older: those of the older bundle.
        newer: those of the newer findings.
        by_records: whether both list the records of a detector.
        truncated: what a check of the gaps topic has found out, see `truncated_sentence`.
    """
    old, new = older or BundleOrigin(), newer or BundleOrigin()
    before, now = _ids(old), _ids(new)
    recreated = frozenset(partition for partition in before.keys() & now.keys() if before[partition] != now[partition])
    if not by_records:
        return OriginDifference(recreated=recreated)
    problem = truncated or _gap_topic_problem(old.gap_topics, new.gap_topics)
    nameless = [
        who
        for who, origin in (("the older bundle is", older), ("the newer one is", newer))
        if origin is None or not origin.complete or not all(log.id for log in origin.gap_topics)
    ]
    caution = _NOT_VERIFIED.format(who=" and ".join(nameless)) if nameless and not problem else ""
    return OriginDifference(problem, recreated, caution)


def truncated_sentence(topic: str, partition: int, before: int, now: int) -> str:
    """Return the sentence about a gaps topic whose log no longer reaches the `before` of an earlier scan."""
    return (
        f"The gaps topic {topic} was truncated: partition {partition} had {before:,} offsets at the earlier scan, of "
        f"which {now:,} are left, {_NO_RECORD}."
    )


def _ids(origin: BundleOrigin) -> dict[TopicPartition, set[str]]:
    """Return the IDs of the upstream topics of each source partition."""
    ids: dict[TopicPartition, set[str]] = {}
    for topic in origin.upstream:
        for run in topic.partitions:
            for partition in range(run.first, run.last + 1):
                ids.setdefault((topic.topic, partition), set()).add(topic.id)
    return ids


def _gap_topic_problem(older: Iterable[GapTopicLog], newer: Iterable[GapTopicLog]) -> str:
    for old in older:
        for new in newer:
            if old.id and new.id and old.id != new.id:
                return (
                    f"The gaps topic {old.topic} was deleted and recreated (topic ID {old.id} -> {new.id}), "
                    f"{_NO_RECORD}."
                    if (old.cluster, old.topic) == (new.cluster, new.topic)
                    else f"The older bundle lists records of the gaps topic {old.topic} (topic ID {old.id}) and the "
                    f"newer one those of {new.topic} ({new.id}), {_NO_RECORD}."
                )
            if old.id != new.id or (old.cluster, old.topic) != (new.cluster, new.topic):
                continue
            ends = zip(old.end_offsets, (*new.end_offsets, *[0] * len(old.end_offsets)), strict=False)
            for partition, (before, now) in enumerate(ends):
                if now < before:
                    return truncated_sentence(old.topic, partition, before, now)
    return ""
