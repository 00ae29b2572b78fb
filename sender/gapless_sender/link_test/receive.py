"""Owns ``gapless link receive`` from its options to its tables and report; must not know how anything is counted."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import LinkError
from gapless_api.base.files import write_atomically
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.link_test.listening import BUFFER_BYTES, Listener, wrong_checksums
from gapless_sender.link_test.output import received_header, received_json, received_row, run_json, run_name, run_text
from gapless_sender.link_test.reception import FinishedRun, FinishedStep, Reception

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_SECONDS = 0.2


class ReceiveOptions(NamedTuple):
    """What the command was told."""

    address: str
    port: int
    nic: str
    runs: int
    """So many runs end the work; 0 for no end."""
    wait_seconds: float
    """So long without any probe ends the work; 0 for no end."""
    idle_seconds: float
    margin: float
    accepted_loss: float
    report: Path | None


def receive(options: ReceiveOptions) -> None:
    """Receive until enough has come, nothing comes any more, or someone asks to stop.

    Raises:
        ConfigurationError: nothing can be received there.
        LinkError: no probe has come at all.
        StoppedError: someone asked; everything was shown and written before.
        LocalStorageError: the report cannot be written.
    """
    shutdown = Shutdown(way_on="what had arrived until then is above")
    shutdown.listen()
    with Listener.open(options.address, options.port, nic=options.nic, clock=shutdown) as listener:
        _Receiving(options, listener, shutdown).go()


class _Receiving:
    def __init__(self, options: ReceiveOptions, listener: Listener, shutdown: Shutdown) -> None:
        self._options = options
        self._listener = listener
        self._shutdown = shutdown
        self._reception = Reception(
            margin=options.margin, accepted_loss=options.accepted_loss, idle_seconds=options.idle_seconds
        )
        self._checksums_before = wrong_checksums()
        self._runs = 0
        self._headed: int | None = None
        self._people = sys.stdout.isatty()

    def go(self) -> None:
        self._say_listening()
        began = self._shutdown.now()
        try:
            while True:
                self._shutdown.check()
                for datagram, arrival in self._listener.arrived(_LOOK_SECONDS):
                    self._reception.take(datagram, arrival)
                now = self._shutdown.now()
                self._tell(at_once=False)
                if self._options.runs and self._runs >= self._options.runs:
                    break
                last = self._reception.last_probe_at
                if self._options.wait_seconds and now - (began if last is None else last) >= self._options.wait_seconds:
                    break
        finally:
            self._reception.drop(self._listener.dropped_since())
            self._tell(at_once=True)
            self._end()
        if not self._runs:
            raise LinkError(
                f"No probe has arrived at {self._options.address} port {self._listener.port} for "
                f"{self._options.wait_seconds:g} seconds; compare target and port with gapless link test on the other "
                f"side, and look at the firewall and the diode."
            )

    def _say_listening(self) -> None:
        options, buffer_bytes = self._options, self._listener.buffer_bytes
        if self._people:
            sys.stdout.write(f"Listening at {options.address} port {self._listener.port}; Ctrl-C ends it.\n")
        else:
            self._line(event="listening", address=options.address, port=self._listener.port, bufferBytes=buffer_bytes)
        if buffer_bytes < BUFFER_BYTES:
            sys.stderr.write(
                f"gapless: The socket has a buffer of {buffer_bytes // 1024:,} KiB, which short pauses of this machine "
                f"may fill (column own drops); sysctl net.core.rmem_max={BUFFER_BYTES} allows for more.\n"
            )

    def _tell(self, *, at_once: bool) -> None:
        for told in self._reception.over(self._shutdown.now(), at_once=at_once):
            if isinstance(told, FinishedStep):
                self._tell_step(told)
            else:
                self._runs += 1
                self._tell_run(told)
                self._write_report()

    def _tell_step(self, told: FinishedStep) -> None:
        if not self._people:
            self._line(event="step", run=run_name(told.run), **received_json(told.result))
            return
        if self._headed != told.run:
            sys.stdout.write(f"\nRun {run_name(told.run)} is under way.\n{received_header()}\n")
            self._headed = told.run
        sys.stdout.write(f"{received_row(told.result)}\n")
        sys.stdout.flush()

    def _tell_run(self, told: FinishedRun) -> None:
        if self._people:
            sys.stdout.write(f"\n{run_text(told)}\n")
            sys.stdout.flush()
        else:
            self._line(event="run", **run_json(told))

    def _end(self) -> None:
        others = self._others()
        if not self._people:
            self._line(event="end", **others)
        elif any(others.values()):
            sys.stdout.write(
                f"Besides: {others['foreign']:,} datagrams that are no probes of these runs, {others['late']:,} probes "
                f"after the end of their run, {others['damaged']:,} damaged ones of unknown runs, "
                f"{others['dropped']:,} dropped by our socket between runs, and {others['wrongChecksums']:,} that this "
                f"machine dropped, for whatever program, because of a wrong UDP checksum.\n"
            )
        self._write_report()

    def _others(self) -> dict[str, int]:
        return {**self._reception.as_json(), "wrongChecksums": wrong_checksums() - self._checksums_before}

    def _write_report(self) -> None:
        if self._options.report is None:
            return
        made = {
            "type": "gapless-link-report",
            "version": 1,
            "port": self._listener.port,
            "runs": [run_json(run) for run in self._reception.finished],
            "others": self._others(),
        }
        write_atomically(self._options.report, json.dumps(made, indent=1).encode() + b"\n", what="report")

    @staticmethod
    def _line(**fields: Any) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()
