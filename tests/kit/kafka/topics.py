"""Changes of topics: each is known to every given broker when the call returns.

Kafka answers when its controller has written a change; each broker applies it a moment later, and a new client may ask
any of them. Must not know how brokers are started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, OffsetSpec

from kit.machine.processes import wait_until

_SECONDS = 30
"""The limit for one request."""


def delete_topic(topic: str, admins: Sequence[AdminClient]) -> None:
    """Delete a topic. `admins` are clients of one broker each."""
    admins[0].delete_topics([topic], request_timeout=_SECONDS)[topic].result()
    for admin in admins:
        wait_until(partial(_is_unknown, topic, admin), what=f"the end of {topic}")


def add_partitions(topic: str, partitions: int, admins: Sequence[AdminClient]) -> None:
    """Let a topic have `partitions` partitions, more than before. `admins` are clients of one broker each."""
    admins[0].create_partitions([NewPartitions(topic, partitions)], request_timeout=_SECONDS)[topic].result()
    await_leaders(topic, partitions, admins)


def alter_topic(topic: str, settings: Mapping[str, str], admins: Sequence[AdminClient]) -> None:
    """Set some topic configurations and keep the others. `admins` are clients of one broker each."""
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    admins[0].incremental_alter_configs([resource], request_timeout=_SECONDS)[resource].result()
    for admin in admins:
        wait_until(partial(_has, topic, settings, admin), what=f"{dict(settings)} of {topic}")


def await_leaders(topic: str, partitions: int, admins: Sequence[AdminClient], *, some: bool = True) -> None:
    """Wait until each broker reports a leader for every partition, or with `some=False` for none of them.

    A broker that starts reports itself as the leader of a partition before it opens the partition's log, and refuses
    requests in between; so each leader is asked for an offset, too. `admins` are clients of one broker each.
    """
    what = f"{'a' if some else 'no'} leader for every partition of {topic}"
    for admin in admins:
        wait_until(partial(_reports, topic, partitions, admin, some=some), what=what)
    if some:
        wait_until(partial(_all_answer, topic, partitions, admins[0]), what=f"an answer of {what}")


def _is_unknown(topic: str, admin: AdminClient) -> bool:
    return topic not in admin.list_topics(timeout=_SECONDS).topics


def _has(topic: str, settings: Mapping[str, str], admin: AdminClient) -> bool:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found: Mapping[str, ConfigEntry] = admin.describe_configs([resource], request_timeout=_SECONDS)[resource].result()
    return all(found[key].value == value for key, value in settings.items())


def _reports(topic: str, partitions: int, admin: AdminClient, *, some: bool) -> bool:
    described = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions.values()
    return len(described) == partitions and all((partition.leader >= 0) == some for partition in described)


def _all_answer(topic: str, partitions: int, admin: AdminClient) -> bool:
    """Whether the leader of every partition answers a request that only a leader may answer."""
    numbers = [TopicPartition(topic, number) for number in range(partitions)]
    asked = admin.list_offsets(dict.fromkeys(numbers, OffsetSpec.latest()), request_timeout=_SECONDS)
    return all(future.exception() is None for future in asked.values())
