"""The kind StorageLocation: a bucket or a volume that the platform team makes available.

Must not know what is stored there.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.base.allowed_topics import PATTERN
from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_api.v1alpha1.common import FolderPath, Name, SecretEntry, no_dot_segments
from gapless_api.v1alpha1.hosts import HOST, LOCAL, PORT, cel_string
from gapless_api.v1alpha1.kafka_connection import CaSecret
from gapless_api.v1alpha1.model import ApiModel, Rule
from gapless_api.v1alpha1.resource import Column, Resource

_URL = f"https?://{HOST}({PORT})?/?"
_LOCAL_URL = f"https?://{LOCAL}(:[0-9]+)?/?"
_ENDPOINT, _LOCAL_ENDPOINT = re.compile(_URL), re.compile(_LOCAL_URL)


class S3CredentialsSecret(ApiModel):
    """The Secret with the keys of an S3-compatible store."""

    name: Name
    """Name of the Secret, in the same namespace."""
    access_key_id_key: SecretEntry = "AWS_ACCESS_KEY_ID"
    """Entry with the access key ID."""
    secret_access_key_key: SecretEntry = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 -- the name of an entry
    """Entry with the secret access key."""
    session_token_key: SecretEntry | None = None
    """Entry with a session token. If absent, no session token is used."""


class ObjectTag(ApiModel):
    """An object tag."""

    key: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[-a-zA-Z0-9_ .:/+@]+$")]
    """Key of the tag."""
    value: Annotated[str, Field(max_length=256, pattern=r"^[-a-zA-Z0-9_ .:/+@]*$")] = ""
    """Value of the tag."""


class ArchivedObjects(ApiModel):
    """Storage settings of archive objects."""

    RULES: ClassVar = (
        Rule(
            "!has(self.kmsKeyId) || (has(self.serverSideEncryption) && self.serverSideEncryption == 'aws:kms')",
            "kmsKeyId requires serverSideEncryption aws:kms: set it, or delete kmsKeyId",
            lambda objects: objects.kms_key_id is None or objects.server_side_encryption == "aws:kms",
            "kmsKeyId",
        ),
    )

    storage_class: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Z0-9_]+$")] | None = None
    """Storage class, such as STANDARD_IA. Defaults to the bucket's."""
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    """Encryption by the store. Defaults to the bucket's."""
    kms_key_id: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[-a-zA-Z0-9:/_]+$")] | None = None
    """ID of the key for aws:kms. Defaults to the store's own key."""
    tags: Annotated[tuple[ObjectTag, ...], Field(max_length=10)] = ()
    """Tags of the objects, for lifecycle rules."""


class S3Location(ApiModel):
    """A bucket of an S3-compatible store, or a prefix in it."""

    RULES: ClassVar = (
        Rule(
            f"self.endpoint.matches({cel_string(f'^{_URL}$')})",
            "write the endpoint as https://host:port or http://host:port, without a bucket or path",
            lambda s3: _ENDPOINT.fullmatch(s3.endpoint) is not None,
            "endpoint",
        ),
        Rule(
            f"!self.endpoint.matches({cel_string(f'^{_LOCAL_URL}$')})",
            "loopback, link-local and metadata addresses are refused, because sender pods use the network of their "
            "node: use an address that is reachable from other machines",
            lambda s3: _LOCAL_ENDPOINT.fullmatch(s3.endpoint) is None,
            "endpoint",
        ),
        no_dot_segments("prefix"),
    )

    endpoint: Annotated[str, Field(min_length=8, max_length=512)]
    """Address of the store, such as https://minio.storage.svc:9000. Loopback, link-local and metadata addresses are
    refused."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")]
    """Name of the bucket."""
    prefix: Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*/?)?$")] = ""
    """Prefix of the object keys. Nothing outside of it is read or written."""
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[-a-z0-9]+$")] | None = None
    """Region, if the store has regions."""
    ca_secret: CaSecret | None = None
    """The Secret with the CA certificates that verify the store, besides those of the image's operating system.
    Defaults to the caBundle of the pod template."""
    credentials_secret: S3CredentialsSecret | None = None
    """The Secret with the access key. If absent, requests are not signed."""
    archived_objects: ArchivedObjects | None = None
    """Storage settings of archive objects. Defaults to the bucket's."""

    def address(self, path: str) -> str:
        """Return the address of an object, as s3://bucket/key."""
        return f"s3://{self.bucket}/{'/'.join(filter(None, (self.prefix.rstrip('/'), path)))}"


class VolumeLocation(ApiModel):
    """A volume, or a folder in it."""

    RULES: ClassVar = (no_dot_segments("folder"),)

    claim_name: Name
    """Name of the PersistentVolumeClaim, in the same namespace."""
    folder: FolderPath = ""
    """Folder in the volume. Nothing outside of it is read or written. Defaults to the root of the volume."""

    def path(self, path: str) -> str:
        """Return the path in the volume of a path in the folder."""
        return "/".join(filter(None, (self.folder, path)))


StorageAccess = Literal["Read", "Write", "Delete"]
"""An operation that a location may be used for."""
AllowedTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=PATTERN)]
AllowedRegion = Annotated[str, Field(min_length=1, max_length=64, pattern=PATTERN)]


class StorageLocationSpec(ApiModel):
    """Location of files: a bucket or a volume, and what may be done in it."""

    RULES: ClassVar = (
        Rule(
            "has(self.s3) != has(self.persistentVolumeClaim)",
            "say where it is, exactly once: s3 or persistentVolumeClaim",
            lambda location: (location.s3 is None) != (location.persistent_volume_claim is None),
        ),
    )

    s3: S3Location | None = None
    """A bucket of an S3-compatible store."""
    persistent_volume_claim: VolumeLocation | None = None
    """A volume."""
    # Lists and not sets: server-side apply would keep what others, or the default, have put into a set.
    allowed_topics: Annotated[tuple[AllowedTopic, ...], Field(min_length=1, max_length=256)] | None = None
    """Archived topics that may be used in this location, by name or as a prefix that ends with *. If absent, all. Also
    list topics that Restores and Resends read, by their names in the archive."""
    allowed_regions: Annotated[tuple[AllowedRegion, ...], Field(min_length=1, max_length=64)] | None = None
    """Regions of archives that may be used in this location, by name or as a prefix that ends with *. If absent,
    all."""
    access: Annotated[tuple[StorageAccess, ...], Field(min_length=1, max_length=3)] = ("Read", "Write", "Delete")
    """Allowed operations. Restores and Resends read; Archives write; a GapScan writes its output, and reads and writes
    its state. Retention, and compaction that deletes replaced segments, require Delete."""
    min_retention_seconds: Annotated[int, Field(ge=60, le=2**53, json_schema_extra={"format": "int64"})] | None = None
    """Minimum age in seconds of the archived records that a retention deletes. A smaller retention.maxAgeSeconds of an
    Archive is refused, and retention.maxBytes deletes no segment with a newer record. If absent, no minimum."""

    @property
    def archive_bounds(self) -> ArchiveBounds:
        """The regions and topics of archives that may be used."""
        return ArchiveBounds(self.allowed_topics, self.allowed_regions)


class StorageLocation(Resource):
    """A bucket or a volume that the platform team makes available to the namespace.

    It stores bundles, audit states and archives.
    """

    KIND: ClassVar = "StorageLocation"
    PLURAL: ClassVar = "storagelocations"
    SHORT_NAMES: ClassVar = ("sloc",)
    COLUMNS: ClassVar = (
        Column("Endpoint", "string", ".spec.s3.endpoint", "Address of the store."),
        Column("Bucket", "string", ".spec.s3.bucket", "Name of the bucket."),
        Column("Claim", "string", ".spec.persistentVolumeClaim.claimName", "Name of the PersistentVolumeClaim."),
        Column("Prefix", "string", ".spec.s3.prefix", "Prefix of the object keys.", wide=True),
        Column("Folder", "string", ".spec.persistentVolumeClaim.folder", "Folder in the volume.", wide=True),
    )

    spec: StorageLocationSpec
    """The bucket or the volume."""
