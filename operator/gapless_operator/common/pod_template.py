"""Owns what the platform team adds to pods of scans, archives, restores, mirrors and checks, or leaves out of them.

Must not know the kinds. It is a JSON file of the chart, and so is what an object may choose by name. What the operator
sets itself is never replaced: labels by which it finds its pods, and environment variables. Security settings cannot be
given, but IDs be left to the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError

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
_TEXTS = ("labels", "annotations", "env")
_IDS = ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy")
"""The fields of a pod's security context that the cluster sets if it assigns the IDs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """Additions to pods."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of all containers."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pod spec."""
    has_assigned_ids: bool = False
    """Whether the cluster assigns user and group IDs to pods, in each namespace others, as OpenShift does."""
    excluded_namespaces: frozenset[str] = frozenset()
    """Namespaces in which nothing is added: that of the senders, whose pods stay as the admission policies require."""

    def with_additions(self, other: PodTemplate) -> PodTemplate:
        """Return this template with another's labels, annotations, variables and fields, which have precedence."""
        return replace(
            self,
            labels={**self.labels, **other.labels},
            annotations={**self.annotations, **other.annotations},
            env={**self.env, **other.env},
            spec={**self.spec, **other.spec},
        )

    def applied_to(self, namespace: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pod template with the additions: ``metadata`` and ``spec``.

        Args:
            namespace: of the pod.
            labels: of the operator.
            spec: of the operator.
        """
        if self.has_assigned_ids:
            security = {name: value for name, value in spec["securityContext"].items() if name not in _IDS}
            spec = {**spec, "securityContext": security}
        if namespace in self.excluded_namespaces:
            return {"metadata": {"labels": dict(labels)}, "spec": dict(spec)}
        metadata: dict[str, Any] = {"labels": {**self.labels, **labels}}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        merged = dict(spec)
        for name, value in self.spec.items():
            own = spec.get(name)
            merged[name] = [*own, *value] if isinstance(own, list) else value
        if self.env:
            merged["containers"] = [self._with_environment(container) for container in spec["containers"]]
        return {"metadata": metadata, "spec": merged}

    def _with_environment(self, container: Mapping[str, Any]) -> dict[str, Any]:
        own = list(container.get("env", ()))
        names = {each["name"] for each in own}
        added = [{"name": name, "value": value} for name, value in self.env.items() if name not in names]
        return {**container, "env": [*added, *own]}


def read_pod_template(file: Path, excluded_namespaces: frozenset[str] = frozenset()) -> PodTemplate:
    """Read the file of the option ``--pod-template``.

    Raises:
        ConfigurationError: it cannot be read, is no JSON object, or has a field that cannot be given.
    """
    content = _read_object(file)
    return _template_of(content, f"the pod template {file}", excluded_namespaces)


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


def _template_of(
    content: Mapping[str, Any], where: str, excluded_namespaces: frozenset[str] = frozenset()
) -> PodTemplate:
    for name, value in content.items():
        if name in _TEXTS:
            if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
                raise ConfigurationError(f"{name} in {where} is not an object whose values are texts.")
        elif name not in _SPEC_FIELDS:
            known = ", ".join([*_TEXTS, *_SPEC_FIELDS])
            raise ConfigurationError(f"T{where[1:]} has the unknown field {name}; give any of {known}.")
        elif not isinstance(value, _SPEC_FIELDS[name][0]):
            raise ConfigurationError(f"{name} in {where} is not {_SPEC_FIELDS[name][1]}.")
    return PodTemplate(
        labels=content.get("labels", {}),
        annotations=content.get("annotations", {}),
        env=content.get("env", {}),
        spec={name: value for name, value in content.items() if name in _SPEC_FIELDS},
        excluded_namespaces=excluded_namespaces,
    )
