"""The settings of how Kafka is read; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.quantities import boolean, choice
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_GROUP
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS
from gapless_sender.settings.values import positive_seconds

KAFKA: tuple[Setting, ...] = (
    Setting(
        "clientID",
        "Client ID of this reader in Kafka's quotas and logs.",
        default="gapless-resend",
        group=KAFKA_GROUP,
    ),
    ALLOWED_TOPICS,
    Setting(
        "refuseLocalBrokers",
        "Refuse brokers (also those in Kafka's metadata) and object stores with loopback or link-local addresses or "
        "those of metadata services. Senders in the network of a Kubernetes node do.",
        parse=boolean,
        default=False,
        group=KAFKA_GROUP,
    ),
    Setting(
        "isolationLevel",
        "Which records of transactions are read. The live sender reads uncommitted ones, so it sent their offsets.",
        parse=choice("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        metavar="LEVEL",
        group=KAFKA_GROUP,
    ),
    CONNECT_TIMEOUT,
    Setting(
        "stallTimeout",
        "Seconds without any record from Kafka after which the command ends with exit code 3. A resend saves its "
        "progress.",
        parse=positive_seconds,
        default=STALLED_AFTER_SECONDS,
        metavar="SECONDS",
        group=KAFKA_GROUP,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings(TypedSettings):
    """How Kafka is read; the connection has settings of its own."""

    client_id: str = setting("clientID")
    allowed_topics: AllowedTopics | None
    isolation_level: str
    connect_timeout_seconds: float = setting("connectTimeout")
    stall_timeout_seconds: float = setting("stallTimeout")
