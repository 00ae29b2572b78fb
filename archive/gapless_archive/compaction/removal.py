"""Owns how segments and objects leave an archive: first out of the chain, and after a grace period out of the place.

A program that has read the chain before may still read an object meanwhile. A crash at any moment leaves objects that
the next run deletes. Of a topic that is held nothing is deleted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_of
from gapless_archive.catalog.chain import Changes
from gapless_archive.catalog.peer_keys import parse_peer_key
from gapless_archive.compaction.retention import plan_expiry
from gapless_archive.segments.takeover import written_by_us

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.compaction.retention import Retention
    from gapless_archive.store.object_store import StoredObject

GRACE_PERIOD = timedelta(hours=1)
ORPHAN_AGE = timedelta(hours=24)
"""A program that archives or compacts commits its objects much sooner."""
_AT_ONCE = 16
_MOST_IN_A_COMMIT = 1000


def expire(
    chain: Chain, retention: Retention, now: datetime, *, partitions: Collection[int] | None = None
) -> list[Segment]:
    """Commit that segments are no longer part of the archive, and return them. Raises GaplessError."""
    going: list[Segment] = []

    def change(state: TopicState) -> Changes | None:
        going[:] = plan_expiry(state, retention, now, partitions=partitions)
        return Changes(action="expire", removed=tuple(going)) if going else None

    chain.committed(change)
    return going


def hold(chain: Chain, *, is_held: bool) -> bool:
    """Commit that nothing is removed from now on, or that it may be again; return whether that is a change."""
    changed = False

    def change(state: TopicState) -> Changes | None:
        nonlocal changed
        changed = state.is_held != is_held
        return Changes(action="hold", hold=is_held) if changed else None

    chain.committed(change)
    return changed


def delete_garbage(chain: Chain, grace: timedelta, now: datetime) -> int:
    """Delete objects that no segment has needed for `grace`, record that, and return how many. Raises GaplessError."""
    count = 0
    while True:
        state = chain.load()
        due = [name for name, since in state.garbage.items() if _is_older(since, now - grace)][:_MOST_IN_A_COMMIT]
        if state.is_held or not due:
            return count
        _delete(chain, due)
        _record(chain, frozenset(due))
        count += len(due)


def _record(chain: Chain, gone: frozenset[str]) -> None:
    """Commit which objects are gone."""

    def change(state: TopicState) -> Changes | None:
        deleted = tuple(name for name in state.garbage if name in gone)
        return Changes(action="delete", deleted=deleted) if deleted else None

    chain.committed(change)


def find_orphans(chain: Chain, age: timedelta, now: datetime) -> list[StoredObject]:
    """Objects of the topic that no commit names, and that are older than `age`. Raises GaplessError."""
    found = [
        one
        for name in chain.place.children(chain.prefix)
        if name != "chain"
        for one in chain.place.objects(f"{chain.prefix}/{name}")
        if datetime.fromtimestamp(one.modified, UTC) < now - age
    ]
    if not found:
        return []
    state = chain.load()  # after the list, so that what was committed meanwhile is no orphan
    named = state.objects | state.garbage.keys()
    unnamed = [one for one in found if one.key not in named]
    return unnamed if chain.layout == "gapless" else _peer_orphans(chain, state, unnamed)


def _peer_orphans(chain: Chain, state: TopicState, unnamed: Sequence[StoredObject]) -> list[StoredObject]:
    """Of objects in the layout of kafka-replicator, those that are ours and that nobody writes again under their name.

    An archiving program writes behind what is archived only, and a compactor joins segments of lower levels only.
    """
    done = []
    for one in unnamed:
        key = parse_peer_key(one.key)
        if key is None or key.first >= (state.head(key.partition) or 0):
            continue
        lower = (segment for segment in state.segments(key.partition) if segment.level < key.level)
        if not any(segment.first <= key.last and key.first < segment.end for segment in lower):
            done.append(one)
    ours = written_by_us(chain.place, [one.key for one in done])
    return [one for one in done if one.key in ours]


def delete_orphans(chain: Chain, now: datetime, *, age: timedelta = ORPHAN_AGE) -> int:
    """Delete objects that killed programs have left, and return how many. Raises GaplessError."""
    found = find_orphans(chain, age, now)
    if not found or chain.load().is_held:
        return 0
    _delete(chain, [one.key for one in found])
    return len(found)


def _delete(chain: Chain, names: Collection[str]) -> None:
    with ThreadPoolExecutor(_AT_ONCE, "delete") as pool:
        for _ in pool.map(chain.place.delete, names):
            pass


def _is_older(moment: str, limit: datetime) -> bool:
    found = moment_of(moment)
    return found is not None and found <= limit
