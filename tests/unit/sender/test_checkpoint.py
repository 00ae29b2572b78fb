"""The proof that a checkpoint tells exactly what was done, however it was cut."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.replay.account import BatchResult, PartitionAccount, totals
from gapless_sender.replay.checkpoint import Checkpoint, load, locked, remove_shard_files, shard_path
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.source.plan import FILTERED, Reason

IDENTITY: dict[str, Any] = {"bundle": "abc", "from": None}
KEY = ("some_topic.x", 3)


def step(cursor: int, sent: int, **exceptions: list[tuple[int, int]]) -> BatchResult:
    made = BatchResult(cursor, sent)
    for kind, pairs in exceptions.items():
        for first, last in pairs:
            made.add(kind, first, last)
    return made


def written(path: Path, *steps: BatchResult) -> Checkpoint:
    progress = Progress()
    checkpoint = Checkpoint(path, IDENTITY, progress)
    for one in steps:
        progress.account(KEY).apply(one)
        checkpoint.add(KEY, one)
        checkpoint.save()
    return checkpoint


STEPS = (
    step(10, 8, filtered=[(3, 3)], Expired=[(0, 0)]),
    step(20, 9, NonExistent=[(15, 15)]),
    step(2**63 - 1, 5, filtered=[(30, 31)]),
)


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path, *STEPS).close()
    account = load(path, IDENTITY).accounts[KEY]
    assert (account.cursor, account.sent, account.counts[FILTERED], account.unavailable) == (2**63 - 1, 22, 3, 2)
    assert account.ranges(FILTERED) == OffsetRanges([(3, 3), (30, 31)])
    assert account.ranges(Reason.NON_EXISTENT) == OffsetRanges([(15, 15)])


def test_a_last_line_that_was_cut_anywhere_loses_only_its_batch(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path, *STEPS[:2]).close()
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert load(path, IDENTITY).accounts[KEY].cursor == 10
    path.write_bytes(whole)
    assert load(path, IDENTITY).accounts[KEY].cursor == 20


def test_a_rewritten_checkpoint_says_the_same_in_a_line_for_each_partition(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = written(path, *STEPS)
    before = list(load(path, IDENTITY).as_entries(IDENTITY))
    checkpoint.rewrite()
    assert path.read_bytes().count(b"\n") == 2
    assert list(load(path, IDENTITY).as_entries(IDENTITY)) == before
    checkpoint.add(KEY, step(2**63 - 1, 1))
    checkpoint.save()
    checkpoint.close()
    assert load(path, IDENTITY).accounts[KEY].sent == 23


def test_no_line_is_long_however_many_ranges_there_are(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    many = step(400_000, 7)
    many.exceptions = {
        str(reason): [(offset, offset) for offset in range(start, 400_000, 4)]
        for start, reason in enumerate((Reason.EXPIRED, Reason.NON_EXISTENT))
    }
    written(path, many).rewrite()
    lines = path.read_bytes().splitlines()
    assert len(lines) > 4
    assert max(map(len, lines)) < 1_000_000
    found = load(path, IDENTITY).accounts[KEY]
    assert (found.sent, found.cursor, found.unavailable) == (7, 400_000, 200_000)
    assert list(found.ranges(str(Reason.EXPIRED))) == many.exceptions[str(Reason.EXPIRED)]


def test_bounds_and_completion_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    progress = Progress()
    checkpoint = Checkpoint(path, IDENTITY, progress)
    checkpoint.append_bounds(KEY, (5, 99))
    assert load(path, IDENTITY).bounds == {KEY: (5, 99)}
    progress.complete = True
    checkpoint.rewrite()
    checkpoint.close()
    assert load(path, IDENTITY).complete
    assert load(path, IDENTITY).bounds == {KEY: (5, 99)}


def test_nothing_there_is_the_beginning(tmp_path: Path) -> None:
    assert load(tmp_path / "none", IDENTITY).accounts == {}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null\n", b"\x00\xff", b'{"gaplessCheckpoint":1}\n', b"text\n"]
)
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a checkpoint"):
        load(path, IDENTITY)


def test_a_checkpoint_of_a_later_version_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path).close()
    path.write_bytes(path.read_bytes().replace(b'"gaplessCheckpoint":3', b'"gaplessCheckpoint":4'))
    with pytest.raises(ConfigurationError, match="has version 4, and this program reads up to 3; continue with"):
        load(path, IDENTITY)


def test_a_checkpoint_of_before_topic_ids_is_gone_on_from(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(
        '{"gaplessCheckpoint":1,"resend":{"bundle":"abc","from":null},"complete":false,"partitions":[]}\n'
        '{"partitions":[{"topic":"some_topic.x","partition":3,"cursor":10,"sent":4}]}\n'
    )
    progress = load(path, IDENTITY)
    assert (progress.accounts[KEY].sent, progress.topic_ids) == (4, {})


def test_topic_ids_are_kept_through_lines_rewrites_and_the_files_of_processes(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = written(path)
    checkpoint.append_topic_id("upstream", "y8te5Ja4Tb6CKfoM0l5IJw")
    assert load(path, IDENTITY).topic_ids == {"upstream": "y8te5Ja4Tb6CKfoM0l5IJw"}
    checkpoint.rewrite()
    checkpoint.close()
    written(shard_path(path, 0)).append_topic_id("other", "9Xp7jU1uQi+7H11i1D1B2A")
    assert load(path, IDENTITY).topic_ids == {
        "upstream": "y8te5Ja4Tb6CKfoM0l5IJw",
        "other": "9Xp7jU1uQi+7H11i1D1B2A",
    }


def test_what_was_not_yet_written_is_wanted_again_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    last = step(40, 5, Expired=[(20, 20)], NotYetWritten=[(26, 30), (35, 39)])
    checkpoint = written(path, step(20, 20), last)
    checkpoint.progress.complete = True
    checkpoint.rewrite()
    checkpoint.close()
    progress = load(path, IDENTITY)
    account = progress.accounts[KEY]
    assert not progress.complete
    assert (account.cursor, account.sent, account.unavailable, account.accounted) == (26, 25, 1, 26)
    assert not account.ranges(Reason.NOT_YET_WRITTEN)
    again = Checkpoint(path, IDENTITY, progress)
    more = step(40, 10)
    account.apply(more)
    again.add(KEY, more)
    again.save()
    again.close()
    found = load(path, IDENTITY).accounts[KEY]
    assert (found.cursor, found.sent, found.unavailable) == (40, 35, 1)


@pytest.mark.parametrize(
    ("bounds", "steps", "kept"),
    [
        ((30, 20), [], False),  # A crash came before the result.
        ((30, 20), [step(31, 0, NotYetWritten=[(30, 30)])], False),
        ((20, 20), [step(21, 0, NotYetWritten=[(20, 20)])], False),
        ((20, 20), [], True),
        ((10, 20), [], True),
        ((10, 20), [step(20, 0, NotYetWritten=[(10, 19)])], True),
        ((30, 20), [step(32, 1, NotYetWritten=[(31, 31)])], True),
        ((30, 20), [step(31, 0, Expired=[(30, 30)])], True),
    ],
)
def test_an_open_range_keeps_its_end_unless_it_began_behind_it_and_nothing_came(
    tmp_path: Path, bounds: tuple[int, int], steps: list[BatchResult], *, kept: bool
) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = written(path, *steps)
    checkpoint.append_bounds(KEY, bounds)
    checkpoint.close()
    assert load(path, IDENTITY).bounds == ({KEY: bounds} if kept else {})


def test_a_checkpoint_of_another_resend_is_refused_with_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path).close()
    with pytest.raises(ConfigurationError, match=r'bundle was "abc" and is "xyz"'):
        load(path, {"bundle": "xyz", "from": None})


def test_the_files_of_processes_are_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "check[po]int"
    written(path, STEPS[0]).close()
    written(shard_path(path, 1), *STEPS[:2]).close()
    assert load(path, IDENTITY).accounts[KEY].cursor == 20
    remove_shard_files(path)
    assert load(path, IDENTITY).accounts[KEY].cursor == 10


def test_a_slow_disk_delays_nobody_and_what_was_saved_meanwhile_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = written(path)
    begun, ready = threading.Event(), threading.Event()
    to_disk = os.fdatasync

    def slow(handle: int) -> None:
        begun.set()
        assert ready.wait(20)
        to_disk(handle)

    monkeypatch.setattr(os, "fdatasync", slow)
    monkeypatch.setattr("gapless_sender.replay.checkpoint.SAVE_SECONDS", 0.0)
    for number in range(1, 6):
        checkpoint.add(KEY, step(10 * number, 10))
    assert begun.wait(20)
    assert load(path, IDENTITY).accounts[KEY].cursor == 10
    ready.set()
    checkpoint.save()
    assert load(path, IDENTITY).accounts[KEY].sent == 50
    checkpoint.close()


def test_what_a_full_disk_refused_is_saved_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = written(path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        checkpoint.add(KEY, step(10, 10))
        with pytest.raises(LocalStorageError, match="No space left on device"):
            checkpoint.save()
        assert KEY not in load(path, IDENTITY).accounts
    checkpoint.save()
    checkpoint.close()
    assert load(path, IDENTITY).accounts[KEY].sent == 10


def test_a_full_disk_is_said_at_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = written(tmp_path / "checkpoint")
    refused = threading.Event()

    def full(*_: object) -> None:
        refused.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", full)
    with monkeypatch.context() as patch:
        patch.setattr("gapless_sender.replay.checkpoint.SAVE_SECONDS", 0.0)
        checkpoint.add(KEY, step(10, 10))
    assert refused.wait(20)
    for thread in threading.enumerate():
        if thread.name == "background append":
            thread.join(20)
    with pytest.raises(LocalStorageError, match="No space left on device"):
        checkpoint.add(KEY, step(20, 10))


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with locked(path), pytest.raises(ConfigurationError, match="in use by another sender"), locked(path):
        pass
    with locked(path):
        pass


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(LocalStorageError, match="cannot be written"), locked(tmp_path / "no" / "checkpoint"):
        pass


@given(
    st.lists(st.sampled_from(["sent", "filtered", "filled", "outsideTimeRange", "notAskedFor", *Reason]), max_size=60),
    st.lists(st.integers(1, 7), min_size=1, max_size=8),
)
def test_the_account_adds_up_after_every_batch(fates: list[str], sizes: list[int]) -> None:
    requested = OffsetRanges([(0, len(fates) - 1)]) if fates else OffsetRanges()
    account = PartitionAccount()
    position = 0
    while position < len(fates):
        size = sizes[position % len(sizes)]
        made = BatchResult(min(position + size, len(fates)))
        for offset in range(position, made.cursor):
            if fates[offset] == "sent":
                made.sent += 1
            else:
                made.add(str(fates[offset]), offset, offset)
        account.apply(BatchResult.from_json(made.as_json()))
        position = made.cursor
        now = totals(requested, len(fates), account)
        assert now.is_balanced
        assert now.remaining == len(fates) - position
    final = totals(requested, len(fates), account)
    assert final.planned == sum(fate not in {"outsideTimeRange", "notAskedFor"} for fate in fates)
    assert final.unavailable == sum(fate in set(Reason) for fate in fates)
