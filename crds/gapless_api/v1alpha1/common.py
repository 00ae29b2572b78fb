"""Owns the parts that several kinds share: names, Kafka, Secrets, windows, stores; must not know any kind."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_snake

from gapless_api import windows
from gapless_api.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.v1alpha1.model import ApiModel, Rule

# Bounds stand in the schema for two reasons: an object must stay far below etcd's 1.5 MB, and the API server refuses
# a CRD whose rules could take long on unbounded lists and texts.
_ADDRESSES = re.compile(r"[^\s,]+:[0-9]{1,5}( *, *[^\s,]+:[0-9]{1,5})*")
_ENDPOINT = re.compile(r"https?://[^\s/]+/?")
_DOTS = re.compile(r"(^|/)[.]{1,2}(/|$)")
_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=_NAME)]
"""A name of a Kubernetes object."""
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A name that is also a label's value."""
SecretEntry = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a Secret or a ConfigMap."""
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET, json_schema_extra={"format": "int64"})]
"""A Kafka offset."""
Count = Annotated[int, Field(ge=0, le=MAX_OFFSET, json_schema_extra={"format": "int64"})]
"""A number of things."""
Partition = Annotated[int, Field(ge=0, le=MAX_PARTITION, json_schema_extra={"format": "int32"})]
"""A Kafka partition."""
KafkaTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A topic in Kafka."""
WireTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A topic as the receiving side names it; it was translated on the way and may be more than Kafka's names."""
Rate = Annotated[float, Field(ge=0, le=1e12)]
"""So many a second; 0 for no limit."""
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")]
"""A container image."""
Memory = Annotated[str, Field(max_length=8, pattern=r"^[1-9][0-9]{0,5}(Mi|Gi)$")]
"""An amount of memory such as 512Mi or 2Gi."""
Cpu = Annotated[str, Field(max_length=8, pattern=r"^([1-9][0-9]{0,5}m|[1-9][0-9]{0,2})$")]
"""An amount of processor time such as 500m or 2."""
Sha256 = Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[0-9a-f]{64}$")]
"""A digest in hexadecimal."""


def int32(least: int, most: int) -> Any:
    """The schema of a whole number from `least` to `most`."""
    return Field(ge=least, le=most, json_schema_extra={"format": "int32"})


def stays_inside(field: str) -> Rule:
    """The rule that a path does not lead out of where it begins."""
    snake = to_snake(field)
    return Rule(
        f"!has(self.{field}) || !self.{field}.matches('(^|/)[.]{{1,2}}(/|$)')",
        "write the path from the volume's root, with no . or .. as a part of it",
        lambda model: _DOTS.search(getattr(model, snake)) is None,
        field,
    )


class SecretKey(ApiModel):
    """An entry of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: SecretEntry
    """Entry of the Secret."""


class CaSecret(SecretKey):
    """The Secret with the certificates (PEM) of the authorities that vouch for the brokers."""

    key: SecretEntry = "ca.crt"
    """Entry of the Secret; Strimzi's cluster CA Secret has it under the default."""


class PasswordSecret(SecretKey):
    """The Secret with the password to log in with."""

    key: SecretEntry = "password"
    """Entry of the Secret; a Strimzi KafkaUser's Secret has it under the default."""


class ClientSecret(ApiModel):
    """The Secret with our own certificate and key for mutual TLS; a Strimzi KafkaUser's Secret fits as it is."""

    name: Name
    """Name of the Secret, in the same namespace."""
    certificate_key: SecretEntry = "user.crt"
    """Entry with the certificate (PEM)."""
    key_key: SecretEntry = "user.key"
    """Entry with the private key (PEM)."""
    password_key: SecretEntry | None = None
    """Entry with the password of the private key; without it the key is not encrypted."""


class Tls(ApiModel):
    """How the line to Kafka is protected."""

    RULES: ClassVar = (
        Rule(
            "self.enabled || (!has(self.caSecret) && !has(self.clientSecret))",
            "caSecret and clientSecret need TLS: set enabled to true, or delete them",
            lambda tls: tls.enabled or (tls.ca_secret is None and tls.client_secret is None),
            "enabled",
        ),
    )

    enabled: bool = True
    """Whether TLS is used. The presence of tls alone switches it on."""
    ca_secret: CaSecret | None = None
    """The Secret with the certificates of the authorities that vouch for the brokers; without it those of the image's
    operating system are used."""
    client_secret: ClientSecret | None = None
    """The Secret with our own certificate and key, where the brokers ask for one (mutual TLS)."""


class Sasl(ApiModel):
    """How we log in with a name and a password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """How the password is proven to the brokers."""
    username: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """Name to log in with."""
    password_secret: PasswordSecret
    """The Secret with the password, in the same namespace."""


class KafkaSource(ApiModel):
    """Where Kafka is and how to log in. Secrets are named, never written down here."""

    RULES: ClassVar = (
        Rule(
            r"self.bootstrapServers.matches('^[^\\s,]+:[0-9]{1,5}( *, *[^\\s,]+:[0-9]{1,5})*$')",
            "write the brokers as host:port, several separated by commas, such as kafka-0:9092,kafka-1:9092",
            lambda kafka: _ADDRESSES.fullmatch(kafka.bootstrap_servers) is not None,
            "bootstrapServers",
        ),
    )

    bootstrap_servers: Annotated[str, Field(min_length=3, max_length=2048)]
    """The Kafka brokers to begin with, as host:port, separated by commas."""
    tls: Tls | None = None
    """Encrypts the line to Kafka; without it the line is in the clear."""
    sasl: Sasl | None = None
    """Logs in with a name and a password; without it only a client certificate, or nothing, says who we are."""


class PartitionWindow(ApiModel):
    """Which downstream partitions belong to this upstream cluster, when several share one downstream cluster."""

    RULES: ClassVar = (
        Rule(
            f"self.start + self.count <= {MAX_PARTITION + 1}",
            f"the last partition, start + count - 1, must be at most {MAX_PARTITION}: lower start or count",
            lambda window: window.start + window.count <= MAX_PARTITION + 1,
            "count",
        ),
    )

    start: Partition = 0
    """What the live sender adds to this cluster's partition numbers (air-gap's partitionStartValue)."""
    count: Partition = 0
    """How many partitions, from start up, belong to this cluster (air-gap's partitionStopValue); 0 for all above."""

    def window(self) -> windows.PartitionWindow:
        """The same for the functions of `gapless_api.windows`."""
        return windows.PartitionWindow(self.start, self.count)


class Reference(ApiModel):
    """Another object of the same namespace, by name."""

    name: Name
    """Name of the object."""


class S3CredentialsSecret(ApiModel):
    """The Secret with the keys of an S3-compatible store."""

    name: Name
    """Name of the Secret, in the same namespace."""
    access_key_id_key: SecretEntry = "AWS_ACCESS_KEY_ID"
    """Entry with the access key's id."""
    secret_access_key_key: SecretEntry = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 -- the name of an entry
    """Entry with the secret access key."""


class S3Location(ApiModel):
    """A bucket of an S3-compatible store."""

    RULES: ClassVar = (
        Rule(
            r"self.endpoint.matches('^https?://[^\\s/]+/?$')",
            "write the endpoint as https://host:port or http://host:port, without bucket and path",
            lambda s3: _ENDPOINT.fullmatch(s3.endpoint) is not None,
            "endpoint",
        ),
    )

    endpoint: Annotated[str, Field(min_length=8, max_length=512)]
    """Address of the store, such as https://minio.storage.svc:9000."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")]
    """Name of the bucket."""
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[-a-z0-9]+$")] | None = None
    """Region, where the store has regions."""
    credentials_secret: S3CredentialsSecret | None = None
    """The Secret with the keys; without it the store is used without any."""


class VolumeFolder(ApiModel):
    """A folder of a volume."""

    RULES: ClassVar = (stays_inside("folder"),)

    claim_name: Name
    """Name of the PersistentVolumeClaim, in the same namespace."""
    folder: Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*)?$")] = ""
    """Folder in the volume; without it the volume's root."""


class S3Folder(S3Location):
    """A place in an S3-compatible store."""

    prefix: Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*/?)?$")] = ""
    """What the names of the objects begin with."""


class Resources(ApiModel):
    """What a container asks for and is limited to."""

    cpu: Cpu | None = None
    """Processor time it is guaranteed, such as 500m or 2; it may use more when there is more."""
    memory: Memory | None = None
    """Memory it is guaranteed and limited to, such as 256Mi."""


class Toleration(ApiModel):
    """A taint of nodes that pods may ignore."""

    RULES: ClassVar = (
        Rule(
            "self.operator != 'Exists' || !has(self.value)",
            "operator Exists takes no value: delete value, or set operator to Equal",
            lambda toleration: toleration.operator != "Exists" or toleration.value is None,
        ),
        Rule(
            "has(self.key) || self.operator == 'Exists'",
            "a toleration without key must have operator Exists: add the key of the taint",
            lambda toleration: toleration.key is not None or toleration.operator == "Exists",
        ),
    )

    key: Annotated[str, Field(min_length=1, max_length=316)] | None = None
    """Key of the taint; without it every taint is meant."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether the taint's value must be the one given, or only be there."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; without it every effect is meant."""
