"""How segments and objects are removed: segments from the chain, and their objects after a grace period.

A program that loaded the chain earlier may still read the objects. After a crash, the next run deletes the objects that
remain. Nothing of a topic on hold is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_of
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.catalog.peer_keys import parse_peer_key
from gapless_archive.compaction.retention import Retention, plan_expiry
from gapless_archive.segments.peer_adoption import written_by_gapless

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.object_store import StoredObject

GRACE_PERIOD = timedelta(hours=1)
ORPHAN_AGE = timedelta(hours=24)
"""Programs commit their objects much sooner."""
_MAX_CONCURRENT_DELETES = 16
_MAX_OBJECTS_PER_COMMIT = 1000


def expire(
    chain: Chain, retention: Retention, now: datetime, *, partitions: Collection[int] | None = None
) -> list[Segment]:
    """Commit the removal of expired segments, and return them. Raises GaplessError."""
    expired: list[Segment] = []

    def change(state: TopicState) -> Changes | None:
        expired[:] = plan_expiry(state, retention, now, partitions=partitions)
        return Changes(action="expire", removed=tuple(expired)) if expired else None

    chain.update(change)
    return expired


def hold(chain: Chain, *, is_held: bool) -> bool:
    """Put a topic on hold, or release it; return whether that is a change. Raises GaplessError."""
    changed = False

    def change(state: TopicState) -> Changes | None:
        nonlocal changed
        changed = state.is_held != is_held
        return Changes(action="hold", hold=is_held) if changed else None

    chain.update(change)
    return changed


def delete_garbage(chain: Chain, grace: timedelta, now: datetime) -> int:
    """Delete objects that have been without segments for `grace`, commit that, and return how many.

    Raises:
        GaplessError: the archive cannot be read or written.
    """
    count = 0
    while True:
        state = chain.load()
        due = [name for name, since in state.garbage.items() if _is_older(since, now - grace)][:_MAX_OBJECTS_PER_COMMIT]
        if state.is_held or not due:
            return count
        _delete(chain, due)
        _commit_deletion(chain, frozenset(due))
        count += len(due)


def _commit_deletion(chain: Chain, objects: frozenset[str]) -> None:

    def change(state: TopicState) -> Changes | None:
        deleted = tuple(name for name in state.garbage if name in objects)
        return Changes(action="delete", deleted=deleted) if deleted else None

    chain.update(change)


def find_orphans(chain: Chain, age: timedelta, now: datetime) -> list[StoredObject]:
    """List objects of the topic that no commit names and that are older than `age`. Raises GaplessError."""
    old = [
        stored
        for name in chain.place.children(chain.prefix)
        if name != "chain"
        for stored in chain.place.objects(f"{chain.prefix}/{name}")
        if datetime.fromtimestamp(stored.modified, UTC) < now - age
    ]
    if not old:
        return []
    state = chain.load()  # after the list, so that objects that were committed meanwhile are not orphans
    named = state.objects | state.garbage.keys()
    unnamed = [stored for stored in old if stored.key not in named]
    return unnamed if chain.layout == "gapless" else _peer_orphans(chain, state, unnamed)


def _peer_orphans(chain: Chain, state: TopicState, unnamed: Sequence[StoredObject]) -> list[StoredObject]:
    """Return the objects in the layout of kafka-replicator that Gapless wrote and will not write again.

    Archiving writes only after the archived offsets, and compaction joins only segments of lower levels.
    """
    abandoned = []
    for stored in unnamed:
        key = parse_peer_key(stored.key)
        if key is None or key.first >= (state.head(key.partition) or 0):
            continue
        lower = (segment for segment in state.segments(key.partition) if segment.level < key.level)
        if not any(segment.first <= key.last and key.first < segment.end for segment in lower):
            abandoned.append(stored)
    ours = written_by_gapless(chain.place, [stored.key for stored in abandoned])
    return [stored for stored in abandoned if stored.key in ours]


def delete_orphans(chain: Chain, now: datetime, *, age: timedelta = ORPHAN_AGE) -> int:
    """Delete objects of programs that were killed before their commit, and return how many. Raises GaplessError."""
    orphans = find_orphans(chain, age, now)
    if not orphans or chain.load().is_held:
        return 0
    _delete(chain, [orphan.key for orphan in orphans])
    return len(orphans)


def _delete(chain: Chain, names: Collection[str]) -> None:
    with ThreadPoolExecutor(_MAX_CONCURRENT_DELETES, "delete") as pool:
        for _ in pool.map(chain.place.delete, names):
            pass


def _is_older(moment: str, limit: datetime) -> bool:
    parsed = moment_of(moment)
    return parsed is not None and parsed <= limit
