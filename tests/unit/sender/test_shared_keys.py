"""The proof that senders which replace a key together always send with the one key that the receiver has."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_sender.link.shared_keys import SharedKeys, derive_key
from gapless_sender.wire.encryption import MESSAGES_PER_KEY, KeyExchange, SessionKey
from gapless_sender.wire.key_schedule import KeyTimings

VECTORS = Path(__file__).parents[1] / "vectors"
EXCHANGE = KeyExchange.load(VECTORS / "test-cert.pem")
SECRET = bytes(range(32))
EVERY = 100.0
RECEIVER_IGNORES_SECONDS = 1.0


class Machine:
    """The clock of all senders, and the receiver, which has one key and ignores what comes too soon after another."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.announcements: list[tuple[float, bytes]] = []
        self.installed: bytes | None = None
        self._installed_at = -100.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def send(self, datagrams: Sequence[bytes]) -> None:
        (datagram,) = datagrams
        self.announcements.append((self.seconds, datagram))
        if self.seconds - self._installed_at >= RECEIVER_IGNORES_SECONDS:
            self.installed, self._installed_at = _unwrapped(datagram), self.seconds


_PRIVATE = serialization.load_pem_private_key((VECTORS / "test-private.pem").read_bytes(), None)


def _unwrapped(datagram: bytes, known: dict[bytes, bytes] = {}) -> bytes:  # noqa: B006 -- RSA is slow
    if datagram not in known:
        block = datagram[-256:]
        oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)
        known[datagram] = _PRIVATE.decrypt(block, oaep)[-32:]  # type: ignore[union-attr]
    return known[datagram]


class Waits(Exception):  # noqa: N818 -- no error: the sender has to wait for another one
    pass


class Impatient:
    """A clock for senders that must not wait."""

    def __init__(self, machine: Machine) -> None:
        self.now = machine.now

    def sleep(self, _seconds: float) -> None:
        raise Waits


def sender(machine: Machine, path: Path, *, waits: bool = True, secret: bytes = SECRET, **others: Any) -> SharedKeys:
    return SharedKeys(
        EXCHANGE,
        machine,  # type: ignore[arg-type]
        payload_size=1400,
        timings=KeyTimings(),
        every_seconds=EVERY,
        clock=machine if waits else Impatient(machine),
        secret=SessionKey(secret),
        path=path,
        **others,
    )


def end(keys: SharedKeys) -> None:
    """Take its locks from a sender, as the kernel does when it is killed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (keys._file._descriptor, keys._file._presence):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def test_one_announces_and_all_follow(tmp_path: Path) -> None:
    machine = Machine()
    first = sender(machine, tmp_path / "keys")
    key = first.current().key
    first.release()
    assert [moment for moment, _ in machine.announcements] == [1000.0, pytest.approx(1001.2), pytest.approx(1002.4)]
    assert machine.seconds == pytest.approx(1002.9)
    others = [sender(machine, tmp_path / "keys", waits=False) for _ in range(5)]
    assert {other.current().key for other in others} == {key} == {machine.installed}
    assert [keys.announced for keys in (first, *others)] == [1, 0, 0, 0, 0, 0]
    assert len(machine.announcements) == 3


def test_a_key_is_replaced_when_it_is_due_and_nobody_has_a_batch_under_way(tmp_path: Path) -> None:
    machine = Machine()
    first, second = sender(machine, tmp_path / "keys"), sender(machine, tmp_path / "keys", waits=False)
    old = first.current().key
    second.current()
    machine.seconds += EVERY
    replacement = first.replacement()
    assert {next(replacement) for _ in range(10)} == {0.02}, "the second one is in the middle of its batch"
    assert len(machine.announcements) == 3
    second.release()
    assert next(replacement) == pytest.approx(1.0), "what is under way is received"
    with pytest.raises(Waits):
        second.current()
    for seconds in replacement:
        machine.sleep(seconds)
    assert second.current().key == first.key == machine.installed != old
    assert (first.announced, second.announced) == (2, 0)


def test_when_the_announcer_is_killed_another_one_announces(tmp_path: Path) -> None:
    machine = Machine()
    machine.seconds = -EVERY  # so that no time in the file is long ago
    first, second = sender(machine, tmp_path / "keys"), sender(machine, tmp_path / "keys")
    old = first.current().key
    first.release()
    second.current()
    second.release()
    machine.seconds += EVERY
    replacement = first.replacement()
    for _ in range(2):
        machine.sleep(next(replacement))
    half = _unwrapped(machine.announcements[-1][1])
    end(first)
    new = second.current().key
    assert new == machine.installed
    assert len({old, half, new}) == 3
    assert second.announced == 1


def test_senders_that_begin_when_all_others_are_gone_never_trust_what_the_receiver_had(tmp_path: Path) -> None:
    machine = Machine()
    first = sender(machine, tmp_path / "keys")
    old = first.current().key
    end(first)
    machine.installed = b"another resend's"
    again = sender(machine, tmp_path / "keys")
    assert again.current().key == machine.installed != old


def test_a_key_that_one_sender_has_used_up_is_replaced_for_all(tmp_path: Path) -> None:
    machine = Machine()
    busy = sender(machine, tmp_path / "keys", senders=2)
    other = sender(machine, tmp_path / "keys", senders=2, waits=False)
    key = busy.current()
    old = key.key
    other.current()
    key._messages = MESSAGES_PER_KEY // 2
    replacement = busy.replacement()
    assert next(replacement) == 0.02
    other.release()
    with pytest.raises(Waits):
        other.current()  # it must not begin another batch, or the first one would wait for ever
    for seconds in replacement:
        machine.sleep(seconds)
    assert busy.key == other.current().key == machine.installed != old


def test_one_sender_repeats_the_announcement_for_a_receiver_that_was_restarted(tmp_path: Path) -> None:
    machine = Machine()
    senders = [sender(machine, tmp_path / "keys") for _ in range(3)]
    for keys in senders:
        keys.current()
    machine.seconds += 61
    for keys in senders * 2:
        keys.current()
    assert len(machine.announcements) == 4
    assert len({_unwrapped(datagram) for _, datagram in machine.announcements}) == 1


def test_the_file_tells_no_key_and_no_secret(tmp_path: Path) -> None:
    keys = sender(Machine(), tmp_path / "keys")
    key = keys.current().key
    content = (tmp_path / "keys").read_bytes()
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    for secret in (key, SECRET):
        assert all(secret[start : start + 8] not in content for start in range(24))


def test_senders_of_another_secret_are_refused(tmp_path: Path) -> None:
    machine = Machine()
    first = sender(machine, tmp_path / "keys")
    with pytest.raises(ConfigurationError, match="in use by senders with another sessionKeyFile"):
        sender(machine, tmp_path / "keys", secret=bytes(32))
    first.current()
    end(first)
    assert sender(machine, tmp_path / "keys", secret=bytes(32)).current().key == machine.installed


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a report")
    with pytest.raises(ConfigurationError, match="is not a key rotation file; give another name, or delete it"):
        sender(Machine(), tmp_path / "keys")
    assert (tmp_path / "keys").read_text() == "a report"
    with pytest.raises(LocalStorageError, match=r"nowhere/keys cannot be used \(No such file"):
        sender(Machine(), tmp_path / "nowhere" / "keys")


def test_a_restart_of_the_machine_is_no_reason_to_wait(tmp_path: Path) -> None:
    machine = Machine()
    first = sender(machine, tmp_path / "keys")
    first.current()
    end(first)
    machine.seconds = 5.0  # its clock begins anew
    sender(machine, tmp_path / "keys").current()
    assert machine.seconds < 10.0


def test_a_child_keeps_the_batch_of_its_dead_parent_safe(tmp_path: Path) -> None:
    """Workers are forked after the file was opened; as long as one states, its batch may be under way."""
    program = (
        "import os, sys, time\n"
        "from gapless_sender.wire.key_file import KeyFile\n"
        f"file = KeyFile(__import__('pathlib').Path({str(tmp_path / 'keys')!r}), bytes(16))\n"
        "assert file.try_share()\n"
        "if os.fork():\n"
        "    os._exit(0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    from gapless_sender.wire.key_file import KeyFile  # noqa: PLC0415 -- beside the program that uses it

    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"ready\n"
    other = KeyFile(tmp_path / "keys", bytes(16))
    assert not other.try_own()
    child.stdin.close()
    child.stdout.read()
    child.wait()
    child.stdout.close()
    assert other.try_own()


class Actor:
    """A sender that sends batch after batch, a step at a time."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self._machine = machine
        self.keys = sender(machine, path, waits=False)
        self.batch: bytes | None = None
        self.batches = 0
        self._waiting: Iterator[float] | None = None
        self._wakes = 0.0

    def step(self) -> None:
        if self.batch is not None:
            assert self._machine.installed == self.batch, "the receiver cannot read this batch"
            self.batch = None
            self.batches += 1
            self.keys.release()
            return
        if self._waiting is None:
            if not self.keys._file.try_share():
                return
            if self.keys.duty != "rotate":
                self._begin(self.keys.current().key)
                return
            self._waiting, self._wakes = self.keys.replacement(), 0.0
        if self._machine.seconds >= self._wakes:
            seconds = next(self._waiting, None)
            if seconds is not None:
                self._wakes = self._machine.seconds + seconds
            else:
                self._waiting = None
                self._begin(self.keys.key)

    def _begin(self, key: bytes) -> None:
        self.batch = key
        assert self._machine.installed == key, "the receiver does not have the key yet"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_senders_do_the_receiver_can_read_every_batch(seed: int, tmp_path: Path) -> None:
    chance, machine = random.Random(seed), Machine()
    actors: list[Actor] = []
    batches = 0
    for _ in range(2000):
        machine.seconds += chance.choice((0.0, 0.01, 0.05, 0.3, 1.0, 2.0))
        if len(actors) < 1 + seed % 5:
            actors.append(Actor(machine, tmp_path / "keys"))
        actor = chance.choice(actors)
        if chance.random() < 0.003:
            end(actor.keys)
            actors.remove(actor)
            batches += actor.batches
        else:
            actor.step()
    assert batches + sum(actor.batches for actor in actors) > 100
    assert len({_unwrapped(datagram) for _, datagram in machine.announcements}) > 3
    ignored = Counter(
        _unwrapped(a) != _unwrapped(b)
        for (earlier, a), (later, b) in zip(machine.announcements, machine.announcements[1:], strict=False)
        if later - earlier < RECEIVER_IGNORES_SECONDS
    )
    assert not ignored[True], "the receiver ignores another key that comes so soon"


def test_keys_of_different_salts_have_nothing_in_common() -> None:
    keys = {derive_key(SECRET, bytes([number]) * 16) for number in range(256)}
    assert len(keys) == 256
    assert derive_key(SECRET, bytes(16)) != derive_key(bytes(32), bytes(16))
