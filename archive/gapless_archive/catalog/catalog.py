"""Owns which topics an archive has, of which regions, and which generations of them; must not know what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator  # noqa: TC003 -- one name in many signatures

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION, is_topic, unpadded_decimal
from gapless_archive.catalog.chain import Chain
from gapless_archive.catalog.entry import Layout  # noqa: TC001 -- one name in many signatures
from gapless_archive.catalog.peer_keys import BESIDE
from gapless_archive.catalog.peer_segments import NO_ID, PeerChain, has_peer_segments
from gapless_archive.store.places import Place  # noqa: TC001 -- one name in many signatures

_REGION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,62}")


def is_region(text: str) -> bool:
    """Whether `text` may name a region: letters, digits, dashes, dots and underscores."""
    return _REGION.fullmatch(text) is not None


def regions(place: Place) -> list[str]:
    """The regions of an archive. Raises StoreUnreachableError and LocalStorageError, like all of these."""
    found = {*place.children(""), *place.children(BESIDE)}
    return [name for name in sorted(found) if is_region(name) and has_topics(place, name)]


def topics(place: Place, region: str) -> list[str]:
    """The topics that are archived of a region."""
    return list(_topics(place, region))


def has_topics(place: Place, region: str) -> bool:
    """Whether any topic is archived of a region, which is quicker to find out than all that are."""
    return any(True for _ in _topics(place, region))


def _topics(place: Place, region: str) -> Iterator[str]:
    found = {*place.children(region), *place.children(f"{BESIDE}/{region}")}
    return (name for name in sorted(found) if is_topic(name) and generations(place, region, name))


def layouts(place: Place, region: str, topic: str) -> dict[str, Layout]:
    """The topic IDs of a topic that has commits, and in which layout the segments of each one are."""
    own = f"{region}/{topic}"
    found: dict[str, Layout] = {
        name: "gapless"
        for name in place.children(own)
        if unpadded_decimal(name, MAX_PARTITION) is None and place.children(f"{own}/{name}/chain")
    }
    beside = f"{BESIDE}/{own}"
    return found | {name: "kafka-replicator" for name in place.children(beside) if place.children(f"{beside}/{name}")}


def generations(place: Place, region: str, topic: str) -> list[str]:
    """The topic IDs of a topic that was deleted and recreated, in no order that means anything.

    Of a topic without commits and with segments of kafka-replicator it is `NO_ID` alone.
    """
    ours = list(layouts(place, region, topic))
    return ours or ([NO_ID] if has_peer_segments(place, region, topic) else [])


def chain_of(place: Place, region: str, topic: str, topic_id: str, *, writer: str | None = None) -> Chain:
    """The chain of one of the `generations` of a topic."""
    if topic_id == NO_ID:
        return PeerChain(place, region, topic)
    is_beside = place.children(f"{BESIDE}/{region}/{topic}/{topic_id}")
    return Chain(place, region, topic, topic_id, writer=writer, layout="kafka-replicator" if is_beside else "gapless")


def only_region(place: Place, region: str | None = None) -> str:
    """The region that is meant: `region`, or the only one there is.

    Raises:
        ConfigurationError: there is none, or several and nobody says which.
    """
    if region is not None:
        return region
    found = regions(place)
    if len(found) != 1:
        several = f"holds the regions {', '.join(found)}" if found else "holds no archived topic"
        cure = "choose one with --region" if found else "correct the address of the archive"
        raise ConfigurationError(f"{place.name} {several}; {cure}.")
    return found[0]


def find_chain(place: Place, topic: str, *, region: str | None = None, topic_id: str | None = None) -> Chain:
    """The chain of a topic; of several generations the one that was archived last.

    Args:
        place: of the archive.
        topic: as Kafka names it.
        region: ``None`` for the only one.
        topic_id: of the generation; ``None`` for the last one.

    Raises:
        ConfigurationError: the archive does not have that topic or generation.
    """
    chosen = only_region(place, region)
    found = generations(place, chosen, topic)
    if not found or (topic_id is not None and topic_id not in found):
        which = f"the topic {topic}" + (f" with the ID {topic_id}" if found else "")
        known = f"the IDs {', '.join(sorted(found))}" if found else f"{', '.join(topics(place, chosen)) or 'no topics'}"
        raise ConfigurationError(f"{place.name} does not have {which} of the region {chosen}, but {known}.")
    if topic_id is None and len(found) > 1:
        chains = [chain_of(place, chosen, topic, each) for each in found]
        return max(chains, key=lambda chain: chain.load().archived_at)
    return chain_of(place, chosen, topic, found[0] if topic_id is None else topic_id)
