"""The archive part of the demonstration: lost events that Kafka has deleted upstream are resent from the archive.

Must not import the product: it only runs its commands and reads their output files.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from kit.kafka.compare import Comparison, compare_topics
from kit.kafka.events import fill_topic
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from kit.story.demo import Demo

_TOPIC = "orders"
_REFERENCE = "orders-reference"
"""The same events at the same offsets, for the comparison after the topic itself is empty."""
_EVENTS, _PARTITIONS = 20_000, 3
_MAX_ROUNDS = 6
_INCOMPLETE = 4
"""The exit code of a resend that could not send everything."""


def archive_act(demo: Demo) -> dict[str, Any]:
    """Run this part and return its result."""
    began = time.monotonic()
    console, archive = demo.console, demo.work / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    counts = fill_topic(demo.upstream, _TOPIC, events=_EVENTS, partitions=_PARTITIONS, seed=demo.arguments.seed + 1)
    _copy_to_reference(demo)
    demo.downstream.create_topic(_TOPIC, _PARTITIONS)
    console.print(f"\n[bold]Archive:[/bold] {_EVENTS:,} more events, in the topic {_TOPIC}, are archived as Parquet.")
    upstream = f"--bootstrap-servers={demo.upstream.bootstrap}"
    demo.gapless("archive", upstream, f"--topics={_TOPIC}", f"--archive={archive}", "--region=upstream", "--once")
    demo.gapless("verify-copy", f"kafka://{demo.upstream.bootstrap}/{_TOPIC}", f"{archive}#{_TOPIC}")
    console.print("  Topic and archive are identical.")
    demo.resend("orders-live", f"--topic={_TOPIC}", "--from=1970-01-01T00:00:00Z", copies=1)
    comparison = _compare(demo)
    lost = comparison.missing
    console.print(f"  {lost:,} of them did not arrive over the link.")

    console.print("\n[bold]Retention[/bold] deletes the topic's events upstream before they are resent.")
    demo.upstream.alter_topic(_TOPIC, retention_ms="1")
    wait_until(
        lambda: all(low == high for low, high in demo.upstream.watermarks(_TOPIC).values()),
        what="retention",
    )
    report = _round(demo, counts, "orders-expired", accept=(_INCOMPLETE,))
    expired = int(report["ledger"]["unavailable"])
    console.print(f"  Without the archive, {expired:,} of {lost:,} can no longer be sent: Kafka has deleted them.")
    rounds = 0
    while comparison.missing and rounds < _MAX_ROUNDS:
        rounds += 1
        console.print("\n[bold]Resend from the archive:[/bold]")
        report = _round(demo, counts, f"orders-{rounds}", f"--archive={archive}")
        comparison = _compare(demo)
        sent = report["ledger"]["sent"]
        console.print(f"  Sent {sent:,}; still missing: {comparison.missing:,}.")
    return {
        "events": _EVENTS,
        "lost_live": lost,
        "expired": expired,
        "rounds": rounds,
        "missing_final": comparison.missing,
        "byte_identical": comparison.complete,
        "seconds": round(time.monotonic() - began, 1),
    }


def _round(demo: Demo, counts: dict[int, int], name: str, *more: str, accept: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """Audit, and resend the missing events; return the report of the resend."""
    bundle = demo.work / "orders.bundle.json"
    demo.gapless(
        "audit",
        f"--bootstrap-servers={demo.downstream.bootstrap}",
        f"--topics={_TOPIC}",
        *(f"--expect={_TOPIC}:{partition}:0-{count - 1}" for partition, count in sorted(counts.items()) if count),
        "--engine=local",  # few events
        f"--resend-file-name={bundle}",
    )
    return demo.resend(name, f"--resend-file-name={bundle}", *more, copies=2, accept=accept)


def _copy_to_reference(demo: Demo) -> None:
    """Copy the events to the reference topic, at the same offsets."""
    demo.upstream.create_topic(_REFERENCE, _PARTITIONS)
    records = ({"value": each.value(), "partition": each.partition()} for each in demo.upstream.read(_TOPIC))
    demo.upstream.write(_REFERENCE, records)


def _compare(demo: Demo) -> Comparison:
    """Compare every event with the received one, byte for byte."""
    return compare_topics(
        demo.upstream.bootstrap, demo.downstream.bootstrap, _REFERENCE, received_topic=_TOPIC, id_topic=_TOPIC
    )
