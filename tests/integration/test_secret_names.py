"""Kafka's own programs say which of their properties are passwords: no message shows the value of one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gapless_api.base.redaction import may_be_secret
from kit.kafka.jars import class_path

pytestmark = pytest.mark.integration
PROGRAM = Path(__file__).parents[1] / "kit" / "java" / "SecretNames.java"
CLASSES = (
    "org.apache.kafka.clients.producer.ProducerConfig",
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
    "kafka.server.KafkaConfig",
)


def test_each_property_that_kafka_itself_calls_a_password_is_hidden() -> None:
    command = ["java", "-cp", class_path(), str(PROGRAM), *CLASSES]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {"ssl.truststore.certificates", "sasl.jaas.config", "delegation.token.secret.key"} <= set(names)
    prefixes = ("", "source->target.consumer.", "source.cluster.", "producer.override.", "listener.name.x.")
    assert [prefix + name for name in names for prefix in prefixes if not may_be_secret(prefix + name)] == []
