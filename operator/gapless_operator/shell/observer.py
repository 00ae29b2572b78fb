"""The input of each reconciler, collected from the cache, the logs and a few reads.

Must not know what a reconciler does with it.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.resend import Resend
from gapless_operator.common.children import has_label_for, label_value, running_children
from gapless_operator.common.observed import (
    DIODE_LABEL,
    ObservedChild,
    ObservedClaim,
    ObservedJob,
    ObservedNode,
    ObservedPod,
)
from gapless_operator.engines.observed import WorkObserved
from gapless_operator.engines.sparkapplication import ObservedSparkApplication, running_applications
from gapless_operator.sending.diode_children import state_claim_name
from gapless_operator.sending.ledger import LedgerPart
from gapless_operator.sending.observed import DiodeObserved, ResendObserved
from gapless_operator.sending.resend.bundle import is_inspected, required_bundle_entry
from gapless_operator.sending.resend.filter_rules import copy_entry, required_rules_entry
from gapless_operator.shell.api.errors import ConflictError, RefusedError
from gapless_operator.shell.api.kinds import (
    CONFIG_MAP,
    DIODE,
    JOB,
    POD,
    RESEND,
    SPARK_APPLICATION,
    VOLUME_CLAIM,
    Kind,
)
from gapless_operator.shell.cache.models import Models
from gapless_operator.shell.cache.store import Body, Cache, Key, key_of, ledger_owner
from gapless_operator.shell.cache.trimming import reference
from gapless_operator.shell.inputs import is_driver, needs_log, referenced_objects

if TYPE_CHECKING:
    from gapless_api.v1alpha1.input_filter import RulesConfigMap
    from gapless_api.v1alpha1.link_rate import LinkProfileEntry
    from gapless_api.v1alpha1.resend_source import ConfigMapEntry
    from gapless_api.v1alpha1.resource import Metadata, Resource
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.shell.cache.pod_logs import PodLogs

_ResourceT = TypeVar("_ResourceT", bound="Resource")


class Reader(Protocol):
    """Reads single objects; the part of `ClusterApi` that is needed here."""

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """Read an object; ``None`` when there is none."""


class Worked(Protocol):
    """An object whose pods do one work at a time."""

    @property
    def metadata(self) -> Metadata:
        """Of the object."""

    @property
    def status(self) -> Any:
        """With the last attempt."""


class Observer:
    """Collects what reconcilers see of the cluster."""

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
            cache: of the cluster.
            api: to read what is not watched.
            logs: of pods.
            node: returns the state of a node, if it is known.
            random: returns that many random bytes, for keys.
        """
        self._cache, self._api, self._logs, self._node, self._random = cache, api, logs, node, random
        self._models = Models()
        self._ledger_parts: dict[Key, LedgerPart] = {}
        self.spark_operator = False
        """Whether the cluster has the CRD of SparkApplications; set after each list."""
        self.suspension: Callable[[str], str] = lambda _: ""
        """Returns why nothing may run in a namespace; empty if it may."""
        self.jobs_only: Collection[str] = ()
        """Namespaces in which no SparkApplications may be created."""

    def resource(self, model: type[_ResourceT], body: Body) -> _ResourceT:
        """Parse a body into its model. Raises ConfigurationError when the spec is invalid."""
        return self._models.parsed(model, body)

    def forget(self, key: Key) -> None:
        """Forget a deleted object."""
        self._models.forget(key)
        self._ledger_parts.pop(key, None)

    def observe_work(self, owner: Worked, body: Body) -> WorkObserved:
        """Collect what a resource owns and names; only logs of attempts without a recorded outcome are read.

        Args:
            owner: the resource.
            body: it was parsed from.
        """
        uid, status = owner.metadata.uid, owner.status
        compaction = status.compaction if isinstance(status, ArchiveStatus) else None
        last_attempts = (status.last_attempt, *([] if compaction is None else [compaction.last_attempt]))
        return WorkObserved(
            spark_operator=self._has_spark_operator(owner),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            applications=tuple(map(ObservedSparkApplication.of, self._cache.owned(SPARK_APPLICATION, uid))),
            pods=tuple(
                self._pod(pod, with_log=is_driver(pod) and needs_log(last_attempts, pod))
                for pod in self._cache.owned(POD, uid)
            ),
            config_maps=self._children(CONFIG_MAP, uid),
            referenced=referenced_objects(body, self._cache, self.resource),
        )

    def _has_spark_operator(self, owner: Worked) -> bool:
        return self.spark_operator and owner.metadata.namespace not in self.jobs_only

    def observe_resend(self, resend: Resend, body: Body) -> ResendObserved:
        """Collect the input of a Resend's reconciler.

        Args:
            resend: the Resend.
            body: it was parsed from.
        """
        uid, namespace = resend.metadata.uid, resend.metadata.namespace
        diodes = self._all(Diode, DIODE, namespace)
        named = resend.spec.diode_ref.name
        bundle_entry, bundle_problem = self._entry(namespace, required_bundle_entry(resend))
        filter_entry, filter_problem = self._filter_entry(resend)
        diode = next((diode for diode in diodes if diode.metadata.name == named), None)
        profile_entry, profile_problem = self._entry(namespace, diode.spec.profile_ref if diode is not None else None)
        return ResendObserved(
            diode=diode,
            diode_problem=self._problem_of(Diode, self._cache.get(DIODE, namespace, named)),
            other_diodes=tuple(diode for diode in diodes if diode.metadata.name != named),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            pods=tuple(self._pod(body, with_log=True) for body in self._cache.owned(POD, uid)),
            config_maps=self._children(CONFIG_MAP, uid),
            ledger=self._ledger(namespace, named),
            referenced=referenced_objects(body, self._cache, self.resource),
            bundle_entry=bundle_entry,
            bundle_problem=bundle_problem,
            filter_entry=filter_entry,
            filter_problem=filter_problem,
            profile_entry=profile_entry,
            profile_problem=profile_problem,
            fresh_key=self._random(32),
            fresh_mark=self._random(4).hex(),
        )

    def observe_diode(self, diode: Diode) -> DiodeObserved:
        """Collect the input of a Diode's reconciler."""
        uid, namespace, name = diode.metadata.uid, diode.metadata.namespace, diode.metadata.name
        profile_entry, profile_problem = self._entry(namespace, diode.spec.profile_ref)
        return DiodeObserved(
            profile_entry=profile_entry,
            profile_problem=profile_problem,
            other_diodes=tuple(other for other in self._all(Diode, DIODE, None) if other.metadata.uid != uid),
            resends=self._all(Resend, RESEND, namespace),
            jobs=tuple(map(ObservedJob.of, self._cache.owned(JOB, uid))),
            pods=tuple(self._pod(body, with_log=True) for body in self._cache.owned(POD, uid)),
            volume_claims=self._state_claim(namespace, name),
            ledger=self._ledger(namespace, name),
            node=self._node(diode.status.preflight.node) if diode.status.preflight is not None else None,
            sender_pods=tuple(self._pod(body, with_log=False) for body in self._on_diode(POD, namespace, name)),
            sender_jobs=tuple(map(ObservedJob.of, self._on_diode(JOB, namespace, name))),
        )

    def running_objects(self, body: Body) -> tuple[Ref, ...]:
        """Return what runs for an object of which nothing may run; for a Diode, all that uses its link as well.

        It does not depend on the spec, which may be invalid.
        """
        applications = map(ObservedSparkApplication.of, self._cache.owned(SPARK_APPLICATION, body["metadata"]["uid"]))
        jobs = map(ObservedJob.of, self._running_for(JOB, body))
        return (*running_applications(applications), *running_children(jobs, self.pods_for(body)))

    def pods_for(self, body: Body) -> tuple[ObservedPod, ...]:
        """Return the pods of an object; for a Diode, all that use its link as well."""
        return tuple(self._pod(pod, with_log=False) for pod in self._running_for(POD, body))

    def _running_for(self, kind: Kind, body: Body) -> list[Body]:
        metadata = body["metadata"]
        owned = list(self._cache.owned(kind, metadata["uid"]))
        if body["kind"] != DIODE.name:
            return owned
        known = {child["metadata"]["uid"] for child in owned}
        on_link = self._on_diode(kind, metadata["namespace"], metadata["name"])
        return [*owned, *(child for child in on_link if child["metadata"]["uid"] not in known)]

    def _on_diode(self, kind: Kind, namespace: str, name: str) -> list[Body]:
        """Return the Jobs or pods that use the link of a Diode, whoever owns them."""
        return [
            body
            for body in self._cache.all(kind, namespace)
            if has_label_for(body["metadata"].get("labels"), DIODE_LABEL, name)
        ]

    def _problem_of(self, model: type[Resource], body: Body | None) -> str:
        """Return why an object is invalid; empty when it is valid or does not exist."""
        try:
            if body is not None:
                self.resource(model, body)
        except ConfigurationError as error:
            return str(error)
        return ""

    def _all(self, model: type[_ResourceT], kind: Kind, namespace: str | None) -> tuple[_ResourceT, ...]:
        """Return all valid objects of a kind; the status of each invalid one says what is wrong."""
        valid = []
        for body in self._cache.all(kind, namespace):
            try:
                valid.append(self.resource(model, body))
            except ConfigurationError:
                continue
        return tuple(valid)

    def _pod(self, body: Body, *, with_log: bool) -> ObservedPod:
        node = self._node(str((body.get("spec") or {}).get("nodeName", "")))
        return ObservedPod.of(body, self._logs.log(body) if with_log else None, node)

    def _children(self, kind: Kind, uid: str) -> tuple[ObservedChild, ...]:
        return tuple(map(ObservedChild.of, self._cache.owned(kind, uid)))

    def _state_claim(self, namespace: str, diode_name: str) -> tuple[ObservedClaim, ...]:
        """Return the claim of the Diodes with this name, even if an earlier one has created it."""
        body = self._cache.get(VOLUME_CLAIM, namespace, state_claim_name(diode_name))
        return () if body is None else (ObservedClaim.of(body),)

    def _ledger(self, namespace: str, diode_name: str) -> tuple[LedgerPart, ...]:
        """Return the ledger of the Diodes with this name; each version of a part, possibly large, is parsed once."""
        parts = []
        for body in self._cache.owned(CONFIG_MAP, ledger_owner(namespace, label_value(diode_name))):
            key, version = key_of(body), body["metadata"]["resourceVersion"]
            part = self._ledger_parts.get(key)
            if part is None or part.version != version:
                part = self._ledger_parts[key] = LedgerPart.of(body)
            parts.append(part)
        return tuple(parts)

    def with_inline_bundle(self, resend: Resend) -> Resend:
        """Return a Resend with its inline bundle, which the cache does not keep, if that has to be inspected.

        Raises:
            ConflictError: the bundle has changed meanwhile.
        """
        bundle = resend.spec.bundle
        if bundle is None or bundle.inline is None or is_inspected(resend):
            return resend
        text = self._inline_bundle(resend.metadata.namespace, resend.metadata.name, bundle.inline)
        spec = resend.spec.model_copy(update={"bundle": bundle.model_copy(update={"inline": text})})
        return resend.model_copy(update={"spec": spec})

    def with_bundle(self, owner: Body, manifest: Manifest) -> Manifest:
        """Return a manifest with the owner's inline bundle in place of the reference that the cache keeps.

        Raises:
            ConflictError: the bundle has changed meanwhile.
        """
        kept = _inline(owner)
        entries = manifest.get("data") or {}
        if kept is None or manifest["kind"] != CONFIG_MAP.name or kept not in entries.values():
            return manifest
        text = self._inline_bundle(owner["metadata"]["namespace"], owner["metadata"]["name"], kept)
        return {**manifest, "data": {name: text if value == kept else value for name, value in entries.items()}}

    def _filter_entry(self, resend: Resend) -> tuple[bytes | None, str]:
        """Read the filter rules of a Resend, the copy first: the ConfigMap may have changed since the start."""
        source = required_rules_entry(resend)
        if source is None:
            return None, ""
        copy, namespace = copy_entry(resend), resend.metadata.namespace
        copies = (child.meta.name for child in self._children(CONFIG_MAP, resend.metadata.uid))
        copied = self._entry(namespace, copy) if copy.name in copies else (None, "")
        return self._entry(namespace, source) if copied == (None, "") else copied

    def _entry(
        self, namespace: str, source: ConfigMapEntry | LinkProfileEntry | RulesConfigMap | None
    ) -> tuple[bytes | None, str]:
        """Read an entry of a user's ConfigMap, which is not watched; return it and why it cannot be read."""
        if source is None:
            return None, ""
        try:
            body = self._api.get(CONFIG_MAP, namespace, source.name) or {}
        except RefusedError as error:
            return None, str(error)
        text = (body.get("data") or {}).get(source.key)
        if isinstance(text, str):
            return text.encode(), ""
        encoded = (body.get("binaryData") or {}).get(source.key)
        try:
            return None if encoded is None else base64.b64decode(encoded, validate=True), ""
        except binascii.Error:
            return None, ""

    def _inline_bundle(self, namespace: str, name: str, kept: str) -> str:
        """Read the inline bundle of a Resend; `kept` is the reference to it in the cache."""
        text = _inline(self._api.get(RESEND, namespace, name) or {})
        if text is None or reference(text) != kept:
            raise ConflictError(f"Resend {namespace}/{name} has changed; it is reconciled again.")
        return text


def _inline(resend: Mapping[str, Any]) -> str | None:
    """Return the inline bundle of a Resend, or the reference to it that the cache keeps."""
    inline = ((resend.get("spec") or {}).get("bundle") or {}).get("inline")
    return inline if isinstance(inline, str) else None
