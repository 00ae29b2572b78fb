"""The temporary certificates of a test run: CA, server, clients. Must not know Kafka or the product."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PKCS8 = serialization.PrivateFormat.PKCS8
_LEGACY = serialization.PrivateFormat.TraditionalOpenSSL


@dataclass(frozen=True)
class ClientFiles:
    """One client's certificate and its private key in all common file formats."""

    certificate: Path
    key: Path
    """PKCS#8, unencrypted."""
    key_encrypted: Path
    """PKCS#8 with PBES2 (`BEGIN ENCRYPTED PRIVATE KEY`)."""
    key_encrypted_legacy: Path
    """PKCS#1 in the old OpenSSL format (`Proc-Type: 4,ENCRYPTED`)."""
    password_file: Path
    password: str


class Authority:
    """A certificate authority with its files in one folder; what the folder has of it and its clients is kept."""

    def __init__(self, folder: Path, name: str = "gapless test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / "ca.crt"
        key_file = folder / "ca.key"
        if self.file.exists():
            self._key = cast("rsa.RSAPrivateKey", serialization.load_pem_private_key(key_file.read_bytes(), None))
            self._certificate = x509.load_pem_x509_certificate(self.file.read_bytes())
            return
        self._key = rsa.generate_private_key(65537, 2048)
        self._certificate = (
            _draft(self._name, self._key)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        key_file.write_bytes(_pem(self._key, _PKCS8, None))
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server_store(self, name: str = "server", *, addresses: Sequence[str] = ()) -> Path:
        """Write key and chain for localhost, 127.0.0.1, ::1 and `addresses` into one PEM file, as Kafka expects it."""
        valid = dict.fromkeys(["127.0.0.1", "::1", *addresses])
        key = rsa.generate_private_key(65537, 2048)
        names = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                *(x509.IPAddress(ipaddress.ip_address(address)) for address in valid),
            ]
        )
        certificate = self._issue("localhost", key, ExtendedKeyUsageOID.SERVER_AUTH, names)
        store = self._folder / f"{name}.pem"
        chain = certificate + self._certificate.public_bytes(serialization.Encoding.PEM)
        store.write_bytes(_pem(key, _PKCS8, None) + chain)
        store.chmod(0o600)
        return store

    def client(self, name: str, password: str = "correct horse") -> ClientFiles:  # noqa: S107 - a test's password
        """Issue a client certificate with the common name `name`."""
        files = ClientFiles(
            certificate=self._folder / f"{name}.crt",
            key=self._folder / f"{name}.key",
            key_encrypted=self._folder / f"{name}.encrypted.key",
            key_encrypted_legacy=self._folder / f"{name}.legacy.key",
            password_file=self._folder / f"{name}.password",
            password=password,
        )
        if files.password_file.exists():
            return files
        key = rsa.generate_private_key(65537, 2048)
        files.certificate.write_bytes(self._issue(name, key, ExtendedKeyUsageOID.CLIENT_AUTH, None))
        files.key.write_bytes(_pem(key, _PKCS8, None))
        files.key_encrypted.write_bytes(_pem(key, _PKCS8, password))
        files.key_encrypted_legacy.write_bytes(_pem(key, _LEGACY, password))
        files.password_file.write_text(password + "\n")
        return files

    def _issue(
        self,
        name: str,
        key: rsa.RSAPrivateKey,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> bytes:
        draft = (
            _draft(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names is not None:
            draft = draft.add_extension(names, critical=False)
        return draft.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _draft(subject: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: rsa.RSAPrivateKey, form: serialization.PrivateFormat, password: str | None) -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        protection = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, form, protection)


@dataclass(frozen=True)
class ReceiverKeys:
    """The key pair of the receiving side of an encrypted link."""

    certificate: Path
    """For the sender: an X.509 certificate with the RSA public key."""
    private_key: Path
    """PKCS#8, unencrypted, as the receiver requires."""

    @property
    def private_key_glob(self) -> str:
        """The receiver's `privateKeyFiles`."""
        return str(self.private_key.with_name(self.private_key.name.replace("receiver", "receiver*", 1)))


def make_receiver_keys(folder: Path, name: str = "receiver") -> ReceiverKeys:
    """Write a self-signed certificate and its private key; `name` must begin with "receiver"."""
    folder.mkdir(parents=True, exist_ok=True)
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = _draft(subject, key).issuer_name(subject).sign(key, hashes.SHA256())
    keys = ReceiverKeys(folder / f"{name}.crt", folder / f"{name}.key")
    keys.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    keys.private_key.write_bytes(_pem(key, _PKCS8, None))
    return keys
