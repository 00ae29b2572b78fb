"""The rules for properties of MirrorMaker 2 flows: mapped to a setting, ignored, or refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.client_properties import (
    Mapped,
    Refused,
    Rule,
    no_meaning,
    translated_expression,
    unless_negative,
)
from gapless_mirror.settings.config_types import boolean, words

if TYPE_CHECKING:
    from gapless_mirror.settings.java_properties import Property

_POLICIES = {
    "DefaultReplicationPolicy": "{{source}}{separator}{{topic}}",
    "IdentityReplicationPolicy": "{{topic}}",
}
_INTERNAL_TOPICS = (
    "the only topic of a mirror's own is its control topic, with as many replicas as there are brokers up to 3"
)
_CHECKPOINTS = "positions of groups are translated with the exact map of offsets, not with samples"
_ALWAYS = "new topics and groups are always looked for"
_CREATION = "settings are carried when a topic is created; gapless mirror diff shows what differs later"


_SEPARATOR = "replication.policy.separator"
_DEFAULT_EXCLUDE = r".*[\-\.]internal, .*\.replica, __.*"
_INTERNAL = r"__.*|\..*|.*[\-.]internal"
"""Topics that ReplicationPolicy.isInternalTopic leaves out whatever topics.exclude says."""


def _class(default: str, cure: str) -> Refused:
    return Refused(
        frozenset(),
        f"is a class of Java, which cannot run here; {cure}",
        "it names the class that Kafka has by default",
        accepted=default,
    )


COMBINED: Mapping[str, Rule] = {
    **no_meaning("clusters", "it lists the clusters of the file"),
    **no_meaning("enabled", "it chooses the flow"),
    **no_meaning("topics topics.whitelist topics.exclude topics.blacklist", "they become topicPattern"),
    **no_meaning("groups groups.whitelist groups.exclude groups.blacklist", "they become groupPattern"),
    **no_meaning("sync.group.offsets.enabled", "it switches groupPattern on"),
    **no_meaning("replication.policy.class replication.policy.separator", "they become rename"),
    **no_meaning("source.cluster.alias target.cluster.alias", "they become sourceName and targetName"),
}
"""Properties that have an effect, but only together with others."""

FLOW_RULES: Mapping[str, Rule] = {
    **{name: rule for name, rule in COMBINED.items() if name != "clusters"},
    "refresh.topics.interval.seconds": Mapped("topicRefresh", unless_negative, "topics are always looked for"),
    "sync.group.offsets.interval.seconds": Mapped("groupInterval", unless_negative, "groups are not translated"),
    "emit.heartbeats.enabled": Mapped("heartbeat", lambda text: str(boolean(text)).lower()),
    "replication.factor": Mapped("replicationFactor", unless_negative, "the default of the target's brokers is used"),
    **no_meaning("refresh.topics.enabled refresh.groups.enabled", _ALWAYS),
    **no_meaning("refresh.groups.interval.seconds", "groups are looked for with each groupInterval"),
    **no_meaning(
        "sync.topic.configs.enabled sync.topic.configs.interval.seconds config.properties.exclude "
        "config.properties.blacklist use.incremental.alter.configs use.defaults.from",
        _CREATION,
    ),
    **no_meaning(
        "sync.topic.acls.enabled sync.topic.acls.interval.seconds",
        "rights are not copied; give readers of the target theirs",
    ),
    **no_meaning(
        "emit.checkpoints.enabled emit.checkpoints.interval.seconds checkpoints.topic.replication.factor "
        "emit.offset-syncs.enabled offset-syncs.topic.replication.factor offset-syncs.topic.location offset.lag.max "
        "offset.flush.timeout.ms offset.flush.interval.ms consumer.poll.timeout.ms",
        _CHECKPOINTS,
    ),
    **no_meaning(
        "heartbeats.topic.replication.factor heartbeats.replication.enabled replication.policy.internal.topic.* "
        "offset.storage.replication.factor config.storage.replication.factor status.storage.replication.factor "
        "offset.storage.* config.storage.* status.storage.*",
        _INTERNAL_TOPICS,
    ),
    **no_meaning("emit.heartbeats.interval.seconds", "a heartbeat is written with the commits of a mirror"),
    **no_meaning(
        "exactly.once.support exactly.once.source.support transaction.boundary transaction.boundary.interval.ms",
        "records and positions are written in one transaction; delivery=at-least-once goes without",
    ),
    **no_meaning("tasks.max", "give workers; each one copies many partitions"),
    **no_meaning("add.source.alias.to.metrics admin.timeout.ms topic.creation.* errors.*", "it steers Kafka Connect"),
    "topic.filter.class": _class("DefaultTopicFilter", "choose with --topic-pattern"),
    "group.filter.class": _class("DefaultGroupFilter", "choose with --group-pattern"),
    "config.property.filter.class": _class("DefaultConfigPropertyFilter", "see gapless mirror diff"),
    "forwarding.admin.class": _class("ForwardingAdmin", "delete the line"),
    "transforms": Refused(
        frozenset(), "are classes of Java, which cannot run here; use transform with engine=spark", "none is given"
    ),
    **no_meaning("transforms.* predicates predicates.*", "they belong to transforms"),
}
"""Properties of a flow, for all clusters or for the target."""

WORKER: Mapping[str, Rule] = {
    "clusters": COMBINED["clusters"],
    **no_meaning(
        "dedicated.mode.enable.internal.rest listeners listeners.https.* rest.* admin.listeners "
        "admin.listeners.https.* rebalance.timeout.ms access.control.* topic.tracking.* response.http.headers.config "
        "ssl.client.auth metrics.context.* connector.client.config.override.policy "
        "plugin.path plugin.discovery group.id worker.* scheduled.rebalance.max.delay.ms key.converter value.converter "
        "header.converter key.converter.* value.converter.* task.shutdown.graceful.timeout.ms connect.protocol "
        "inter.worker.* name connector.class",
        "it steers Kafka Connect",
    ),
}
"""Properties of the program, which have no meaning for a flow."""


def policy_template(flow: Mapping[str, Property], alias: str) -> str:
    """Return the rename rule of the replication policy.

    Args:
        flow: properties.
        alias: of the source cluster; may be empty.

    Raises:
        ConfigurationError: the policy class is unknown, or its names would not show where the alias ends.
    """
    policy, separator = flow.get("replication.policy.class"), _separator(flow)
    name = policy.value.rpartition(".")[2] if policy is not None else "DefaultReplicationPolicy"
    if name not in _POLICIES:
        origin = policy.origin if policy is not None else ""
        raise ConfigurationError(
            f"The property replication.policy.class={name} ({origin}) is a class of Java, which cannot run here; give "
            f"its rule with --rename, such as --rename={{source}}.{{topic}}."
        )
    if name == "DefaultReplicationPolicy" and alias and not separator:
        raise ConfigurationError(
            f"The property replication.policy.separator ({flow[_SEPARATOR].origin}) is empty, so orders would become "
            f"{alias}orders; to keep the names of topics, also give an empty source.cluster.alias, or "
            f"replication.policy.class=IdentityReplicationPolicy; otherwise give --rename."
        )
    template = _POLICIES[name].format(separator=separator)
    return template if alias else template.replace("{source}", "")


def topic_expression(flow: Mapping[str, Property]) -> str:
    """Return the regular expression of the topics of a flow, which never include internal topics."""
    chosen = expression(
        flow, ("topics", "topics.whitelist"), ".*", ("topics.exclude", "topics.blacklist"), _DEFAULT_EXCLUDE
    )
    internal = rf"{_INTERNAL}|.*{re.escape(_separator(flow))}internal" if _separator(flow) else _INTERNAL
    return rf"(?!(?:{internal})\Z)(?:{chosen})"


def _separator(flow: Mapping[str, Property]) -> str:
    found = flow.get(_SEPARATOR)
    return found.value if found is not None else "."


def expression(
    flow: Mapping[str, Property],
    names: tuple[str, ...],
    default: str,
    excluded_names: tuple[str, ...],
    default_excluded: str,
) -> str:
    """Combine two properties with lists of expressions into one regular expression: selected and not excluded names."""
    chosen = _joined(flow, names, default)
    excluded = _joined(flow, excluded_names, default_excluded)
    return rf"(?!(?:{excluded})\Z)(?:{chosen})" if excluded else chosen


def _joined(flow: Mapping[str, Property], names: tuple[str, ...], default: str) -> str:
    """Return the expression for any name in a list of Java's, which MirrorMaker 2 joins before it reads them."""
    each = next((flow[name] for name in names if name in flow), None)
    text = each.value if each is not None else default
    joined = "|".join(filter(None, words(text)))
    try:
        return translated_expression(joined, ascii_names=not names[0].startswith("groups"))
    except ValueError as error:
        what = f"The property {each.key} ({each.origin})" if each is not None else names[0]
        raise ConfigurationError(f"{what} must be {error}.") from None
