"""The keys, certificates and kubeconfigs of our own cluster; must not know processes or networks."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kit.cluster.places import API_SERVICE, NODE_ADDRESS, NODE_NAME, POD_GATEWAY

_LIFE = dt.timedelta(days=365)
_API_NAMES = (
    "127.0.0.1",
    NODE_ADDRESS,
    POD_GATEWAY,
    API_SERVICE,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_CLIENTS = {
    # The user names and groups in Kubernetes' default roles.
    "admin": ("gapless-admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", None),
    "scheduler": ("system:kube-scheduler", None),
    "proxy": ("system:kube-proxy", None),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
}


def write_all(folder: Path, kubeconfigs: Path, api_port: int) -> None:
    """Write the CA, every component's certificate and kubeconfig, and the key pair for service account tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = _Authority(folder)
    authority.issue("apiserver", "kube-apiserver", None, _API_NAMES)
    for client, (name, group) in _CLIENTS.items():
        names = (NODE_ADDRESS, "127.0.0.1", NODE_NAME) if client == "kubelet" else ()
        authority.issue(client, name, group, names)
        _write_kubeconfig(kubeconfigs / f"{client}.kubeconfig", folder, client, api_port)
    signing = rsa.generate_private_key(65537, 2048)
    _write_private(folder / "sa.key", signing)
    (folder / "sa.pub").write_bytes(
        signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


class _Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject("gapless-test-cluster", None)
        certificate = (
            _draft(self._subject, self._subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(folder / "ca.key", self._key)

    def issue(self, file: str, name: str, group: str | None, names: Sequence[str]) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        draft = _draft(_subject(name, group), self._subject, key).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if names:
            draft = draft.add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
        certificate = draft.sign(self._key, hashes.SHA256())
        (self._folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(self._folder / f"{file}.key", key)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(name: str, group: str | None) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
    )


def _write_private(file: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _write_kubeconfig(file: Path, keys: Path, client: str, api_port: int) -> None:
    file.touch(mode=0o600)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NODE_NAME,
                "cluster": {
                    "server": f"https://127.0.0.1:{api_port}",
                    "certificate-authority": str(keys / "ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate": str(keys / f"{client}.crt"),
                    "client-key": str(keys / f"{client}.key"),
                },
            }
        ],
        "contexts": [{"name": NODE_NAME, "context": {"cluster": NODE_NAME, "user": client}}],
        "current-context": NODE_NAME,
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
