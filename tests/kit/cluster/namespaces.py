"""Entering the cluster's network namespaces, for threads and programs; must not create or remove them.

`os.setns` exists since Python 3.12; for 3.11 the C library is called directly.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.cluster.places import ClusterError

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_ORIGINAL_NETWORK = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
"""The network in which this process started; inside a container, that of PID 1 may not be permitted."""


@dataclass(frozen=True)
class Holder:
    """The process that is PID 1 inside; its start time distinguishes it from a later process with the same ID."""

    pid: int
    start: str

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return start_time(self.pid) == self.start

    @property
    def network(self) -> Path:
        """The node's network."""
        return Path(f"/proc/{self.pid}/ns/net")

    @property
    def far_network(self) -> Path:
        """The network behind the one-way link, through the holder's mounts."""
        return Path(f"/proc/{self.pid}/root/run/netns/far")

    def write(self, file: Path) -> None:
        """Save it for `read_holder`."""
        file.write_text(f"{self.pid} {self.start}\n")


def start_time(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot, or None if it does not exist."""
    try:
        # The name in parentheses may contain anything; the start time is field 22.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def read_holder(file: Path) -> Holder | None:
    """Return the saved holder, if it is alive."""
    try:
        pid, start = file.read_text().split()
    except (OSError, ValueError):
        return None
    holder = Holder(int(pid), start)
    return holder if holder.alive else None


def child_of(pid: int) -> int | None:
    """Return the ID of the first child of a process."""
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
    """Move this thread, and the processes that it starts, into a network; existing sockets are not affected.

    Raises:
        ClusterError: the network does not exist, or entering it is not permitted.
    """
    with _restore_network():
        enter(network)
        yield


@contextmanager
def original_network() -> Iterator[None]:
    """Move this thread, and the processes that it starts, into the network in which this process started."""
    with _restore_network():
        _set(_ORIGINAL_NETWORK)
        yield


@contextmanager
def _restore_network() -> Iterator[None]:
    current = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _set(current)
        os.close(current)


def enter(network: Path) -> None:
    """Move this thread into a network permanently. Raises ClusterError."""
    try:
        descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ClusterError(f"The cluster's network cannot be entered ({error.strerror}): is the cluster up?") from None
    try:
        _set(descriptor)
    finally:
        os.close(descriptor)


def _set(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ClusterError(
            f"The cluster's network cannot be entered ({reason}): run this as root, who started the cluster."
        )
