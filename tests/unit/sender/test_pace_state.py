"""The proof that programs which know nothing of each other keep one budget through a file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_sender.pace import pace_state
from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import BURST_SECONDS, CATCH_UP_SECONDS, Pace, Paces
from kit.machine.processes import wait_until

_SENDER = """
import os, sys, time
from pathlib import Path
from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import Pace
pace = Pace(float(sys.argv[2]), state=PaceState.in_file(Path(sys.argv[1])))
at_once = int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
while True:
    pace.admit(at_once, 0)
    os.write(1, b"%.6f\\n" % time.monotonic())
"""
_HOLDER = """
import sys, time
from pathlib import Path
from gapless_sender.pace.pace_state import PaceState
PaceState.in_file(Path(sys.argv[1])).lock()
print("held", flush=True)
time.sleep(600)
"""


class Steps:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _note(sender: subprocess.Popen[bytes], events: int, moments: list[tuple[float, int]]) -> None:
    """Note when the sender was let send, until it is killed."""
    assert sender.stdout
    moments.extend((float(line), events) for line in sender.stdout if line.endswith(b"\n"))


def test_programs_that_start_by_themselves_never_exceed_the_budget_together(tmp_path: Path) -> None:
    rate, file = 2000, str(tmp_path / "budget")
    with (
        started(_SENDER, file, str(rate), "1") as one,
        started(_SENDER, file, str(rate), "3") as two,
        started(_SENDER, file, str(rate), "8") as three,
    ):
        senders = {one: 1, two: 3, three: 8}
        for sender in senders:
            assert sender.stdout
            assert sender.stdout.readline() == b"ready\n"
        for sender in senders:
            assert sender.stdin
            sender.stdin.write(b"\n")
            sender.stdin.flush()
        moments: list[tuple[float, int]] = []
        readers = [Thread(target=_note, args=(sender, events, moments)) for sender, events in senders.items()]
        for reader in readers:
            reader.start()
        time.sleep(3.0)
        # Whoever is due first gets it, so on a busy machine one may have to wait for long.
        wait_until(lambda: {events for _, events in moments} == {1, 3, 8}, timeout_seconds=60, what="a share for all")
        for sender in senders:
            sender.kill()
        for reader in readers:
            reader.join()
    moments.sort()
    first = moments[0][0]
    counts = [sum(events for moment, events in moments if second <= moment - first < second + 1) for second in (0, 1)]
    # A moment is taken after the admission, so what a sender was let send before it had to wait shows up later.
    most_at_once, late = max(senders.values()), sum(senders.values())
    beyond = rate * (BURST_SECONDS + CATCH_UP_SECONDS) + most_at_once + late
    assert max(counts) <= rate + beyond, counts
    seconds = moments[-1][0] - first
    assert sum(events for _, events in moments) <= rate * seconds + beyond


def test_a_program_that_is_killed_while_it_holds_the_lock_blocks_nobody(tmp_path: Path) -> None:
    with started(_HOLDER, str(tmp_path / "budget")) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with started(_SENDER, str(tmp_path / "budget"), "1000", "1") as sender:
            time.sleep(0.5)
            assert sender.poll() is None, "it waits"
            holder.send_signal(signal.SIGKILL)
            assert sender.stdout
            assert sender.stdout.readline() == b"ready\n"
            assert sender.stdin
            sender.stdin.write(b"\n")
            sender.stdin.flush()
            assert float(sender.stdout.readline()) > 0


def test_the_file_holds_due_times_and_each_program_brings_its_rate(tmp_path: Path) -> None:
    clock, file = Steps(), tmp_path / "budget"
    slow = Pace(0.1, clock=clock, state=PaceState.in_file(file))
    fast = Pace(100, clock=clock, state=PaceState.in_file(file))
    assert (slow.rates, fast.rates) == ((0.1, None), (100, None))
    slow.admit(1, 0)
    began = clock.now()
    fast.admit(1, 0)
    assert clock.now() - began == pytest.approx(10, abs=0.1), "what the slow one owes is owed by all"
    owed = PaceState.in_file(file).dues[0]
    assert owed >= clock.now()
    Pace(100, clock=clock, state=PaceState.in_file(file))
    assert PaceState.in_file(file).dues[0] == owed, "joining clears no debt"


def test_due_times_of_before_a_restart_of_the_machine_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, boot = tmp_path / "budget", tmp_path / "boot_id"
    boot.write_text("11111111-1111-1111-1111-111111111111\n")
    monkeypatch.setattr(pace_state, "_BOOT_ID", boot)
    late = PaceState.in_file(file)
    late.dues[0] = 1e9
    assert PaceState.in_file(file).dues[0] == 1e9
    boot.write_text("22222222-2222-2222-2222-222222222222\n")
    assert PaceState.in_file(file).dues[0] == 0.0


@pytest.mark.parametrize("left_behind", [b"", bytes(5), bytes(64), b"GAPLBUD1", b"GAPLBUD1" + bytes(20)])
def test_what_a_killed_maker_left_behind_is_made_anew(tmp_path: Path, left_behind: bytes) -> None:
    file = tmp_path / "budget"
    file.write_bytes(left_behind)
    Pace(1000, state=PaceState.in_file(file)).admit(1, 0)
    assert PaceState.in_file(file).dues[0] > 0


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "letter"
    for content in (b"Dear all, this is no budget.", b"GAPLBUD1" + bytes(100)):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match="is not a budget file"):
            PaceState.in_file(file)
        assert file.read_bytes() == content


def test_a_place_that_takes_no_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalStorageError, match="none/budget cannot be used"):
        PaceState.in_file(tmp_path / "none" / "budget")
    with pytest.raises(LocalStorageError, match="Is a directory"):
        PaceState.in_file(tmp_path)


def test_the_slowest_of_several_paces_rules() -> None:
    clock = Steps()
    paces = Paces(Pace(100, clock=clock), Pace(1000, 8000, clock=clock), Pace(clock=clock))
    assert paces.rates == (100, 8000)
    assert not paces.unlimited
    assert paces.largest_burst(1, 1) == 1
    began = clock.now()
    for _ in range(500):
        paces.admit(1, 8)
    assert clock.now() - began == pytest.approx(5, abs=0.1)
    began = clock.now()
    for _ in range(100):
        paces.admit(1, 800)
    assert clock.now() - began == pytest.approx(10, abs=0.2)


def test_paces_without_limits_let_everything_through() -> None:
    paces = Paces(Pace(), Pace())
    assert paces.unlimited
    assert paces.rates == (None, None)
    assert paces.largest_burst(1, 1) > 10**6
    paces.admit(10**9, 10**9)
