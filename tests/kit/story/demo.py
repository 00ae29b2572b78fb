"""Owns the demonstration: the product's main job from end to end on one machine, told as it happens.

Runs the real ``gapless`` commands as a user would, against a real Kafka broker on each side and a link that loses
datagrams. Must not import the product: it only starts its commands and reads what they write.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from kit.certificates import make_receiver_keys
from kit.kafka.broker import KafkaBroker
from kit.kafka.compare import compare_topics
from kit.kafka.events import fill_topic
from kit.network.link import LossyLink
from kit.peer.detector import Detector
from kit.peer.receiver import Receiver
from kit.story.archive_act import archive_act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kit.kafka.compare import Comparison

TOPIC = "transfer"
PARTITIONS = 6
MOST_ROUNDS = 12
EXIT_INCOMPLETE = 1

console = Console(highlight=False)


class Demo:
    """One run of the demonstration with its brokers, its link and its result."""

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
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    def gapless(self, *arguments: str, accept: Sequence[int] = (0,)) -> None:
        """Run one product command, keeping what it prints in the work folder."""
        shown = " ".join(("gapless", *arguments))
        console.print(f"  [dim]$ {shown}[/dim]", soft_wrap=True)
        log = self.work / "commands.log"
        with log.open("a") as stream:
            stream.write(f"$ {shown}\n")
            stream.flush()
            ended = subprocess.run(["gapless", *arguments], stdout=stream, stderr=stream, check=False)
        if ended.returncode not in accept:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise SystemExit(f"gapless {arguments[0]} ended with {ended.returncode}:\n{tail}")

    def wait_until_received(self) -> None:
        """Wait until the receiver has written all that came through; a one-way link never says so itself."""
        self.link.wait_idle()
        self.receiver.wait_idle()

    def truth(self) -> Comparison:
        """Compare every event of the upstream topic with what arrived, byte for byte."""
        return compare_topics(self.upstream.bootstrap, self.downstream.bootstrap, TOPIC)

    def scan(self, bundle: Path) -> str:
        """Build the bundle from what the detector says is missing, and return what read it."""
        self.detector.drain()
        return self._find("scan", bundle, "--topic=gaps")

    def audit(self, bundle: Path, expected: Sequence[str]) -> str:
        """Build the bundle from the received events themselves, and return what read them."""
        return self._find("audit", bundle, f"--topics={TOPIC}", *(f"--expect={line}" for line in expected))

    def _find(self, command: str, bundle: Path, *source: str) -> str:
        report = bundle.with_suffix(".report.json")
        self.gapless(
            command,
            f"--bootstrap-servers={self.downstream.bootstrap}",
            *source,
            "--engine=spark",  # as on a cluster
            f"--resend-file-name={bundle}",
            f"--report={report}",
        )
        return str(json.loads(report.read_text())["read_by"])


def missing_in(bundle: Path) -> int:
    """How many events a bundle asks for, as it says itself."""
    return int(json.loads(bundle.read_text())["gapless"]["missing"])


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tell the story and return the result."""
    began = time.monotonic()
    work = arguments.build
    work.mkdir(parents=True, exist_ok=True)
    (work / "commands.log").unlink(missing_ok=True)
    with ExitStack() as stack:
        console.rule("[bold]Gapless: find the gaps, carry the bundle, close the gaps")
        console.print("Two real Kafka brokers, upstream and downstream, with a one-way link between them …")
        demo = Demo(arguments, work, stack)
        result = _story(demo, arguments, work)
        result["archive"] = None if arguments.short else archive_act(demo)
        return {**result, "seconds": round(time.monotonic() - began, 1)}


def _story(demo: Demo, arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    counts = fill_topic(demo.upstream, TOPIC, events=arguments.events, partitions=PARTITIONS, seed=arguments.seed)
    demo.downstream.create_topic(TOPIC, PARTITIONS)
    demo.downstream.create_topic("gaps", 3, cleanup_policy="compact")
    demo.downstream.create_topic("dedup", PARTITIONS)
    expected = [f"{TOPIC}:{partition}:0-{count - 1}" for partition, count in sorted(counts.items()) if count]
    console.print(
        f"Upstream topic [bold]{TOPIC}[/bold]: {arguments.events:,} events in {PARTITIONS} partitions, empty to "
        "64 KiB, some exactly as long as one packet holds, null values and headers among them."
    )

    console.print(
        f"\n[bold]Live:[/bold] everything goes once over a link that loses {arguments.loss:.0%} of its datagrams."
    )
    demo.resend("live", f"--topic={TOPIC}", "--from=1970-01-01T00:00:00Z", copies=1)
    truth = demo.truth()
    lost = truth.missing
    console.print(f"  {lost:,} of {arguments.events:,} events did not arrive.")

    rounds: list[dict[str, Any]] = []
    unavailable = 0
    while truth.missing and len(rounds) < MOST_ROUNDS:
        by = "audit" if rounds else "scan"
        bundle = work / f"round-{len(rounds) + 1}.bundle.json"
        if by == "scan":
            console.print("\n[bold]Scan:[/bold] the gaps topic is read and becomes a bundle.")
            read_by = demo.scan(bundle)
        else:
            console.print("\n[bold]Audit:[/bold] the received events themselves are looked at.")
            read_by = demo.audit(bundle, expected)
        console.print(f"  Read by [bold]{read_by}[/bold].")
        asked = missing_in(bundle)
        if by == "scan":
            never = truth.missing - asked
            console.print(
                f"  The detector knows of {asked:,}; {never:,} more are missing that it never reports "
                "(losses at the end of a window)."
            )
        else:
            console.print(f"  {asked:,} events are missing, to the offset.")
        console.print(
            f"  The bundle to carry: {bundle.stat().st_size:,} bytes. Resend, two copies, over the same lossy link:"
        )
        report = demo.resend(f"round-{len(rounds) + 1}", f"--resend-file-name={bundle}", copies=2)
        unavailable = report["ledger"]["unavailable"]
        before, truth = truth.missing, demo.truth()
        rounds.append(
            {
                "by": by,
                "read_by": read_by,
                "missing_before": before,
                "in_bundle": asked,
                "sent": report["ledger"]["sent"],
                "missing_after": truth.missing,
            }
        )
        console.print(f"  Sent {report['ledger']['sent']:,}; still missing: {truth.missing:,}.")
    if not rounds or rounds[-1]["by"] != "audit":
        bundle = work / "final.bundle.json"
        demo.audit(bundle, expected)
        if missing_in(bundle) != truth.missing:
            raise SystemExit("The audit and the comparison disagree; see build/demo/commands.log.")
    return {
        "events": arguments.events,
        "lost_live": lost,
        "rounds": rounds,
        "missing_final": truth.missing,
        "byte_identical": truth.missing == 0 and truth.different == 0 and truth.extra == 0,
        "unavailable": unavailable,
    }


def main() -> None:
    """Parse the arguments, run the demonstration, and end non-zero when anything is missing."""
    parser = argparse.ArgumentParser(prog="python -m kit.story.demo", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--loss", type=float, default=0.03, help="share of the datagrams that the link loses")
    parser.add_argument("--eps", type=float, default=20_000, help="pace of all sending, in events per second")
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--encrypt", action="store_true", help="encrypted and compressed")
    parser.add_argument("--short", action="store_true", help="without the archive")
    parser.add_argument("--build", type=Path, default=Path("build/demo"))
    result = run(parser.parse_args())
    table = Table(title="What happened", title_justify="left")
    for column in ("round", "by", "read by", "missing before", "in the bundle", "sent", "missing after"):
        table.add_column(column, justify="left" if column in {"by", "read by"} else "right")
    table.add_row("0", "live", "", f"{result['events']:,}", "", f"{result['events']:,}", f"{result['lost_live']:,}")
    for number, done in enumerate(result["rounds"], start=1):
        figures = (f"{done[key]:,}" for key in ("missing_before", "in_bundle", "sent", "missing_after"))
        table.add_row(str(number), done["by"], done["read_by"], *figures)
    console.print()
    console.print(table)
    act = result["archive"]
    if act is not None:
        console.print(
            f"With the archive: of {act['events']:,} events {act['lost_live']:,} were lost, of these "
            f"{act['expired']:,} deleted upstream; missing now: {act['missing_final']:,}."
        )
    complete = all(part["missing_final"] == 0 and part["byte_identical"] for part in (result, act or result))
    verdict = (
        "[green]Nothing is missing; every event is byte-identical.[/green]" if complete else "[red]Incomplete.[/red]"
    )
    console.print(f"{verdict} {result['seconds']} s. Result: build/demo/result.json")
    path = Path("build/demo/result.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(0 if complete else EXIT_INCOMPLETE)


if __name__ == "__main__":
    main()
