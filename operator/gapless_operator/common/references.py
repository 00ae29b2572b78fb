"""Owns what a spec names of the platform team's: Kafka and storage, found or missing, and what they allow.

Must not know what a pod makes of them.
"""

from __future__ import annotations

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
    from gapless_api.v1alpha1.storage_location import StorageLocation, StorageLocationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The objects that a spec names, as far as they are there."""

    kafkas: tuple[KafkaConnection, ...] = ()
    locations: tuple[StorageLocation, ...] = ()
    """Those of the Archive as well."""
    archive: Archive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlace:
    """Where an archive is."""

    location: StorageLocationSpec
    folder: str
    """In the location."""
    region: str

    def address(self, mounted_at: str) -> str:
        """What a command is told, where the volume's folder is mounted at `mounted_at`, if it is a volume."""
        return self.location.s3.address(self.folder) if self.location.s3 is not None else mounted_at

    def volume_path(self) -> str:
        """The folder in the volume."""
        volume = self.location.persistent_volume_claim
        return "" if volume is None else volume.path(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAccess:
    """A Kafka and an archive: what an Archive reads and writes, and a Restore writes and reads."""

    kafka: KafkaConnectionSpec
    archive: ArchivePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAccess:
    """What a Mirror reads from and writes to."""

    source: KafkaConnectionSpec
    target: KafkaConnectionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSources:
    """What a Resend reads from."""

    kafka: KafkaConnectionSpec
    bundle: StorageLocationSpec | None = None
    """Where the bundle is; ``None`` for one that is in the spec or in a ConfigMap."""
    archive: ArchivePlace | None = None
    """Where events are that Kafka no longer has; ``None`` without a fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlaces:
    """What a GapScan reads from and writes to."""

    kafka: KafkaConnectionSpec
    output: StorageLocationSpec | None = None
    """``None`` for ConfigMaps."""
    state: StorageLocationSpec | None = None
    """``None`` for no state."""


class NotFound(NamedTuple):
    """What a spec names and is not there."""

    reason: Reason
    message: str


def resend_sources(resend: Resend, named: Named) -> ResendSources | NotFound:
    """What a Resend reads from.

    Raises:
        ConfigurationError: the connection may not be used for that.
    """
    namespace, spec = resend.metadata.namespace, resend.spec
    kafka = _kafka(spec.kafka_ref, named, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    bundle = _location(spec.bundle.storage_ref if spec.bundle is not None else None, named, namespace)
    if isinstance(bundle, NotFound):
        return bundle
    fallback = spec.fallback
    archive = None if fallback is None else _archive(fallback, named, namespace)
    if isinstance(archive, NotFound):
        return archive
    return ResendSources(kafka=kafka, bundle=bundle, archive=archive)


def archive_access(archive: Archive, named: Named) -> ArchiveAccess | NotFound:
    """What an Archive reads from and writes to.

    Raises:
        ConfigurationError: the connection may not be used for that.
    """
    namespace, spec = archive.metadata.namespace, archive.spec
    kafka = _kafka(spec.kafka_ref, named, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    location = _found_location(spec.storage_ref, named, namespace)
    if isinstance(location, NotFound):
        return location
    return ArchiveAccess(kafka=kafka, archive=ArchivePlace(location=location, folder=spec.folder, region=spec.region))


def restore_access(restore: Restore, named: Named) -> ArchiveAccess | NotFound:
    """What a Restore writes to and reads from.

    Raises:
        ConfigurationError: the connection may not be used for that.
    """
    namespace, spec = restore.metadata.namespace, restore.spec
    kafka = _kafka(spec.kafka_ref, named, namespace, access="Write")
    if isinstance(kafka, NotFound):
        return kafka
    archive = _archive(spec, named, namespace)
    return archive if isinstance(archive, NotFound) else ArchiveAccess(kafka=kafka, archive=archive)


def mirror_access(mirror: Mirror, named: Named) -> MirrorAccess | NotFound:
    """What a Mirror reads from and writes to.

    Raises:
        ConfigurationError: a connection may not be used for that.
    """
    namespace, spec = mirror.metadata.namespace, mirror.spec
    source = _kafka(spec.source_ref, named, namespace, field="spec.sourceRef")
    if isinstance(source, NotFound):
        return source
    target = _kafka(spec.target_ref, named, namespace, access="Write", field="spec.targetRef")
    return target if isinstance(target, NotFound) else MirrorAccess(source=source, target=target)


def scan_places(scan: GapScan, named: Named) -> ScanPlaces | NotFound:
    """What a GapScan reads from and writes to.

    Raises:
        ConfigurationError: the connection may not be used for that, or the places do not fit together.
    """
    namespace, spec = scan.metadata.namespace, scan.spec
    kafka = _kafka(spec.kafka_ref, named, namespace)
    if isinstance(kafka, NotFound):
        return kafka
    kept = spec.source.events.state if spec.source.events is not None else None
    output = _location(spec.output.storage_ref, named, namespace)
    if isinstance(output, NotFound):
        return output
    state = _location(kept.storage_ref if kept is not None else None, named, namespace)
    if isinstance(state, NotFound):
        return state
    if output is not None and state is not None and kept is not None:
        _check_places(output, spec.output.folder, state, kept.folder or "")
    return ScanPlaces(kafka=kafka, output=output, state=state)


def names_of(spec: object) -> set[tuple[str, str]]:
    """Kind and name of all that a spec, as the API server has it, names; nothing of one that cannot be read."""
    if isinstance(spec, dict):
        found = set[tuple[str, str]]()
        for field, value in spec.items():
            kind = _KINDS.get(field)
            if kind is not None and isinstance(value, dict) and isinstance(value.get("name"), str):
                found.add((kind, value["name"]))
            elif field in _WITH_REFERENCES:
                found |= names_of(value)
        return found
    return set()


_KINDS = {
    "kafkaRef": "KafkaConnection",
    "sourceRef": "KafkaConnection",
    "targetRef": "KafkaConnection",
    "storageRef": "StorageLocation",
    "archiveRef": "Archive",
}
_WITH_REFERENCES = frozenset({"bundle", "output", "source", "events", "state", "fallback"})
"""Fields with references to objects of the namespace below them; what a Resend's template names is elsewhere."""


def _kafka(
    reference: Reference | None, named: Named, namespace: str, *, access: Access = "Read", field: str = "spec.kafkaRef"
) -> KafkaConnectionSpec | NotFound:
    name = reference.name if reference is not None else ""
    found = next((each for each in named.kafkas if each.metadata.name == name), None)
    if found is None or found.metadata.deleting:
        return NotFound(
            Reason.KAFKA_CONNECTION_NOT_FOUND,
            f"There is no KafkaConnection {name} in the namespace {namespace} that can be used; ask the platform team "
            f"for it, or correct {field}.",
        )
    if access not in found.spec.access:
        raise ConfigurationError(
            f"The KafkaConnection {name} may not be used for {_PURPOSES[access]}; ask the platform team to add "
            f"{access} to its access."
        )
    return found.spec


_PURPOSES: dict[Access, str] = {"Read": "reading", "Write": "writing"}


def _archive(given: Fallback | RestoreSpec, named: Named, namespace: str) -> ArchivePlace | NotFound:
    """The archive that an Archive, or a StorageLocation and a region, name."""
    if given.storage_ref is not None:
        folder, region, reference = given.folder, given.region or "", given.storage_ref
    else:
        found, name = named.archive, given.archive_ref.name if given.archive_ref is not None else ""
        if found is None or found.metadata.deleting:
            return NotFound(
                Reason.ARCHIVE_NOT_FOUND,
                f"There is no Archive {name} in the namespace {namespace} that can be used; create "
                f"it, or name the place itself by storageRef and region.",
            )
        folder, region, reference = found.spec.folder, found.spec.region, found.spec.storage_ref
    location = _found_location(reference, named, namespace)
    if isinstance(location, NotFound):
        return location
    return ArchivePlace(location=location, folder=folder, region=region)


def _location(reference: Reference | None, named: Named, namespace: str) -> StorageLocationSpec | NotFound | None:
    return None if reference is None else _found_location(reference, named, namespace)


def _found_location(reference: Reference, named: Named, namespace: str) -> StorageLocationSpec | NotFound:
    found = next((each for each in named.locations if each.metadata.name == reference.name), None)
    if found is None or found.metadata.deleting:
        return NotFound(
            Reason.STORAGE_LOCATION_NOT_FOUND,
            f"There is no StorageLocation {reference.name} in the namespace {namespace} that can be used; ask the "
            f"platform team for it, or correct the storageRef.",
        )
    return found.spec


def _check_places(output: StorageLocationSpec, folder: str, state: StorageLocationSpec, state_folder: str) -> None:
    """Make sure that an audit's state is alone where it is, and that one client reaches both places."""
    ours, theirs = state.s3, output.s3
    if ours is not None and theirs is not None:
        access = [(s3.endpoint, s3.region, s3.ca_secret, s3.credentials_secret) for s3 in (ours, theirs)]
        if access[0] != access[1]:
            raise ConfigurationError(
                "The StorageLocations of source.events.state and output are in different stores, or are reached with "
                "different keys; name two of one store."
            )
    if _place(output, folder) == _place(state, state_folder):
        raise ConfigurationError(
            "The StorageLocations of source.events.state and output lead to the same folder; give the state a "
            "folder of its own."
        )


def _place(location: StorageLocationSpec, folder: str) -> tuple[str, str]:
    if location.s3 is not None:
        return "s3", location.s3.address(folder)
    volume = location.persistent_volume_claim
    return ("", "") if volume is None else (volume.claim_name, volume.path(folder))
