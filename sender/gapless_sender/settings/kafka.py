"""The settings of how Kafka is read; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.quantities import boolean, choice
from gapless_api.base.typed_settings import TypedSettings, declare, include
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_GROUP
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS
from gapless_sender.settings.values import positive_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings(TypedSettings):
    """How Kafka is read; the connection has settings of its own."""

    client_id: str = declare(
        "clientID",
        "Client ID of this reader in Kafka's quotas and logs.",
        default="gapless-resend",
        group=KAFKA_GROUP,
    )
    allowed_topics: AllowedTopics | None = include(ALLOWED_TOPICS)
    refuse_local_brokers: bool = declare(
        "refuseLocalBrokers",
        "Refuse brokers (also those in Kafka's metadata) and object stores with loopback or link-local addresses or "
        "those of metadata services. Senders in the network of a Kubernetes node do.",
        parse=boolean,
        default=False,
        group=KAFKA_GROUP,
    )
    isolation_level: str = declare(
        "isolationLevel",
        "Which records of transactions are read. The live sender reads uncommitted ones, so it sent their offsets.",
        parse=choice("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        metavar="LEVEL",
        group=KAFKA_GROUP,
    )
    connect_timeout_seconds: float = include(CONNECT_TIMEOUT)
    stall_timeout_seconds: float = declare(
        "stallTimeout",
        "Seconds without any record from Kafka after which the command ends with exit code 3. A resend saves its "
        "progress.",
        parse=positive_seconds,
        default=STALLED_AFTER_SECONDS,
        metavar="SECONDS",
        group=KAFKA_GROUP,
    )


KAFKA = KafkaSettings.declared()
