"""Owns which settings of a source topic its copy has, which it does not have, and why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_kafka.topics.target_topics import TopicDescription

_THROTTLE = "it names replicas of the source's brokers"
_TIERED = "the target may have no tiered storage"
_TIMESTAMPS = "a limit on timestamps would refuse old records, or those of clocks that run ahead"
NOT_CARRIED: Mapping[str, str] = {
    "leader.replication.throttled.replicas": _THROTTLE,
    "follower.replication.throttled.replicas": _THROTTLE,
    "message.timestamp.type": "the copy always has CreateTime, which keeps the timestamps of the source",
    "message.timestamp.difference.max.ms": _TIMESTAMPS,
    "message.timestamp.before.max.ms": _TIMESTAMPS,
    "message.timestamp.after.max.ms": _TIMESTAMPS,
    "min.insync.replicas": "it belongs to the number of replicas, which the target chooses",
    "unclean.leader.election.enable": "the target chooses between availability and loss",
    "message.format.version": "brokers of today ignore or refuse it",
    "message.downconversion.enable": "brokers of today ignore or refuse it",
    "remote.storage.enable": _TIERED,
    "remote.log.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "local.retention.ms": _TIERED,
    "local.retention.bytes": _TIERED,
    "confluent.*": "other brokers do not know it",
}
"""Settings that a copy does not take over from its source, with why; a ``*`` stands for any characters at the end."""

_KEPT_TIMESTAMPS = {"message.timestamp.type": "CreateTime"}
_NO_LIMIT = str(2**63 - 1)
_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_DECISIVE = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes")
"""Settings that decide what the copy can hold: they are carried, too, where the brokers' defaults differ."""


def why_not_carried(setting: str) -> str | None:
    """Why the copy does not take over a setting; ``None`` when it does."""
    for name, why in NOT_CARRIED.items():
        if setting == name or (name.endswith("*") and setting.startswith(name[:-1])):
            return why
    return None


def new_configuration(source: TopicDescription, defaults: Mapping[str, str]) -> dict[str, str]:
    """The settings of its own with which the copy of a topic is created.

    Args:
        source: the topic.
        defaults: settings of a new topic in the target, as far as known.
    """
    found = {name: value for name, value in source.own.items() if why_not_carried(name) is None}
    for name in _DECISIVE:
        value = source.configuration.get(name)
        if value is not None and name in defaults and defaults[name] != value:
            found[name] = value
    found |= _KEPT_TIMESTAMPS
    # Only brokers that know these limits list them among their defaults.
    found |= {name: _NO_LIMIT for name in _LIMITS if defaults.get(name, _NO_LIMIT) != _NO_LIMIT}
    return dict(sorted(found.items()))


def compared_settings(source: TopicDescription, target: TopicDescription) -> dict[str, tuple[str | None, str | None]]:
    """The settings in which the copy of a topic differs from what it should have: expected and found."""
    found: dict[str, tuple[str | None, str | None]] = {}
    if source.configuration and target.configuration:
        for name in sorted({*source.own, *target.own, *_DECISIVE}):
            expected, has = source.configuration.get(name), target.configuration.get(name)
            if why_not_carried(name) is None and expected != has and not _is_unknown(name, source, target):
                found[name] = (expected, has)
    for name, value in _KEPT_TIMESTAMPS.items():
        has = target.configuration.get(name, value)
        if has != value:
            found[name] = (value, has)
    return found


def _is_unknown(name: str, source: TopicDescription, target: TopicDescription) -> bool:
    """Whether one of the clusters does not know a setting for which neither topic has a value of its own."""
    known = name in source.configuration and name in target.configuration
    return not known and name not in source.own and name not in target.own
