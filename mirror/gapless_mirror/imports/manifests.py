"""The Mirror and the KafkaConnections that are equivalent to the settings of a mirror.

Must not know where the settings come from, nor how they are printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.quantities import boolean
from gapless_api.base.refusals import Refusals
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.resource import API_VERSION, Resource
from gapless_mirror.imports.foreign_mirror import SecretEntry
from gapless_mirror.settings.client_properties import mirror_name_of_group

if TYPE_CHECKING:
    from gapless_mirror.imports.translated import ImportedMirror

_TEXTS = ("topicPattern", "sourceName", "targetName", "rename", "compression")
"""Settings with a field of the same name and text."""
_OTHERS = ("name", "topics", "heartbeat", "workers", "groupPattern", "groupInterval")
"""Further settings with a field."""
_NO_NEED = ("topicRefresh",)
"""Settings without a field and without an effect on what is copied: a Mirror looks for topics every minute."""
_NO_FIELD = "a Mirror has no such field; the default counts on Kubernetes"
_ENTRIES = {
    "CaFile": "ca.crt",
    "CertFile": "user.crt",
    "KeyFile": "user.key",
    "KeyPasswordFile": "user.password",
    "SaslPasswordFile": "password",
    "OauthClientSecretFile": "client-secret",
    "OauthCaFile": "token-ca.crt",
    "OauthTokenFile": "token",
    "KerberosKeytabFile": "keytab",
}
"""The entry of a Secret that a file becomes."""
_OAUTH_TEXTS = {"tokenEndpoint": "OauthTokenEndpoint", "clientId": "OauthClientId", "scope": "OauthScope"}
_OAUTH_FILES = {"clientSecret": "OauthClientSecretFile", "caSecret": "OauthCaFile", "tokenSecret": "OauthTokenFile"}


class Manifests(NamedTuple):
    """Objects for one namespace, and what the user must know."""

    objects: tuple[dict[str, Any], ...]
    secrets: tuple[str, ...]
    """Commands that create the Secrets which the other program does not have."""
    not_carried: tuple[str, ...]
    """Sentences: settings without a field."""
    refusals: tuple[str, ...]
    """Sentences: why the API server would refuse an object."""


def manifests_of(imported: ImportedMirror, namespace: str | None) -> Manifests:
    """Return a Mirror and its two KafkaConnections, in a namespace if one is given."""
    secrets: list[str] = []
    objects = []
    names = _connection_names(imported)
    for side, name in names.items():
        connection = _Connection(imported, side, name)
        objects.append(_object("KafkaConnection", name, namespace, connection.spec()))
        secrets += connection.secrets()
    spec = {"sourceRef": {"name": names["source"]}, "targetRef": {"name": names["target"]}, **_mirror(imported.texts)}
    objects.insert(0, _object("Mirror", imported.texts["name"], namespace, spec))
    beside = [
        f"The setting {name}={text}: {_NO_FIELD}."
        for name, text in imported.texts.items()
        if name not in (*_TEXTS, *_OTHERS, *_NO_NEED) and not name.startswith(("source", "target"))
    ]
    refusals = Refusals()
    kinds: tuple[type[Resource], ...] = (Mirror, KafkaConnection, KafkaConnection)
    for kind, body in zip(kinds, objects, strict=True):
        with refusals.collect():
            kind.from_resource({**body, "metadata": {"namespace": "default", **body["metadata"]}})
    return Manifests(tuple(objects), tuple(secrets), tuple(beside), tuple(refusals.sentences))


def _connection_names(imported: ImportedMirror) -> dict[str, str]:
    """Return the names of both connections by side, which differ."""
    source, target = (f"kafka-{mirror_name_of_group(alias)}" for alias in imported.flow)
    return {"source": source, "target": target if target != source else f"{target}-target"}


def _object(kind: str, name: str, namespace: str | None, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _mirror(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a Mirror without its references."""
    spec: dict[str, Any] = {}
    if "topics" in texts:
        spec["topics"] = texts["topics"].split(",")
    spec |= {name: texts[name] for name in _TEXTS if name in texts}
    if "heartbeat" in texts:
        spec["heartbeat"] = boolean(texts["heartbeat"])
    if "workers" in texts:
        spec["workers"] = {"count": int(texts["workers"])}
    if "groupPattern" in texts:
        interval = texts.get("groupInterval")
        every = {"intervalSeconds": round(float(interval))} if interval else {}
        spec["groups"] = {"pattern": texts["groupPattern"], **every}
    return spec


class _Connection:
    """One KafkaConnection; files become entries of the Secrets that the other program names, or of one of its own."""

    def __init__(self, imported: ImportedMirror, side: str, name: str) -> None:
        self._imported, self._side, self._name = imported, side, name
        self._own: dict[str, str] = {}

    def spec(self) -> dict[str, Any]:
        """Return the spec."""
        is_target = self._side == "target"
        spec: dict[str, Any] = {"bootstrapServers": self._text("BootstrapServers")}
        if (tls := self._tls()) is not None:
            spec["tls"] = tls
        if (sasl := self._sasl()) is not None:
            spec["sasl"] = sasl
        spec["allowedTopics"] = ["*"]
        if is_target and "groupPattern" in self._imported.texts:
            spec["allowedGroups"] = ["*"]
        spec["access"] = ["Read", "Write"] if is_target else ["Read"]
        return spec

    def secrets(self) -> list[str]:
        """Return the command that creates the Secret of its own, if there is one; known after `spec`."""
        if not self._own:
            return []
        files = " ".join(f"--from-file={key}={path}" for key, path in self._own.items())
        return [f"kubectl create secret generic {self._name} {files}"]

    def _text(self, name: str) -> str:
        return self._imported.texts.get(f"{self._side}{name}", "")

    def _entry(self, name: str) -> SecretEntry | None:
        """Return the entry of a Secret that a file becomes."""
        path = self._text(name)
        if not path:
            return None
        if path in self._imported.secrets:
            return self._imported.secrets[path]
        self._own[_ENTRIES[name]] = path
        return SecretEntry(self._name, _ENTRIES[name])

    def _tls(self) -> dict[str, Any] | None:
        if self._text("Tls") != "true" and not self._text("CaFile"):
            return None
        authority, certificate, key = (self._entry(name) for name in ("CaFile", "CertFile", "KeyFile"))
        password = self._entry("KeyPasswordFile")
        tls: dict[str, Any] = {}
        if authority is not None:
            tls["caSecret"] = authority._asdict()
        if certificate is not None and key is not None:
            tls["clientSecret"] = {"name": key.name, "certificateKey": certificate.key, "keyKey": key.key}
            if password is not None:
                tls["clientSecret"]["passwordKey"] = password.key
        return tls or {"enabled": True}

    def _sasl(self) -> dict[str, Any] | None:
        mechanism = self._text("SaslMechanism")
        if not mechanism:
            return None
        if mechanism == "GSSAPI":
            return {"mechanism": mechanism, "kerberos": self._kerberos()}
        if mechanism != "OAUTHBEARER":
            password = self._entry("SaslPasswordFile")
            secret = {"passwordSecret": password._asdict()} if password is not None else {}
            return {"mechanism": mechanism, "username": self._text("SaslUsername"), **secret}
        texts = {field: self._text(name) for field, name in _OAUTH_TEXTS.items()}
        entries = {field: self._entry(name) for field, name in _OAUTH_FILES.items()}
        found: dict[str, Any] = {field: text for field, text in texts.items() if text}
        found |= {field: entry._asdict() for field, entry in entries.items() if entry is not None}
        return {"mechanism": mechanism, "oauth": found}

    def _kerberos(self) -> dict[str, Any]:
        keytab = self._entry("KerberosKeytabFile")
        texts = {"principal": self._text("KerberosPrincipal"), "serviceName": self._text("KerberosServiceName")}
        found: dict[str, Any] = {field: text for field, text in texts.items() if text}
        if keytab is not None:
            found["keytabSecret"] = keytab._asdict()
        return found  # no file of a client names the KDCs: the check of the object says that they are missing
