"""Owns the chain of commits of one topic generation: how it is read, and how one commit follows on another.

A commit is a file with the next number, made by a conditional put: of several programs that have seen the same state,
one succeeds, and the others read again. There is no other truth about what an archive holds. Snapshots only shorten
the reading.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from gapless_api.base.errors import GaplessError
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.form import WireError, parse_json
from gapless_archive.catalog.entry import ENTRY, SNAPSHOT, Entry
from gapless_archive.catalog.peer_keys import BESIDE
from gapless_archive.catalog.state import ArchiveDamagedError, TopicState
from gapless_archive.store.object_store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gapless_api.wire.form import Form
    from gapless_archive.catalog.entry import Action, Layout, LostRange, Segment
    from gapless_archive.store.places import Place

    Message = TypeVar("Message")

_SNAPSHOT_EVERY = 64
_KEPT = 1024
"""So many commits before a snapshot stay, so that a program that has slept for minutes does not write an old number."""
_FRESH_SECONDS = 300.0
_COMMIT = re.compile(r"(\d{20})\.json")
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot\.json")
_TRIES = 5


class ConflictError(Exception):
    """Another program has committed since the state was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a commit is to change."""

    action: Action
    epoch: int | None = None
    """Of an archiving program; ``None`` for the others."""
    cluster_id: str = ""
    partitions: int | None = None
    configuration: Mapping[str, str] | None = None
    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    lost: tuple[LostRange, ...] = ()
    deleted: tuple[str, ...] = ()
    hold: bool | None = None


class Chain:
    """The commits about one generation of a topic."""

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
        """Of the segments that are added."""
        own = f"{region}/{topic}/{topic_id}"
        self.prefix = own if layout == "gapless" else f"{region}/{topic}"
        """Of the objects, without a slash at its end."""
        self._folder = f"{own}/chain" if layout == "gapless" else f"{BESIDE}/{own}/chain"
        self.writer = writer or new_writer()
        """Who commits; another one for each run of a program."""
        self._loaded_at = 0.0

    def load(self) -> TopicState:
        """Read all commits.

        Raises:
            ArchiveDamagedError: one is missing, or cannot be read.
            StoreUnreachableError: the store does not answer.
        """
        for _ in range(_TRIES):
            try:
                return self._load()
            except MissingObjectError as error:
                missing = error  # A snapshot was made and what is before it removed, since the commits were listed.
        raise ArchiveDamagedError(str(missing))

    def is_newest(self, state: TopicState) -> bool:
        """Whether nothing was committed after `state`, which takes one list. Raises StoreUnreachableError."""
        return _newest(self.place.children(self._folder)) <= state.sequence

    def _load(self) -> TopicState:
        self._loaded_at = time.monotonic()
        names = self.place.children(self._folder)
        snapshots = sorted(int(found[1]) for found in map(_SNAPSHOT.fullmatch, names) if found)
        newest = _newest(names)
        state = TopicState()
        if snapshots:
            state = TopicState.of_snapshot(self._read(self._snapshot_key(snapshots[-1]), SNAPSHOT))
        # A list may lack some that are made while it is read, and have later ones.
        for number in range(state.sequence + 1, newest + 1):
            state.apply(self._read(self._key(number), ENTRY))
        return state

    def commit(self, state: TopicState, changes: Changes) -> TopicState:
        """Make the commit that follows on `state`, and return the state after it; `state` must not be used any more.

        Raises:
            ConflictError: another program has committed; nothing has changed.
            StoreUnreachableError: the store does not answer; the commit may have been made.
        """
        if time.monotonic() - self._loaded_at > _FRESH_SECONDS and self.load().sequence != state.sequence:
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
        )
        content = _content(ENTRY, entry)
        key = self._key(entry.sequence)
        # A store may keep the file although the answer is lost; when the client asks again, the file is there.
        if not self.place.create(key, content) and not self._is_there(key, content):
            raise ConflictError
        state.apply(entry)
        if entry.sequence % _SNAPSHOT_EVERY == 0:
            self._shorten(state)
        return state

    def _is_there(self, key: str, content: bytes) -> bool:
        """Whether a file is ours. A store that has two to decide on may refuse both."""
        try:
            return self.place.read(key) == content
        except MissingObjectError:
            return False

    def committed(self, change: Callable[[TopicState], Changes | None]) -> TopicState:
        """Load, commit what `change` makes of the state, and begin again when another program was quicker.

        Args:
            change: returns ``None`` when nothing is to be committed; may raise to end the work.
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

    def _shorten(self, state: TopicState) -> None:
        """Write a snapshot and remove what nobody needs any more; the next one tries again if that fails."""
        try:
            self.place.create(self._snapshot_key(state.sequence), _content(SNAPSHOT, state.snapshot()))
            for name in self.place.children(self._folder):
                found = _COMMIT.fullmatch(name) or _SNAPSHOT.fullmatch(name)
                if found is not None and int(found[1]) < state.sequence - _KEPT:
                    self.place.delete(f"{self._folder}/{name}")
        except GaplessError:  # the commit is made, and who may not delete can archive all the same
            return

    def _key(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.json"

    def _snapshot_key(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.snapshot.json"

    def _read(self, key: str, form: Form[Message]) -> Message:
        try:
            return form.from_json(parse_json(self.place.read(key).decode("utf-8", "replace")))
        except WireError as error:
            raise ArchiveDamagedError(
                f"{self.place.name}/{key} cannot be read ({error}); bring it back, or use programs of one release."
            ) from None


def _newest(names: Iterable[str]) -> int:
    """The number of the last commit among files; 0 for none."""
    return max((int(found[1]) for found in map(_COMMIT.fullmatch, names) if found), default=0)


def new_writer() -> str:
    """A name for this run of a program, which says where it runs."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _content(form: Form[Message], message: Message) -> bytes:
    return json.dumps(form.to_json(message), separators=(",", ":")).encode() + b"\n"
