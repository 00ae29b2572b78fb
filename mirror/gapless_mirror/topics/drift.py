"""The comparison of target topics with their source topics. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity
from gapless_api.wire.mirror_drift import Drift, DriftReport, TopicDrift
from gapless_mirror.topics.carried import compared_settings

if TYPE_CHECKING:
    from gapless_kafka.topics.target_topics import TopicDescription


def drift_report(
    names: Mapping[str, str],
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
) -> DriftReport:
    """Compare each topic with its copy; positions are not compared.

    Args:
        names: the target of each source topic.
        source: topics of the source, by their names.
        target: topics of the target, by their names.
    """
    differing = []
    unknown = []
    for topic, name in sorted(names.items()):
        original, copy = source.get(topic), target.get(name)
        differences = tuple(_differences(original, copy))
        if differences:
            differing.append(TopicDrift(topic=topic, target=name, differences=differences))
        if any(each is not None and not each.configuration for each in (original, copy)):
            unknown.append(topic)
    return DriftReport(
        topics_compared=len(names),
        topics=tuple(differing),
        settings_unknown=tuple(unknown),
        positions_compared=0,
        positions=(),
    )


def _differences(source: TopicDescription | None, target: TopicDescription | None) -> Iterator[Drift]:
    if source is None or target is None:
        if source is not target:
            yield Drift(what="topic", source=_presence(source), target=_presence(target))
        return
    if source.partitions != target.partitions:
        yield Drift(what="partitions", source=str(source.partitions), target=str(target.partitions))
    for setting, (expected, actual) in compared_settings(source, target).items():
        yield Drift(what=setting, source=expected, target=actual)


def _presence(topic: TopicDescription | None) -> str:
    return "missing" if topic is None else "present"


def drift_table(report: DriftReport) -> str:
    """Format the report as a table of the topics that differ."""
    if not report.topics:
        lines = [f"No drift in {quantity(report.topics_compared, 'topic')}."]
    else:
        rows = [("TOPIC", "TARGET", "SETTING", "SOURCE", "TARGET HAS")]
        rows += [
            (topic.topic, topic.target, drift.what, drift.source or "-", drift.target or "-")
            for topic in report.topics
            for drift in topic.differences
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.append(f"Drift in {len(report.topics):,} of {quantity(report.topics_compared, 'topic')}.")
    if report.settings_unknown:
        lines.append(
            f"Settings not compared, for lack of the operation DescribeConfigs: {', '.join(report.settings_unknown)}."
        )
    lines += [f"{each.state}: {each.message}" for each in report.positions]
    if report.positions_compared:
        lines.append(f"{len(report.positions):,} of {report.positions_compared:,} positions do not hold.")
    return "\n".join(lines)
