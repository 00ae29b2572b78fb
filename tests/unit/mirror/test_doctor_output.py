"""The doctor's page and report say the same, fit a log, and remember topics; its settings must fit together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_api.wire.doctor_report import DOCTOR_REPORT, DoctorReport, SeenCluster, SeenTopic, shorten_report
from gapless_api.wire.log_lines import read_line
from gapless_mirror.doctor.command import link_findings
from gapless_mirror.doctor.findings.all_findings import in_order
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import Cluster, Identity, Observations, Unreachable
from gapless_mirror.doctor.observing.remembered import remembered_in
from gapless_mirror.doctor.page import page
from gapless_mirror.doctor.report import report_of
from gapless_mirror.doctor.settings import DOCTOR, DoctorSettings

LOST = finding(FindingId.GROUP_COORDINATOR_UNAVAILABLE, "source", "One is lost.", where="__consumer_offsets 3")
CLOCK = finding(FindingId.CLOCK_DIFFERS, "source", "It is late.")
SKIPPED = finding(FindingId.NOT_CHECKED, "target", "It was not checked.")
SEEN = SeenCluster(
    bootstrap_servers="a:9092",
    id="c1",
    brokers=(1, 2),
    topics=(SeenTopic(name="orders", id="A1", partitions=3),),
    topics_omitted=0,
)
DOWN = Unreachable("source", "a:9092", "no answer")
UP = Cluster(
    side="source", servers="a:9092", id="c1", brokers={}, partitions={}, checked=[], operations=frozenset(), topics={}
)


def report(*findings: Any, **changes: Any) -> DoctorReport:
    made = report_of(Observations(at_ms=0, source=DOWN, target=None, target_names={}), in_order(findings))
    return replace(made, **{"source": SEEN, **changes})


def settings_of(**options: str) -> DoctorSettings:
    return DoctorSettings.of(
        resolve(DOCTOR, file=None, environment={}, options={"bootstrapServers": "a:9092", **options}).values
    )


def test_the_page_has_the_worst_finding_first_and_what_a_repair_destroys() -> None:
    text = page(report(SKIPPED, CLOCK, LOST))
    places = [text.index(word) for word in ("GroupCoordinatorUnavailable", "DANGER", "ClockDiffers", "NotChecked")]
    assert places == sorted(places)
    assert "(source: __consumer_offsets 3)" in text
    assert "a:9092, cluster c1, 2 brokers, 1 topic checked" in text
    assert text.endswith("1 error, 1 warning, 1 note.\n")
    assert max(map(len, text.splitlines())) <= 110
    assert page(report()).endswith("No problems found.\n")


def test_the_severity_counts_before_the_table() -> None:
    early, late = (
        finding(kind, "target", "It is so.") for kind in (FindingId.AUTO_CREATE, FindingId.TRANSACTION_TIMEOUT)
    )
    assert in_order([early, late]) == [late, early]


@pytest.mark.parametrize(
    ("source", "target", "findings", "exit_code"),
    [
        (UP, None, [], 0),
        (UP, None, [CLOCK, SKIPPED], 0),
        (UP, UP, [CLOCK, LOST], 4),
        (UP, DOWN, [], 3),
        (DOWN, None, [LOST], 3),
    ],
)
def test_the_exit_code_follows_from_the_findings(source: Any, target: Any, findings: list[Any], exit_code: int) -> None:
    made = report_of(Observations(at_ms=0, source=source, target=target, target_names={}), findings)
    assert made.exit_code == exit_code
    assert (made.source is None) == (source is DOWN)
    assert made.time == "1970-01-01T00:00:00Z"


def test_a_line_of_a_log_has_the_worst_findings_and_no_topics() -> None:
    many = [replace(CLOCK, where=f"broker {number}", message="x" * 5000) for number in range(60)]
    line = DOCTOR_REPORT.to_line(shorten_report(report(*many, LOST)))
    assert len(line) < 64_000
    read = read_line(line)
    assert read is not None
    assert not read.problem
    assert read.message.findings[0] == LOST
    assert (len(read.message.findings), read.message.findings_omitted) == (40, 21)
    assert (read.message.source.topics, read.message.source.topics_omitted) == ((), 1)
    assert (read.message.errors, read.message.warnings) == (1, 60)


def test_a_report_remembers_topics_for_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "doctor.json"
    file.write_text(json.dumps(DOCTOR_REPORT.to_json(report(LOST))))
    remembered = remembered_in(file)
    assert remembered.identities == (Identity("source", "orders", "A1", str(file)),)
    assert remembered.clusters == {"source": "c1"}
    assert remembered.topics("target") == []
    assert remembered_in(None).identities == ()


def test_the_first_run_may_remember_what_it_writes(tmp_path: Path) -> None:
    file = tmp_path / "doctor.json"
    assert remembered_in(file, file).identities == ()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        remembered_in(file, tmp_path / "next.json")
    file.write_text("{}")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        remembered_in(file, file)


@pytest.mark.parametrize("content", [None, "", "{}", '{"gaplessDoctorReport": 2}'])
def test_another_file_is_refused_by_name(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "other.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"other\.json cannot be read"):
        remembered_in(file)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="--target-bootstrap-servers"):
        settings_of(mirror="m")
    with pytest.raises(ConfigurationError, match="without targetPort"):
        settings_of(targetIP="10.0.0.2")
    with pytest.raises(ConfigurationError, match="requests the topic orders"):
        settings_of(topics="orders", allowedTopics="payments")
    with pytest.raises(ConfigurationError, match=r"it must be a name that contains \{topic\}"):
        settings_of(rename="copy")


def test_each_cluster_has_its_own_connection() -> None:
    found = settings_of(
        targetBootstrapServers="b:9093", targetTls="true", rename="north.{topic}", refuseLocalBrokers="true"
    )
    assert found.target is not None
    assert (found.source.bootstrap_servers, found.source.tls) == ("a:9092", False)
    assert (found.target.bootstrap_servers, found.target.tls) == ("b:9093", True)
    assert found.source.refuses_local
    assert found.target.refuses_local
    assert found.target_topic("orders") == "north.orders"


def test_a_link_is_checked_by_the_sender_and_only_when_there_is_one() -> None:
    assert link_findings(None) == []
    link = settings_of(targetIP="192.0.2.1", targetPort="5514", nic="nosuchnic0").link
    (one,) = link_findings(link)
    assert one.id == FindingId.LINK_FAULT
    assert "'nosuchnic0' does not exist" in one.message
