"""Owns how a pod reaches Kafka and S3-compatible stores: settings, arguments, and the entries of Secrets it needs.

Must not know which command the settings are for, nor what is kept in a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
    from gapless_api.v1alpha1.storage_location import S3Location

KAFKA_CA, CERTIFICATE, KEY, KEY_PASSWORD = "kafka-ca.crt", "kafka-client.crt", "kafka-client.key", "kafka-key-password"
SASL_PASSWORD = "kafka-password"  # noqa: S105 -- the name of a file
ACCESS_KEY_ID, SECRET_ACCESS_KEY, STORE_CA = "s3-access-key-id", "s3-secret-access-key", "s3-ca.crt"
SESSION_TOKEN = "s3-session-token"  # noqa: S105
"""Files among the secrets of a pod."""
SecretFile = tuple[str, str, str]
"""Name of a Secret, of the file, and of the entry that becomes it."""


def kafka_settings(kafka: KafkaConnectionSpec, secrets_folder: str) -> dict[str, str]:
    """The settings, as every command of ours spells them; `secrets_folder` is where a pod finds the files."""
    tls, sasl = kafka.tls, kafka.sasl
    lines = {"bootstrapServers": kafka.bootstrap_servers}
    if tls is not None:
        lines["tls"] = "true" if tls.enabled else "false"
        if tls.ca_secret is not None:
            lines["caFile"] = f"{secrets_folder}/{KAFKA_CA}"
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


def kafka_secrets(kafka: KafkaConnectionSpec, *, folder: str = "") -> list[SecretFile]:
    """What these settings need of Secrets.

    Args:
        kafka: the connection.
        folder: of the files among the secrets of a pod, with a slash behind it, where a pod has those of several.
    """
    tls, sasl = kafka.tls, kafka.sasl
    files: list[SecretFile] = []
    if tls is not None and tls.ca_secret is not None:
        files.append((tls.ca_secret.name, folder + KAFKA_CA, tls.ca_secret.key))
    if tls is not None and (client := tls.client_secret) is not None:
        files += [
            (client.name, folder + CERTIFICATE, client.certificate_key),
            (client.name, folder + KEY, client.key_key),
        ]
        if client.password_key is not None:
            files.append((client.name, folder + KEY_PASSWORD, client.password_key))
    if sasl is not None:
        files.append((sasl.password_secret.name, folder + SASL_PASSWORD, sasl.password_secret.key))
    return files


def kafka_arguments(kafka: KafkaConnectionSpec) -> list[str]:
    """The arguments of a command, which no file and no variable overrides."""
    return [f"--allowed-topics={kafka.topics}"]


def store_settings(s3: S3Location, secrets_folder: str, *, prefix: str = "") -> dict[str, str]:
    """How a store is reached, as every command of ours spells it.

    Args:
        s3: the store.
        secrets_folder: where a pod finds the files.
        prefix: of the files, where a pod has those of several stores.
    """
    lines = {"s3Endpoint": s3.endpoint}
    if s3.region is not None:
        lines["s3Region"] = s3.region
    if (keys := s3.credentials_secret) is not None:
        lines["s3AccessKeyIdFile"] = f"{secrets_folder}/{prefix}{ACCESS_KEY_ID}"
        lines["s3SecretAccessKeyFile"] = f"{secrets_folder}/{prefix}{SECRET_ACCESS_KEY}"
        if keys.session_token_key is not None:
            lines["s3SessionTokenFile"] = f"{secrets_folder}/{prefix}{SESSION_TOKEN}"
    if s3.ca_secret is not None:
        lines["s3CaFile"] = f"{secrets_folder}/{prefix}{STORE_CA}"
    return lines


def archived_object_settings(s3: S3Location) -> dict[str, str]:
    """How a store keeps the objects of an archive, as commands that write one spell it."""
    objects = s3.archived_objects
    if objects is None:
        return {}
    lines = {
        "s3StorageClass": objects.storage_class,
        "s3ServerSideEncryption": objects.server_side_encryption,
        "s3KmsKeyId": objects.kms_key_id,
        "s3Tags": ",".join(f"{tag.key}={tag.value}" for tag in objects.tags),
    }
    return {name: value for name, value in lines.items() if value}


def store_secrets(s3: S3Location, *, prefix: str = "") -> list[SecretFile]:
    """What a client of the store needs of Secrets; `prefix` as for `store_settings`."""
    files: list[SecretFile] = []
    if (keys := s3.credentials_secret) is not None:
        files += [
            (keys.name, prefix + ACCESS_KEY_ID, keys.access_key_id_key),
            (keys.name, prefix + SECRET_ACCESS_KEY, keys.secret_access_key_key),
        ]
        if keys.session_token_key is not None:
            files.append((keys.name, prefix + SESSION_TOKEN, keys.session_token_key))
    if s3.ca_secret is not None:
        files.append((s3.ca_secret.name, prefix + STORE_CA, s3.ca_secret.key))
    return files


def config_map_source(name: str, entries: Mapping[str, str], *, optional: bool = False) -> dict[str, Any]:
    """The `entries` of a ConfigMap, each with the path of its file; the pod starts without one that is `optional`."""
    items = [{"key": entry, "path": path} for entry, path in entries.items()]
    return {"configMap": {"name": name, "items": items, **({"optional": True} if optional else {})}}


def secret_sources(needed: Iterable[SecretFile]) -> list[dict[str, Any]]:
    """One source for each Secret, with its files in the folder ``secrets``."""
    found: dict[str, dict[str, str]] = {}
    for secret, file, entry in needed:
        found.setdefault(secret, {})[file] = entry
    return [
        {
            "secret": {
                "name": secret,
                "items": [{"key": entry, "path": f"secrets/{file}"} for file, entry in files.items()],
            }
        }
        for secret, files in found.items()
    ]
