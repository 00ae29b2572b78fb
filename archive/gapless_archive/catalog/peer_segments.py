"""The state of topics that kafka-replicator has archived: listed from the store, as there are no commits.

Must not know the content of objects.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from gapless_api.base.errors import ConfigurationError
from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ids import MAX_PARTITION, unpadded_decimal
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.catalog.entry import Entry, Head, Segment, Snapshot
from gapless_archive.catalog.peer_keys import parse_peer_key
from gapless_archive.catalog.state import TopicState

if TYPE_CHECKING:
    from gapless_archive.store.object_store import StoredObject
    from gapless_archive.store.places import Place

_MAX_SHOWN = 3
NO_ID = ""
"""The topic ID of topics that kafka-replicator has archived, because it does not store the real one."""
PEER_GENERATION = "kafka-replicator"
"""How a user names `NO_ID`, where a topic also has commits of Gapless in another layout."""
PEER_NOTE = (
    "its segments were written by kafka-replicator, which stores null as empty: tombstones come back as empty values, "
    "and the topic ID is not known"
)
PEER_LAYOUT_NOTE = (
    "its segments are in the layout of kafka-replicator, which stores null as empty: tombstones come back as empty "
    "values"
)


def layout_note(chain: Chain) -> str:
    """Return what a user must know about the layout of a topic; empty for nothing."""
    if chain.layout == "gapless":
        return ""
    return PEER_NOTE if chain.topic_id == NO_ID else PEER_LAYOUT_NOTE


def uncommitted_note(state: TopicState) -> str:
    """Return what a user must know about segments that no commit names; empty for nothing."""
    segments = state.uncommitted
    if not segments:
        return ""
    one = len(segments) == 1
    shown = ", ".join(f"{each.partition}/{each.first}-{each.last}" for each in segments[:_MAX_SHOWN])
    more = f" and {len(segments) - _MAX_SHOWN:,} more" if len(segments) > _MAX_SHOWN else ""
    return (
        f"kafka-replicator has written {len(segments):,} segment{'' if one else 's'} that no commit names "
        f"({shown}{more}); {'it is' if one else 'they are'} read like the others, and gapless archive "
        f"--layout=kafka-replicator adopts {'it' if one else 'them'}"
    )


def has_peer_segments(place: Place, region: str, topic: str) -> bool:
    """Whether a topic has objects with keys of kafka-replicator. Raises StoreUnreachableError."""
    prefix = f"{region}/{topic}"
    return any(
        parse_peer_key(f"{prefix}/{partition}/{level}/{name}") is not None
        for partition in place.children(prefix)
        if unpadded_decimal(partition, MAX_PARTITION) is not None
        for level in place.children(f"{prefix}/{partition}")
        for name in place.children(f"{prefix}/{partition}/{level}")
    )


def list_peer_segments(place: Place, region: str, topic: str) -> tuple[Segment, ...]:
    """List the segments of all objects with keys of kafka-replicator; see `Segment.is_listed`.

    Raises:
        StoreUnreachableError: the store does not answer.
    """
    segments = map(_listed_segment, place.objects(f"{region}/{topic}"))
    return tuple(segment for segment in segments if segment is not None)


class PeerChain(Chain):
    """A read-only chain for a topic that kafka-replicator has archived without commits."""

    def __init__(self, place: Place, region: str, topic: str) -> None:
        super().__init__(place, region, topic, NO_ID, writer=NO_ID, layout="kafka-replicator")

    def load(self) -> TopicState:
        """List the segments; see `Segment.is_listed`."""
        segments = list_peer_segments(self.place, self.region, self.topic)
        newest = max((segment.written_at for segment in segments), default="")
        ends: dict[int, int] = {}
        for segment in segments:
            ends[segment.partition] = max(segment.end, ends.get(segment.partition, 0))
        last = Entry(
            sequence=0,
            epoch=0,
            writer="",
            at=newest,
            action="archive",
            region=self.region,
            topic=self.topic,
            topic_id=NO_ID,
            cluster_id="",
        )
        heads = tuple(Head(partition, end) for partition, end in sorted(ends.items()))
        return TopicState.from_snapshot(
            Snapshot(
                last=last, archive_writer="", archived_at=newest, segments=segments, lost=(), garbage=(), heads=heads
            )
        )

    def commit(self, state: TopicState, changes: Changes) -> NoReturn:  # noqa: ARG002 -- as of every chain
        """Raise ConfigurationError."""
        raise self.read_only_error()

    def update(self, change: Callable[[TopicState], Changes | None]) -> NoReturn:  # noqa: ARG002 -- as of every chain
        """Raise ConfigurationError."""
        raise self.read_only_error()

    def read_only_error(self) -> ConfigurationError:
        """Return the error for an attempt to change the topic."""
        return ConfigurationError(
            f"{self.place.name}/{self.prefix} was written by kafka-replicator and is read-only; choose other topics "
            f"with --topics, or adopt it with gapless archive --layout=kafka-replicator."
        )


def _listed_segment(stored: StoredObject) -> Segment | None:
    """Return the segment of an object; ``None`` for an object that is not a segment."""
    key = parse_peer_key(stored.key)
    if key is None:
        return None
    return Segment(
        object=stored.key,
        partition=key.partition,
        level=key.level,
        first=key.first,
        end=key.last + 1,
        absent="",
        records=key.last + 1 - key.first,
        bytes=stored.bytes,
        stored_bytes=stored.bytes,
        min_timestamp=None,
        max_timestamp=None,
        digest="",
        isolation="read_committed",
        log_start=0,
        high_watermark=0,
        epoch=0,
        codec="snappy",
        layout="kafka-replicator",
        written_at=moment_text(datetime.fromtimestamp(stored.modified, UTC)),
        row_groups=(),
    )
