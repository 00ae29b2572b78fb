"""Owns a resend by several processes: shares partitions out, keeps one pace and one session key, gathers the accounts.

Must not know how a partition is sent. Processes are forked before Kafka's client has made any thread; a pipe to each
carries accounts one way and session keys the other, so that no key is ever in an argument, a file or the environment.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from gapless_api import errors
from gapless_api.errors import GaplessError, StoppedError, verdict
from gapless_api.exit_codes import ExitCode
from gapless_api.wire.totals import Totals
from gapless_sender.checkpoint import Checkpoint, Progress, shard_path
from gapless_sender.link_opening import open_link
from gapless_sender.plan import share_out
from gapless_sender.process import Equipment, Whole, sum_of
from gapless_sender.report import PartitionAccount, Traffic
from gapless_sender.share import Job, all_wishes, planned_jobs, watch_topics, work_through

if TYPE_CHECKING:
    from gapless_sender.encryption import SessionKey
    from gapless_sender.keys import AnnouncedKeys
    from gapless_sender.stopping import Stopping

_TELL_SECONDS = 0.5
_POLL_SECONDS = 0.25
_WORST_FIRST = (
    ExitCode.BAD_CONFIGURATION,
    ExitCode.LINK_FAILED,
    ExitCode.SOURCE_UNREACHABLE,
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
)


@dataclass(slots=True)
class _Shard:
    """What the parent knows of one process."""

    process: Any
    pipe: Connection
    totals: Totals = field(default_factory=Totals)
    datagrams: int = 0
    partitions: list[PartitionAccount] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    progress: Progress | None = None
    problem: GaplessError | None = None
    ended: bool = False
    paused: bool = False
    key_exhausted: bool = False
    """Whether it has encrypted so much that the session key must be replaced."""


def work_in_shards(equipment: Equipment, whole: Whole, shards: int) -> None:
    """Do a whole resend in `shards` processes.

    Raises:
        GaplessError: the worst that ended a process early; the others are stopped first, with their progress saved.
    """
    forking = multiprocessing.get_context("fork")
    running: list[_Shard] = []
    keys = equipment.announced_keys()
    problem: GaplessError | None = None
    equipment.say_starting()
    key = keys.current() if keys is not None else None
    for number in range(shards):
        ours, theirs = forking.Pipe()
        process = forking.Process(
            target=_shard_main,
            args=(number, shards, equipment, whole, theirs, key),
            daemon=True,
        )
        process.start()
        theirs.close()
        running.append(_Shard(process, ours))
    try:
        _attend(running, equipment, whole, keys)
    except GaplessError as error:
        problem = error
    finally:
        _end(running)
        _gather(running, equipment, whole, keys)
    problems = [shard.problem for shard in running if shard.problem is not None]
    if problem is not None:
        problems.append(problem)
    try:
        equipment.stopping.check()
    except StoppedError as ours:  # The processes were told by us, whoever told us.
        problems = [ours if isinstance(theirs, StoppedError) else theirs for theirs in problems]
    if problems:
        worst = min(problems, key=lambda error: _rank(verdict(error).exit_code))
        if isinstance(worst, StoppedError):
            equipment.stopping.in_batch = True  # The farewell is sent although we are asked to stop.
            equipment.say_ended(worst)
        raise worst
    equipment.say_ended(None)


def _rank(code: int) -> int:
    return _WORST_FIRST.index(ExitCode(code)) if code in _WORST_FIRST else 0


def _attend(running: list[_Shard], equipment: Equipment, whole: Whole, keys: AnnouncedKeys | None) -> None:
    """Listen to the processes until all have ended; hand out new keys when they are due."""
    told_to_stop = False
    while not all(shard.ended for shard in running):
        equipment.pace.follow()
        open_pipes = {shard.pipe: shard for shard in running if not shard.ended}
        for ready in wait(list(open_pipes), timeout=_POLL_SECONDS):
            if isinstance(ready, Connection):
                _hear(open_pipes[ready])
        whole.view.advanced(lambda: (_sum(running), sum(shard.datagrams for shard in running)))
        stop = equipment.stopping.asked or any(shard.problem is not None for shard in running)
        if stop and not told_to_stop:
            told_to_stop = True
            for shard in running:
                if not shard.ended and shard.process.pid is not None:
                    os.kill(shard.process.pid, signal.SIGTERM)
        if keys is not None and not stop:
            duty = keys.duty
            if duty is duty.ROTATE or any(shard.key_exhausted for shard in running):
                _replace_key(running, equipment, keys)
            elif duty is duty.REANNOUNCE:
                keys.reannounce()


def _replace_key(running: list[_Shard], equipment: Equipment, keys: AnnouncedKeys) -> None:
    """Let every process finish its batch, give the receiver a new key, and let them go on with it."""
    for shard in running:
        if not shard.ended:
            shard.pipe.send("pause")
    while not all(shard.ended or shard.paused for shard in running):
        equipment.pace.follow()
        waiting = {shard.pipe: shard for shard in running if not (shard.ended or shard.paused)}
        for ready in wait(list(waiting), timeout=_POLL_SECONDS):
            if isinstance(ready, Connection):
                _hear(waiting[ready])
    key = keys.replace().key
    for shard in running:
        if not shard.ended:
            shard.paused = False
            shard.pipe.send(key)
        shard.key_exhausted = False


def _hear(shard: _Shard) -> None:
    """Take one message of a process."""
    try:
        kind, content = shard.pipe.recv()
    except (EOFError, OSError):
        shard.ended = True
        shard.process.join()
        if shard.problem is None and shard.process.exitcode:
            code = shard.process.exitcode
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            shard.problem = StoppedError(
                f"One of the sending processes was ended {how}; start again, with the checkpoint if there is one.",
                by_terminal=False,
            )
        return
    if kind == "progress":
        shard.totals, shard.datagrams = content
    elif kind == "paused":
        shard.paused = True
    elif kind == "exhausted":
        shard.key_exhausted = True
    elif kind == "problem":
        name, message, code = content
        if name == "StoppedError":
            shard.problem = StoppedError(message, by_terminal=code == ExitCode.INTERRUPTED)
        else:
            shard.problem = getattr(errors, name, errors.LinkError)(message)
    else:
        shard.partitions, shard.traffic, shard.progress = content
        shard.totals = sum((account.totals for account in shard.partitions), Totals())


def _end(running: list[_Shard]) -> None:
    for shard in running:
        if shard.process.is_alive():
            shard.process.terminate()
    for shard in running:
        shard.process.join(10)
        if shard.process.is_alive():
            shard.process.kill()
            shard.process.join()
        shard.pipe.close()


def _gather(running: list[_Shard], equipment: Equipment, whole: Whole, keys: AnnouncedKeys | None) -> None:
    """Put the accounts of the processes together."""
    account = whole.account
    account.partitions = sorted(
        (partition for shard in running for partition in shard.partitions), key=lambda one: (one.topic, one.partition)
    )
    account.traffic = equipment.traffic(equipment.link)
    for shard in running:
        account.traffic.add(shard.traffic)
        if shard.progress is not None:
            whole.progress.merge(shard.progress)
    account.keys_announced = keys.announced if keys is not None else 0
    whole.view.end(_sum(running), account.traffic.datagrams)


def _sum(running: list[_Shard]) -> Totals:
    return sum((shard.totals for shard in running), Totals())


# ------------------------------------------------------------------------------------------------- in the process


class _FollowedKeys:
    """The session key of a process, which its parent replaces."""

    def __init__(self, key: SessionKey, pipe: Connection, stopping: Stopping, *, sharers: int) -> None:
        self._key = key
        self._pipe = pipe
        self._stopping = stopping
        self._sharers = sharers
        self._said_exhausted = False

    def current(self) -> SessionKey:
        """The key for the next batch; waits while the parent replaces it."""
        from gapless_sender.encryption import SessionKey  # noqa: PLC0415 -- slow to load

        while self._pipe.poll():
            if self._pipe.recv() == "pause":
                self._pipe.send(("paused", None))
                while not self._pipe.poll(_POLL_SECONDS):
                    self._stopping.check()
                fresh = self._pipe.recv()
                self._key.destroy()
                self._key = SessionKey(fresh)
                self._said_exhausted = False
        if not self._said_exhausted and self._key.exhausted_among(self._sharers):
            self._said_exhausted = True
            _tell(self._pipe, "exhausted", None)
        return self._key


def _shard_main(  # noqa: PLR0913, PLR0917 -- the arguments of a process
    number: int, shards: int, equipment: Equipment, whole: Whole, pipe: Connection, key: SessionKey | None
) -> None:
    """Do one share and tell the parent; the exit code is the parent's to decide."""
    jobs: list[Job] = []
    progress = Progress()
    traffic = Traffic()
    equipment.stopping.watch_parent()
    equipment.pace.leave_to_parent()
    try:
        with ExitStack() as stack:
            link = open_link(equipment.values, equipment.stopping)
            stack.callback(link.close)
            try:
                _do_share(number, shards, equipment, whole, _Telling(pipe, link, jobs), stack, key, progress)
            finally:
                traffic = equipment.traffic(link)
    except GaplessError as error:
        _tell(pipe, "problem", (type(error).__name__, str(error), int(verdict(error).exit_code)))
    _tell(pipe, "account", ([job.account for job in jobs], traffic, progress))
    pipe.close()


def _tell(pipe: Connection, kind: str, content: Any) -> None:
    with suppress(BrokenPipeError):  # The parent is gone; the checkpoint has everything.
        pipe.send((kind, content))


@dataclass(slots=True)
class _Telling:
    """How a process tells its parent how far it is."""

    pipe: Connection
    link: Any
    jobs: list[Job]
    told_at: float = 0.0

    def advanced(self, now: float) -> None:
        if now - self.told_at >= _TELL_SECONDS:
            self.told_at = now
            _tell(self.pipe, "progress", (sum_of(self.jobs), self.link.stats.datagrams))


def _do_share(  # noqa: PLR0913, PLR0917 -- see _shard_main
    number: int,
    shards: int,
    equipment: Equipment,
    whole: Whole,
    telling: _Telling,
    stack: ExitStack,
    key: SessionKey | None,
    progress: Progress,
) -> None:
    source = equipment.source(whole.connection)
    stack.callback(source.close)
    source.connect()
    shares = share_out(all_wishes(whole.selection, source), shards)
    if number >= len(shares):
        return
    wishes = shares[number]
    for wish in wishes:
        place = (wish.place.topic, wish.place.partition)
        if place in whole.progress.ledgers:
            progress.ledgers[place] = whole.progress.ledgers[place]
        if place in whole.progress.bounds:
            progress.bounds[place] = whole.progress.bounds[place]
    progress.topic_ids |= whole.progress.topic_ids
    checkpoint = None
    if whole.checkpoint is not None:
        checkpoint = Checkpoint(shard_path(whole.checkpoint.path, number), whole.selection.identity, progress)
        stack.callback(checkpoint.close)
    fix_bounds = checkpoint.append_bounds if checkpoint is not None else progress.bounds.__setitem__
    watch_topics(wishes, source, progress, checkpoint)
    telling.jobs += planned_jobs(whole.selection, wishes, source, progress, fix_bounds)
    work_through(
        telling.jobs,
        whole.selection,
        source,
        equipment.treatment,
        equipment.transmitter(telling.link, sharers=shards),
        keys=_FollowedKeys(key, telling.pipe, equipment.stopping, sharers=shards) if key is not None else None,
        checkpoint=checkpoint,
        stopping=equipment.stopping,
        advanced=lambda: telling.advanced(equipment.stopping.now()),
    )
