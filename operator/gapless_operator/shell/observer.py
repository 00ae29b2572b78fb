"""Owns what each reconciler is shown, gathered from the cache, the logs and a few reads.

Must not know what a reconciler makes of it.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.restore import Restore
from gapless_operator.common.children import has_label_for, label_value, running_children
from gapless_operator.common.observed import DIODE_LABEL, ObservedChild, ObservedClaim, ObservedJob, ObservedPod
from gapless_operator.engines.observed import WorkObserved
from gapless_operator.engines.sparkapplication import ObservedSparkApplication
from gapless_operator.sending.diode_children import state_claim_name
from gapless_operator.sending.ledger import LedgerPart
from gapless_operator.sending.observed import DiodeObserved, ResendObserved
from gapless_operator.sending.resend.bundle import entry_needed, is_inspected
from gapless_operator.sending.resend.filter_rules import copied_entry, rules_needed
from gapless_operator.shell.api.errors import ConflictError, RefusedError
from gapless_operator.shell.api.kinds import (
    ARCHIVE,
    CONFIG_MAP,
    DIODE,
    JOB,
    MIRROR,
    POD,
    RESEND,
    RESTORE,
    SPARK_APPLICATION,
    VOLUME_CLAIM,
)
from gapless_operator.shell.cache.store import key_of, ledger_of
from gapless_operator.shell.cache.trimming import reference
from gapless_operator.shell.surroundings import is_driver, is_open, named_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from gapless_api.v1alpha1.input_filter import RulesConfigMap
    from gapless_api.v1alpha1.resend_source import ConfigMapEntry
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.common.observed import ObservedNode
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.pod_logs import PodLogs
    from gapless_operator.shell.cache.store import Body, Cache, Key

MODELS: dict[str, type[Resource]] = {
    model.KIND: model for model in (Archive, Diode, GapScan, KafkaConnection, Mirror, Resend, Restore)
}
_LASTING = {kind.name for kind in (ARCHIVE, MIRROR, RESEND, RESTORE)}
_ResourceT = TypeVar("_ResourceT", bound="Resource")


class Reader(Protocol):
    """Where single objects come from; the part of `ClusterApi` that is needed here."""

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """Read an object; ``None`` when there is none."""


class Observer:
    """The cluster as reconcilers see it."""

    def __init__(
        self,
        cache: Cache,
        api: Reader,
        logs: PodLogs,
        node: Callable[[str], ObservedNode | None] = lambda _: None,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Prepare it.

        Args:
            cache: what is known.
            api: to read what is not watched.
            logs: of pods.
            node: what is known of a node.
            random: makes that many random bytes, for keys.
        """
        self._cache, self._api, self._logs, self._node, self._random = cache, api, logs, node, random
        self._models: dict[Key, tuple[str, str, Resource]] = {}
        """By object: uid, version and model."""
        self._ledger_parts: dict[Key, LedgerPart] = {}
        self.spark_operator = False
        """Whether the cluster knows SparkApplications; kept up to date by whoever looks."""
        self.jobs_only: Collection[str] = ()
        """Namespaces in which no SparkApplications may be created."""

    def resource(self, model: type[_ResourceT], body: Body) -> _ResourceT:
        """The model of a body; each version is read once, because a Resend can hold a bundle.

        Raises:
            ConfigurationError: the spec is invalid.
        """
        key, uid, version = key_of(body), body["metadata"]["uid"], str(body["metadata"].get("resourceVersion", ""))
        known = self._models.get(key)
        if known is not None and known[:2] == (uid, version) and isinstance(known[2], model):
            return known[2]
        made = model.from_resource(body)
        self._models[key] = (uid, version, made)
        return made

    def forget(self, key: Key) -> None:
        """Drop what is kept about an object that is gone."""
        self._models.pop(key, None)
        self._ledger_parts.pop(key, None)

    def around_work(self, owner: Archive | GapScan | KafkaConnection | Mirror | Restore, body: Body) -> WorkObserved:
        """What belongs to a resource; only the logs of attempts are read that its status is not done with.

        Args:
            owner: the resource.
            body: what it was read from.
        """
        uid, status = owner.metadata.uid, owner.status
        compaction = status.compaction if isinstance(status, ArchiveStatus) else None
        lasts = (status.last_attempt, *([] if compaction is None else [compaction.last_attempt]))
        return WorkObserved(
            spark_operator=self._has_spark_operator(owner),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            applications=tuple(map(ObservedSparkApplication.of, self._cache.owned(SPARK_APPLICATION, uid))),
            pods=tuple(
                self._pod(pod, with_log=is_driver(pod) and is_open(lasts, pod)) for pod in self._cache.owned(POD, uid)
            ),
            config_maps=self._children(CONFIG_MAP, uid),
            referenced=named_by(body, self._cache, self.resource),
        )

    def _has_spark_operator(self, owner: Resource) -> bool:
        return self.spark_operator and owner.metadata.namespace not in self.jobs_only

    def around_resend(self, resend: Resend, body: Body) -> ResendObserved:
        """What a Resend needs to know.

        Args:
            resend: the Resend.
            body: what it was read from.
        """
        uid, namespace = resend.metadata.uid, resend.metadata.namespace
        diodes = self._all(Diode, DIODE, namespace)
        named = resend.spec.diode_ref.name
        bundle_entry, bundle_problem = self._entry(namespace, entry_needed(resend))
        filter_entry, filter_problem = self._filter_entry(resend)
        return ResendObserved(
            diode=next((diode for diode in diodes if diode.metadata.name == named), None),
            diode_problem=self._problem_of(Diode, self._cache.get(DIODE, namespace, named)),
            other_diodes=tuple(diode for diode in diodes if diode.metadata.name != named),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            pods=tuple(self._pod(body, with_log=True) for body in self._cache.owned(POD, uid)),
            config_maps=self._children(CONFIG_MAP, uid),
            ledger=self._ledger(namespace, named),
            referenced=named_by(body, self._cache, self.resource),
            bundle_entry=bundle_entry,
            bundle_problem=bundle_problem,
            filter_entry=filter_entry,
            filter_problem=filter_problem,
            fresh_key=self._random(32),
            fresh_mark=self._random(4).hex(),
        )

    def around_diode(self, diode: Diode) -> DiodeObserved:
        """What a Diode needs to know."""
        uid, namespace, name = diode.metadata.uid, diode.metadata.namespace, diode.metadata.name
        return DiodeObserved(
            other_diodes=tuple(other for other in self._all(Diode, DIODE, None) if other.metadata.uid != uid),
            resends=self._all(Resend, RESEND, namespace),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            pods=tuple(self._pod(body, with_log=True) for body in self._cache.owned(POD, uid)),
            volume_claims=self._state_claim(namespace, name),
            ledger=self._ledger(namespace, name),
            node=self._node(diode.status.preflight.node) if diode.status.preflight is not None else None,
            sender_pods=tuple(self._pod(body, with_log=False) for body in self._over_diode(POD, namespace, name)),
            sender_jobs=tuple(map(ObservedJob.of, self._over_diode(JOB, namespace, name))),
        )

    def running_of(self, body: Body) -> tuple[Ref, ...]:
        """The Jobs and pods of an object, or over a Diode, that may run for long; for bodies that cannot be read.

        Scans and checks end by themselves.
        """
        metadata = body["metadata"]
        if body["kind"] in _LASTING:
            jobs, pods = (self._cache.owned(kind, metadata["uid"]) for kind in (JOB, POD))
        elif body["kind"] == DIODE.name:
            jobs, pods = (self._over_diode(kind, metadata["namespace"], metadata["name"]) for kind in (JOB, POD))
        else:
            return ()
        return running_children(map(ObservedJob.of, jobs), map(ObservedPod.of, pods))

    def _over_diode(self, kind: Kind, namespace: str, name: str) -> list[Body]:
        """The Jobs or pods that use the link of a Diode, whoever owns them."""
        return [
            body
            for body in self._cache.all(kind, namespace)
            if has_label_for(body["metadata"].get("labels"), DIODE_LABEL, name)
        ]

    def _problem_of(self, model: type[Resource], body: Body | None) -> str:
        """Why an object that is there cannot be read; empty when it can, or is not there."""
        try:
            if body is not None:
                self.resource(model, body)
        except ConfigurationError as error:
            return str(error)
        return ""

    def _all(self, model: type[_ResourceT], kind: Kind, namespace: str | None) -> tuple[_ResourceT, ...]:
        """All of a kind that can be read; what cannot be is reported in its own status."""
        found = []
        for body in self._cache.all(kind, namespace):
            try:
                found.append(self.resource(model, body))
            except ConfigurationError:
                continue
        return tuple(found)

    def _pod(self, body: Body, *, with_log: bool) -> ObservedPod:
        node = self._node(str((body.get("spec") or {}).get("nodeName", "")))
        return ObservedPod.of(body, self._logs.log(body) if with_log else None, node)

    def _children(self, kind: Kind, uid: str) -> tuple[ObservedChild, ...]:
        return tuple(map(ObservedChild.of, self._cache.owned(kind, uid)))

    def _state_claim(self, namespace: str, diode_name: str) -> tuple[ObservedClaim, ...]:
        """The claim that a Diode of the name uses, whether this one or one before it has made it."""
        body = self._cache.get(VOLUME_CLAIM, namespace, state_claim_name(diode_name))
        return () if body is None else (ObservedClaim.of(body),)

    def _ledger(self, namespace: str, diode_name: str) -> tuple[LedgerPart, ...]:
        """The ledger of all Diodes of the name; each version of a part is read once, because it can hold thousands."""
        found = []
        for body in self._cache.owned(CONFIG_MAP, ledger_of(namespace, label_value(diode_name))):
            key, version = key_of(body), body["metadata"]["resourceVersion"]
            part = self._ledger_parts.get(key)
            if part is None or part.version != version:
                part = self._ledger_parts[key] = LedgerPart.of(body)
            found.append(part)
        return tuple(found)

    def with_inline_bundle(self, resend: Resend) -> Resend:
        """A Resend with its inline bundle if that has to be looked into, which the cache does not keep.

        Raises:
            ConflictError: it is another one by now.
        """
        bundle = resend.spec.bundle
        if bundle is None or bundle.inline is None or is_inspected(resend):
            return resend
        text = self._inline_bundle(resend.metadata.namespace, resend.metadata.name, bundle.inline)
        spec = resend.spec.model_copy(update={"bundle": bundle.model_copy(update={"inline": text})})
        return resend.model_copy(update={"spec": spec})

    def with_bundle(self, owner: Body, manifest: Manifest) -> Manifest:
        """A manifest with the text of the owner's inline bundle where it has what the cache keeps of it.

        Raises:
            ConflictError: the owner is another one by now.
        """
        kept = _inline(owner)
        entries = manifest.get("data") or {}
        if kept is None or manifest["kind"] != CONFIG_MAP.name or kept not in entries.values():
            return manifest
        text = self._inline_bundle(owner["metadata"]["namespace"], owner["metadata"]["name"], kept)
        return {**manifest, "data": {name: text if value == kept else value for name, value in entries.items()}}

    def _filter_entry(self, resend: Resend) -> tuple[bytes | None, str]:
        """Read the filter rules of a Resend, its copy first: the ConfigMap may have changed since the Resend began."""
        source = rules_needed(resend)
        if source is None:
            return None, ""
        copy, namespace = copied_entry(resend), resend.metadata.namespace
        copies = (child.meta.name for child in self._children(CONFIG_MAP, resend.metadata.uid))
        found = self._entry(namespace, copy) if copy.name in copies else (None, "")
        return self._entry(namespace, source) if found == (None, "") else found

    def _entry(self, namespace: str, source: ConfigMapEntry | RulesConfigMap | None) -> tuple[bytes | None, str]:
        """Read an entry of a ConfigMap that a Resend names, which is not ours and therefore not watched.

        The second is why the API server refused to show it.
        """
        if source is None:
            return None, ""
        try:
            body = self._api.get(CONFIG_MAP, namespace, source.name) or {}
        except RefusedError as error:
            return None, str(error)
        text = (body.get("data") or {}).get(source.key)
        if isinstance(text, str):
            return text.encode(), ""
        packed = (body.get("binaryData") or {}).get(source.key)
        try:
            return None if packed is None else base64.b64decode(packed, validate=True), ""
        except binascii.Error:
            return None, ""

    def _inline_bundle(self, namespace: str, name: str, kept: str) -> str:
        """Read the inline bundle of a Resend of which the cache keeps `kept`."""
        text = _inline(self._api.get(RESEND, namespace, name) or {})
        if text is None or reference(text) != kept:
            raise ConflictError(f"Resend {namespace}/{name} has changed; it is reconciled again.")
        return text


def _inline(resend: Mapping[str, Any]) -> str | None:
    """The inline bundle of a Resend, or what the cache keeps of it."""
    found = ((resend.get("spec") or {}).get("bundle") or {}).get("inline")
    return found if isinstance(found, str) else None
