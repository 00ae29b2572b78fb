"""Owns how a run of some work takes over from an earlier one, which may still be alive: by epochs and fencing.

The order makes it safe: a run reads the last epoch and writes its own, then fences the transactional IDs of all earlier
runs, then reads the positions. A task that begins fences its own ID first and then looks at the epoch: what an earlier
run committed is before the positions that are read, and after that it commits nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from gapless_kafka.writing.writer import PortionWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.control_topic import ControlState, ControlTopic
    from gapless_kafka.writing.writer import WriterOptions


@dataclass(frozen=True, slots=True)
class WorkSlot:
    """One of the programs or tasks that write for some work at the same time."""

    program: str
    """Such as ``restore``."""
    work: str
    number: int

    @property
    def transactional_id(self) -> str:
        """The ID under which Kafka fences it."""
        return f"gapless-{self.program}-{self.work}-{self.number}"


@dataclass(frozen=True, slots=True)
class Takeover:
    """Begins and ends runs."""

    connection: KafkaConnection
    control: ControlTopic
    options: WriterOptions
    program: str

    def begin(self, work: str, run: RunOfWork) -> RunOfWork:
        """Begin a run of `work`: nothing that ran before writes any more, and all its transactions are over.

        Args:
            work: its identity.
            run: its epoch does not matter; its slots are those of this run.

        Returns:
            The run with its epoch.

        Raises:
            GaplessError: Kafka denies it or does not answer.
        """
        with self._coordinator(work) as writer:
            before = self.control.run(work)
            epoch = (before.epoch if before is not None else 0) + 1
            slots = max(run.slots, before.slots if before is not None else 0)
            begun = replace(run, epoch=epoch, slots=slots)
            writer.put(POSITIONS, _key("run", work), content(RUN, begun))
        if before is not None:
            self.fence(work, before.slots)
        return begun

    def fence(self, work: str, slots: int) -> None:
        """End the transactions of `work` that are open, and the producers they belong to. Raises GaplessError."""
        if self.options.transactional:
            for number in range(slots):
                with PortionWriter(
                    self.connection, WorkSlot(self.program, work, number).transactional_id, self.options
                ):
                    pass

    def remember(self, work: str, changed: ChangedConfiguration | None) -> None:
        """Write which settings are to be put back when the work is done; ``None`` for none. Raises GaplessError."""
        value = None if changed is None else content(CONFIGURATION, changed)
        with self._coordinator(work) as writer:
            writer.put(POSITIONS, _key("configuration", work), value)

    @contextmanager
    def slot(
        self, slot: WorkSlot, epoch: int, pulse: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[PortionWriter, ControlState]]:
        """Open the writer of a slot for a block, and read the positions from which it continues.

        Raises:
            TakenOverError: a later run has begun.
            GaplessError: Kafka denies it or does not answer.
        """
        with PortionWriter(self.connection, slot.transactional_id, self.options, pulse=pulse) as writer:
            state = self.control.state()
            self.check(epoch, state.run(slot.work))
            yield writer, state

    @staticmethod
    def check(epoch: int, run: RunOfWork | None) -> None:
        """Make sure that the last run of a work is the one of `epoch`. Raises TakenOverError."""
        if run is None or run.epoch != epoch:
            raise TakenOverError("Another run of the same work has begun and continues it; this one has ended.")

    def _coordinator(self, work: str) -> PortionWriter:
        return PortionWriter(self.connection, f"gapless-{self.program}-{work}-control", self.options)


def _key(kind: Kind, work: str) -> bytes:
    return content(KEY, Key(kind=kind, work=work))
