"""Owns which commands a reader of a report should run next; must not know how they are shown."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Step(NamedTuple):
    """One thing to do."""

    why: str
    command: str


def after_findings(report: Mapping[str, Any], servers: str | None) -> list[Step]:
    """What to do after `report` of a job that read `servers`; capital words stand for what only people know."""
    steps = []
    file = report["bundle"]["file"]
    bundle = str(file) if file else "BUNDLE"
    carried = shlex.quote(Path(bundle).name)
    here = shlex.quote(bundle)
    kafka = _kafka(servers)
    scan = report["command"] != "audit"
    if report["missing"]:
        steps += [
            _resend(carried),
            Step(
                "Where no file may cross: print the bundle as short lines that a person types or scans.",
                f"gapless bundle text {here}",
            ),
        ]
    topics = "RECEIVED" if scan else shlex.quote(",".join(report["topics"]))
    if report["missing"]:
        steps.append(
            Step(
                "Afterwards, here: prove that these gaps have closed.",
                f"gapless verify {here} {kafka} --topics={topics}",
            )
        )
    if report.get("unknown"):
        steps.append(
            Step(
                "Unknown events expired before an audit read them. To send them again as well, which is useless for "
                "those that had arrived, write a bundle that lists them, too.",
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
                "On the sending side: write down what exists, so that losses at both ends show here with "
                "--expect-inventory.",
                "gapless inventory --bootstrap-servers=UPSTREAM --topics=TOPICS --inventory=inventory.json",
            )
        )
    return steps


def after_verify(report: Mapping[str, Any], servers: str | None) -> list[Step]:
    """What to do after the `report` of a ``verify``, which read Kafka at `servers` if it looked."""
    became, older = report["reconciliation"], shlex.quote(report["older"])
    kafka = _kafka(servers)
    audited = report["against"] == "audit"
    topics = shlex.quote(",".join(report["topics"])) if audited else "RECEIVED"
    steps = []
    if became["open"]:
        steps += [
            Step(
                "Write a bundle of what is missing now: what has closed meanwhile need not be sent again.",
                f"gapless audit {kafka} --topics={topics} --resend-file-name=again.json",
            ),
            _resend("again.json"),
        ]
    if became["unknown"]:
        steps.append(
            Step(
                "What is unknown was not checked. Write down on the sending side what exists, and check again.",
                f"gapless verify {older} {kafka} --topics={topics} --expect-inventory=INVENTORY",
            )
        )
    if not steps and not audited:
        steps.append(
            Step(
                "An audit of the received events is proof; a scan is what the gap detector believes.",
                f"gapless verify {older} {kafka} --topics={topics}",
            )
        )
    return steps


def _resend(carried: str) -> Step:
    return Step(
        "On the sending side: send the missing events again. Carry the bundle there first.",
        "gapless resend --bootstrap-servers=UPSTREAM --target-ip=RECEIVER --target-port=PORT "
        f"--resend-file-name={carried}",
    )


def _kafka(servers: str | None) -> str:
    return f"--bootstrap-servers={shlex.quote(servers or 'KAFKA')}"
