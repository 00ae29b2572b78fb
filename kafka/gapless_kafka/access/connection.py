"""How a program connects to Kafka and authenticates; must not know any Kafka client, only its property names.

The model holds paths and names, never a secret: passwords and keys are read from their files when a client is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.system_certificates import trusted_certificates
from gapless_kafka.access.kerberos import KerberosLogin
from gapless_kafka.access.oauth import FileToken, MskToken, OAuthLogin

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:,\[\]/]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """Bootstrap servers, encryption and credentials of one cluster. `check` verifies that they fit together.

    No pydantic here: importing it takes a third of the time of a small resend.
    """

    bootstrap_servers: str
    """``host:port``, separated by commas."""
    tls: bool | None = None
    """Whether to use TLS; ``None`` means TLS if a CA file, certificate or key is given."""
    ca_file: Path | None = None
    """CA certificates (PEM) that verify the brokers; ``None`` for the system's."""
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password_file: Path | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = None
    sasl_username: str | None = None
    sasl_password_file: Path | None = None
    oauth: OAuthLogin = field(default_factory=OAuthLogin)
    """For OAUTHBEARER, instead of a user name and password."""
    kerberos: KerberosLogin = field(default_factory=KerberosLogin)
    """For GSSAPI, instead of a user name and password."""
    client_id: str = "gapless"
    group_id: str = ""
    """``group.id`` of consumers; not in `librdkafka_options`, because producers reject it."""
    refuses_local: bool = False
    """Whether bootstrap servers and brokers at loopback, link-local and metadata addresses are refused."""

    def __post_init__(self) -> None:
        if self.tls is None:
            given = any(file is not None for file in (self.ca_file, self.cert_file, self.key_file))
            object.__setattr__(self, "tls", given)

    @property
    def security_protocol(self) -> str:
        """Kafka's ``security.protocol``: encryption and authentication."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl_mechanism else transport

    def check(self) -> Self:
        """Check that the settings fit together and every file can be used; return the connection itself.

        Raises:
            ConfigurationError: names the setting and the file in one sentence.
        """
        self._check_addresses()
        self._check_combination()
        if self.tls:
            trusted_certificates(self.ca_file)  # refuses a file of the system that cannot be read
        if self.ca_file is not None or self.cert_file is not None:
            from gapless_api.keys import pem_files  # noqa: PLC0415 -- cryptography is slow to import and often not needed

            if self.ca_file is not None:
                pem_files.read_certificates(self.ca_file, setting="caFile")
            if self.cert_file is not None:
                leaf = pem_files.read_certificates(self.cert_file, setting="certFile")[0]
                if not pem_files.belongs_to(leaf, self._private_key()):
                    raise ConfigurationError(
                        f"The private key {self.key_file} of keyFile does not belong to the first certificate of "
                        f"{self.cert_file}; give the key that the certificate was issued for."
                    )
        if self.sasl_mechanism == "OAUTHBEARER":
            self.oauth.check()
        elif self.sasl_mechanism == "GSSAPI":
            self.kerberos.check()
        elif self.sasl_mechanism is not None:
            self.sasl_password()
        return self

    def with_client_id(self, client_id: str) -> Self:
        """Return the connection with this ``client.id``, checked. Raises ConfigurationError like `check`."""
        return replace(self, client_id=client_id).check()

    def check_bootstrap_servers(self) -> None:
        """Refuse bootstrap servers at local addresses if `refuses_local`. Raises ConfigurationError."""
        if self.refuses_local:
            from gapless_api.base.local_addresses import refuse_local  # noqa: PLC0415 -- often not needed

            matches = [_ADDRESS.fullmatch(address.strip()) for address in self.bootstrap_servers.split(",")]
            refuse_local(
                ((match["host"], int(match["port"])) for match in matches if match), what="The bootstrap server"
            )
            if self.oauth.endpoint_address is not None:
                refuse_local([self.oauth.endpoint_address], what="The token endpoint")
            refuse_local(self.kerberos.kdc_addresses, what="The KDC")

    def check_brokers(self, brokers: Iterable[tuple[str, int]]) -> None:
        """Refuse brokers that advertise local addresses if `refuses_local`. Raises ConfigurationError."""
        if self.refuses_local:
            from gapless_api.base.local_addresses import refuse_local  # noqa: PLC0415 -- often not needed

            refuse_local(brokers, what="The broker")

    def librdkafka_options(self) -> dict[str, str | int | bool]:
        """Properties for a librdkafka client. The result is secret: it holds the decrypted key and the password.

        The key is passed as PKCS#8 text instead of a file with a password, so that the client gets exactly what
        `check` has read.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        options: dict[str, str | int | bool] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "security.protocol": self.security_protocol,
        }
        if self.tls:
            # "probe" makes librdkafka search the paths where distributions keep their CA certificates.
            options["ssl.ca.location"] = str(trusted_certificates(self.ca_file) or "probe")
            key = self.key_pem()
            if key is not None:
                options["ssl.certificate.location"] = str(self.cert_file)
                options["ssl.key.pem"] = key.decode("ascii")
        if self.sasl_mechanism is not None:
            options["sasl.mechanism"] = self.sasl_mechanism
        if self.sasl_mechanism == "OAUTHBEARER":
            options.update(self.oauth.librdkafka_options())
        elif self.sasl_mechanism == "GSSAPI":
            options.update(self.kerberos.librdkafka_options())
        elif self.sasl_mechanism is not None:
            options["sasl.username"] = self.sasl_username or ""
            options["sasl.password"] = self.sasl_password()
        return options

    def token_callback(self) -> FileToken | MskToken | None:
        """The callback that gives a client its token, which `librdkafka_options` cannot contain."""
        return self.oauth.callback() if self.sasl_mechanism == "OAUTHBEARER" else None

    def key_pem(self) -> bytes | None:
        """The decrypted private key as PKCS#8 PEM; ``None`` without a client key.

        The result is secret.

        Raises:
            ConfigurationError: the key or its password cannot be used.
        """
        if self.key_file is None:
            return None
        from gapless_api.keys import pem_files  # noqa: PLC0415 -- see `check`

        return pem_files.pkcs8_pem(self._private_key())

    def sasl_password(self) -> str:
        """The SASL password. The result is secret.

        Raises:
            ConfigurationError: there is no password file, or it is missing, empty or not text.
        """
        from gapless_api.keys import pem_files  # noqa: PLC0415 -- see `check`

        if self.sasl_password_file is None:
            raise ConfigurationError(
                f"saslUsername {self.sasl_username} has no password; set saslPasswordFile to the file that holds it."
            )
        try:
            return pem_files.read_password(self.sasl_password_file, setting="saslPasswordFile").decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigurationError(
                f"The file {self.sasl_password_file} of saslPasswordFile is not UTF-8 text; save the password as UTF-8."
            ) from None

    def _private_key(self) -> Any:
        from gapless_api.keys import pem_files  # noqa: PLC0415 -- see `check`

        if self.key_file is None:  # pragma: no cover -- `check` and `key_pem` check first
            raise ConfigurationError("There is no keyFile.")
        return pem_files.read_private_key(
            self.key_file,
            setting="keyFile",
            password_file=self.key_password_file,
            password_setting="keyPasswordFile",  # noqa: S106 -- the name of a setting
        )

    def _check_addresses(self) -> None:
        for address in self.bootstrap_servers.split(","):
            match = _ADDRESS.fullmatch(address.strip())
            if match is None or not 1 <= int(match["port"]) <= 65535:
                raise ConfigurationError(
                    f"The Kafka address {address.strip()!r} in bootstrapServers is not host:port; write it like "
                    f"kafka.example.org:9092."
                )

    def _check_combination(self) -> None:
        files = {"caFile": self.ca_file, "certFile": self.cert_file, "keyFile": self.key_file}
        given = [name for name, file in files.items() if file is not None]
        if given and not self.tls:
            raise ConfigurationError(f"tls is false, but {given[0]} is given; remove one of the two.")
        for name, counterpart in (("certFile", "keyFile"), ("keyFile", "certFile")):
            if files[name] is not None and files[counterpart] is None:
                raise ConfigurationError(
                    f"{name} is given without {counterpart}; mutual TLS needs both the certificate and its private key."
                )
        if self.sasl_mechanism is None and (self.sasl_username or self.sasl_password_file):
            raise ConfigurationError(
                "A SASL user or password is given without saslMechanism; give PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
            )
        self._check_logins()

    def _check_logins(self) -> None:
        """Check that only what the mechanism has is given. Raises ConfigurationError."""
        others = {"OAUTHBEARER": ("oauth", self.oauth.is_given), "GSSAPI": ("kerberos", self.kerberos.is_given)}
        for mechanism, (prefix, is_given) in others.items():
            if is_given and self.sasl_mechanism != mechanism:
                raise ConfigurationError(
                    f"A setting that begins with {prefix} is given without saslMechanism {mechanism}; give that "
                    f"mechanism, or remove the setting."
                )
        if self.sasl_mechanism in others:
            if self.sasl_username or self.sasl_password_file:
                raise ConfigurationError(
                    f"saslMechanism {self.sasl_mechanism} has no user name and password; remove saslUsername and "
                    f"saslPasswordFile, or give another mechanism."
                )
        elif self.sasl_mechanism is not None and not self.sasl_username:
            raise ConfigurationError(f"saslMechanism {self.sasl_mechanism} needs a user name; give saslUsername.")


def connection_from(values: Mapping[str, Any], *, client_id: str = "gapless") -> KafkaConnection:
    """Build a connection from resolved settings (see `KAFKA_SETTINGS`) and check it.

    Args:
        values: the values by setting name; other names are ignored.
        client_id: the name in the brokers' logs and quotas.

    Raises:
        ConfigurationError: the settings do not fit together or a file cannot be used.
    """
    return unchecked_connection_from(values, client_id=client_id).check()


def unchecked_connection_from(values: Mapping[str, Any], *, client_id: str = "gapless") -> KafkaConnection:
    """Build a connection without checking it, for commands that may not use Kafka at all."""
    return KafkaConnection(
        bootstrap_servers=values["bootstrapServers"],
        tls=values.get("tls"),
        ca_file=values.get("caFile"),
        cert_file=values.get("certFile"),
        key_file=values.get("keyFile"),
        key_password_file=values.get("keyPasswordFile"),
        sasl_mechanism=values.get("saslMechanism"),
        sasl_username=values.get("saslUsername"),
        sasl_password_file=values.get("saslPasswordFile"),
        oauth=OAuthLogin(
            token_endpoint=values.get("oauthTokenEndpoint") or None,
            client_id=values.get("oauthClientId") or None,
            client_secret_file=values.get("oauthClientSecretFile"),
            scope=values.get("oauthScope") or None,
            ca_file=values.get("oauthCaFile"),
            token_file=values.get("oauthTokenFile"),
            msk_region=values.get("oauthMskRegion") or None,
            msk_profile=values.get("oauthMskProfile") or None,
        ),
        kerberos=KerberosLogin(
            keytab_file=values.get("kerberosKeytabFile"),
            principal=values.get("kerberosPrincipal") or None,
            service_name=values.get("kerberosServiceName") or None,
            kdcs=values.get("kerberosKdcs") or None,
        ),
        client_id=client_id,
        group_id=values.get("groupID") or "",
        refuses_local=bool(values.get("refuseLocalBrokers")),
    )
