"""The chain of commits of one topic generation: how it is loaded, and how commits are added.

A commit is a file with the next number, created by a conditional put: of several programs that have loaded the same
state, one succeeds, and the others load again. The chain is the only record of what an archive contains. Snapshots only
make loading quicker.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from gapless_api.base.errors import GaplessError
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.form import Form, WireError, parse_json
from gapless_archive.catalog.entry import (
    ENTRY,
    SNAPSHOT,
    Action,
    Entry,
    Head,
    Layout,
    LostRange,
    Predecessor,
    ReachedEpoch,
    Segment,
    upgrade,
)
from gapless_archive.catalog.peer_keys import COMMITS_FOLDER
from gapless_archive.catalog.state import ArchiveDamagedError, TopicState
from gapless_archive.store.object_store import MissingObjectError

if TYPE_CHECKING:
    from gapless_archive.store.places import Place

    Message = TypeVar("Message")

_SNAPSHOT_EVERY = 64
_KEPT_COMMITS = 1024
"""Commits before a snapshot that are kept, so that a program with a state that is minutes old cannot reuse a number."""
_MAX_STATE_AGE_SECONDS = 300.0
_COMMIT = re.compile(r"(\d{20})\.json")
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot\.json")
_MAX_ATTEMPTS = 5


class ConflictError(Exception):
    """Another program has committed since the state was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes that a commit makes."""

    action: Action
    epoch: int | None = None
    """Of an archiving program; ``None`` for other programs."""
    cluster_id: str = ""
    partitions: int | None = None
    configuration: Mapping[str, str] | None = None
    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    lost: tuple[LostRange, ...] = ()
    deleted: tuple[str, ...] = ()
    hold: bool | None = None
    reached: tuple[ReachedEpoch, ...] = ()
    predecessors: tuple[Predecessor, ...] | None = None
    """``None`` for no change."""
    started: tuple[Head, ...] = ()


class Chain:
    """The chain of commits of one generation of a topic."""

    def __init__(  # noqa: PLR0913 -- what names a chain
        self,
        place: Place,
        region: str,
        topic: str,
        topic_id: str,
        *,
        writer: str | None = None,
        layout: Layout = "gapless",
    ) -> None:
        self.place = place
        self.region, self.topic, self.topic_id = region, topic, topic_id
        self.layout = layout
        """Of new segments."""
        own = f"{region}/{topic}/{topic_id}"
        self.prefix = own if layout == "gapless" else f"{region}/{topic}"
        """Of the objects, without a trailing slash."""
        self._folder = f"{own}/chain" if layout == "gapless" else f"{COMMITS_FOLDER}/{own}/chain"
        self.writer = writer or new_writer()
        """ID of this run of the program, recorded in its commits."""
        self._loaded_at = 0.0

    def load(self) -> TopicState:
        """Load the current state from all commits.

        Raises:
            ArchiveDamagedError: a commit is missing or cannot be read.
            StoreUnreachableError: the store does not answer.
        """
        for _ in range(_MAX_ATTEMPTS):
            try:
                return self._load()
            except MissingObjectError as error:
                missing = error  # after the list, a snapshot was made and earlier commits were removed
        raise ArchiveDamagedError(str(missing))

    def is_newest(self, state: TopicState) -> bool:
        """Whether readers see nothing newer than `state`; takes one list request. Raises StoreUnreachableError.

        In the layout of kafka-replicator, this is never known, because it writes without commits.
        """
        return self.layout == "gapless" and _last_sequence(self.place.children(self._folder)) <= state.sequence

    def _load(self) -> TopicState:
        self._loaded_at = time.monotonic()
        names = self.place.children(self._folder)
        snapshots = [int(match[1]) for match in map(_SNAPSHOT.fullmatch, names) if match]
        state = TopicState()
        if snapshots:
            state = TopicState.from_snapshot(self._read(self._snapshot_key(max(snapshots)), SNAPSHOT))
        # A list may lack commits that were made while it was read, and contain later ones.
        for number in range(state.sequence + 1, _last_sequence(names) + 1):
            state.apply(self._read(self._key(number), ENTRY))
        return state

    def commit(self, state: TopicState, changes: Changes) -> TopicState:
        """Add the commit that follows `state`, and return the new state; `state` must not be used afterwards.

        Raises:
            ArchiveDamagedError: no reader would accept the commit; nothing was changed.
            ConflictError: another program has committed; nothing was changed.
            StoreUnreachableError: the store does not answer; the commit may have been made.
        """
        if time.monotonic() - self._loaded_at > _MAX_STATE_AGE_SECONDS and self.load().sequence != state.sequence:
            raise ConflictError
        entry = Entry(
            sequence=state.sequence + 1,
            epoch=state.epoch if changes.epoch is None else changes.epoch,
            writer=self.writer,
            at=moment_text(datetime.now(UTC)),
            action=changes.action,
            region=self.region,
            topic=self.topic,
            topic_id=self.topic_id,
            cluster_id=changes.cluster_id or (state.last.cluster_id if state.last is not None else ""),
            partitions=changes.partitions,
            configuration=changes.configuration,
            added=changes.added,
            removed=changes.removed,
            lost=changes.lost,
            deleted=changes.deleted,
            hold=changes.hold,
            reached=changes.reached,
            predecessors=changes.predecessors,
            started=changes.started,
        )
        content = _encode(ENTRY, entry)
        _check_readable(content)
        key = self._key(entry.sequence)
        if not self.place.create(key, content):
            raise ConflictError
        state.apply(entry)
        if entry.sequence % _SNAPSHOT_EVERY == 0:
            self._write_snapshot(state)
        return state

    def update(self, change: Callable[[TopicState], Changes | None]) -> TopicState:
        """Load the state and commit a change to it; retry when another program commits first.

        Args:
            change: returns the changes to a state, or ``None`` for none; may raise to end the update.
        """
        while True:
            state = self.load()
            changes = change(state)
            if changes is None:
                return state
            try:
                return self.commit(state, changes)
            except ConflictError:
                continue

    def _write_snapshot(self, state: TopicState) -> None:
        """Write a snapshot and remove old commits; after a failure, the next snapshot does both."""
        try:
            self.place.create(self._snapshot_key(state.sequence), _encode(SNAPSHOT, state.snapshot()))
            for name in self.place.children(self._folder):
                match = _COMMIT.fullmatch(name) or _SNAPSHOT.fullmatch(name)
                if match is not None and int(match[1]) < state.sequence - _KEPT_COMMITS:
                    self.place.delete(f"{self._folder}/{name}")
        except GaplessError:  # the commit was made, and archiving needs no permission to delete
            return

    def _key(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.json"

    def _snapshot_key(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.snapshot.json"

    def _read(self, key: str, form: Form[Message]) -> Message:
        try:
            return form.from_json(upgrade(parse_json(self.place.read(key).decode("utf-8", "replace"))))
        except WireError as error:
            raise ArchiveDamagedError(
                f"{self.place.name}/{key} cannot be read ({error}); restore it from a backup, or upgrade all programs "
                f"to the same release."
            ) from None


def _last_sequence(names: Iterable[str]) -> int:
    """Return the number of the last commit among files; 0 for none."""
    return max((int(match[1]) for match in map(_COMMIT.fullmatch, names) if match), default=0)


def new_writer() -> str:
    """Return a unique ID for this run of a program, which names its host."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _check_readable(content: bytes) -> None:
    """Check a commit as readers do: one that they refuse would end the chain for all of them.

    Raises:
        ArchiveDamagedError: nothing may be written.
    """
    try:
        ENTRY.from_json(parse_json(content.decode()))
    except WireError as error:
        raise ArchiveDamagedError(
            f"A commit was not written, because no program could read it ({error}). The archive is unchanged. This is "
            f"a defect of Gapless; report it with this line, and run the same command again."
        ) from None


def _encode(form: Form[Message], message: Message) -> bytes:
    return json.dumps(form.to_json(message), separators=(",", ":")).encode() + b"\n"
