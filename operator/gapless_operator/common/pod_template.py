"""What the platform team adds to pods, or leaves out of them.

Must not know the kinds. It is a JSON file of the chart, and so are what pods of senders have, and what an object may
choose by name. What the operator sets itself is never replaced: labels by which it finds its pods, and environment
variables. Security settings cannot be given, but IDs be left to the cluster. In namespaces of senders nothing is added
that chooses a node: that is the Diode's, and the admission policies require it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.system_certificates import SYSTEM_CERTIFICATES
from gapless_operator.common.refusal import check_listed

_OBJECT, _LIST, _TEXT = (dict, "an object"), (list, "a list"), (str, "a text")
_SPEC_FIELDS: Mapping[str, tuple[type, str]] = {
    "nodeSelector": _OBJECT,
    "affinity": _OBJECT,
    "tolerations": _LIST,
    "topologySpreadConstraints": _LIST,
    "priorityClassName": _TEXT,
    "runtimeClassName": _TEXT,
    "schedulerName": _TEXT,
    "hostAliases": _LIST,
    "dnsConfig": _OBJECT,
    "imagePullSecrets": _LIST,
}
"""By name: the type in JSON, and how a message names it."""
_NO_NODE = ("priorityClassName", "hostAliases", "dnsConfig", "imagePullSecrets")
"""The fields that do not choose a node."""
_TEXTS = ("labels", "annotations", "env")
_CA_BUNDLE = "caBundle"
_CA_FOLDER, _CA_FILE = "/etc/gapless-ca", "ca-bundle.crt"
_IDS = ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy")
"""The fields of a pod's security context that the cluster sets if it assigns the IDs."""


class CaBundle(NamedTuple):
    """An entry of a ConfigMap with CA certificates (PEM), in the namespace of the pod."""

    name: str
    """Of the ConfigMap."""
    key: str

    @property
    def volume(self) -> dict[str, Any]:
        """The volume with the certificates."""
        source = {"name": self.name, "items": [{"key": self.key, "path": _CA_FILE}]}
        return {"name": "ca-bundle", "projected": {"sources": [{"configMap": source}]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """Additions to pods."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of all containers, but for sidecars, which have no more than they need."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pod spec."""
    ca_bundle: CaBundle | None = None
    """What verifies servers instead of the CA certificates of the image, in all containers but sidecars."""

    @property
    def node_fields(self) -> list[str]:
        """The names of the fields that may choose a node."""
        return sorted(set(self.spec) - set(_NO_NODE))

    def with_additions(self, other: PodTemplate) -> PodTemplate:
        """Return this template with another's labels, annotations, variables and fields, which have precedence."""
        return replace(
            self,
            labels={**self.labels, **other.labels},
            annotations={**self.annotations, **other.annotations},
            env={**self.env, **other.env},
            spec={**self.spec, **other.spec},
            ca_bundle=other.ca_bundle or self.ca_bundle,
        )

    def applied_to(self, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pod template with the additions: ``metadata`` and ``spec``.

        Args:
            labels: of the operator.
            spec: of the operator.
        """
        metadata: dict[str, Any] = {"labels": {**self.labels, **labels}}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        merged = dict(spec)
        for name, value in self.spec.items():
            own = spec.get(name)
            merged[name] = [*own, *value] if isinstance(own, list) else value
        if self.ca_bundle is not None:
            merged["volumes"] = [*spec.get("volumes", ()), self.ca_bundle.volume]
        for name in ("initContainers", "containers"):
            if name in spec:
                merged[name] = [self._extended(container) for container in spec[name]]
        return {"metadata": metadata, "spec": merged}

    def _extended(self, container: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a container with the variables and the CA certificates; a sidecar has no more than it needs."""
        if "restartPolicy" in container:
            return container
        extended, variables = dict(container), dict(self.env)
        if self.ca_bundle is not None:
            mount = {"name": self.ca_bundle.volume["name"], "mountPath": _CA_FOLDER, "readOnly": True}
            extended["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
            variables[SYSTEM_CERTIFICATES] = f"{_CA_FOLDER}/{_CA_FILE}"
        if variables:
            own = list(container.get("env", ()))
            names = {each["name"] for each in own}
            added = [{"name": name, "value": value} for name, value in variables.items() if name not in names]
            extended["env"] = [*added, *own]
        return extended


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplates:
    """What is added to the pods of a program, by the namespace and by what an object names."""

    default: PodTemplate = field(default_factory=PodTemplate)
    """Of pods outside of namespaces of senders."""
    senders: PodTemplate = field(default_factory=PodTemplate)
    """Of all pods in namespaces of senders; it chooses no node."""
    sender_namespaces: frozenset[str] | None = frozenset()
    """``None`` for all, as for the pods of senders."""
    named: Mapping[str, PodTemplate] = field(default_factory=dict)
    """What an object may name, in addition to the above."""
    chosen: PodTemplate = field(default_factory=PodTemplate)
    """What an object has named."""
    has_assigned_ids: bool = False
    """Whether the cluster assigns user and group IDs to pods, in each namespace others, as OpenShift does."""

    def check(self, name: str | None, namespace: str) -> None:
        """Check that an object may name a template.

        Args:
            name: of the template; ``None`` if the object names none.
            namespace: of the object.

        Raises:
            ConfigurationError: there is no such template, or it would choose a node for the pods of senders.
        """
        check_listed("podTemplate", "podTemplates", name, self.named)
        fields = [] if name is None else self.named[name].node_fields
        if fields and self._is_of_senders(namespace):
            raise ConfigurationError(
                f"spec.podTemplate names {name}, which has {fields[0]}; in the namespace {namespace} of the senders a "
                f"template can have only {_fields(_NO_NODE)}, because a Diode chooses its node itself."
            )

    def choose(self, name: str | None) -> PodTemplates:
        """Return what is added to the pods of an object that names a template; ``None`` if it names none.

        Raises:
            KeyError: there is no such template.
        """
        return self if name is None else replace(self, chosen=self.named[name])

    def applied_to(self, namespace: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return a pod template with the additions: ``metadata`` and ``spec``.

        Args:
            namespace: of the pod.
            labels: of the operator.
            spec: of the operator.
        """
        if self.has_assigned_ids:
            security = {name: value for name, value in spec["securityContext"].items() if name not in _IDS}
            spec = {**spec, "securityContext": security}
        base = self.senders if self._is_of_senders(namespace) else self.default
        return base.with_additions(self.chosen).applied_to(labels, spec)

    def _is_of_senders(self, namespace: str) -> bool:
        return self.sender_namespaces is None or namespace in self.sender_namespaces


def read_pod_template(file: Path) -> PodTemplate:
    """Read the file of the option ``--pod-template``.

    Raises:
        ConfigurationError: it cannot be read, is no JSON object, or has a field that cannot be given.
    """
    return _template_of(_read_object(file), f"the pod template {file}")


def read_sender_template(file: Path) -> PodTemplate:
    """Read the file of the option ``--sender-pod-template``, which has only fields that choose no node.

    Raises:
        ConfigurationError: as above.
    """
    return _template_of(_read_object(file), f"the pod template {file}", _NO_NODE)


def read_named_templates(file: Path) -> dict[str, PodTemplate]:
    """Read the file of the option ``--pod-templates``: templates by name.

    Raises:
        ConfigurationError: it cannot be read, or a template of it has a field that cannot be given.
    """
    named = {}
    for name, content in _read_object(file).items():
        if not isinstance(content, dict):
            raise ConfigurationError(f"The pod template {name} in {file} is not a JSON object.")
        named[name] = _template_of(content, f"the pod template {name} in {file}")
    return named


def _read_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise ConfigurationError(f"The pod template {file} cannot be read ({reason}).") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"The pod template {file} is not a JSON object.")
    return content


def _template_of(content: Mapping[str, Any], where: str, fields: Collection[str] = _SPEC_FIELDS.keys()) -> PodTemplate:
    for name, value in content.items():
        if name == _CA_BUNDLE:
            is_entry = isinstance(value, dict) and set(value) == {"name", "key"}
            if not is_entry or not all(isinstance(text, str) for text in value.values()):
                raise ConfigurationError(f"{name} in {where} is not the name and the key of an entry in a ConfigMap.")
        elif name in _TEXTS:
            if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
                raise ConfigurationError(f"{name} in {where} is not an object whose values are texts.")
        elif name not in fields:
            raise ConfigurationError(f"T{where[1:]} has the unknown field {name}; give any of {_fields(fields)}.")
        elif not isinstance(value, _SPEC_FIELDS[name][0]):
            raise ConfigurationError(f"{name} in {where} is not {_SPEC_FIELDS[name][1]}.")
    return PodTemplate(
        labels=content.get("labels", {}),
        annotations=content.get("annotations", {}),
        env=content.get("env", {}),
        spec={name: value for name, value in content.items() if name in _SPEC_FIELDS},
        ca_bundle=CaBundle(**content[_CA_BUNDLE]) if _CA_BUNDLE in content else None,
    )


def _fields(spec_fields: Iterable[str]) -> str:
    return ", ".join((*_TEXTS, _CA_BUNDLE, *spec_fields))
