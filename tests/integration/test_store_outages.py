"""The proof that a store which refuses, is silent or loses answers costs time or one sentence, never data."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError, StoppedError, StoreUnreachableError
from gapless_archive.catalog.chain import Chain, Changes, ConflictError, new_writer
from gapless_archive.catalog.entry import LostRange
from gapless_archive.compaction.compactor import CompactionOptions, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules
from gapless_archive.segments.reader import SegmentDamagedError, read_segment
from gapless_archive.store import object_store
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from gapless_spark.archiving.archive.chains import FencedError, TopicChain
from kit.object_store import ObjectStore
from kit.store_proxy import CUT, CUT_IN_THE_MIDDLE, LOST_ANSWER, SILENCE, SLOW_DOWN, Fault, StoreProxy
from unit.archive.archives import ID, archived, chain, read

pytestmark = pytest.mark.integration

BUCKET = "outages"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[StoreProxy]:
    with StoreProxy(store) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tries as ever, sooner one after the other."""
    monkeypatch.setattr(object_store, "_FIRST_PAUSE", timedelta(milliseconds=10))


@pytest.fixture
def place(store: ObjectStore, proxy: StoreProxy, tmp_path: Path) -> Place:
    return opened(store, proxy, tmp_path)


def opened(store: ObjectStore, proxy: StoreProxy, folder: Path) -> Place:
    (folder / "access").write_text(store.ACCESS_KEY)
    (folder / "secret").write_text(store.SECRET_KEY)
    access = S3Access(proxy.endpoint, access_key_file=folder / "access", secret_key_file=folder / "secret")
    return open_place(parse_place(f"s3://{BUCKET}/{folder.name}"), access)


def use(place: Place, folder: Path) -> None:
    """Do everything that can be done with a place, and check what comes of it."""
    (folder / "file").write_bytes(b"content" * 1000)
    place.put("a/put", folder / "file")
    assert place.create("a/created", b"new")
    assert not place.create("a/created", b"another")
    assert place.read("a/put") == b"content" * 1000
    assert place.read_ranges("a/put", [(7, 7), (5000, 3)]) == [b"content", b"nte"]
    assert (place.size("a/created"), place.size("a/none")) == (3, None)
    assert place.keys("a") == ["a/created", "a/put"]
    assert place.children("") == ["a"]
    place.delete("a/created")
    assert place.keys("a") == ["a/put"]


@pytest.mark.parametrize(
    "fault", [SLOW_DOWN, Fault(status=500, code="InternalError"), Fault(status=429, code="TooManyRequests")]
)
def test_a_store_that_asks_to_slow_down_is_asked_again(
    place: Place, proxy: StoreProxy, tmp_path: Path, fault: Fault
) -> None:
    rules = [proxy.inject(fault, method, times=2) for method in ("PUT", "GET", "HEAD", "DELETE")]
    use(place, tmp_path)
    assert [rule.met for rule in rules] == [2, 2, 2, 2]


@pytest.mark.parametrize("fault", [CUT_IN_THE_MIDDLE, SILENCE])
def test_content_that_breaks_off_or_does_not_come_is_read_again(
    store: ObjectStore, proxy: StoreProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setitem(object_store._TIMEOUTS, "read_timeout", timedelta(seconds=1))
    place = opened(store, proxy, tmp_path)
    archived(place, {0: (0, 400)})
    rule = proxy.inject(fault, "GET", r"\.parquet", times=2)
    (segment,) = chain(place).load().segments(0)
    assert sum(rows.num_rows for rows in read_segment(place, segment)) == 400
    assert rule.met == 2


def test_content_that_comes_slowly_is_waited_for(place: Place, proxy: StoreProxy) -> None:
    archived(place, {0: (0, 400)})
    rule = proxy.inject(Fault(bytes_per_second=20_000), "GET", r"\.parquet")
    (segment,) = chain(place).load().segments(0)
    assert sum(rows.num_rows for rows in read_segment(place, segment)) == 400
    assert rule.met > 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (SLOW_DOWN, "(SlowDown)"),
        (Fault(status=429, code="TooManyRequests"), "(TooManyRequests)"),
        (Fault(status=408, code="RequestTimeout"), "(RequestTimeout)"),
        (CUT, "("),
    ],
)
def test_a_store_that_stays_away_is_one_sentence_after_some_tries(
    place: Place, proxy: StoreProxy, tmp_path: Path, fault: Fault, words: str
) -> None:
    archived(place, {0: (0, 10)})
    (segment,) = chain(place).load().segments(0)
    (tmp_path / "file").write_bytes(b"content")
    put = proxy.inject(fault, "PUT")
    with pytest.raises(StoreUnreachableError) as failed:
        place.put("a", tmp_path / "file")
    assert 2 <= put.met <= 8
    assert words in str(failed.value)
    assert str(failed.value).endswith("; check its address, its certificate and the network, and run this again.")
    proxy.inject(fault)
    for action in (
        lambda: place.create("b", b""),
        lambda: place.read("a"),
        lambda: place.keys(""),
        lambda: place.delete("a"),
        lambda: list(read_segment(place, segment)),
    ):
        with pytest.raises(StoreUnreachableError):
            action()
    proxy.heal()
    assert [key for key in place.keys("") if "/" not in key] == []


def test_a_store_that_is_silent_is_one_sentence_after_some_tries(
    store: ObjectStore, proxy: StoreProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(object_store._TIMEOUTS, "read_timeout", timedelta(milliseconds=200))
    place = opened(store, proxy, tmp_path)
    rule = proxy.inject(SILENCE)
    with pytest.raises(StoreUnreachableError, match=r"does not answer \(no answer in time\)"):
        place.keys("")
    assert 2 <= rule.met <= 8


def test_a_signal_ends_the_waiting_for_a_store_that_is_silent(
    store: ObjectStore, proxy: StoreProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(object_store._TIMEOUTS, "read_timeout", timedelta(seconds=3))
    place = opened(store, proxy, tmp_path)
    rule = proxy.inject(SILENCE)

    def end(*_: object) -> None:
        raise StoppedError("stopped", by_terminal=False)

    before = signal.signal(signal.SIGALRM, end)
    try:
        for action in (lambda: place.keys(""), lambda: place.read("a"), lambda: place.create("a", b"")):
            tries = rule.met
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(StoppedError):
                action()
            assert rule.met - tries <= 1, "it was asked again before the signal was heard"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_credentials_that_run_out_while_a_segment_is_read_are_no_damage(place: Place, proxy: StoreProxy) -> None:
    archived(place, {0: (0, 10)})
    (segment,) = chain(place).load().segments(0)
    proxy.inject(Fault(status=403, code="ExpiredToken"), "GET", r"\.parquet")
    with pytest.raises(ConfigurationError, match=r"cannot be read \(ExpiredToken\); correct the address, the cred"):
        list(read_segment(place, segment))
    proxy.heal()
    place.delete(segment.object)
    with pytest.raises(SegmentDamagedError, match="is missing; restore it from a backup"):
        list(read_segment(place, segment))


@pytest.mark.parametrize("fault", [LOST_ANSWER, Fault(status=500, code="InternalError", is_applied=True)])
def test_a_commit_whose_answer_was_lost_is_known_for_ones_own(place: Place, proxy: StoreProxy, fault: Fault) -> None:
    archived(place, {0: (0, 10)})
    mine, other = chain(place), chain(place)
    state, stale = mine.load(), other.load()
    rule = proxy.inject(fault, "PUT", "/chain/", times=1)
    assert mine.commit(state, Changes(action="hold", hold=True)).sequence == 2
    assert rule.met == 1
    with pytest.raises(ConflictError):
        other.commit(stale, Changes(action="hold", hold=False))
    assert chain(place).load().is_held


def test_a_commit_that_the_store_puts_off_for_another_one_is_tried_again(place: Place, proxy: StoreProxy) -> None:
    archived(place, {0: (0, 10)})
    rule = proxy.inject(Fault(status=409, code="ConditionalRequestConflict"), "PUT", "/chain/", times=2)
    ours = chain(place)
    ours.update(lambda state: None if state.is_held else Changes(action="hold", hold=True))
    assert (rule.met, chain(place).load().sequence) == (2, 2)


def test_of_many_writers_each_makes_its_commit_once(store: ObjectStore, proxy: StoreProxy, tmp_path: Path) -> None:
    writers, commits = 4, 5
    archived(opened(store, proxy, tmp_path), {0: (0, 10)})
    together = threading.Barrier(writers, timeout=30)
    made: list[int] = []

    def write(own: Chain) -> None:
        together.wait()
        made.extend(own.update(lambda _: Changes(action="hold", hold=True)).sequence for _ in range(commits))

    threads = [threading.Thread(target=write, args=[chain(opened(store, proxy, tmp_path))]) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = Counter(one.path for one in proxy.requests if (one.method, one.status) == ("PUT", 200))
    assert [path for path, count in accepted.items() if count > 1] == [], "the kit's store has no conditional puts"
    assert sorted(made) == list(range(2, 2 + writers * commits))
    refused = [one for one in proxy.requests if one.method == "PUT" and one.status == 412]
    assert refused, "no two writers have met"


def test_of_two_programs_that_archive_the_earlier_one_is_fenced(
    store: ObjectStore, proxy: StoreProxy, tmp_path: Path
) -> None:
    def begun() -> TopicChain:
        found = TopicChain(opened(store, proxy, tmp_path), "r", "t", ID, writer=new_writer())
        found.claim()
        return found

    def archive(found: TopicChain, first: int) -> bool:
        lost = [LostRange(0, first, first + 1)]
        return found.commit([], lost, cluster_id="c", partitions=1, configuration=None)

    earlier = begun()
    assert archive(earlier, 0)
    proxy.inject(LOST_ANSWER, "PUT", "/chain/", times=1)
    later = begun()
    assert archive(later, 1)
    with pytest.raises(FencedError, match=r"has started to archive t to s3://outages/.* \(epoch 2 after 1\)"):
        archive(earlier, 1)
    assert archive(later, 2)
    assert [(one.first, one.end) for one in chain(place=opened(store, proxy, tmp_path)).load().lost] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


RULES = CompactionOptions(
    rules=CompactionRules(min_segment_count=2, min_segment_bytes=0, min_segment_age=timedelta(0)),
    grace_period=timedelta(0),
)


@pytest.mark.parametrize(
    ("method", "pattern", "fault"),
    [
        ("PUT", r"/1/\d.*\.parquet", SLOW_DOWN),
        ("GET", r"/1/\d.*\.parquet", SLOW_DOWN),
        ("PUT", "/chain/", CUT),
        ("PUT", "/chain/", LOST_ANSWER),
        ("DELETE", "level-0", SLOW_DOWN),
    ],
)
def test_a_compaction_loses_nothing_whatever_the_store_refuses(
    place: Place, proxy: StoreProxy, method: str, pattern: str, fault: Fault
) -> None:
    for first in range(0, 100, 20):
        archived(place, {0: (first, first + 20), 2: (first, first + 20)})
    before = [read(place, partition) for partition in (0, 2)]
    rule = proxy.inject(fault, method, pattern)
    with pytest.raises(StoreUnreachableError):
        run(place)
    assert rule.met > 1 or fault is CUT
    proxy.heal()
    assert [read(place, partition).equals(old) for partition, old in zip((0, 2), before, strict=True)] == [True, True]
    run(place)
    state = chain(place).load()
    assert [read(place, partition).equals(old) for partition, old in zip((0, 2), before, strict=True)] == [True, True]
    assert [(one.first, one.end, one.level) for one in state.all_segments()] == 2 * [(0, 100, 1)]
    orphans = {key for key in place.keys("") if "/chain/" not in key} - state.objects
    assert len(orphans) <= (2 if pattern == "/chain/" else 0), "only what may be part of a commit stays"


def run(place: Place) -> None:
    compact([chain(place)], RULES, lambda _: LocalRunner(lambda _: place, parallelism=1, max_row_group_records=None))


MIB = 1 << 20


def test_a_large_object_goes_in_parts_and_is_never_copied_by_the_store(
    place: Place, proxy: StoreProxy, tmp_path: Path
) -> None:
    content = random.Random(1).randbytes(11 * MIB)
    (tmp_path / "large").write_bytes(content)
    rule = proxy.inject(SLOW_DOWN, "PUT", "partNumber=2", times=2)
    place.put("large", tmp_path / "large")
    parts = sorted(one.body_bytes for one in proxy.requests if "partNumber=" in one.path and one.status == 200)
    assert (parts, rule.met) == ([MIB, 5 * MIB, 5 * MIB], 2)
    assert place.read("large") == content
    assert not any("x-amz-copy-source" in one.headers for one in proxy.requests)


def test_a_large_object_of_which_the_last_answer_was_lost_is_written_again(
    place: Place, proxy: StoreProxy, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(6 * MIB))
    proxy.inject(LOST_ANSWER, "POST", "uploadId=", times=1)
    with pytest.raises(StoreUnreachableError):
        place.put("large", tmp_path / "large")
    place.put("large", tmp_path / "large")
    assert place.size("large") == 6 * MIB


def test_a_large_object_that_cannot_be_finished_leaves_nothing(
    place: Place, store: ObjectStore, proxy: StoreProxy, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(11 * MIB))
    proxy.inject(SLOW_DOWN, "PUT", "partNumber=2")
    with pytest.raises(StoreUnreachableError):
        place.put("large", tmp_path / "large")
    assert place.size("large") is None
    assert [one.method for one in proxy.requests if "uploadId=" in one.path][-1] == "DELETE", "parts stay in the store"
    assert not [key for key in store.keys(BUCKET) if tmp_path.name in key]


def test_a_large_object_whose_removal_is_refused_is_no_error_of_settings(
    place: Place, proxy: StoreProxy, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(11 * MIB))
    proxy.inject(SLOW_DOWN, "PUT", "partNumber=2")
    proxy.inject(Fault(status=400, code="BadRequest"), "DELETE", "uploadId=")
    with pytest.raises(StoreUnreachableError, match="run this again"):
        place.put("large", tmp_path / "large")
