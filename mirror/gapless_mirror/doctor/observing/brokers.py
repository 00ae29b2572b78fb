"""The connection attempts to brokers, and the certificates that they present; nothing is sent above TLS.

If the handshake fails with verification, which gives the reason, it is repeated without, which gives the certificates.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_mirror.doctor.observed import Broker, BrokerConnection, Certificate

if TYPE_CHECKING:
    from cryptography.x509 import Certificate as X509Certificate

    from gapless_kafka.access.connection import KafkaConnection

_MAX_CONCURRENT_CONNECTIONS = 16
_DER = 2
"""ENCODING_DER of Python's module _ssl."""


def connections_to(
    brokers: Sequence[Broker], connection: KafkaConnection, *, timeout_seconds: float
) -> list[BrokerConnection]:
    """Connect to each broker."""
    with ThreadPoolExecutor(_MAX_CONCURRENT_CONNECTIONS) as pool:
        return list(pool.map(lambda broker: _connection_to(broker, connection, timeout_seconds), brokers))


def bootstrap_brokers(connection: KafkaConnection) -> list[Broker]:
    """Return the bootstrap servers as brokers with the ID -1."""
    brokers = []
    for address in connection.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition(":")
        brokers.append(Broker(-1, host.strip("[]"), int(port)))
    return brokers


def certificates_in_files(connection: KafkaConnection, *, cluster: str) -> list[Certificate]:
    """Return the certificates in local files; `cluster` is the prefix of their settings."""
    from gapless_api.keys import pem_files  # noqa: PLC0415 -- slow to import and often not needed

    found = []
    files = (("caFile", connection.ca_file), ("certFile", connection.cert_file))
    for name, file in files:
        if file is None:
            continue
        setting = f"{cluster}{name[0].upper()}{name[1:]}" if cluster else name
        certificates = pem_files.read_certificates(file, setting=setting)
        found += [_certificate(certificate, str(file), setting) for certificate in certificates]
    return found


def _connection_to(broker: Broker, connection: KafkaConnection, timeout_seconds: float) -> BrokerConnection:
    address = (broker.host, broker.port)
    try:
        with socket.create_connection(address, timeout=timeout_seconds) as plain:
            if not connection.tls:
                return BrokerConnection(broker)
            with _context(connection, verified=True).wrap_socket(plain, server_hostname=broker.host) as trusted:
                return BrokerConnection(broker, certificates=_presented(trusted, broker.address))
    except ssl.SSLCertVerificationError as error:
        distrust = error.verify_message or str(error)
    except (OSError, ValueError) as error:
        return BrokerConnection(broker, problem=_reason(error))
    certificates: tuple[Certificate, ...] = ()
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection(address, timeout=timeout_seconds) as plain,
        _context(connection, verified=False).wrap_socket(plain, server_hostname=broker.host) as untrusted,
    ):
        certificates = _presented(untrusted, broker.address)
    return BrokerConnection(broker, distrust=distrust.rstrip("."), certificates=certificates)


def _context(connection: KafkaConnection, *, verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=_text(connection.ca_file))
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if connection.cert_file is not None:
        from gapless_api.keys import pem_files  # noqa: PLC0415 -- slow to import and often not needed

        file, password = connection.key_password_file, b""
        if file is not None:
            password = pem_files.read_password(file, setting="keyPasswordFile")
        # A server that requires a client certificate aborts the TLS 1.2 handshake without one.
        context.load_cert_chain(connection.cert_file, connection.key_file, password)
    return context


def _presented(tls: ssl.SSLSocket, where: str) -> tuple[Certificate, ...]:
    """Return the certificate chain that the broker has sent."""
    from cryptography import x509  # noqa: PLC0415 -- slow to import and often not needed

    # SSLSocket has this method since Python 3.13, before only its internal object.
    if hasattr(tls, "get_unverified_chain"):
        chain: list[bytes] = tls.get_unverified_chain()
    else:
        internal: Any = tls._sslobj  # type: ignore[attr-defined]  # noqa: SLF001
        chain = [certificate.public_bytes(_DER) for certificate in internal.get_unverified_chain() or ()]
    return tuple(_certificate(x509.load_der_x509_certificate(der), where, "") for der in chain)


def _certificate(certificate: X509Certificate, where: str, setting: str) -> Certificate:
    return Certificate(
        subject=certificate.subject.rfc4514_string() or f"serial number {certificate.serial_number}",
        begins=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc,
        where=where,
        setting=setting,
    )


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text.rstrip(".")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
