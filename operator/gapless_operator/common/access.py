"""How a pod connects to Kafka and S3-compatible stores: settings, arguments, and the Secret entries it mounts.

Must not know which command the settings are for, nor what is stored in a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec, Kerberos, OAuth
    from gapless_api.v1alpha1.storage_location import S3Location, StorageLocationSpec

KAFKA_CA, CERTIFICATE, KEY, KEY_PASSWORD = "kafka-ca.crt", "kafka-client.crt", "kafka-client.key", "kafka-key-password"
SASL_PASSWORD = "kafka-password"  # noqa: S105 -- the name of a file
OAUTH_SECRET, OAUTH_CA, OAUTH_TOKEN = "kafka-client-secret", "kafka-oauth-ca.crt", "kafka-token"
KEYTAB = "kafka.keytab"
ACCESS_KEY_ID, SECRET_ACCESS_KEY, STORE_CA = "s3-access-key-id", "s3-secret-access-key", "s3-ca.crt"
SESSION_TOKEN = "s3-session-token"  # noqa: S105
"""Files in the secrets folder of a pod."""
SecretFile = tuple[str, str, str]
"""Name of a Secret, name of the file, and the entry of the Secret that becomes the file."""
_NOT_FOR_ALL = frozenset({"allowedMirrorNames", "allowedGroups"})
_STORAGE_PERMISSIONS = frozenset({"access", "allowedTopics", "allowedRegions", "minRetentionSeconds"})
"""Permissions that the pods of most kinds are not told about; a kind that has need of them adds them itself."""


def work_parts(kafka: KafkaConnectionSpec) -> dict[str, Any]:
    """Return the parts of a connection that an attempt's work depends on; a change of the others replaces no pod."""
    return {name: part for name, part in kafka.to_dict().items() if name not in _NOT_FOR_ALL}


def storage_parts(location: StorageLocationSpec) -> dict[str, Any]:
    """Return the same of a location, without what it allows."""
    return {name: part for name, part in location.to_dict().items() if name not in _STORAGE_PERMISSIONS}


def kafka_settings(kafka: KafkaConnectionSpec, secrets_folder: str) -> dict[str, str]:
    """Return the Kafka settings of a command; the secret files are in `secrets_folder`."""
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
        if sasl.username is not None:
            lines["saslUsername"] = sasl.username
            lines["saslPasswordFile"] = f"{secrets_folder}/{SASL_PASSWORD}"
        if sasl.oauth is not None:
            lines |= _oauth_settings(sasl.oauth, secrets_folder)
        if sasl.kerberos is not None:
            lines |= _kerberos_settings(sasl.kerberos, secrets_folder)
    return lines


def _oauth_settings(oauth: OAuth, secrets_folder: str) -> dict[str, str]:
    lines = {
        "oauthTokenEndpoint": oauth.token_endpoint,
        "oauthClientId": oauth.client_id,
        "oauthClientSecretFile": oauth.client_secret and f"{secrets_folder}/{OAUTH_SECRET}",
        "oauthScope": oauth.scope,
        "oauthCaFile": oauth.ca_secret and f"{secrets_folder}/{OAUTH_CA}",
        "oauthTokenFile": oauth.token_secret and f"{secrets_folder}/{OAUTH_TOKEN}",
    }
    return {name: text for name, text in lines.items() if text}


def _kerberos_settings(kerberos: Kerberos, secrets_folder: str) -> dict[str, str]:
    lines = {
        "kerberosKeytabFile": f"{secrets_folder}/{KEYTAB}",
        "kerberosKdcs": ",".join(kerberos.kdcs),
        "kerberosPrincipal": kerberos.principal,
        "kerberosServiceName": kerberos.service_name,
    }
    return {name: text for name, text in lines.items() if text}


def kafka_secrets(kafka: KafkaConnectionSpec, *, folder: str = "") -> list[SecretFile]:
    """Return the secret files that `kafka_settings` refers to.

    Args:
        kafka: the connection.
        folder: subfolder of the files, with a trailing slash, for a pod with several connections.
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
    if sasl is not None and sasl.password_secret is not None:
        files.append((sasl.password_secret.name, folder + SASL_PASSWORD, sasl.password_secret.key))
    if sasl is not None and (oauth := sasl.oauth) is not None:
        entries = ((oauth.client_secret, OAUTH_SECRET), (oauth.ca_secret, OAUTH_CA), (oauth.token_secret, OAUTH_TOKEN))
        files += [(secret.name, folder + file, secret.key) for secret, file in entries if secret is not None]
    if sasl is not None and sasl.kerberos is not None:
        files.append((sasl.kerberos.keytab_secret.name, folder + KEYTAB, sasl.kerberos.keytab_secret.key))
    return files


def kafka_arguments(kafka: KafkaConnectionSpec) -> list[str]:
    """Return the command-line arguments, which settings files and environment variables cannot override."""
    return [f"--allowed-topics={kafka.topics}"]


def store_settings(s3: S3Location, secrets_folder: str, *, prefix: str = "") -> dict[str, str]:
    """Return the S3 settings of a command.

    Args:
        s3: the store.
        secrets_folder: folder of the secret files in the pod.
        prefix: prefix of the file names, for a pod with several stores.
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
    """Return the storage settings of archive objects, for commands that write an archive."""
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
    """Return the secret files that `store_settings` refers to."""
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
    """Return a volume source for `entries` of a ConfigMap by file path; the pod starts without an `optional` one."""
    items = [{"key": entry, "path": path} for entry, path in entries.items()]
    return {"configMap": {"name": name, "items": items, **({"optional": True} if optional else {})}}


def secret_sources(files: Iterable[SecretFile]) -> list[dict[str, Any]]:
    """Return one volume source for each Secret, with its files in the folder ``secrets``."""
    by_secret: dict[str, dict[str, str]] = {}
    for secret, file, entry in files:
        by_secret.setdefault(secret, {})[file] = entry
    return [
        {
            "secret": {
                "name": secret,
                "items": [{"key": entry, "path": f"secrets/{file}"} for file, entry in entries.items()],
            }
        }
        for secret, entries in by_secret.items()
    ]
