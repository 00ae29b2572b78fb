"""The proof that archive, restore and resend get over a store that is away: each record once, or one sentence."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from gapless_api.cli import main
from gapless_archive.reading import TopicArchive, open_archive
from gapless_archive.store import object_store
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from integration.archive.conftest import REGION, in_kafka
from kit.machine.processes import end, start_bound, wait_until
from kit.object_store import ObjectStore
from kit.store_proxy import CUT, CUT_IN_THE_MIDDLE, LOST_ANSWER, SILENCE, SLOW_DOWN, StoreProxy
from kit.story.resending import Resend, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

BUCKET = "outages"
PROGRAM = """
from datetime import timedelta
import gapless_spark.archiving.archive.continuous as continuous
from gapless_archive.store import object_store
continuous._FIND_TOPICS_SECONDS, continuous._FIRST_PAUSE_SECONDS = 0.5, 0.2
object_store._FIRST_PAUSE, object_store._TIMEOUTS["read_timeout"] = timedelta(milliseconds=10), timedelta(seconds=1)
from gapless_api.cli.main import main
main()
"""


class Typed(Protocol):
    """Runs ``gapless`` with the archive of the test; returns exit code and what was printed."""

    def __call__(self, *arguments: str) -> tuple[object, str]: ...


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[StoreProxy]:
    with StoreProxy(store) as running:
        yield running


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def access(store: ObjectStore, proxy: StoreProxy, tmp_path: Path) -> list[str]:
    """How programs reach the store by way of the proxy."""
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    keys = [f"--s3-access-key-id-file={tmp_path / 'access'}", f"--s3-secret-access-key-file={tmp_path / 'secret'}"]
    return [f"--s3-endpoint={proxy.endpoint}", *keys]


@pytest.fixture
def typed(
    kafka: KafkaBroker,
    address: str,
    access: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Typed:
    monkeypatch.setattr(object_store, "_FIRST_PAUSE", timedelta(milliseconds=10))

    def run(command: str, *arguments: str) -> tuple[object, str]:
        given = [f"--archive={address}", *access] if command != "verify-copy" else access
        if command in {"archive", "restore"}:
            given = [f"--bootstrap-servers={kafka.bootstrap}", *given]
        monkeypatch.setattr(sys, "argv", ["gapless", command, *given, *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        printed = capfd.readouterr()
        return ended.value.code, printed.err

    return run


def opened(store: ObjectStore, folder: Path, address: str, topic: str) -> TopicArchive:
    """An archive, past the proxy."""
    access = S3Access(store.endpoint, access_key_file=folder / "access", secret_key_file=folder / "secret")
    return open_archive(open_place(parse_place(address), access), topic)


def rows(archive: TopicArchive) -> list[dict[str, Any]]:
    """All records of partition 0, and the check that no offset is in two segments."""
    segments = archive.state.segments(0)
    assert all(before.end == after.first for before, after in itertools.pairwise(segments))
    pieces = archive.pieces(0, archive.covered(0))
    found = [row for piece in pieces for batch in archive.read(piece) for row in batch.to_pylist()]
    for row in found:
        del row["partition"]
    return found


def sentence(printed: str) -> str:
    """The last line of standard error, which is the error's."""
    last = printed.splitlines()[-1]
    assert last.startswith("gapless: "), printed
    assert "Traceback" not in printed
    return last


def test_a_program_that_archives_goes_on_when_the_store_is_back(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    store: ObjectStore,
    proxy: StoreProxy,
    access: list[str],
    address: str,
    tmp_path: Path,
    typed: Typed,
) -> None:
    orders, log = topic(), tmp_path / "log"
    command = [
        sys.executable, "-c", PROGRAM, "archive", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={orders}",
        f"--archive={address}", f"--region={REGION}", *access, "--trigger-interval=0.2", "--engine=local",
        "--max-segment-age=0s", f"--log-file-name={log}",
    ]  # fmt: skip
    kafka.produce(orders, [b"x"] * 50)
    running = start_bound(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def has(count: int) -> bool:
        try:
            return sum(one.records for one in opened(store, tmp_path, address, orders).state.all_segments()) == count
        except object_store.ConfigurationError:
            return False

    def pauses() -> int:
        return log.read_text().count("archiving pauses")

    try:
        wait_until(lambda: has(50), what="the first records")
        faults = {"": (SLOW_DOWN, CUT, SILENCE), "/chain/": (CUT_IN_THE_MIDDLE, LOST_ANSWER)}
        for number, (pattern, fault) in enumerate((key, one) for key, some in faults.items() for one in some):
            before = pauses()
            proxy.inject(fault, "PUT", pattern)
            kafka.produce(orders, [b"y" * 1000] * 50)
            wait_until(lambda before=before: pauses() > before, what=f"a pause for {fault}")
            proxy.heal()
            wait_until(lambda count=100 + 50 * number: has(count), what=f"the end of {fault}")
        proxy.inject(SLOW_DOWN)
        before = pauses()
        kafka.produce(orders, [b"z"])
        wait_until(lambda: pauses() > before, what="another pause")
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=40)
    finally:
        end(running)
    assert running.returncode == 143, err.decode()
    reasons = {json.loads(line)["reason"] for line in log.read_text().splitlines() if "archiving pauses" in line}
    assert all(reason.startswith(f"The object store of s3://{BUCKET} at {proxy.endpoint}") for reason in reasons)
    proxy.heal()
    assert rows(opened(store, tmp_path, address, orders)) == in_kafka(kafka, orders)[:-1]
    code, told = typed("archive", f"--topics={orders}", f"--region={REGION}", "--once", "--engine=local")
    assert code == 0, told
    code, told = typed("verify-copy", f"kafka://{kafka.bootstrap}/{orders}", f"{address}#{orders}", "--engine=local")
    assert code == 0, told


def test_one_run_ends_with_a_sentence_and_the_next_one_completes_it(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, store: ObjectStore, proxy: StoreProxy, address: str, tmp_path: Path,
    typed: Typed, resend: Resend, listener: Listener, access: list[str],
) -> None:  # fmt: skip
    orders = topic()
    archive = ("archive", f"--topics={orders}", f"--region={REGION}", "--once", "--engine=local")
    for pattern in (r"\.parquet", "/chain/", ""):
        kafka.produce(orders, [b"x" * 3000] * 300)
        if pattern:
            proxy.inject(SLOW_DOWN, "PUT", pattern)
            code, told = typed(*archive)
            assert (code, "(SlowDown)" in sentence(told)) == (3, True)
            proxy.heal()
        code, told = typed(*archive)
        assert code == 0, told
    rules = ("--min-segment-age=0", "--min-segment-size=0", "--min-segment-count=2", "--grace-period=0")
    compact = ("compact", *rules, "--engine=local")
    proxy.inject(CUT, "GET", "level-0")
    code, told = typed(*compact)
    assert (code, sentence(told).startswith("gapless: The object store of")) == (3, True)
    proxy.heal()
    assert typed(*compact)[0] == 0
    everything = in_kafka(kafka, orders)
    assert rows(opened(store, tmp_path, address, orders)) == everything
    (segment,) = opened(store, tmp_path, address, orders).state.all_segments()
    assert segment.level == 1

    copy = topic()
    restore = ("restore", f"--topics={orders}", f"--to-topic={copy}", "--engine=local")
    for fault in (SLOW_DOWN, CUT_IN_THE_MIDDLE):
        proxy.inject(fault, "GET", r"\.parquet")
        code, told = typed(*restore)
        assert (code, sentence(told).startswith("gapless: The object store of")) == (3, True)
        proxy.heal()
    code, told = typed(*restore)
    assert code == 0, told
    code, told = typed("verify-copy", f"{address}#{orders}", f"kafka://{kafka.bootstrap}/{copy}", "--engine=local")
    assert code == 0, told

    kafka.delete_records(orders, 0, 850)
    given = {argument[2:].partition("=")[0]: argument.partition("=")[2] for argument in access}
    settings = {"topic": orders, "partition": 0, "offsetFrom": 0, "offsetTo": 899, "archive": address, **given}
    settings["checkpoint"] = resend.folder / "checkpoint"
    proxy.inject(SLOW_DOWN, "GET", r"\.parquet")
    ended = resend.run(**settings)
    assert ended.exit_code == 3, ended.stderr
    assert "(SlowDown)" in sentence(ended.stderr)
    proxy.heal()
    rule = proxy.inject(CUT_IN_THE_MIDDLE, "GET", r"\.parquet", times=2)
    ended = resend.run(**settings)
    assert ended.exit_code == 0, ended.stderr
    assert (rule.met, ended.ledger["sent"]) == (2, 900)
    assert sorted(ids_of(listener.settled())) == sorted(f"{orders}_0_{offset}" for offset in range(900))


def test_a_restore_that_follows_waits_for_the_store(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    proxy: StoreProxy,
    access: list[str],
    address: str,
    tmp_path: Path,
    typed: Typed,
) -> None:
    orders, copy, log = topic(), topic(), tmp_path / "log"

    def archive_more() -> None:
        kafka.produce(orders, [b"x" * 3000] * 100)
        assert typed("archive", f"--topics={orders}", f"--region={REGION}", "--once", "--engine=local")[0] == 0

    def written() -> int:
        return len(kafka.read(copy))

    archive_more()
    command = [
        sys.executable, "-c", PROGRAM, "restore", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={orders}",
        f"--to-topic={copy}", f"--archive={address}", *access, "--follow", "--follow-interval=0.3", "--engine=local",
        f"--log-file-name={log}",
    ]  # fmt: skip
    running = start_bound(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: written() == 100, what="the first records")
        proxy.inject(SLOW_DOWN, "GET", r"\.parquet")
        archive_more()
        wait_until(lambda: "the restore waits" in log.read_text(), what="a pause")
        proxy.heal()
        wait_until(lambda: written() == 200, what="the records after the pause")
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=40)
    finally:
        end(running)
    assert running.returncode == 143, err.decode()
    code, told = typed("verify-copy", f"{address}#{orders}", f"kafka://{kafka.bootstrap}/{copy}", "--engine=local")
    assert code == 0, told
