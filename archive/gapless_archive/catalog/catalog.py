"""The regions, topics and topic generations of an archive; must not know their segments."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION, is_topic, unpadded_decimal
from gapless_archive.catalog.chain import Chain
from gapless_archive.catalog.entry import Layout, Predecessor  # noqa: TC001 -- names in many signatures
from gapless_archive.catalog.order import Generation, GenerationOrder, order_generations
from gapless_archive.catalog.peer_keys import COMMITS_FOLDER
from gapless_archive.catalog.peer_segments import NO_ID, PEER_GENERATION, PeerChain, has_peer_segments
from gapless_archive.catalog.state import ArchiveDamagedError, TopicState
from gapless_archive.store.places import Place  # noqa: TC001 -- one name in many signatures

_REGION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,62}")


class NotArchivedError(ConfigurationError):
    """The archive has nothing of what was named; it may be archived later."""


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
    return _layouts(place, region, topic, place.children(f"{region}/{topic}"))


def _layouts(place: Place, region: str, topic: str, names: Iterable[str]) -> dict[str, Layout]:
    own = f"{region}/{topic}"
    own_layout: dict[str, Layout] = {
        name: "gapless" for name in names if not _is_partition(name) and place.children(f"{own}/{name}/chain")
    }
    commits = f"{COMMITS_FOLDER}/{own}"
    return own_layout | {
        name: "kafka-replicator" for name in place.children(commits) if place.children(f"{commits}/{name}")
    }


def _is_partition(name: str) -> bool:
    return unpadded_decimal(name, MAX_PARTITION) is not None


def generations(place: Place, region: str, topic: str) -> list[str]:
    """The topic IDs of a topic, several if it was deleted and recreated, in no particular order.

    `NO_ID` stands for segments of kafka-replicator that are not in the layout of any commits.
    """
    names = place.children(f"{region}/{topic}")
    found = _layouts(place, region, topic, names)
    may_have_others = "kafka-replicator" not in found.values() and any(map(_is_partition, names))
    return [*found, NO_ID] if may_have_others and has_peer_segments(place, region, topic) else list(found)


def generation_order(place: Place, region: str, topic: str) -> GenerationOrder:
    """Load the chains of all generations of a topic, and order them. Raises GaplessError."""
    chains = [chain_of(place, region, topic, topic_id) for topic_id in generations(place, region, topic)]
    return order_generations([Generation(chain, chain.load()) for chain in chains])


def find_predecessors(chain: Chain, state: TopicState) -> tuple[Predecessor, ...] | None:
    """Return what the chain of the generation that Kafka has now must record of the others.

    ``None`` when there are no others, or their order is already proved. Damaged chains are omitted.

    Raises:
        StoreUnreachableError: the store does not answer.
    """
    current, others = Generation(chain, state), list[Generation]()
    for topic_id in sorted(layouts(chain.place, chain.region, chain.topic)):
        if topic_id != chain.topic_id:
            other = chain_of(chain.place, chain.region, chain.topic, topic_id)
            with contextlib.suppress(ArchiveDamagedError):
                others.append(Generation(other, other.load()))
    if all(other.precedes(current) for other in others):
        return None
    return tuple(other.as_predecessor() for other in others)


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
        NotArchivedError: `region` is ``None``, and the archive is empty.
        ConfigurationError: `region` is ``None``, and the archive has several.
    """
    if region is not None:
        return region
    existing = regions(place)
    if not existing:
        raise NotArchivedError(f"{place.name} holds no archived topic; correct the address of the archive.")
    if len(existing) > 1:
        raise ConfigurationError(
            f"{place.name} holds several regions ({', '.join(existing)}); choose one with --region."
        )
    return existing[0]


def find_chain(
    place: Place,
    topic: str,
    *,
    region: str | None = None,
    topic_id: str | None = None,
    remedy: str = "choose one with --topic-id=ID",
) -> Chain:
    """Return the chain of a topic; of several generations, the newest one.

    Args:
        place: of the archive.
        topic: its name.
        region: ``None`` for the only one.
        topic_id: of the generation, or `PEER_GENERATION`; ``None`` for the newest one.
        remedy: how to choose a generation, for the error.

    Raises:
        NotArchivedError: the archive has nothing of that topic.
        ConfigurationError: the archive does not have that generation, or `topic_id` is ``None`` and the chains do not
            prove which generation is the newest.
    """
    chosen = only_region(place, region)
    topic_id = NO_ID if topic_id == PEER_GENERATION else topic_id
    topic_ids = generations(place, chosen, topic)
    if not topic_ids:
        raise not_archived(place, chosen, topic)
    if topic_id is not None and topic_id not in topic_ids:
        raise ConfigurationError(
            f"{place.name} has no topic {topic} with the ID {topic_id or PEER_GENERATION} in the region {chosen} (IDs: "
            f"{', '.join(names_of(topic_ids))}); correct the ID."
        )
    if topic_id is None and len(topic_ids) > 1:
        newest = generation_order(place, chosen, topic).newest
        if newest is None:
            raise ConfigurationError(
                f"{place.name} has {len(topic_ids)} generations of the topic {topic} in the region {chosen} "
                f"({', '.join(names_of(topic_ids))}), and no commit proves which one is the newest; {remedy}. gapless "
                f"segments list shows them."
            )
        return newest.chain
    return chain_of(place, chosen, topic, topic_ids[0] if topic_id is None else topic_id)


def not_archived(place: Place, region: str, topic: str) -> NotArchivedError:
    """Return the error for a topic, or a prefix with ``*``, of which the archive has nothing.

    It does not list other topics: whoever reads it may not be allowed to know of them.
    """
    return NotArchivedError(
        f"{place.name} has no topic {topic} in the region {region}; correct the name (gapless segments list shows all "
        f"topics)."
    )


def names_of(topic_ids: Iterable[str]) -> list[str]:
    """Return the names of generations, as a user gives them: topic IDs, and `PEER_GENERATION`."""
    return sorted(topic_id or PEER_GENERATION for topic_id in topic_ids)
