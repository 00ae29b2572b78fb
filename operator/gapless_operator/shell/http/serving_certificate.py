"""The certificate of the metrics port: a mounted one, or a self-signed one of the operator.

Must not know what is served with it. A self-signed certificate protects tokens only from passive eavesdroppers; mount
one that Prometheus can verify to protect them from a man in the middle.
"""

from __future__ import annotations

import datetime as dt
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gapless_api.base.errors import ConfigurationError

CERTIFICATE, KEY = "tls.crt", "tls.key"
"""Entries of a Secret of type kubernetes.io/tls."""
_LIFE = dt.timedelta(days=3650)
_NAME = "gapless-operator"


class ServingCertificate:
    """A TLS context whose certificate can be reloaded."""

    def __init__(self, folder: Path | None) -> None:
        """Load it.

        Args:
            folder: with `CERTIFICATE` and `KEY`; ``None`` to create a self-signed certificate.

        Raises:
            ConfigurationError: there is no certificate with its key in the folder.
        """
        self._folder = folder
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if folder is not None:
            self.reload()
            return
        with tempfile.TemporaryDirectory(prefix="gapless-") as temporary:
            _write_self_signed(Path(temporary))
            self._load(Path(temporary))

    def reload(self) -> None:
        """Load the files again, which may have been renewed; open connections are not affected.

        Raises:
            ConfigurationError: they are not a certificate with its key.
        """
        if self._folder is not None:
            self._load(self._folder)

    def _load(self, folder: Path) -> None:
        try:
            self.context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{folder} does not contain a certificate {CERTIFICATE} with its key {KEY} for the metrics port "
                f"({error}); mount a Secret of type kubernetes.io/tls there."
            ) from None


def _write_self_signed(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / KEY).touch(mode=0o600)
    (folder / KEY).write_bytes(private)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
