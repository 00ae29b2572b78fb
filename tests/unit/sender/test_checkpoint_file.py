"""The proof of when a checkpoint is saved, what its file says to the letter, and when it is begun anew."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_sender.replay import checkpoint as module
from gapless_sender.replay.account import BatchResult, PartitionAccount
from gapless_sender.replay.checkpoint import Checkpoint, load, locked, shard_path
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.source.plan import FILTERED

IDENTITY: dict[str, Any] = {"bundle": "abc"}
KEY = ("topic", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


class Noting:
    """A checkpoint to which steps are noted, at moments that a test chooses."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self.path = path
        self.progress = Progress()
        self.checkpoint = Checkpoint(path, IDENTITY, self.progress)

    def note(self, sent: int, **exceptions: list[tuple[int, int]]) -> None:
        step = BatchResult(self.progress.account(KEY).cursor + sent, sent, dict(exceptions))
        self.progress.account(KEY).apply(step)
        self.checkpoint.add(KEY, step)

    @property
    def saved(self) -> int:
        """How many events the file says were sent, once all that was begun is written."""
        self.checkpoint._wait()
        account = load(self.path, IDENTITY).accounts.get(KEY)
        return 0 if account is None else account.sent


@pytest.fixture
def noting(path: Path, monkeypatch: pytest.MonkeyPatch) -> Noting:
    return Noting(path, monkeypatch)


def test_nobody_else_may_read_a_checkpoint(path: Path) -> None:
    Checkpoint(path, IDENTITY, Progress()).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_may_be_sent_twice_is_half_a_second_or_16_000_events() -> None:
    assert (module.SAVE_SECONDS, module.SAVE_EVENTS) == (0.5, 16_000)


def test_what_was_noted_is_saved_after_half_a_second_and_from_then_on_after_the_next(noting: Noting) -> None:
    noting.note(1)
    noting.seconds += 0.49
    noting.note(1)
    assert noting.saved == 0
    noting.seconds += 0.01
    noting.note(1)
    assert noting.saved == 3
    noting.seconds += 0.49
    noting.note(1)
    assert noting.saved == 3
    noting.seconds += 0.01
    noting.note(1)
    assert noting.saved == 5
    noting.checkpoint.close()


def test_what_was_noted_is_saved_after_so_many_events_and_again_after_as_many(noting: Noting) -> None:
    for before in (0, 16_000):
        noting.note(15_999)
        assert noting.saved == before
        noting.note(1)
        assert noting.saved == before + 16_000
    noting.checkpoint.close()


def test_nothing_that_was_saved_is_written_again(noting: Noting) -> None:
    noting.note(7)
    noting.checkpoint.save()
    size = noting.path.stat().st_size
    noting.checkpoint.save()
    assert noting.path.stat().st_size == size
    noting.checkpoint.append_bounds(KEY, (3, 9))
    noting.checkpoint.close()
    assert load(noting.path, IDENTITY).accounts[KEY].sent == 7


def test_what_the_file_says_to_the_letter(path: Path) -> None:
    progress = Progress()
    checkpoint = Checkpoint(path, {"bundle": "abc", "from": None}, progress)
    checkpoint.append_topic_id("upstream", "id")
    checkpoint.append_bounds(("b", 1), (5, 9))
    checkpoint.append_bounds(("a", 2), (6, 2**63))
    checkpoint.add(("b", 1), BatchResult(4, 3, {FILTERED: [(0, 0)]}))
    checkpoint.add(("a", 2), BatchResult(2**63, 1))
    checkpoint.save()
    assert path.read_text().splitlines() == [
        '{"gaplessCheckpoint":3,"resend":{"bundle":"abc","from":null},"complete":false,"topicIds":{},"partitions":[]}',
        '{"topicIds":{"upstream":"id"},"partitions":[]}',
        '{"partitions":[{"topic":"b","partition":1,"bounds":[5,9]}]}',
        '{"partitions":[{"topic":"a","partition":2,"bounds":[6,9223372036854775808]}]}',
        (
            '{"partitions":[{"topic":"b","partition":1,"cursor":4,"sent":3,"filtered":[[0,0]]},'
            '{"topic":"a","partition":2,"cursor":9223372036854775808,"sent":1}]}'
        ),
    ]
    progress.account(("b", 1)).apply(BatchResult(4, 3, {FILTERED: [(0, 0)]}))
    progress.account(("a", 2)).apply(BatchResult(2**63, 1))
    progress.complete = True
    checkpoint.rewrite()
    checkpoint.close()
    assert path.read_text().splitlines() == [
        (
            '{"gaplessCheckpoint":3,"resend":{"bundle":"abc","from":null},"complete":true,"topicIds":{"upstream":"id"},'
            '"partitions":[{"topic":"a","partition":2,"bounds":[6,9223372036854775808]},'
            '{"topic":"b","partition":1,"bounds":[5,9]}]}'
        ),
        '{"partitions":[{"topic":"a","partition":2,"cursor":9223372036854775808,"sent":1}]}',
        '{"partitions":[{"topic":"b","partition":1,"cursor":4,"sent":3,"filtered":[[0,0]]}]}',
    ]


def test_a_file_that_has_grown_is_begun_anew(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._REWRITE_BYTES == 16 * 1024 * 1024
    monkeypatch.setattr(module, "_REWRITE_BYTES", 1000)
    noting.checkpoint.rewrite()
    limit = 2 * noting.path.stat().st_size + 1000
    sizes = []
    for _ in range(60):
        noting.note(1)
        noting.checkpoint.save()
        sizes.append(noting.path.stat().st_size)
    first = next(number for number in range(1, 60) if sizes[number] < sizes[number - 1])
    line = sizes[1] - sizes[0]
    assert limit - line < sizes[first - 1] <= limit
    assert sizes[first] < 300, "only the present state"
    assert max(sizes) <= limit + 2 * sizes[first]
    assert noting.saved == 60
    noting.checkpoint.close()


def test_a_file_begun_anew_has_nothing_of_what_the_disk_refused_before(
    noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    noting.note(7)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(LocalStorageError, match="No space left on device"):
            noting.checkpoint.save()
    noting.checkpoint.rewrite()
    assert noting.saved == 7
    noting.note(2)
    noting.checkpoint.save()
    assert noting.saved == 9
    noting.checkpoint.close()


def test_a_file_is_closed_once_however_often_that_is_asked(noting: Noting) -> None:
    noting.checkpoint.close()
    noting.checkpoint.close()
    noting.checkpoint.rewrite()
    noting.note(1)
    noting.checkpoint.save()
    noting.checkpoint.close()
    assert load(noting.path, IDENTITY).accounts[KEY].sent == 1


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_one_file_is_open_until_it_is_closed(noting: Noting) -> None:
    opened = open_files()
    for _ in range(3):
        noting.checkpoint.rewrite()
    assert open_files() == opened
    for _ in range(3):
        noting.checkpoint.close()
        assert open_files() == opened - 1


def test_whoever_closes_waits_for_what_is_being_written(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, write = threading.Event(), os.write

    def slow(handle: int, content: bytes) -> int:
        assert ready.wait(20)
        return write(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", slow)
        noting.note(16_000)
        threading.Timer(0.2, ready.set).start()
        noting.checkpoint.close()
    assert load(noting.path, IDENTITY).accounts[KEY].sent == 16_000


def applied(*steps: BatchResult) -> PartitionAccount:
    account = PartitionAccount()
    for step in steps:
        account.apply(step)
    return account


def test_of_two_accounts_that_which_has_come_further_is_taken() -> None:
    mine, theirs = Progress(), Progress()
    mine.accounts = {
        ("t", 0): applied(BatchResult(5, 5)),
        ("t", 1): applied(BatchResult(5, 5)),
        ("t", 2): applied(BatchResult(5, 5)),
    }
    theirs.accounts = {
        ("t", 0): applied(BatchResult(6, 6)),
        ("t", 1): applied(BatchResult(5, 5)),
        ("t", 2): applied(BatchResult(4, 4)),
    }
    theirs.accounts["t", 3] = applied(BatchResult(1, 1))
    kept = mine.accounts["t", 1]
    mine.bounds, theirs.bounds = {("t", 0): (1, 2)}, {("t", 0): (3, 4), ("t", 1): (5, 6)}
    mine.topic_ids, theirs.topic_ids = {"t": "mine"}, {"t": "theirs", "u": "theirs"}
    mine.merge(theirs)
    assert {key: account.sent for key, account in mine.accounts.items()} == {
        ("t", 0): 6, ("t", 1): 5, ("t", 2): 5, ("t", 3): 1,
    }  # fmt: skip
    assert mine.accounts["t", 1] is kept
    assert mine.bounds == {("t", 0): (1, 2), ("t", 1): (5, 6)}
    assert mine.topic_ids == {"t": "mine", "u": "theirs"}


def written(path: Path, *, complete: bool) -> None:
    progress = Progress()
    progress.complete = complete
    Checkpoint(path, IDENTITY, progress).close()


@pytest.mark.parametrize(("main", "shard"), [(False, False), (True, False), (False, True), (True, True)])
def test_one_file_that_says_complete_is_enough(path: Path, main: bool, shard: bool) -> None:  # noqa: FBT001
    written(path, complete=main)
    written(shard_path(path, 0), complete=shard)
    assert shard_path(path, 0).name == "checkpoint.shard-0"
    assert load(path, IDENTITY).complete is (main or shard)


def test_a_later_line_can_take_complete_back(path: Path) -> None:
    written(path, complete=True)
    with path.open("a") as file:
        file.write('{"complete":false,"partitions":[]}\n')
    assert load(path, IDENTITY).complete is False


def test_a_resend_has_no_more_than_twenty_settings(path: Path) -> None:
    for count in (20, 21):
        identity = {f"setting{number}": number for number in range(count)}
        Checkpoint(path, identity, Progress()).close()
        if count == 20:
            assert load(path, identity).complete is False
        else:
            with pytest.raises(ConfigurationError, match="is not a checkpoint"):
                load(path, identity)


@pytest.mark.parametrize("topic", [7, None, "", "a\nb"])
def test_an_entry_of_no_topic_is_refused(path: Path, topic: Any) -> None:
    written(path, complete=False)
    with path.open("a") as file:
        file.write(json.dumps({"partitions": [{"topic": topic, "partition": 0, "cursor": 1, "sent": 1}]}) + "\n")
    with pytest.raises(ConfigurationError, match="is not a checkpoint"):
        load(path, IDENTITY)


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ({"from": 5}, {"from": 6}, "(from was 5 and is 6)"),
        ({"from": 5}, {}, "(from was 5 and is not set)"),
        ({}, {"from": "now"}, '(from was not set and is "now")'),
        ({"b": 1, "a": 1, "c": 3}, {"b": 2, "a": 2, "c": 3}, "(a was 1 and is 2, b was 1 and is 2)"),
        ({"d": "x" * 20}, {"d": "y" * 21}, f'(d was "{"x" * 20}" and is {"y" * 12}…)'),
        ({"d": [1] * 20}, {"d": [1] * 21}, f"(d was {[1] * 20} and is {str([1] * 21)[:60]}…)"),
        ({"d" * 61: 1}, {}, f"({'d' * 60} was 1 and is not set)"),
        ({"\u202eevil": 1}, {}, "(\\u202eevil was 1 and is not set)"),
        ({"d": "\u202e" * 21}, {}, "(d was " + r"\u202e" * 12 + "… and is not set)"),
    ],
)
def test_what_differs_is_named_and_cut_to_what_one_can_read(
    path: Path, was: dict[str, Any], now: dict[str, Any], words: str
) -> None:
    Checkpoint(path, was, Progress()).close()
    with pytest.raises(ConfigurationError) as refused:
        load(path, now)
    assert words in str(refused.value)


def test_files_that_cannot_be_read_or_made_are_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(LocalStorageError, match="cannot be read"):
        load(path, IDENTITY)
    path.with_name("checkpoint.lock").mkdir()
    with pytest.raises(LocalStorageError, match="cannot be written"), locked(path):
        pass
