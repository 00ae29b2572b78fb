"""The commands that a report suggests to run next; must not know how they are shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

UNREAD = "unread_behind_transactions"
"""The member of a scan's report: how many gap records an open transaction holds back."""


class Step(NamedTuple):
    """A command, and why to run it."""

    why: str
    command: str


def steps_after_findings(report: Mapping[str, Any], servers: str | None) -> list[Step]:
    """Return the steps after a scan or an audit of `servers`; words in capitals are placeholders."""
    steps = []
    file = report["bundle"]["file"]
    bundle = str(file) if file else "BUNDLE"
    carried = shlex.quote(Path(bundle).name)
    here = shlex.quote(bundle)
    kafka = _kafka(servers)
    scan = report["command"] != "audit"
    topics = "RECEIVED" if scan else shlex.quote(",".join(report["topics"]))
    if report["missing"]:
        steps += [
            _resend(carried),
            _text(here),
            Step(
                "Afterwards, here: prove that these gaps have closed.",
                f"gapless verify {here} {kafka} --topics={topics}",
            ),
        ]
    if report.get(UNREAD):
        gaps = shlex.quote(",".join(report["topics"]))
        steps.append(
            Step(
                "An open transaction holds back gap records. Scan again when it has ended.",
                f"gapless scan {kafka} --topic={gaps} --resend-file-name=again.json",
            )
        )
    if report.get("skip_stale") and report["stale_events"]:
        gaps = shlex.quote(",".join(report["topics"]))
        steps.append(
            Step(
                "The detector no longer tracks some windows, so some events are unknown. To send these as well, even "
                "those that have arrived, write a bundle that also lists them.",
                f"gapless scan {kafka} --topic={gaps} --include-stale --resend-file-name=with-stale.json",
            )
        )
    if report.get("unknown_behind_transactions"):
        steps.append(
            Step(
                "An open transaction holds back records, so some events are unknown. Audit again when it has ended.",
                f"gapless audit {kafka} --topics={topics} --resend-file-name=again.json",
            )
        )
    if report.get("unknown", 0) > report.get("unknown_behind_transactions", 0):
        steps.append(
            Step(
                "Kafka deleted records before an audit read them, so some events are unknown. To send these again as "
                "well, even those that had arrived, write a bundle that also lists them.",
                f"gapless audit {kafka} --topics={topics} --include-unknown --resend-file-name=with-unknown.json",
            )
        )
    if scan:
        steps.append(
            Step(
                "A scan repeats what the detector reported. An audit reads the received events themselves, and also "
                "finds losses at the ends of windows and complete windows that were lost.",
                f"gapless audit {kafka} --topics=RECEIVED --html=audit.html",
            )
        )
    elif any(partition["bounds"] == "seen" for partition in report["partitions"]):
        steps.append(
            Step(
                "On the sending side: take an inventory, so that --expect-inventory also detects losses at the start "
                "and at the end of a partition.",
                "gapless inventory --bootstrap-servers=UPSTREAM --topics=TOPICS --inventory=inventory.json",
            )
        )
    return steps


def steps_with_bundle(called: str, *, is_empty: bool) -> list[Step]:
    """Return the steps of who has only a bundle, `called` so; none if it lists nothing."""
    if is_empty:
        return []
    bundle = shlex.quote(called)
    return [
        _resend(bundle),
        _text(bundle),
        Step(
            "Afterwards, at the receiving side: prove that these gaps have closed.",
            f"gapless verify {bundle} {_kafka(None)} --topics=RECEIVED",
        ),
    ]


def steps_after_verify(report: Mapping[str, Any], servers: str | None) -> list[Step]:
    """Return the steps after a ``verify``, which may have read `servers`."""
    result, older = report["reconciliation"], shlex.quote(report["older"])
    kafka = _kafka(servers)
    audited = report["against"] == "audit"
    topics = shlex.quote(",".join(report["topics"])) if audited else "RECEIVED"
    steps = []
    if result["open"]:
        steps += [
            Step(
                "Write a bundle of the events that are missing now; closed gaps need not be sent again.",
                f"gapless audit {kafka} --topics={topics} --resend-file-name=again.json",
            ),
            _resend("again.json"),
        ]
    if result["unknown"]:
        steps.append(
            Step(
                "Unknown offsets were not checked. Take an inventory on the sending side, and check again.",
                f"gapless verify {older} {kafka} --topics={topics} --expect-inventory=INVENTORY",
            )
        )
    if not steps and not audited:
        steps.append(
            Step(
                "A scan repeats what the gap detector reported. An audit reads the received events themselves.",
                f"gapless verify {older} {kafka} --topics={topics}",
            )
        )
    return steps


def _resend(carried: str) -> Step:
    return Step(
        "On the sending side: send the missing events again. Carry the bundle there first. The link profile is what "
        "gapless link receive --profile measured.",
        "gapless resend --bootstrap-servers=UPSTREAM --target-ip=RECEIVER --target-port=PORT "
        f"--resend-file-name={carried} --link-profile=link-profile.json",
    )


def _text(bundle: str) -> Step:
    return Step(
        "Where no file may cross: print the bundle as short lines that a person types or scans.",
        f"gapless bundle text {bundle}",
    )


def _kafka(servers: str | None) -> str:
    return f"--bootstrap-servers={shlex.quote(servers or 'KAFKA')}"
