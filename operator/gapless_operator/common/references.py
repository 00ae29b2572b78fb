"""How references in a spec are resolved: KafkaConnections, StorageLocations and Archives, and their permissions.

Must not know how pods use them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from gapless_api.v1alpha1.archive import Archive
    from gapless_api.v1alpha1.common import Reference
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.kafka_connection import Access, KafkaConnection, KafkaConnectionSpec
    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_api.v1alpha1.resend import Fallback, Resend
    from gapless_api.v1alpha1.restore import Restore, RestoreSpec
    from gapless_api.v1alpha1.storage_location import StorageAccess, StorageLocation, StorageLocationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencedObjects:
    """The objects that a spec refers to, as far as they exist."""

    kafkas: tuple[KafkaConnection, ...] = ()
    locations: tuple[StorageLocation, ...] = ()
    """Including the location of the Archive."""
    archive: Archive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLocation:
    """The location of an archive."""

    location: StorageLocationSpec
    folder: str
    """Folder in the location."""
    region: str

    def address(self, mounted_at: str) -> str:
        """Return the address for a command; a volume is mounted at `mounted_at`."""
        return self.location.s3.address(self.folder) if self.location.s3 is not None else mounted_at

    def check(self, topics: Iterable[str] = (), *, what: str) -> None:
        """Check that the location allows the region, and `topics` in it. Raises ConfigurationError."""
        self.location.archive_bounds.check(self.region, topics, what=what)

    def volume_path(self) -> str:
        """Return the folder in the volume; empty for a bucket."""
        volume = self.location.persistent_volume_claim
        return "" if volume is None else volume.path(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAccess:
    """Kafka and archive of an Archive or a Restore."""

    kafka: KafkaConnectionSpec
    archive: ArchiveLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAccess:
    """Source and target of a Mirror."""

    source: KafkaConnectionSpec
    target: KafkaConnectionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSources:
    """Kafka, bundle and archive of a Resend."""

    kafka: KafkaConnectionSpec
    bundle: StorageLocationSpec | None = None
    """Location of the bundle; ``None`` for a bundle in the spec or in a ConfigMap."""
    archive: ArchiveLocation | None = None
    """Archive of events that Kafka has deleted; ``None`` without a fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanAccess:
    """Kafka, output and state of a GapScan."""

    kafka: KafkaConnectionSpec
    output: StorageLocationSpec | None = None
    """``None`` if the output is a ConfigMap."""
    state: StorageLocationSpec | None = None
    """``None`` without state."""


class NotFound(NamedTuple):
    """An object that a spec refers to does not exist."""

    reason: Reason
    message: str


def resend_sources(resend: Resend, referenced: ReferencedObjects) -> ResendSources | NotFound:
    """Resolve the references of a Resend.

    Raises:
        ConfigurationError: the connection does not allow the access.
    """
    namespace, spec = resend.metadata.namespace, resend.spec
    kafka = _kafka(spec.kafka_ref, referenced, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    bundle = _location(spec.bundle.storage_ref if spec.bundle is not None else None, referenced, namespace, "Read")
    if isinstance(bundle, NotFound):
        return bundle
    fallback = spec.fallback
    archive = None if fallback is None else _archive(fallback, referenced, namespace)
    if isinstance(archive, NotFound):
        return archive
    return ResendSources(kafka=kafka, bundle=bundle, archive=archive)


def archive_access(archive: Archive, referenced: ReferencedObjects) -> ArchiveAccess | NotFound:
    """Resolve the references of an Archive.

    Raises:
        ConfigurationError: the connection does not allow the access.
    """
    namespace, spec = archive.metadata.namespace, archive.spec
    kafka = _kafka(spec.kafka_ref, referenced, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    location = _required_location(spec.storage_ref, referenced, namespace, "Write")
    if isinstance(location, NotFound):
        return location
    return ArchiveAccess(
        kafka=kafka, archive=ArchiveLocation(location=location, folder=spec.folder, region=spec.region)
    )


def restore_access(restore: Restore, referenced: ReferencedObjects) -> ArchiveAccess | NotFound:
    """Resolve the references of a Restore.

    Raises:
        ConfigurationError: the connection does not allow the access.
    """
    namespace, spec = restore.metadata.namespace, restore.spec
    kafka = _kafka(spec.kafka_ref, referenced, namespace, access="Write")
    if isinstance(kafka, NotFound):
        return kafka
    archive = _archive(spec, referenced, namespace)
    return archive if isinstance(archive, NotFound) else ArchiveAccess(kafka=kafka, archive=archive)


def mirror_access(mirror: Mirror, referenced: ReferencedObjects) -> MirrorAccess | NotFound:
    """Resolve the references of a Mirror.

    Raises:
        ConfigurationError: a connection does not allow the access.
    """
    namespace, spec = mirror.metadata.namespace, mirror.spec
    source = _kafka(spec.source_ref, referenced, namespace, field="spec.sourceRef")
    if isinstance(source, NotFound):
        return source
    target = _kafka(spec.target_ref, referenced, namespace, access="Write", field="spec.targetRef")
    return target if isinstance(target, NotFound) else MirrorAccess(source=source, target=target)


def scan_access(scan: GapScan, referenced: ReferencedObjects) -> ScanAccess | NotFound:
    """Resolve the references of a GapScan.

    Raises:
        ConfigurationError: the connection does not allow the access, or output and state are incompatible.
    """
    namespace, spec = scan.metadata.namespace, scan.spec
    kafka = _kafka(spec.kafka_ref, referenced, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    audit_state = spec.source.events.state if spec.source.events is not None else None
    output = _location(spec.output.storage_ref, referenced, namespace, "Write")
    if isinstance(output, NotFound):
        return output
    state_ref = audit_state.storage_ref if audit_state is not None else None
    state = _location(state_ref, referenced, namespace, "Read", "Write")
    if isinstance(state, NotFound):
        return state
    if output is not None and state is not None and audit_state is not None:
        _check_locations(output, spec.output.folder, state, audit_state.folder)
    return ScanAccess(kafka=kafka, output=output, state=state)


def names_of(spec: object) -> set[tuple[str, str]]:
    """Return kind and name of all references in a spec, which is raw JSON and may be invalid."""
    if isinstance(spec, dict):
        names = set[tuple[str, str]]()
        for field, value in spec.items():
            kind = _KINDS.get(field)
            if kind is not None and isinstance(value, dict) and isinstance(value.get("name"), str):
                names.add((kind, value["name"]))
            elif field in _WITH_REFERENCES:
                names |= names_of(value)
        return names
    return set()


_KINDS = {
    "kafkaRef": "KafkaConnection",
    "sourceRef": "KafkaConnection",
    "targetRef": "KafkaConnection",
    "storageRef": "StorageLocation",
    "archiveRef": "Archive",
}
_WITH_REFERENCES = frozenset({"bundle", "output", "source", "events", "state", "fallback"})
"""Fields that contain references in the namespace. Those in the Resend template of a GapScan are on the sending
side."""


def _kafka(
    reference: Reference,
    referenced: ReferencedObjects,
    namespace: str,
    *,
    access: Access = "Read",
    field: str = "spec.kafkaRef",
) -> KafkaConnectionSpec | NotFound:
    name = reference.name
    connection = next((kafka for kafka in referenced.kafkas if kafka.metadata.name == name), None)
    if connection is None or connection.metadata.deleting:
        return NotFound(
            Reason.KAFKA_CONNECTION_NOT_FOUND,
            f"KafkaConnection {name} does not exist in namespace {namespace}, or is invalid; ask the platform team to "
            f"create it, or correct {field}.",
        )
    if access not in connection.spec.access:
        raise ConfigurationError(
            f"The KafkaConnection {name} may not be used for {_PURPOSES[access]}; ask the platform team to add "
            f"{access} to its access."
        )
    return connection.spec


_PURPOSES: dict[StorageAccess, str] = {"Read": "reading", "Write": "writing", "Delete": "deleting"}


def _archive(spec: Fallback | RestoreSpec, referenced: ReferencedObjects, namespace: str) -> ArchiveLocation | NotFound:
    """Resolve archiveRef, or storageRef and region."""
    if spec.storage_ref is not None:
        folder, region, reference = spec.folder, spec.region or "", spec.storage_ref
    else:
        archive, name = referenced.archive, spec.archive_ref.name if spec.archive_ref is not None else ""
        if archive is None or archive.metadata.deleting:
            return NotFound(
                Reason.ARCHIVE_NOT_FOUND,
                f"Archive {name} does not exist in namespace {namespace}, or is invalid; create it, or set storageRef "
                f"and region instead.",
            )
        folder, region, reference = archive.spec.folder, archive.spec.region, archive.spec.storage_ref
    location = _required_location(reference, referenced, namespace, "Read")
    if isinstance(location, NotFound):
        return location
    return ArchiveLocation(location=location, folder=folder, region=region)


def _location(
    reference: Reference | None, referenced: ReferencedObjects, namespace: str, *access: StorageAccess
) -> StorageLocationSpec | NotFound | None:
    return None if reference is None else _required_location(reference, referenced, namespace, *access)


def _required_location(
    reference: Reference, referenced: ReferencedObjects, namespace: str, *access: StorageAccess
) -> StorageLocationSpec | NotFound:
    matches = (location for location in referenced.locations if location.metadata.name == reference.name)
    location = next(matches, None)
    if location is None or location.metadata.deleting:
        return NotFound(
            Reason.STORAGE_LOCATION_NOT_FOUND,
            f"StorageLocation {reference.name} does not exist in namespace {namespace}, or is invalid; ask the "
            f"platform team to create it, or correct the storageRef.",
        )
    for operation in access:
        check_storage_access(location.spec, operation, name=reference.name)
    return location.spec


def check_storage_access(location: StorageLocationSpec, operation: StorageAccess, *, name: str) -> None:
    """Check that a location may be used for an operation. Raises ConfigurationError."""
    if operation not in location.access:
        raise ConfigurationError(
            f"The StorageLocation {name} may not be used for {_PURPOSES[operation]}; ask the platform team to add "
            f"{operation} to its access."
        )


def _check_locations(output: StorageLocationSpec, folder: str, state: StorageLocationSpec, state_folder: str) -> None:
    """Check that one client can access both locations, and that the audit state has a separate folder."""
    if state.s3 is not None and output.s3 is not None:
        access = [(s3.endpoint, s3.region, s3.ca_secret, s3.credentials_secret) for s3 in (output.s3, state.s3)]
        if access[0] != access[1]:
            raise ConfigurationError(
                "The StorageLocations of source.events.state and output are in different stores, or use different "
                "credentials; use locations in the same store."
            )
    if _folder_address(output, folder) == _folder_address(state, state_folder):
        raise ConfigurationError(
            "source.events.state and output use the same folder; give the state a separate folder."
        )


def _folder_address(location: StorageLocationSpec, folder: str) -> tuple[str, str]:
    if location.s3 is not None:
        return "s3", location.s3.address(folder)
    volume = location.persistent_volume_claim
    return ("", "") if volume is None else (volume.claim_name, volume.path(folder))
