"""Owns in what the topics of a target differ from those that they are copies of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.wire.mirror_drift import Drift, DriftReport, TopicDrift
from gapless_kafka.mirror.topics.carried import compared_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_kafka.topics.target_topics import TopicDescription


def drift_report(
    names: Mapping[str, str],
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
) -> DriftReport:
    """Compare each topic with its copy.

    Args:
        names: the target of each source topic.
        source: topics of the source, by their names.
        target: topics of the target, by their names.
    """
    found = []
    unknown = []
    for topic, name in sorted(names.items()):
        differences = tuple(_differences(source.get(topic), target.get(name)))
        if differences:
            found.append(TopicDrift(topic=topic, target=name, differences=differences))
        if any(one is not None and not one.configuration for one in (source.get(topic), target.get(name))):
            unknown.append(topic)
    return DriftReport(topics_compared=len(names), topics=tuple(found), settings_unknown=tuple(unknown))


def _differences(source: TopicDescription | None, target: TopicDescription | None) -> Iterator[Drift]:
    if source is None or target is None:
        if source is not target:
            yield Drift(what="topic", source=_presence(source), target=_presence(target))
        return
    if source.partitions != target.partitions:
        yield Drift(what="partitions", source=str(source.partitions), target=str(target.partitions))
    for setting, (expected, has) in compared_settings(source, target).items():
        yield Drift(what=setting, source=expected, target=has)


def _presence(topic: TopicDescription | None) -> str:
    return "missing" if topic is None else "present"


def drift_table(report: DriftReport) -> str:
    """The report as a table for a terminal, without a line for topics that do not differ."""
    if not report.topics:
        lines = [f"No drift in {report.topics_compared:,} topics."]
    else:
        rows = [("TOPIC", "TARGET", "SETTING", "SOURCE", "TARGET HAS")]
        rows += [
            (topic.topic, topic.target, one.what, one.source or "-", one.target or "-")
            for topic in report.topics
            for one in topic.differences
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.append(f"Drift in {len(report.topics):,} of {report.topics_compared:,} topics.")
    if report.settings_unknown:
        lines.append(
            f"Settings not compared, for lack of the operation DescribeConfigs: {', '.join(report.settings_unknown)}."
        )
    return "\n".join(lines)
