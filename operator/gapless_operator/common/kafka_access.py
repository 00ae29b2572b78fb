"""Owns how a pod reaches Kafka: the settings and arguments that say it, and the entries of Secrets that they name.

Must not know which command the settings are for, nor how a Secret gets into a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_operator.common.projected import Wanted

CA, CERTIFICATE, KEY, KEY_PASSWORD = "kafka-ca.crt", "kafka-client.crt", "kafka-client.key", "kafka-key-password"
SASL_PASSWORD = "kafka-password"  # noqa: S105 -- the name of a file


def kafka_settings(kafka: KafkaConnectionSpec, secrets_folder: str) -> dict[str, str]:
    """The settings, as every command of ours spells them; `secrets_folder` is where a pod finds the files."""
    tls, sasl = kafka.tls, kafka.sasl
    lines = {"bootstrapServers": kafka.bootstrap_servers}
    if tls is not None:
        lines["tls"] = "true" if tls.enabled else "false"
        if tls.ca_secret is not None:
            lines["caFile"] = f"{secrets_folder}/{CA}"
        if tls.client_secret is not None:
            lines["certFile"] = f"{secrets_folder}/{CERTIFICATE}"
            lines["keyFile"] = f"{secrets_folder}/{KEY}"
            if tls.client_secret.password_key is not None:
                lines["keyPasswordFile"] = f"{secrets_folder}/{KEY_PASSWORD}"
    if sasl is not None:
        lines["saslMechanism"] = sasl.mechanism
        lines["saslUsername"] = sasl.username
        lines["saslPasswordFile"] = f"{secrets_folder}/{SASL_PASSWORD}"
    return lines


def kafka_secrets(kafka: KafkaConnectionSpec) -> list[Wanted]:
    """What these settings need of Secrets."""
    tls, sasl = kafka.tls, kafka.sasl
    wanted: list[Wanted] = []
    if tls is not None and tls.ca_secret is not None:
        wanted.append((tls.ca_secret.name, CA, tls.ca_secret.key))
    if tls is not None and (client := tls.client_secret) is not None:
        wanted += [(client.name, CERTIFICATE, client.certificate_key), (client.name, KEY, client.key_key)]
        if client.password_key is not None:
            wanted.append((client.name, KEY_PASSWORD, client.password_key))
    if sasl is not None:
        wanted.append((sasl.password_secret.name, SASL_PASSWORD, sasl.password_secret.key))
    return wanted


def kafka_arguments(kafka: KafkaConnectionSpec) -> list[str]:
    """What a command is told as arguments, which no file and no variable overrides."""
    return [f"--allowed-topics={kafka.topics}"]
