"""The proof that `gapless audit` is exact for any stream, through a real broker and Spark, at once or in parts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kit.peer.arrivals import FOREIGN, Arrivals, Key, arrivals, missing_between, record_counts

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Ended, Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARTITIONS = 3
_folders = itertools.count()

# Each example runs Spark; a smaller one would not be found sooner than a person reads the first.
FEW = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def receive(kafka: KafkaBroker, topic: str, keys: list[Key]) -> None:
    for partition in range(PARTITIONS):
        mine = keys[partition::PARTITIONS]
        kafka.produce(topic, [b"event"] * len(mine), partition=partition, keys=mine)


def assert_exact(ended: Ended, stream: Arrivals, *, bounds_given: bool) -> None:
    """Compare bundle and report with brute force."""
    assert ended.code == 0, ended.err
    assert ended.report is not None
    arrived = stream.arrived
    expected = {}
    for place in stream.sent if bounds_given else arrived:
        offsets = arrived.get(place, [])
        bounds = stream.sent[place] if bounds_given else (min(offsets), max(offsets))
        expected[place] = missing_between(bounds[0], bounds[-1], offsets)
    assert ended.gaps == expected
    assert ended.report["foreign_keys"] == stream.foreign
    rows = {(row["topic"], row["partition"]): row for row in ended.report["partitions"]}
    for place, row in rows.items():  # the report lists a bounded number of them
        numbers = record_counts(arrived.get(place, []))
        assert (row["received"], row["duplicates"]) == (numbers["received"], numbers["duplicates"]), place
    every = record_counts(stream.keys)
    assert ended.report["records"] == every["records"]
    assert ended.report["missing"] == sum(
        first_last[-1] - first_last[0] + 1 for gaps in expected.values() for first_last in gaps
    )


def unreadable(keys: list[Key]) -> bool:
    """Whether there are keys, and none is an event's: an audit refuses such a topic, because it may be another one."""
    return bool(keys) and all(key in FOREIGN for key in keys)


@settings(FEW, max_examples=5)
@given(stream=arrivals(), share=st.floats(0, 1))
def test_any_stream_read_at_once_or_in_two_parts(  # noqa: PLR0917 -- fixtures and an example
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path, stream: Arrivals, share: float
) -> None:
    first = int(len(stream.keys) * share)
    assume(not unreadable(stream.keys) and not unreadable(stream.keys[:first]))
    name, state = topic(PARTITIONS), tmp_path / f"state-{next(_folders)}"
    expectations = tmp_path / "expected"
    expectations.write_text(
        "\n".join(f"{t}:{p}:{sent[0]}-{sent[-1]}" for (t, p), sent in stream.sent.items()), encoding="utf-8"
    )
    command = ("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}")
    receive(kafka, name, stream.keys[:first])
    begun = gapless(*command, f"--state={state}", "--engine=spark")
    assert begun.code == 0, begun.err
    receive(kafka, name, stream.keys[first:])
    assert_exact(gapless(*command, f"--state={state}"), stream, bounds_given=False)
    assert_exact(gapless(*command, f"--expect-file={expectations}", "--engine=spark"), stream, bounds_given=True)
    assert_exact(gapless(*command, f"--state={state}", f"--expect-file={expectations}"), stream, bounds_given=True)


@settings(FEW, max_examples=2)
@given(stream=arrivals(min_partitions=1000, max_partitions=1000, max_events=60))
def test_a_thousand_partitions(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path, stream: Arrivals
) -> None:
    name = topic(PARTITIONS)
    (tmp_path / "expected").write_text(
        "\n".join(f"{t}:{p}:{sent[0]}-{sent[-1]}" for (t, p), sent in stream.sent.items()), encoding="utf-8"
    )
    receive(kafka, name, stream.keys)
    command = ("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}", "--engine=spark")
    assert_exact(gapless(*command, f"--expect-file={tmp_path / 'expected'}"), stream, bounds_given=True)
