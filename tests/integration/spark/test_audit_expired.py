"""The proof that what Kafka deleted before an audit read it is unknown: never missing, and never closed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_spark.audit.audit_state import AuditState
from gapless_spark.output import jobs
from integration.spark.test_audit import audit as audited
from integration.spark.test_audit import receive
from kit.kafka.transactions import end_transaction, in_transaction

if TYPE_CHECKING:
    from conftest import TopicFactory
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from integration.spark.conftest import Ended, Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def events(partition: int, offsets: Iterable[int]) -> list[str | bytes | None]:
    return [f"t_{partition}_{offset}" for offset in offsets]


def audit(gapless: Gapless, kafka: KafkaBroker, topics: str, *more: str, engine: str = "local") -> Ended:
    return audited(gapless, kafka, topics, f"--engine={engine}", *more)


def counts(ended: Ended, partition: int = 0) -> tuple[int, int, int]:
    """Exit code, missing and unknown events of a source partition."""
    assert ended.report is not None, ended.err
    row = next(row for row in ended.report["partitions"] if row["partition"] == partition)
    assert ended.report["unknown"] == sum(row["unknown"] for row in ended.report["partitions"])
    return ended.code, row["missing"], row["unknown"]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_expired_before_the_first_audit_is_unknown_and_not_missing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, engine: str
) -> None:
    name = topic()
    receive(kafka, name, events(0, range(1000)))
    kafka.delete_records(name, 0, 1000)
    ended = audit(gapless, kafka, name, "--expect=t:0:0-999", engine=engine)
    assert counts(ended) == (4, 0, 1000)
    assert ended.gaps == {}
    assert ended.report is not None
    assert ended.report["outcome"] == "unknown-events"
    assert "1,000 events of 1 partition are unknown: Kafka deleted records before an audit read them" in ended.err
    asked = audit(gapless, kafka, name, "--expect=t:0:0-999", "--include-unknown", engine=engine)
    assert asked.gaps == {("t", 0): [[0, 999]]}
    assert counts(asked) == (4, 0, 1000)
    receive(kafka, name, events(0, (o for o in range(1000, 2500) if o not in {1200, 2300})))
    later = audit(gapless, kafka, name, "--expect=t:0:0-2499", engine=engine)
    assert (counts(later), later.gaps) == ((4, 1, 1001), {("t", 0): [[2300]]}), "after 1,000 kept ones it is certain"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_expires_after_an_audit_has_begun_is_unknown_and_does_not_end_it(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    """A long audit of a topic that is always full never reads the beginning of every partition in time."""
    name, look = topic(), AuditState.check_first_records
    receive(kafka, name, events(0, (o for o in range(3000) if o not in {300, 2500})))

    def look_and_wait(state: AuditState, connection: KafkaConnection, cut: Cut) -> None:
        look(state, connection, cut)
        kafka.delete_records(name, 0, 700)

    settings = ("--expect=t:0:0-2999", f"--state={tmp_path / 'state'}")
    with monkeypatch.context() as patched:
        patched.setattr(AuditState, "check_first_records", look_and_wait)
        ended = audit(gapless, kafka, name, *settings, engine=engine)
    assert (counts(ended), ended.gaps) == ((4, 1, 701), {("t", 0): [[2500]]})
    again = audit(gapless, kafka, name, *settings, engine=engine)
    assert (counts(again), again.gaps) == (counts(ended), ended.gaps), "the state remembers it"


def test_an_audit_that_retention_has_overtaken_goes_on_and_what_it_cannot_know_is_unknown(
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, state = topic(), tmp_path / "state"
    receive(kafka, name, events(0, (o for o in range(100) if o != 50)))
    first = audit(gapless, kafka, name, f"--state={state}")
    assert (counts(first), first.gaps) == ((0, 1, 0), {("t", 0): [[50]]})
    (tmp_path / "older.json").write_text(json.dumps(first.bundle))
    receive(kafka, name, events(0, range(100, 200)))  # and perhaps 50, sent again
    kafka.delete_records(name, 0, 199)
    receive(kafka, name, events(0, (o for o in range(200, 1400) if o != 1300)))
    second = audit(gapless, kafka, name, f"--state={state}")
    assert (counts(second), second.gaps) == ((4, 1, 101), {("t", 0): [[1300]]})
    again = audit(gapless, kafka, name, f"--state={state}")
    assert (counts(again), again.gaps) == (counts(second), second.gaps), "the state remembers it"
    report = tmp_path / "verified.json"
    where = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}", f"--state={state}", f"--report={report}")
    monkeypatch.setattr("sys.argv", ["gapless", "verify", str(tmp_path / "older.json"), *where])
    from gapless_api.cli import main  # noqa: PLC0415

    with pytest.raises(SystemExit) as ended:
        main.main()
    became = json.loads(report.read_text())["reconciliation"]
    assert (ended.value.code, became["closed"], became["open"], became["unknown"]) == (4, 0, 0, 1)
    receive(kafka, name, events(0, [50, *range(100, 200)]))
    third = audit(gapless, kafka, name, f"--state={state}")
    assert (counts(third), third.gaps) == ((0, 1, 0), {("t", 0): [[1300]]})


def test_where_all_that_was_kept_came_later_the_frontier_is_found_then(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name, state = topic(), f"--state={tmp_path / 'state'}"
    receive(kafka, name, events(0, range(300)))
    kafka.delete_records(name, 0, 300)
    assert counts(audit(gapless, kafka, name, state, "--expect=t:0:0-199")) == (4, 0, 200)
    assert counts(audit(gapless, kafka, name, state, "--expect=t:0:0-299")) == (4, 0, 300), "nobody has seen an end"
    receive(kafka, name, events(0, [7, *range(300, 1299)]))  # one is sent again
    assert counts(audit(gapless, kafka, name, state, "--expect=t:0:0-1399")) == (4, 101, 299)
    receive(kafka, name, events(0, range(1320, 1400)))
    ended = audit(gapless, kafka, name, state, "--expect=t:0:0-1399")
    assert (counts(ended), ended.gaps) == ((4, 21, 299), {("t", 0): [[1299, 1319]]})


def test_where_few_records_are_kept_they_may_all_be_sent_again_and_nothing_is_called_missing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    receive(kafka, name, events(0, range(200)))
    kafka.delete_records(name, 0, 200)
    receive(kafka, name, events(0, [3, 7]))  # sent again, while the live stream is silent
    ended = audit(gapless, kafka, name, "--expect=t:0:0-199")
    assert (counts(ended), ended.gaps) == ((4, 0, 198), {})


def test_where_all_kept_records_are_older_than_what_was_known_nothing_is_called_missing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name, state, wanted = topic(), f"--state={tmp_path / 'state'}", "--expect=t:0:0-299"
    receive(kafka, name, events(0, range(50, 100)))
    assert counts(audit(gapless, kafka, name, state, "--expect=t:0:0-99")) == (0, 50, 0)
    receive(kafka, name, events(0, range(100, 300)))
    kafka.delete_records(name, 0, 250)
    receive(kafka, name, events(0, [*range(40)] * 25))  # a resend of 25 copies
    assert counts(audit(gapless, kafka, name, state, wanted)) == (4, 0, 210)
    receive(kafka, name, events(0, range(300, 320)))
    ended = audit(gapless, kafka, name, state, "--expect=t:0:0-329")
    assert (counts(ended), ended.gaps) == ((4, 10, 210), {("t", 0): [[320, 329]]}), "the live stream was seen"


def test_only_partitions_that_lost_records_are_unknown_and_a_topic_that_is_added_harms_no_other(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name, other, state = topic(3), topic(), f"--state={tmp_path / 'state'}"
    receive(kafka, name, events(0, range(100)), 0)
    receive(kafka, name, events(1, (o for o in range(100) if o != 5)), 1)
    wanted = ("--expect=t:0:0-99", "--expect=t:1:0-99", "--expect=t:2:0-9")
    before = audit(gapless, kafka, name, state, *wanted)
    assert before.gaps == {("t", 0): [], ("t", 1): [[5]], ("t", 2): [[0, 9]]}, "a silent partition is missing"
    receive(kafka, other, [f"other_0_{offset}" for offset in range(100)])
    kafka.delete_records(other, 0, 60)
    both = audit(gapless, kafka, f"{name},{other}", state, *wanted, "--expect=other:0:0-99")
    assert both.gaps == {**before.gaps, ("other", 0): []}
    assert both.report is not None
    assert [row["unknown"] for row in both.report["partitions"]] == [60, 0, 0, 0]
    assert both.report["state"]["records_before"] == 199
    receive(kafka, name, events(0, range(100, 110)), 0)
    kafka.delete_records(name, 0, 105)
    after = audit(gapless, kafka, f"{name},{other}", state, *wanted, "--expect=t:0:100-109")
    assert after.gaps[("t", 1)] == [[5]]
    assert after.gaps[("t", 2)] == [[0, 9]], "no deleted record can have been of it"
    assert [counts(after, number)[1:] for number in (1, 2)] == [(1, 0), (10, 0)]
    gone = audit(gapless, kafka, name, state)
    assert gone.code == 2
    assert "give all topics of the state" in gone.err


def test_records_of_which_none_is_an_event_end_with_4_and_the_first_key(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(2)
    receive(kafka, name, [b"order\n\xff" + b"x" * 90, None, "order-2"], 1)
    ended = audit(gapless, kafka, name, "--expect=t:0:0-9")
    assert (ended.code, ended.gaps) == (4, {})
    assert f"None of 3 records of topic {name} has the key of an event" in ended.err
    assert "(the first key: 'order\\n\\\\xffxxx" in ended.err
    assert len(ended.err.splitlines()) == 1 or "\n\xff" not in ended.err


def test_events_behind_an_open_transaction_are_in_the_sentence(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    receive(kafka, name, ["t_0_0"])
    begun = in_transaction(kafka, name, [("t_0_1", b"x"), ("t_0_2", b"x")])
    ended = audit(gapless, kafka, name)
    end_transaction(begun, commit=False)
    assert f"2 records of topic {name} were not read, because a transaction before them is still open." in ended.out


@pytest.mark.parametrize("with_state", [False, True])
def test_events_that_an_open_transaction_may_hold_back_are_unknown(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path, *, with_state: bool
) -> None:
    name = topic(2)
    for partition in (0, 1):
        receive(kafka, name, events(partition, [0, 1, 5]), partition)
    options = ["--expect=t:0:0-9", "--expect=t:1:0-9", *([f"--state={tmp_path / 'state'}"] if with_state else [])]
    assert counts(audit(gapless, kafka, name, *options)) == (0, 7, 0)
    begun = in_transaction(kafka, name, [("t_0_2", b"x"), ("t_0_3", b"x")])
    receive(kafka, name, events(0, [4]))  # of another program, behind the transaction
    ended = audit(gapless, kafka, name, *options)
    assert (counts(ended, 0), counts(ended, 1)) == ((4, 0, 7), (4, 7, 0))
    assert ended.report is not None
    assert (ended.report["outcome"], ended.report["unknown_behind_transactions"]) == ("unknown-events", 7)
    assert "7 events are missing, in 2 ranges of 1 partition; 0 of 2 partitions are complete." in ended.err
    assert "7 events of 1 partition are unknown: an open transaction holds back records, which may" in ended.err
    assert "audit again when it has ended, or --include-unknown adds them to the bundle." in ended.err
    assert ended.gaps == {("t", 1): [[2, 4], [6, 9]]}
    end_transaction(begun, commit=True)
    after = audit(gapless, kafka, name, *options)
    assert (counts(after, 0), counts(after, 1)) == ((0, 4, 0), (0, 7, 0))


def test_a_run_that_is_stopped_after_its_state_was_written_says_so(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, state = topic(), tmp_path / "state"
    receive(kafka, name, ["t_0_0", "t_0_2"])

    def stop(*_: Any) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "compare_with_older", stop)  # what comes between the state and the bundle
        ended = audit(gapless, kafka, name, f"--state={state}")
        without = audit(gapless, kafka, name)
    assert (ended.code, without.code) == (143, 143)
    assert f"Stopped by SIGTERM after writing the state {state}; the next run continues from there" in ended.err
    assert "Stopped by SIGTERM; nothing was written." in without.err
    again = audit(gapless, kafka, name, f"--state={state}")
    assert again.gaps == {("t", 0): [[1]]}
    assert again.report is not None
    assert again.report["state"]["records_new"] == 0
