"""Owns ``gapless mirror diff``: it shows how topics of the target differ from those of the source; changes nothing."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.log import configure_logging
from gapless_api.wire.mirror_drift import DRIFT_REPORT
from gapless_kafka.mirror.lanes.provenance import NEVER
from gapless_kafka.mirror.settings.subcommands import SubcommandSettings
from gapless_kafka.mirror.settings.typed import cluster_connection
from gapless_kafka.mirror.topics.assembly import topic_keeper
from gapless_kafka.mirror.topics.drift import drift_table
from gapless_kafka.mirror.topics.originals import ChoiceOfOriginals
from gapless_kafka.mirror.topics.preflight import check_clusters
from gapless_kafka.mirror.watch.heartbeat_route import ChoiceWithHeartbeats
from gapless_kafka.topics.topic_choice import choice_from, existing_topics

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved


def run(settings: Resolved) -> int:
    """Compare, print, and return the exit code. Raises GaplessError."""
    values, options = settings.values, SubcommandSettings.of(settings.values)
    configure_logging("WARN", None)
    source, target = cluster_connection(values, "source"), cluster_connection(values, "target")
    clusters = check_clusters({"name": "", "provenance": NEVER, **values}, source, target)
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
    if options.json:
        sys.stdout.write(json.dumps(DRIFT_REPORT.to_json(report), indent=2) + "\n")
    else:
        sys.stdout.write(drift_table(report) + "\n")
    return ExitCode.INCOMPLETE if report.topics else ExitCode.DONE
