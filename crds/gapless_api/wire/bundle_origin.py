"""The identity of the logs that a bundle was made from, which a scan or an audit writes and a comparison reads.

Must not know bundles or files. It is the member `ORIGIN_MEMBER` of a bundle's source. Offsets, and the records of a
detector, identify events only together with the topic ID: a recreated topic says nothing about the previous one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gapless_api.wire.audit_state import UpstreamTopic
from gapless_api.wire.form import Form, parse_json

ORIGIN_MEMBER = "origin"
"""The member of a bundle's source. Bundles of older releases, and of other programs, have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTopicLog:
    """The gaps topic of a scan, as far as it was read."""

    cluster: str
    """Kafka's ID of the cluster."""
    topic: str
    id: str
    """Kafka's ID of the topic, which changes if it is recreated; empty if the brokers have none."""
    end_offsets: tuple[int, ...]
    """By partition: the highest offset that could be read, plus one."""
    leader_epochs: tuple[int, ...] = ()
    """By partition: the leader epoch (KIP-320) at which its log reached the offset; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOrigin:
    """The logs that a bundle was made from, as far as they are known."""

    gap_topics: tuple[GapTopicLog, ...] = ()
    """One for a scan; those of all inputs for a bundle that was made from others."""
    upstream: tuple[UpstreamTopic, ...] = ()
    """The upstream topics of an audit, as far as known from inventories."""
    complete: bool = True
    """Whether all inputs of a bundle that was made from others have an origin."""


BUNDLE_ORIGIN = Form("origin of a bundle", "gapless_bundle_origin", 1, BundleOrigin, snake_case=True)


def origin_member(origin: BundleOrigin) -> dict[str, str]:
    """Return the member of a bundle's source."""
    return {ORIGIN_MEMBER: json.dumps(BUNDLE_ORIGIN.to_json(origin), separators=(",", ":"))}


def origin_in(source: Mapping[str, str]) -> BundleOrigin | None:
    """Return the origin in a bundle's source; ``None`` if it has none.

    Raises:
        WireError: it is damaged, or has another version.
    """
    text = source.get(ORIGIN_MEMBER)
    return None if text is None else BUNDLE_ORIGIN.from_json(parse_json(text))


def merge_origins(sources: list[Mapping[str, str]]) -> dict[str, str]:
    """Return the member for a bundle that is made from bundles with these `sources`; empty if none has an origin.

    Raises:
        WireError: an origin is damaged, or has another version.
    """
    found = [origin_in(source) for source in sources]
    known = [origin for origin in found if origin is not None]
    if not known:
        return {}
    gap_topics = dict.fromkeys(log for origin in known for log in origin.gap_topics)
    upstream = dict.fromkeys(log for origin in known for log in origin.upstream)
    complete = len(known) == len(found) and all(origin.complete for origin in known)
    return origin_member(BundleOrigin(gap_topics=tuple(gap_topics), upstream=tuple(upstream), complete=complete))
