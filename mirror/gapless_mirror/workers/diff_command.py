"""``gapless mirror diff``: it shows how the target differs from the source, and positions from both."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.log import configure_logging
from gapless_api.base.missing_code import result_code
from gapless_api.cli.json_output import print_json
from gapless_api.wire.mirror_drift import DRIFT_REPORT, PositionDifference
from gapless_kafka.topics.topic_choice import choice_from, existing_topics
from gapless_mirror.lanes.claims import PositionState
from gapless_mirror.lanes.comparisons import Compared, compare_mirror
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.provenance import NEVER
from gapless_mirror.settings.subcommands import SubcommandSettings, list_unknown
from gapless_mirror.settings.typed import cluster_connection
from gapless_mirror.topics.assembly import topic_keeper
from gapless_mirror.topics.drift import drift_table
from gapless_mirror.topics.originals import ChoiceOfOriginals
from gapless_mirror.topics.preflight import check_clusters
from gapless_mirror.watch.heartbeat_route import ChoiceWithHeartbeats

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.offsets.ids import TopicPartition


def run(settings: Resolved) -> int:
    """Compare, print, and return the exit code. Raises GaplessError."""
    values, options = settings.values, SubcommandSettings.of(settings.values)
    configure_logging("WARN", None)
    list_unknown(settings)
    source, target = cluster_connection(values, "source"), cluster_connection(values, "target")
    clusters = check_clusters({"provenance": NEVER, **values, "name": ""}, source, target)
    originals = ChoiceOfOriginals(choice_from(values), clusters.why_returned, logs=False)
    choice = ChoiceWithHeartbeats(originals, copies_heartbeats=False)
    existing = existing_topics(source, timeout_seconds=options.connect_timeout_seconds)
    topics = choice.chosen(existing)
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise ConfigurationError(
            f"Kafka at {source.bootstrap_servers} does not have the topic {missing[0]}; correct topics or the address."
        )
    report = topic_keeper(values, source, target).drift(topics)
    control_topic = MirrorIdentity(options.name).control_topic
    compared = compare_mirror(control_topic, source, target, timeout_seconds=options.connect_timeout_seconds)
    own = {each: found for each, found in sorted(compared.items()) if each[0] in topics}
    report = replace(
        report,
        positions_compared=len(own),
        positions=tuple(
            _difference(each, found) for each, found in own.items() if found.comparison.state is not PositionState.HOLDS
        ),
    )
    if options.json:
        print_json(DRIFT_REPORT.to_json(report), "topics")
    else:
        sys.stdout.write(drift_table(report) + "\n")
    if report.positions:
        return ExitCode.INCOMPLETE
    return result_code(is_missing=bool(report.topics), is_requested=options.exit_code, otherwise=ExitCode.INCOMPLETE)


def _difference(topic_partition: TopicPartition, found: Compared) -> PositionDifference:
    topic, partition = topic_partition
    return PositionDifference(
        topic=topic,
        partition=partition,
        target=found.position.target,
        state=found.comparison.state.value,
        message=found.comparison.sentence,
    )
