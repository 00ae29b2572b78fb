"""Owns the regions, topics and topic generations of an archive; must not know their segments."""

from __future__ import annotations

import re
from collections.abc import Iterator  # noqa: TC003 -- one name in many signatures

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION, is_topic, unpadded_decimal
from gapless_archive.catalog.chain import Chain
from gapless_archive.catalog.entry import Layout  # noqa: TC001 -- one name in many signatures
from gapless_archive.catalog.peer_keys import COMMITS_FOLDER
from gapless_archive.catalog.peer_segments import NO_ID, PeerChain, has_peer_segments
from gapless_archive.store.places import Place  # noqa: TC001 -- one name in many signatures

_REGION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,62}")


def is_region(text: str) -> bool:
    """Whether `text` is a valid name of a region: letters, digits, dashes, dots and underscores."""
    return _REGION.fullmatch(text) is not None


def regions(place: Place) -> list[str]:
    """The regions of an archive. Raises StoreUnreachableError and LocalStorageError, like all of these functions."""
    names = {*place.children(""), *place.children(COMMITS_FOLDER)}
    return [name for name in sorted(names) if is_region(name) and has_topics(place, name)]


def topics(place: Place, region: str) -> list[str]:
    """The archived topics of a region."""
    return list(_topics(place, region))


def has_topics(place: Place, region: str) -> bool:
    """Whether a region has any archived topic; quicker than listing all of them."""
    return any(True for _ in _topics(place, region))


def _topics(place: Place, region: str) -> Iterator[str]:
    names = {*place.children(region), *place.children(f"{COMMITS_FOLDER}/{region}")}
    return (name for name in sorted(names) if is_topic(name) and generations(place, region, name))


def layouts(place: Place, region: str, topic: str) -> dict[str, Layout]:
    """The topic IDs of a topic that has commits, and the layout of the segments of each."""
    own = f"{region}/{topic}"
    own_layout: dict[str, Layout] = {
        name: "gapless"
        for name in place.children(own)
        if unpadded_decimal(name, MAX_PARTITION) is None and place.children(f"{own}/{name}/chain")
    }
    commits = f"{COMMITS_FOLDER}/{own}"
    return own_layout | {
        name: "kafka-replicator" for name in place.children(commits) if place.children(f"{commits}/{name}")
    }


def generations(place: Place, region: str, topic: str) -> list[str]:
    """The topic IDs of a topic, several if it was deleted and recreated, in no particular order.

    For a topic without commits that has segments of kafka-replicator, it is `NO_ID` alone.
    """
    topic_ids = list(layouts(place, region, topic))
    return topic_ids or ([NO_ID] if has_peer_segments(place, region, topic) else [])


def chain_of(place: Place, region: str, topic: str, topic_id: str, *, writer: str | None = None) -> Chain:
    """Return the chain of one of the `generations` of a topic."""
    if topic_id == NO_ID:
        return PeerChain(place, region, topic)
    is_peer_layout = place.children(f"{COMMITS_FOLDER}/{region}/{topic}/{topic_id}")
    layout: Layout = "kafka-replicator" if is_peer_layout else "gapless"
    return Chain(place, region, topic, topic_id, writer=writer, layout=layout)


def only_region(place: Place, region: str | None = None) -> str:
    """Return `region` if it is given, otherwise the only region of the archive.

    Raises:
        ConfigurationError: `region` is ``None``, and the archive has no region or several.
    """
    if region is not None:
        return region
    existing = regions(place)
    if len(existing) != 1:
        problem = f"holds several regions ({', '.join(existing)})" if existing else "holds no archived topic"
        remedy = "choose one with --region" if existing else "correct the address of the archive"
        raise ConfigurationError(f"{place.name} {problem}; {remedy}.")
    return existing[0]


def find_chain(place: Place, topic: str, *, region: str | None = None, topic_id: str | None = None) -> Chain:
    """Return the chain of a topic; of several generations, the one that was archived last.

    Args:
        place: of the archive.
        topic: its name.
        region: ``None`` for the only one.
        topic_id: of the generation; ``None`` for the one that was archived last.

    Raises:
        ConfigurationError: the archive does not have that topic or generation.
    """
    chosen = only_region(place, region)
    topic_ids = generations(place, chosen, topic)
    if not topic_ids or (topic_id is not None and topic_id not in topic_ids):
        missing = f"topic {topic}" + (f" with the ID {topic_id}" if topic_ids else "")
        kind, existing = ("IDs", sorted(topic_ids)) if topic_ids else ("topics", topics(place, chosen))
        raise ConfigurationError(
            f"{place.name} has no {missing} in the region {chosen} ({kind}: {', '.join(existing) or 'none'}); correct "
            f"the name."
        )
    if topic_id is None and len(topic_ids) > 1:
        chains = [chain_of(place, chosen, topic, each) for each in topic_ids]
        return max(chains, key=lambda chain: chain.load().archived_at)
    return chain_of(place, chosen, topic, topic_ids[0] if topic_id is None else topic_id)
