"""How the report and its exit code follow from observations and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata

from gapless_api.base.exit_codes import ExitCode
from gapless_api.wire.doctor_report import DoctorFinding, DoctorReport, SeenCluster, SeenTopic
from gapless_mirror.doctor.observed import Cluster, Observations, Unreachable

_MAX_TOPICS = 10_000
_MAX_FINDINGS = 500


def report_of(seen: Observations, findings: Sequence[DoctorFinding]) -> DoctorReport:
    """Build the report; `findings` are in order."""
    counts = Counter(finding.severity for finding in findings)
    if any(isinstance(cluster, Unreachable) for cluster in (seen.source, seen.target)):
        code = ExitCode.SOURCE_UNREACHABLE
    else:
        code = ExitCode.INCOMPLETE if counts["error"] else ExitCode.DONE
    return DoctorReport(
        time=datetime.fromtimestamp(seen.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        product=metadata.version("gapless-api"),
        exit_code=int(code),
        errors=counts["error"],
        warnings=counts["warning"],
        notes=counts["note"],
        source=_seen(seen.source),
        target=_seen(seen.target),
        findings=tuple(findings[:_MAX_FINDINGS]),
        findings_omitted=max(len(findings) - _MAX_FINDINGS, 0),
    )


def _seen(cluster: Cluster | Unreachable | None) -> SeenCluster | None:
    if not isinstance(cluster, Cluster):
        return None
    topics = [
        SeenTopic(name=name, id=details.id, partitions=len(cluster.partitions.get(name, ())))
        for name, details in sorted(cluster.topics.items())
    ]
    return SeenCluster(
        bootstrap_servers=cluster.servers,
        id=cluster.id,
        brokers=tuple(sorted(cluster.brokers)),
        topics=tuple(topics[:_MAX_TOPICS]),
        topics_omitted=max(len(topics) - _MAX_TOPICS, 0),
    )
