"""``gapless link receive`` from its options to its tables and report; must not know how anything is counted."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gapless_api.base.errors import LinkError, UndeliveredError
from gapless_api.base.files import check_distinct, check_output
from gapless_api.cli.json_output import write_report
from gapless_api.wire.link_profile import write_link_profile
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.link_test.listening import BUFFER_BYTES, Listener, wrong_checksums
from gapless_sender.link_test.output import received_header, received_json, received_row, run_json, run_name, run_text
from gapless_sender.link_test.profile import profile_of
from gapless_sender.link_test.reception import FinishedRun, FinishedStep, Reception

_POLL_SECONDS = 0.2


class ReceiveOptions(NamedTuple):
    """The options of the command."""

    address: str
    port: int
    nic: str
    runs: int
    """The command ends after this number of runs; 0 for no end."""
    wait_seconds: float
    """The command ends after this time without any probe; 0 for no end."""
    idle_seconds: float
    margin: float
    accepted_loss: float
    report: Path | None
    profile: Path | None


def receive(options: ReceiveOptions) -> None:
    """Receive until the requested number of runs, a time without probes, or a request to stop.

    Raises:
        ConfigurationError: the socket cannot be opened.
        LinkError: no probe arrived.
        UndeliveredError: a link profile is wanted, and the last run supports none.
        StoppedError: after a signal; everything was shown and written before.
        LocalStorageError: the report or the link profile cannot be written.
    """
    written = {"--report": options.report, "--profile": options.profile}
    check_distinct({name: path for name, path in written.items() if path is not None}, {})
    check_output("link profile", options.profile)
    shutdown = Shutdown(hint="the results so far are above")
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
        self._header_of: int | None = None
        self._profiled_run = ""
        """The run that the link profile describes; empty before it is written."""
        self._without_profile = ""
        """Why the last run supports no link profile; empty if it does, or none is wanted."""
        self._on_terminal = sys.stdout.isatty()

    def go(self) -> None:
        self._show_start()
        began = self._shutdown.now()
        try:
            while True:
                self._shutdown.check()
                for datagram, arrival in self._listener.arrived(_POLL_SECONDS):
                    self._reception.take(datagram, arrival)
                now = self._shutdown.now()
                self._show_finished(end_all=False)
                if self._options.runs and self._runs >= self._options.runs:
                    break
                last = self._reception.last_probe_at
                if self._options.wait_seconds and now - (began if last is None else last) >= self._options.wait_seconds:
                    break
        finally:
            self._reception.drop(self._listener.dropped_since())
            self._show_finished(end_all=True)
            self._end()
        if not self._runs:
            raise LinkError(
                f"No probe has arrived at {self._options.address} port {self._listener.port} for "
                f"{self._options.wait_seconds:g} seconds; compare target and port with gapless link test on the other "
                f"side, and check the firewall and the diode."
            )
        if self._without_profile:
            raise UndeliveredError(self._without_profile)

    def _show_start(self) -> None:
        options, buffer_bytes = self._options, self._listener.buffer_bytes
        if self._on_terminal:
            sys.stdout.write(f"Listening on {options.address} port {self._listener.port}; stop with Ctrl-C.\n")
        else:
            self._write_line(
                event="listening", address=options.address, port=self._listener.port, bufferBytes=buffer_bytes
            )
        if buffer_bytes < BUFFER_BYTES:
            sys.stderr.write(
                f"gapless: The socket has a buffer of {buffer_bytes // 1024:,} KiB, which may overflow during short "
                f"pauses of this machine (column own drops); sysctl net.core.rmem_max={BUFFER_BYTES} allows a larger "
                f"one.\n"
            )

    def _show_finished(self, *, end_all: bool) -> None:
        for finished in self._reception.pop_finished(self._shutdown.now(), end_all=end_all):
            if isinstance(finished, FinishedStep):
                self._show_step(finished)
            else:
                self._runs += 1
                self._show_run(finished)
                self._write_report()
                self._write_profile(finished)

    def _show_step(self, step: FinishedStep) -> None:
        if not self._on_terminal:
            self._write_line(event="step", run=run_name(step.run), **received_json(step.result))
            return
        if self._header_of != step.run:
            sys.stdout.write(f"\nRun {run_name(step.run)} is in progress.\n{received_header()}\n")
            self._header_of = step.run
        sys.stdout.write(f"{received_row(step.result)}\n")
        sys.stdout.flush()

    def _show_run(self, run: FinishedRun) -> None:
        if self._on_terminal:
            sys.stdout.write(f"\n{run_text(run)}\n")
            sys.stdout.flush()
        else:
            self._write_line(event="run", **run_json(run))

    def _end(self) -> None:
        others = self._others()
        if not self._on_terminal:
            self._write_line(event="end", **others)
        elif any(others.values()):
            sys.stdout.write(
                f"Other datagrams: {others['foreign']:,} that are not probes of these runs, {others['late']:,} probes "
                f"after the end of their run, {others['damaged']:,} damaged probes of unknown runs, "
                f"{others['dropped']:,} dropped by the socket between runs, and {others['wrongChecksums']:,} dropped "
                f"by this machine, for all programs, because of a wrong UDP checksum.\n"
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
        write_report(self._options.report, made)

    def _write_profile(self, run: FinishedRun) -> None:
        options = self._options
        path = options.profile
        if path is None:
            return
        profile = profile_of(
            run,
            now=datetime.now(UTC),
            nic=options.nic,
            port=self._listener.port,
            margin=options.margin,
            accepted_loss=options.accepted_loss,
        )
        name = run_name(run.run)
        if isinstance(profile, str):
            kept = f"still describes run {self._profiled_run}" if self._profiled_run else "was not written"
            self._without_profile = (
                f"The link profile {path} {kept}, because run {name} supports none: {profile}; repeat the test."
            )
            sys.stderr.write(f"gapless: {self._without_profile}\n")
            return
        write_link_profile(path, profile)
        self._profiled_run, self._without_profile = name, ""
        if self._on_terminal:
            sys.stdout.write(f"  or:             --link-profile={path}\n")
            sys.stdout.flush()
        else:
            self._write_line(event="profile", run=name, file=str(path))

    @staticmethod
    def _write_line(**fields: Any) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()
