"""Owns which objects a spec names, and which logs of pods are needed; must not know any reconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.storage_location import StorageLocation
from gapless_operator.common.observed import moment
from gapless_operator.common.references import ReferencedObjects, names_of
from gapless_operator.shell.api.kinds import ARCHIVE, KAFKA_CONNECTION, STORAGE_LOCATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.store import Body, Cache

_ResourceT = TypeVar("_ResourceT", bound="Resource")


class ModelOf(Protocol):
    """Reads the model of a body, as `Observer.resource` does."""

    def __call__(self, model: type[_ResourceT], body: Body, /) -> _ResourceT:
        """The model; raises ConfigurationError when the spec is invalid."""


def named_by(owner: Body, cache: Cache, model_of: ModelOf) -> ReferencedObjects:
    """The Kafkas, the storage and the Archive that the spec of `owner` names, and the storage of that Archive.

    What cannot be read counts as missing.
    """
    namespace, names = owner["metadata"]["namespace"], names_of(owner.get("spec"))

    def read(kind: Kind, model: type[_ResourceT]) -> list[_ResourceT]:
        found = []
        for name in sorted(name for each, name in names if each == kind.name):
            body = cache.get(kind, namespace, name)
            try:
                found += [] if body is None else [model_of(model, body)]
            except ConfigurationError:
                continue
        return found

    kafkas = tuple(read(KAFKA_CONNECTION, KafkaConnection))
    archive = next(iter(read(ARCHIVE, Archive)), None)
    if archive is not None:
        names.add((STORAGE_LOCATION.name, archive.spec.storage_ref.name))
    return ReferencedObjects(kafkas=kafkas, locations=tuple(read(STORAGE_LOCATION, StorageLocation)), archive=archive)


def is_driver(pod: Mapping[str, Any]) -> bool:
    """Whether a pod of a scan is the one that tells the result."""
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("spark-role", "driver")) == "driver"


def is_open(lasts: Iterable[LastAttempt | None], pod: Mapping[str, Any]) -> bool:
    """Whether a pod belongs to an attempt whose end is not recorded; an unknown one is newer than the last known."""
    labels = pod["metadata"].get("labels") or {}
    attempt = labels.get("batch.kubernetes.io/job-name") or labels.get("sparkoperator.k8s.io/app-name")
    begun: list[datetime] = []
    for last in lasts:
        if last is None or last.started is None:
            continue
        if attempt == last.name:
            return last.outcome is None
        begun.append(last.started)
    created = moment(pod["metadata"].get("creationTimestamp"))
    return created is None or not begun or created > max(begun)
