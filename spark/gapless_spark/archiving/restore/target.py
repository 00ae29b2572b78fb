"""What a restore changes at its target apart from records: new topics, and settings during the restore."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.wire.restore_report import CreatedTopic
from gapless_kafka.writing.positions import ChangedConfiguration
from gapless_spark.archiving.restore.preflight import Finding, Need, Preflight, check_target, new_configuration
from gapless_spark.archiving.restore.values import KEEP

if TYPE_CHECKING:
    from gapless_kafka.topics.target_topics import TargetTopics, TopicDescription
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_kafka.writing.takeover import Takeover
    from gapless_spark.archiving.restore.settings import RestoreSettings
    from gapless_spark.archiving.restore.works import TopicRestore

_ALWAYS_RESTORED = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Target:
    """One target topic before the restore."""

    need: Need
    found: TopicDescription | None
    preflight: Preflight

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.need.topic

    @property
    def created(self) -> CreatedTopic | None:
        """The topic to create; ``None`` if it exists, or may not be created."""
        if self.found is not None or not self.need.creates:
            return None
        configuration = new_configuration(self.need.configuration)
        partitions = max(self.need.source_partitions, self.need.partitions)
        return CreatedTopic(topic=self.name, partitions=partitions, configuration=configuration)

    def before(self, settings: RestoreSettings) -> ChangedConfiguration | None:
        """Return the settings to restore at the end; ``None`` for none."""
        own = new_configuration(self.need.configuration) if self.found is None else self.found.own
        names = [
            name for name in self.preflight.changes if settings.adjust_retention != KEEP or name == _ALWAYS_RESTORED
        ]
        if not names:
            return None
        return ChangedConfiguration(
            topic=self.name,
            before={name: own[name] for name in names if name in own},
            unset=tuple(name for name in names if name not in own),
        )


def check_targets(
    needs: Sequence[Need], topics: TargetTopics, described: Mapping[str, TopicDescription]
) -> list[Target]:
    """Check all targets. Raises SourceUnreachableError."""
    brokers = topics.cluster().brokers
    defaults = topics.defaults() if len(described) < len(needs) else {}
    now_ms = int(time.time() * 1000)
    return [
        Target(
            need, described.get(need.topic), check_target(need, described.get(need.topic), defaults, brokers, now_ms)
        )
        for need in needs
    ]


def create_missing(targets: Sequence[Target], topics: TargetTopics, settings: RestoreSettings) -> None:
    """Create the targets that do not exist. Raises GaplessError if Kafka refuses."""
    for target in targets:
        new = target.created
        if new is not None:
            topics.create(new.topic, new.partitions, new.configuration, replication_factor=settings.replication_factor)


def change_settings(  # noqa: PLR0913, PLR0917 -- all that is needed to restore them after a kill
    targets: Sequence[Target],
    restores: Sequence[TopicRestore],
    state: ControlState,
    topics: TargetTopics,
    takeover: Takeover,
    settings: RestoreSettings,
) -> None:
    """Change settings during the restore; their previous values are written to the control topic first."""
    for target in targets:
        works = [restore.work for restore in restores if restore.target == target.name]
        before = target.before(settings)
        if before is not None and all(state.configuration(work) is None for work in works):
            takeover.remember(works[0], before)
        topics.configure(target.name, target.preflight.changes)


def restore_settings(
    restores: Sequence[TopicRestore], state: ControlState, topics: TargetTopics, takeover: Takeover
) -> list[str]:
    """Set settings to their values before the restore; return a sentence for each topic."""
    sentences = []
    for work in dict.fromkeys(restore.work for restore in restores):
        changed = state.configuration(work)
        if changed is not None:
            topics.configure(changed.topic, changed.before, changed.unset)
            takeover.remember(work, None)
            names = ", ".join([*changed.before, *changed.unset])
            sentences.append(f"The settings of {changed.topic} have their previous values again ({names}).")
    return sentences


def target_findings(targets: Sequence[Target]) -> list[Finding]:
    """Return the findings of all targets, refusals first."""
    findings = [finding for target in targets for finding in target.preflight.findings]
    return sorted(findings, key=lambda finding: not finding.refuses)
