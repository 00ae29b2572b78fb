"""How a run of some work takes over from an earlier one, which may still be alive: by epochs and fencing.

The order makes it safe: a run reads the last epoch and writes its own, then fences the transactional IDs of all earlier
runs, then reads the positions. A task first fences its own ID and then checks the epoch. So all commits of an earlier
run precede the positions that are read.

A broker that has hung, or that its controller cannot reach, answers as the leader that it was, and its log ends where
it ended then. So what is read counts only if it has a record that was written just before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_kafka.access.admin import ELECTION_SECONDS
from gapless_kafka.writing.faults import TakenOverError
from gapless_kafka.writing.positions import (
    CONFIGURATION,
    KEY,
    POSITIONS,
    RUN,
    ChangedConfiguration,
    Key,
    Kind,
    RunOfWork,
    content,
)
from gapless_kafka.writing.writer import PortionWriter, WriterOptions

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.control_topic import ControlState, ControlTopic

_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class WorkSlot:
    """One of the concurrent processes or tasks that write for some work."""

    program: str
    """The command, such as ``restore``."""
    work: str
    number: int

    @property
    def transactional_id(self) -> str:
        """The ID by which Kafka fences the slot."""
        return f"gapless-{self.program}-{self.work}-{self.number}"


@dataclass(frozen=True, slots=True)
class Takeover:
    """Starts runs, and fences earlier ones."""

    connection: KafkaConnection
    control: ControlTopic
    options: WriterOptions
    program: str

    def begin(self, work: str, run: RunOfWork) -> RunOfWork:
        """Start a run of `work`; earlier runs are fenced, and their transactions aborted.

        Args:
            work: the identity of the work.
            run: the new run with its number of slots; its epoch is ignored.

        Returns:
            The run with its epoch.

        Raises:
            GaplessError: Kafka denies it or does not respond.
        """
        with self._coordinator(work) as writer:
            earlier = self.control.run(work, behind=writer.put_mark())
            if earlier is None:
                started = replace(run, epoch=1)
            else:
                started = replace(run, epoch=earlier.epoch + 1, slots=max(run.slots, earlier.slots))
            writer.put(POSITIONS, _key("run", work), content(RUN, started))
        if earlier is not None:
            self.fence(work, earlier.slots)
        return started

    def fence(self, work: str, slots: int) -> None:
        """Fence the producers of `work`, and abort their open transactions. Raises GaplessError."""
        if not self.options.transactional:
            return
        for number in range(slots):
            with PortionWriter(self.connection, WorkSlot(self.program, work, number).transactional_id, self.options):
                pass

    def remember(self, work: str, changed: ChangedConfiguration | None) -> None:
        """Record which settings to restore when the work is done; ``None`` for none. Raises GaplessError."""
        value = None if changed is None else content(CONFIGURATION, changed)
        with self._coordinator(work) as writer:
            writer.put(POSITIONS, _key("configuration", work), value)

    @contextmanager
    def slot(
        self, slot: WorkSlot, epoch: int, pulse: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[PortionWriter, ControlState]]:
        """Open the writer of a slot for a block, and read the positions to continue from.

        Raises:
            TakenOverError: a later run has started.
            GaplessError: Kafka denies it or does not respond.
        """
        with PortionWriter(self.connection, slot.transactional_id, self.options, pulse=pulse) as writer:
            yield writer, self.state_of_run(slot.work, epoch, pulse)

    def state_of_run(self, work: str, epoch: int, pulse: Callable[[], None] = lambda: None) -> ControlState:
        """Return the state of the control topic with the run of this epoch, which has begun, as the last one of `work`.

        Raises:
            TakenOverError: a later run has started.
            SourceStalledError: the run is not found in time.
            GaplessError: Kafka denies it or does not respond.
        """
        deadline = time.monotonic() + ELECTION_SECONDS
        while True:
            state = self.control.state()
            run = state.run(work)
            found = 0 if run is None else run.epoch
            if found == epoch:
                return state
            if found > epoch:
                raise TakenOverError("Another run of the same work has started and continues it; this one has ended.")
            if time.monotonic() > deadline:
                raise self.control.outdated_error()
            pulse()
            time.sleep(_POLL_SECONDS)

    def _coordinator(self, work: str) -> PortionWriter:
        return PortionWriter(self.connection, f"gapless-{self.program}-{work}-control", self.options)


def _key(kind: Kind, work: str) -> bytes:
    return content(KEY, Key(kind=kind, work=work))
