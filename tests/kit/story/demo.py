"""The demonstration: the product's main workflow from end to end on one machine, with a commentary.

Runs the real ``gapless`` commands as a user would, against a real Kafka broker on each side and a link that drops
datagrams. Must not import the product: it only runs its commands and reads their output files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kit.certificates import make_receiver_keys
from kit.kafka.broker import KafkaBroker
from kit.kafka.compare import Comparison, compare_topics
from kit.kafka.events import fill_topic
from kit.network.link import LossyLink
from kit.peer.detector import Detector
from kit.peer.receiver import Receiver
from kit.story.archive_act import archive_act

TOPIC = "transfer"
PARTITIONS = 6
MAX_ROUNDS = 12
EXIT_INCOMPLETE = 1

_ENGINE = "spark" if find_spec("pyspark") else "local"
"""What reads Kafka: Spark, as on a cluster, if it is installed."""

console = Console(highlight=False)


class Demo:
    """One run of the demonstration with its brokers and its link."""

    def __init__(self, arguments: argparse.Namespace, work: Path, stack: ExitStack) -> None:
        self.arguments = arguments
        self.console = console
        self.work = work
        self.upstream = stack.enter_context(KafkaBroker())
        self.downstream = stack.enter_context(KafkaBroker())
        keys = make_receiver_keys(work) if arguments.encrypt else None
        self.receiver = stack.enter_context(
            Receiver(self.downstream.bootstrap, private_keys=keys.private_key_glob if keys else None)
        )
        self.link = stack.enter_context(LossyLink(self.receiver.port, drop=arguments.loss, seed=arguments.seed))
        self.page = work / "round-1.html"
        self.detector = Detector(self.downstream.bootstrap, raw_topics=[TOPIC])
        self.encryption = (
            [
                "--encryption",
                f"--public-key-file={keys.certificate}",
                "--compress-when-length-exceeds=1024",
            ]
            if keys
            else []
        )

    def resend(self, name: str, *selection: str, copies: int, accept: Sequence[int] = (0,)) -> dict[str, Any]:
        """Run ``gapless resend`` over the link and return its report."""
        report = self.work / f"{name}.report.json"
        self.gapless(
            "resend",
            *selection,
            f"--bootstrap-servers={self.upstream.bootstrap}",
            "--target-ip=127.0.0.1",
            f"--target-port={self.link.port}",
            f"--copies={copies}",
            f"--eps={self.arguments.eps}",
            f"--report={report}",
            *self.encryption,
            accept=accept,
        )
        self.wait_until_received()
        content: dict[str, Any] = json.loads(report.read_text())
        return content

    def gapless(self, *arguments: str, accept: Sequence[int] = (0,)) -> None:
        """Run one `gapless` command and append its output to commands.log."""
        shown = " ".join(("gapless", *arguments))
        console.print(f"  [dim]$ {shown}[/dim]", soft_wrap=True)
        log = self.work / "commands.log"
        with log.open("a") as stream:
            stream.write(f"$ {shown}\n")
            stream.flush()
            completed = subprocess.run(["gapless", *arguments], stdout=stream, stderr=stream, check=False)
        if completed.returncode not in accept:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise SystemExit(f"gapless {arguments[0]} failed with exit code {completed.returncode}:\n{tail}")

    def wait_until_received(self) -> None:
        """Wait until the link and the receiver are idle; a one-way link has no acknowledgements."""
        self.link.wait_idle()
        self.receiver.wait_idle()

    def compare(self) -> Comparison:
        """Compare every event of the upstream topic with the received one, byte for byte."""
        return compare_topics(self.upstream.bootstrap, self.downstream.bootstrap, TOPIC)

    def scan(self, bundle: Path) -> str:
        """Build the bundle from the detector's gap records, and return the engine that read them."""
        self.detector.drain()
        # Most windows are old by now.
        return self._find_gaps("scan", bundle, "--topic=gaps", "--include-stale", f"--html={self.page}")

    def audit(self, bundle: Path, expected: Sequence[str]) -> str:
        """Build the bundle from the received events themselves, and return the engine that read them."""
        return self._find_gaps("audit", bundle, f"--topics={TOPIC}", *(f"--expect={line}" for line in expected))

    def _find_gaps(self, command: str, bundle: Path, *source: str) -> str:
        report = bundle.with_suffix(".report.json")
        self.gapless(
            command,
            f"--bootstrap-servers={self.downstream.bootstrap}",
            *source,
            f"--engine={_ENGINE}",
            f"--resend-file-name={bundle}",
            f"--report={report}",
        )
        return str(json.loads(report.read_text())["read_by"])


def missing_in(bundle: Path) -> int:
    """Return the number of missing events that a bundle states."""
    return int(json.loads(bundle.read_text())["gapless"]["missing"])


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the demonstration and return the result."""
    began = time.monotonic()
    work = arguments.build
    work.mkdir(parents=True, exist_ok=True)
    for old in ("commands.log", "round-1.html"):
        (work / old).unlink(missing_ok=True)
    with ExitStack() as stack:
        console.rule("[bold]Gapless: find the gaps, carry the bundle, close the gaps")
        console.print("Two real Kafka brokers, upstream and downstream, with a one-way link between them …")
        demo = Demo(arguments, work, stack)
        result = _close_gaps(demo, arguments, work)
        result["archive"] = None if arguments.short else archive_act(demo)
        page = str(demo.page) if demo.page.exists() else None  # nothing was lost
        return {**result, "page": page, "seconds": round(time.monotonic() - began, 1)}


def _close_gaps(demo: Demo, arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    counts = fill_topic(demo.upstream, TOPIC, events=arguments.events, partitions=PARTITIONS, seed=arguments.seed)
    demo.downstream.create_topic(TOPIC, PARTITIONS)
    demo.downstream.create_topic("gaps", 3, cleanup_policy="compact")
    demo.downstream.create_topic("dedup", PARTITIONS)
    expected = [f"{TOPIC}:{partition}:0-{count - 1}" for partition, count in sorted(counts.items()) if count]
    console.print(
        f"Upstream topic [bold]{TOPIC}[/bold]: {arguments.events:,} events in {PARTITIONS} partitions, from 0 bytes to "
        "64 KiB, some exactly one packet long, some with null values or headers."
    )

    console.print(
        f"\n[bold]Live:[/bold] every event is sent once over a link that drops {arguments.loss:.0%} of the datagrams."
    )
    demo.resend("live", f"--topic={TOPIC}", "--from=1970-01-01T00:00:00Z", copies=1)
    comparison = demo.compare()
    lost = comparison.missing
    console.print(f"  {lost:,} of {arguments.events:,} events did not arrive.")

    rounds: list[dict[str, Any]] = []
    unavailable = 0
    while comparison.missing and len(rounds) < MAX_ROUNDS:
        by = "audit" if rounds else "scan"
        bundle = work / f"round-{len(rounds) + 1}.bundle.json"
        if by == "scan":
            console.print("\n[bold]Scan:[/bold] a bundle is built from the gaps topic.")
            read_by = demo.scan(bundle)
        else:
            console.print("\n[bold]Audit:[/bold] a bundle is built from the received events themselves.")
            read_by = demo.audit(bundle, expected)
        console.print(f"  Read by [bold]{read_by}[/bold].")
        requested = missing_in(bundle)
        if by == "scan":
            unreported = comparison.missing - requested
            console.print(
                f"  The detector reports {requested:,}; {unreported:,} more are missing that it never reports "
                "(losses at the end of a window)."
            )
        else:
            console.print(f"  {requested:,} events are missing.")
        console.print(
            f"  The bundle has {bundle.stat().st_size:,} bytes. Resend, two copies, over the same lossy link:"
        )
        report = demo.resend(f"round-{len(rounds) + 1}", f"--resend-file-name={bundle}", copies=2)
        unavailable = report["ledger"]["unavailable"]
        before, comparison = comparison.missing, demo.compare()
        rounds.append(
            {
                "by": by,
                "read_by": read_by,
                "missing_before": before,
                "in_bundle": requested,
                "sent": report["ledger"]["sent"],
                "missing_after": comparison.missing,
            }
        )
        console.print(f"  Sent {report['ledger']['sent']:,}; still missing: {comparison.missing:,}.")
    if not rounds or rounds[-1]["by"] != "audit":
        bundle = work / "final.bundle.json"
        demo.audit(bundle, expected)
        if missing_in(bundle) != comparison.missing:
            raise SystemExit(f"The audit and the comparison disagree; see {work / 'commands.log'}.")
    return {
        "events": arguments.events,
        "lost_live": lost,
        "rounds": rounds,
        "missing_final": comparison.missing,
        "byte_identical": comparison.complete,
        "unavailable": unavailable,
    }


def main() -> None:
    """Parse the arguments, run the demonstration, and exit with `EXIT_INCOMPLETE` if any event is missing."""
    parser = argparse.ArgumentParser(prog="python -m kit.story.demo", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--loss", type=float, default=0.03, help="fraction of the datagrams that the link drops")
    parser.add_argument("--eps", type=float, default=20_000, help="send rate in events per second")
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--encrypt", action="store_true", help="encrypt and compress the events")
    parser.add_argument("--short", action="store_true", help="skip the archive")
    parser.add_argument("--build", type=Path, default=Path("build/demo"))
    arguments = parser.parse_args()
    result = run(arguments)
    table = Table(title="Summary", title_justify="left")
    for column in ("round", "by", "read by", "missing before", "in the bundle", "sent", "missing after"):
        table.add_column(column, justify="left" if column in {"by", "read by"} else "right")
    table.add_row("0", "live", "", f"{result['events']:,}", "", f"{result['events']:,}", f"{result['lost_live']:,}")
    for number, row in enumerate(result["rounds"], start=1):
        figures = (f"{row[key]:,}" for key in ("missing_before", "in_bundle", "sent", "missing_after"))
        table.add_row(str(number), row["by"], row["read_by"], *figures)
    console.print()
    console.print(table)
    archive = result["archive"]
    if archive is not None:
        console.print(
            f"With the archive: {archive['lost_live']:,} of {archive['events']:,} events were lost, and Kafka deleted "
            f"{archive['expired']:,} of these upstream; still missing: {archive['missing_final']:,}."
        )
    complete = all(part["missing_final"] == 0 and part["byte_identical"] for part in (result, archive or result))
    verdict = (
        "[green]Nothing is missing; every event is byte-identical.[/green]" if complete else "[red]Incomplete.[/red]"
    )
    path = arguments.build / "result.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"{verdict} {result['seconds']} s. Result: {path}", soft_wrap=True)
    if result["page"]:
        console.print(f"What the scan found, as a page for a browser: {result['page']}", soft_wrap=True)
    sys.exit(0 if complete else EXIT_INCOMPLETE)


if __name__ == "__main__":
    main()
