"""Which topic settings are copied to the target, which are not, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_kafka.topics.target_topics import TopicDescription

_THROTTLE = "it names replicas on the source's brokers"
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
    "message.format.version": "current brokers ignore or reject it",
    "message.downconversion.enable": "current brokers ignore or reject it",
    "remote.storage.enable": _TIERED,
    "remote.log.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "local.retention.ms": _TIERED,
    "local.retention.bytes": _TIERED,
    "confluent.*": "other brokers do not know it",
}
"""The settings that are not copied, with the reason; a ``*`` at the end matches any characters."""

_KEPT_TIMESTAMPS = {"message.timestamp.type": "CreateTime"}
_NO_LIMIT = str(2**63 - 1)
_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_DECISIVE = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes")
"""Settings that decide which records the copy keeps: they are also copied where only the brokers' defaults differ."""


def why_not_carried(setting: str) -> str | None:
    """Return why a setting is not copied; ``None`` if it is."""
    for name, reason in NOT_CARRIED.items():
        if setting == name or (name.endswith("*") and setting.startswith(name[:-1])):
            return reason
    return None


def new_configuration(source: TopicDescription, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration to create the copy of a topic with.

    Args:
        source: the topic.
        defaults: the configuration of a new topic in the target, as far as known.
    """
    configuration = {name: value for name, value in source.own.items() if why_not_carried(name) is None}
    for name in _DECISIVE:
        value = source.configuration.get(name)
        if value is not None and name in defaults and defaults[name] != value:
            configuration[name] = value
    configuration |= _KEPT_TIMESTAMPS
    # Only brokers that support these limits list them among their defaults.
    configuration |= {name: _NO_LIMIT for name in _LIMITS if defaults.get(name, _NO_LIMIT) != _NO_LIMIT}
    return dict(sorted(configuration.items()))


def compared_settings(source: TopicDescription, target: TopicDescription) -> dict[str, tuple[str | None, str | None]]:
    """Return the settings of a copy that differ from the expected ones, as pairs of expected and actual value."""
    differing: dict[str, tuple[str | None, str | None]] = {}
    if source.configuration and target.configuration:
        for name in sorted({*source.own, *target.own, *_DECISIVE}):
            expected, actual = source.configuration.get(name), target.configuration.get(name)
            if why_not_carried(name) is None and expected != actual and not _is_unknown(name, source, target):
                differing[name] = (expected, actual)
    for name, value in _KEPT_TIMESTAMPS.items():
        actual = target.configuration.get(name, value)
        if actual != value:
            differing[name] = (value, actual)
    return differing


def _is_unknown(name: str, source: TopicDescription, target: TopicDescription) -> bool:
    """Whether one of the clusters does not support a setting that neither topic sets."""
    known = name in source.configuration and name in target.configuration
    return not known and name not in source.own and name not in target.own
