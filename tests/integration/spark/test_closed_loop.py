"""The proof that the loop closes: every gap of a lossy live stream, the steps of docs/procedures/close-a-gap.md.

Upstream: a topic of transactions, some of them aborted, and a topic that the broker compacts. Between the sites a link
that loses 5 % of all datagrams, live and resent alike, and everything at chosen places: both
sides of a window's border, the end of a window, a whole window, the end of the stream, a whole partition.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.kafka.broker import KafkaBroker
from kit.kafka.compare import Comparison, compare_topics
from kit.kafka.events import EventSource
from kit.kafka.transactions import transactional_producer
from kit.machine.processes import wait_until
from kit.network.link import LossyLink
from kit.peer.detector import Detector
from kit.peer.receiver import Receiver
from kit.story.resending import PROGRAM, Resend

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

LOSS = 0.05
MOST_ROUNDS = 10
SHIFT = 2
"""What the senders add to this cluster's partition numbers."""
ORDERS, STATE = "orders_v.1", "state_of-things"
COUNTS = {0: 2500, 1: 7500, 2: 600}
"""Events of each partition of `ORDERS`; the detector's memory ends after 5000."""
KEYS, UPDATES = 400, 2400
EDGES: dict[int, list[list[int]]] = {0: [[950, 1050], [1990, 1999]], 1: [[2000, 2999], [6995, 7003]]}
"""Lost as a whole: across a border, to a window's end, a window, across a border."""


@dataclass
class Sites:
    """Both sites, what connects them, and the files that a person carries."""

    upstream: KafkaBroker
    downstream: KafkaBroker
    receiver: Receiver
    link: LossyLink
    detector: Detector
    folder: Path
    topics: dict[str, str]
    """Topic upstream to topic on the wire."""
    gaps: str
    produced: dict[tuple[str, int, int], bytes] = field(default_factory=dict, repr=False)
    """Every value that there ever was, by upstream topic, partition and offset."""

    def gapless(self, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """Run a command as a user does, and return its report."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        command = [str(PROGRAM), *map(str, arguments)]
        if arguments[0] not in {"inventory", "bundle"} and not any(part.startswith("--report") for part in command):
            command.append(f"--report={report}")
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert ended.returncode in codes, f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}"
        return json.loads(report.read_text()) if report.exists() else {}

    @property
    def names(self) -> list[str]:
        """What the live sender, resend and inventory all have to be told."""
        return [
            f"--bootstrap-servers={self.upstream.bootstrap}",
            f"--topic-translations={json.dumps(self.topics)}",
            f"--partition-start-value={SHIFT}",
        ]

    @property
    def received(self) -> str:
        """What an audit is to read."""
        return ",".join(sorted(self.topics.values()))

    def send(self, bundle: Path, *more: str, codes: tuple[int, ...] = (0,)) -> Path:
        """Resend `bundle` over the link, and return the report once everything that came through is in Kafka."""
        report = bundle.with_suffix(".report.json")
        way = ["--target-ip=127.0.0.1", f"--target-port={self.link.port}", "--eps=10000", f"--report={report}"]
        self.gapless("resend", *self.names, *way, f"--resend-file-name={bundle}", *more, codes=codes)
        assert self.link.wait_idle().overflowed == 0
        assert self.receiver.wait_idle()["lost_in_kafka"] == 0
        return report

    def live(self, name: str, gaps: dict[tuple[str, int], list[list[int]]], *, loss: float) -> None:
        """Let events cross the link for the first time; what is no event any more is no concern of a live sender."""
        self.link.change(drop=loss)
        wanted = {(self.topics[topic], number + SHIFT): ranges for (topic, number), ranges in gaps.items()}
        bundle = Resend(self.folder).bundle(wanted).rename(self.folder / f"{name}.json")
        self.send(bundle, codes=(0, 4))
        self.link.change(drop=LOSS)
        self.detector.drain()

    def remember(self, topic: str) -> set[tuple[str, int, int]]:
        """Note what is upstream now."""
        found = {}
        for message in self.upstream.read(topic, committed_only=False):
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            found[topic, partition, offset] = message.value() or b""
        self.produced |= found
        return set(found)

    def arrived(self, topic: str) -> dict[tuple[int, int], set[bytes]]:
        """Every value that was received, by upstream partition and offset."""
        found: defaultdict[tuple[int, int], set[bytes]] = defaultdict(set)
        for message in self.downstream.read(self.topics[topic]):
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            name, partition, offset = key.decode().rsplit("_", 2)
            assert name == self.topics[topic]
            found[int(partition) - SHIFT, int(offset)].add(value if isinstance(value, bytes) else b"")
        return found

    def compare(self, topic: str) -> Comparison:
        """Compare what exists upstream with what was received, byte for byte."""
        return compare_topics(
            self.upstream.bootstrap,
            self.downstream.bootstrap,
            topic,
            received_topic=self.topics[topic],
            id_topic=self.topics[topic],
            partition_shift=SHIFT,
            client_options={"isolation.level": "read_uncommitted"},  # as the live sender reads
        )

    def never_arrived(self, bundle: Path) -> set[tuple[str, int, int]]:
        """The offsets in `bundle` of which nothing was received: no events, whose empty events were lost on the link.

        A marker in a gap that was inferred is one: neither the detector nor an audit with an inventory misses it.
        """
        found = set()
        for entry in json.loads(bundle.read_text())["results"]:
            topic = next(upstream for upstream, name in self.topics.items() if name == entry["topic"])
            partition, received = entry["partition"] - SHIFT, self.arrived(topic)
            for gap in entry["gaps"] or []:
                listed = range(gap[0], gap[-1] + 1)
                found |= {(topic, partition, offset) for offset in listed if (partition, offset) not in received}
        assert not found & self.produced.keys()
        return found

    def scan(self, bundle: Path, *more: str) -> dict[str, Any]:
        """What the detector knows to be missing."""
        self.detector.drain()
        return self.gapless(
            "scan",
            f"--bootstrap-servers={self.downstream.bootstrap}",
            f"--topic={self.gaps}",
            f"--resend-file-name={bundle}",
            *more,
        )

    @property
    def looking(self) -> list[str]:
        """How an audit, and a verify, looks at what was received."""
        return [
            f"--bootstrap-servers={self.downstream.bootstrap}",
            f"--topics={self.received}",
            f"--state={self.folder / 'state'}",
            f"--expect-inventory={self.folder / 'inventory.json'}",
        ]


@pytest.fixture
def sites(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> Iterator[Sites]:
    names = {upstream: topic(SHIFT + 3, prefix=prefix) for upstream, prefix in ((ORDERS, "orders"), (STATE, "state"))}
    gaps = topic(cleanup_policy="compact", prefix="gaps")
    detector = Detector(kafka.bootstrap, sorted(names.values()), gap_topic=gaps, dedup_topic=topic(prefix="dedup"))
    with (
        KafkaBroker() as upstream,
        Receiver(kafka.bootstrap) as receiver,
        LossyLink(receiver.port, drop=LOSS, seed=20261121) as link,
    ):
        upstream.create_topic(ORDERS, len(COUNTS))
        upstream.create_topic(
            STATE, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001",
            max_compaction_lag_ms="100",
        )  # fmt: skip
        try:
            yield Sites(upstream, kafka, receiver, link, detector, tmp_path, names, gaps)
        finally:
            detector.close()


def take_orders(kafka: KafkaBroker) -> None:
    """Write transactions of forty events to each partition in turn; every fifth is aborted. Each ends with a marker."""
    producer = transactional_producer(kafka, "orders")
    sources = {partition: EventSource(ORDERS, partition, seed=5).events(count) for partition, count in COUNTS.items()}
    number = 0
    while sources:
        for partition, source in list(sources.items()):
            events = [event for _, event in zip(range(40), source, strict=False)]
            if not events:
                del sources[partition]
                continue
            producer.begin_transaction()
            for event in events:
                producer.produce(ORDERS, event.value, event.key, partition, timestamp=event.timestamp_ms)
            producer.flush()
            number += 1
            if number % 5:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
    transactional_producer(kafka, "orders")  # when all markers are written


def compacted(kafka: KafkaBroker) -> None:
    """Wait until the broker has really thrown away most of what was updated."""

    def is_compacted() -> bool:
        kafka.produce(STATE, [b"end"], keys=[b"end"])  # a segment is closed by the record after its time
        return len([message for message in kafka.read(STATE) if (message.offset() or 0) < UPDATES]) == KEYS

    wait_until(is_compacted, timeout_seconds=240, what="the compaction")


def less(whole: range, holes: list[list[int]]) -> list[list[int]]:
    """The ranges of `whole` that are not in `holes`."""
    gone = {offset for first, last in holes for offset in range(first, last + 1)}
    ranges: list[list[int]] = []
    for offset in whole:
        if offset in gone:
            continue
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ranges


def lose(sites: Sites) -> None:
    """Let everything cross the link live, with losses everywhere; the last partition and the end are lost whole."""
    take_orders(sites.upstream)
    values = (b"update %d " % number + b"." * (number * 7 % 3000) for number in range(UPDATES))
    sites.upstream.produce(STATE, values, keys=[b"%d" % (number % KEYS) for number in range(UPDATES)])
    sites.remember(ORDERS)
    sites.remember(STATE)
    ends = {number: end for number, (_, end) in sites.upstream.watermarks(ORDERS).items()}
    assert all(ends[number] >= count + count // 40 for number, count in COUNTS.items()), "there are markers"
    lost: dict[tuple[str, int], list[list[int]]] = {
        (ORDERS, 0): [*EDGES[0], [ends[0] - 30, ends[0] - 1]],
        (ORDERS, 1): EDGES[1],
        (ORDERS, 2): [[0, ends[2] - 1]],
        (STATE, 0): [[995, 1010], [1990, 1999]],
    }
    whole = {place: range(ends[place[1]] if place[0] == ORDERS else UPDATES) for place in lost}
    live = {place: less(whole[place], holes) for place, holes in lost.items()}
    sites.live("live", {place: ranges for place, ranges in live.items() if ranges}, loss=LOSS)
    sites.live("live-edges", lost, loss=1.0)
    compacted(sites.upstream)  # and what this adds never goes live: it is lost at the end of the stream
    sites.remember(STATE)


def test_every_gap_closes_and_the_detector_the_audit_and_the_bytes_agree(sites: Sites) -> None:
    lose(sites)
    folder = sites.folder
    everything = f"--topics={','.join(sites.topics)}"
    sites.gapless("inventory", *sites.names, everything, "--absent", f"--inventory={folder / 'inventory.json'}")
    truth = {topic: sites.compare(topic) for topic in sites.topics}
    lost = sum(comparison.missing for comparison in truth.values())
    assert lost > 2000
    assert all(comparison.different == 0 for comparison in truth.values())

    carried: list[tuple[Path, Path]] = []
    figures = []
    while len(carried) < MOST_ROUNDS:
        number = len(carried) + 1
        scanned, audited = folder / f"scan-{number}.json", folder / f"audit-{number}.json"
        scan = sites.scan(scanned, *(["--infer"] if number == 1 else []))
        audit = sites.gapless("audit", *sites.looking, f"--resend-file-name={audited}")
        figures.append((scan["missing"], audit["missing"]))
        if number == 1:
            assert audit["missing"] == lost, "an audit with an inventory is exact, to the offset"
            assert scan["inferred_events"] > 0
            assert (sites.topics[ORDERS], SHIFT + 2) not in {
                (row["topic"], row["partition"]) for row in scan["partitions"]
            }, "no detector knows of a silent partition"
        if scan["missing"] == audit["missing"] == 0:
            break
        bundle = folder / f"round-{number}.json"
        sites.gapless("bundle", "merge", bundle, scanned, audited)
        report = sites.send(
            bundle, "--unavailable=fill", "--copies=2", f"--checkpoint={folder / f'round-{number}.checkpoint'}"
        )
        carried.append((bundle, report))
    else:
        pytest.fail(f"still missing after {MOST_ROUNDS} rounds: {figures}")

    assert sites.detector.drain()["missing"] == 0
    assert audit["outcome"] == scan["outcome"] == "nothing-missing"
    filled = defaultdict(int)
    for topic, comparison in ((topic, sites.compare(topic)) for topic in sites.topics):
        assert (comparison.missing, comparison.different, comparison.extra_partitions) == (0, 0, 0), topic
        for place, values in sites.arrived(topic).items():
            produced = sites.produced.get((topic, *place))
            # What is no event, or is none any more, was filled with an empty one.
            assert values <= ({produced, b""} if topic == STATE else {b"" if produced is None else produced}), place
            filled[topic] += produced is None or (b"" in values and produced != b"")
    assert filled[ORDERS] > 0, "markers"
    assert filled[STATE] > 0, "what was compacted before it could be resent"

    reports = [f"--resend-report={report}" for _, report in carried]
    for number, (bundle, _) in enumerate(carried):
        looking = sites.looking if number == 0 else [f"--against={audited}"]
        verified = sites.gapless("verify", bundle, *looking, *reports)["reconciliation"]
        assert (verified["settled"], verified["open"], verified["unknown"], verified["new"]) == (True, 0, 0, 0)
        assert verified["unavailable"] == len(sites.never_arrived(bundle))
        if number == 0:
            assert verified["filled"] > 0
