"""Owns the way into the cluster's namespaces, for this process and for programs; must not make or end them.

`os.setns` exists from Python 3.12 on; until 3.11 is gone the C library is asked directly.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.cluster.places import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_FIRST_NETWORK = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
"""Where this process was when it began; that of the machine's first process may not be entered from a container."""


@dataclass(frozen=True)
class Holder:
    """The process that is PID 1 inside; it is told from a later process with the same number by its start."""

    pid: int
    start: str

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.start

    @property
    def network(self) -> Path:
        """The node's network."""
        return Path(f"/proc/{self.pid}/ns/net")

    @property
    def far_network(self) -> Path:
        """The network at the other end of the one-way link, as the holder's own mounts show it."""
        return Path(f"/proc/{self.pid}/root/run/netns/far")

    def write(self, file: Path) -> None:
        """Remember it."""
        file.write_text(f"{self.pid} {self.start}\n")


def started(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if there is none."""
    try:
        # The name in parentheses may hold anything; the start is field 22.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def remembered(file: Path) -> Holder | None:
    """Return the holder that was remembered, if it lives."""
    try:
        pid, start = file.read_text().split()
    except (OSError, ValueError):
        return None
    holder = Holder(int(pid), start)
    return holder if holder.alive else None


def child_of(pid: int) -> int | None:
    """Return the first child of a process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if parent == str(pid):
                return int(entry.name)
    return None


@contextmanager
def inside(network: Path) -> Iterator[None]:
    """Put this thread, and what it starts, into a network; sockets that exist stay where they are.

    Raises:
        ClusterError: the network is gone, or this process may not enter it.
    """
    with _back_again():
        _enter(network)
        yield


@contextmanager
def outside() -> Iterator[None]:
    """Put this thread, and what it starts, into the network in which this process began."""
    with _back_again():
        _set(_FIRST_NETWORK)
        yield


@contextmanager
def _back_again() -> Iterator[None]:
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _set(here)
        os.close(here)


def enter_for_good(network: Path) -> None:
    """Put this thread into a network without a way back."""
    _enter(network)


def _enter(network: Path) -> None:
    try:
        there = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ClusterError(f"The cluster's network cannot be entered ({error.strerror}): is the cluster up?") from None
    try:
        _set(there)
    finally:
        os.close(there)


def _set(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ClusterError(
            f"The cluster's network cannot be entered ({reason}): run this as the user who made it, root."
        )
