"""Owns what a spec names of the platform team's: Kafka and storage, found or missing, and what they allow.

Must not know what a pod makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from gapless_api.v1alpha1.common import Reference
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.kafka_connection import KafkaConnection, KafkaConnectionSpec
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.storage_location import StorageLocation, StorageLocationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The objects that a spec names, as far as they are there."""

    kafka: KafkaConnection | None = None
    locations: tuple[StorageLocation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSources:
    """What a Resend reads from."""

    kafka: KafkaConnectionSpec
    bundle: StorageLocationSpec | None = None
    """Where the bundle is; ``None`` for one that is in the spec or in a ConfigMap."""


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
    return ResendSources(kafka=kafka, bundle=bundle)


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


_KINDS = {"kafkaRef": "KafkaConnection", "storageRef": "StorageLocation"}
_WITH_REFERENCES = frozenset({"bundle", "output", "source", "events", "state"})
"""Fields with references to objects of the namespace below them; what a Resend's template names is elsewhere."""


def _kafka(reference: Reference | None, named: Named, namespace: str) -> KafkaConnectionSpec | NotFound:
    name = reference.name if reference is not None else ""
    found = named.kafka
    if found is None or found.metadata.deleting:
        return NotFound(
            Reason.KAFKA_CONNECTION_NOT_FOUND,
            f"There is no KafkaConnection {name} in the namespace {namespace} that can be used; ask the platform team "
            f"for it, or correct spec.kafkaRef.",
        )
    if "Read" not in found.spec.access:
        raise ConfigurationError(
            f"The KafkaConnection {name} may not be used for reading; ask the platform team to add Read to its access."
        )
    return found.spec


def _location(reference: Reference | None, named: Named, namespace: str) -> StorageLocationSpec | NotFound | None:
    if reference is None:
        return None
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
