"""The kind KafkaConnection: a Kafka cluster that the platform team makes available, and for which topics.

Must not know which kinds use it, nor how a client is built.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.base import allowed_groups
from gapless_api.base.allowed_groups import AllowedGroups
from gapless_api.base.allowed_topics import PATTERN, AllowedTopics
from gapless_api.v1alpha1.common import MirrorName, Name, SecretEntry, SecretKey, TemplateName
from gapless_api.v1alpha1.hosts import HOST, LOCAL, PORT, cel_string
from gapless_api.v1alpha1.kafka_connection_status import KafkaConnectionStatus
from gapless_api.v1alpha1.model import ApiModel, Rule
from gapless_api.v1alpha1.resource import Column, Resource

_SERVERS = f"{HOST}{PORT}( *, *{HOST}{PORT})*"
_LOCAL_SERVER = f"(^|.*, *){LOCAL}:[0-9]+( *,.*|$)"
_PATH = "(/[-a-zA-Z0-9._~%!$&()*+,;=:@/]*)?"
_TOKEN_URL, _LOCAL_TOKEN_URL = f"https://{HOST}({PORT})?{_PATH}", f"https://{LOCAL}({PORT})?{_PATH}"
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
_KDC, _LOCAL_KDC = f"{HOST}({PORT})?", f"{LOCAL}({PORT})?"
_NO_LOCAL = (
    "loopback, link-local and metadata addresses are refused, because sender pods use the network of their node: use "
)
_ADDRESSES, _LOCAL = re.compile(_SERVERS), re.compile(_LOCAL_SERVER)


class CaSecret(SecretKey):
    """The Secret with the CA certificates (PEM) that verify the server."""

    key: SecretEntry = "ca.crt"
    """Entry of the Secret. The default is the entry in Strimzi's cluster CA Secret."""


class PasswordSecret(SecretKey):
    """The Secret with the password."""

    key: SecretEntry = "password"
    """Entry of the Secret. The default is the entry in the Secret of a Strimzi KafkaUser."""


class ClientSecret(ApiModel):
    """The Secret with the client certificate and key for mutual TLS.

    The defaults are the entries in the Secret of a Strimzi KafkaUser.
    """

    name: Name
    """Name of the Secret, in the same namespace."""
    certificate_key: SecretEntry = "user.crt"
    """Entry with the certificate (PEM)."""
    key_key: SecretEntry = "user.key"
    """Entry with the private key (PEM)."""
    password_key: SecretEntry | None = None
    """Entry with the password of the private key. If absent, the key is not encrypted."""


class Tls(ApiModel):
    """TLS settings of the connection to Kafka."""

    RULES: ClassVar = (
        Rule(
            "self.enabled || (!has(self.caSecret) && !has(self.clientSecret))",
            "caSecret and clientSecret require TLS: set enabled to true, or remove them",
            lambda tls: tls.enabled or (tls.ca_secret is None and tls.client_secret is None),
            "enabled",
        ),
    )

    enabled: bool = True
    """Whether to use TLS."""
    ca_secret: CaSecret | None = None
    """The Secret with the CA certificates that verify the brokers. Defaults to the caBundle of the pod template, or
    else to those of the image's operating system."""
    client_secret: ClientSecret | None = None
    """The Secret with the client certificate and key for mutual TLS."""


class ClientCredentialSecret(SecretKey):
    """The Secret with the client secret."""

    key: SecretEntry = "client-secret"
    """Entry of the Secret."""


class TokenSecret(SecretKey):
    """The Secret with the token."""

    key: SecretEntry = "token"
    """Entry of the Secret."""


class OAuth(ApiModel):
    """Where the token of an OAUTHBEARER login comes from: a token endpoint, or a Secret."""

    RULES: ClassVar = (
        Rule(
            "has(self.tokenSecret) != has(self.tokenEndpoint) && has(self.tokenEndpoint) == has(self.clientId) && "
            "has(self.tokenEndpoint) == has(self.clientSecret)",
            "give tokenSecret, or tokenEndpoint with clientId and clientSecret",
            lambda oauth: (
                (oauth.token_secret is None)
                == (oauth.token_endpoint is not None)
                == (oauth.client_id is not None)
                == (oauth.client_secret is not None)
            ),
        ),
        Rule(
            "has(self.tokenEndpoint) || (!has(self.scope) && !has(self.caSecret))",
            "scope and caSecret are for a token endpoint: remove them, or give tokenEndpoint",
            lambda oauth: oauth.token_endpoint is not None or (oauth.scope is None and oauth.ca_secret is None),
        ),
        Rule(
            f"!has(self.tokenEndpoint) || self.tokenEndpoint.matches({cel_string(f'^{_TOKEN_URL}$')})",
            "write the token endpoint as an https:// URL, such as https://login.example.org/realms/kafka/token",
            lambda oauth: oauth.token_endpoint is None or re.fullmatch(_TOKEN_URL, oauth.token_endpoint) is not None,
            "tokenEndpoint",
        ),
        Rule(
            f"!has(self.tokenEndpoint) || !self.tokenEndpoint.matches({cel_string(f'^{_LOCAL_TOKEN_URL}$')})",
            f"{_NO_LOCAL}an endpoint that is reachable from other machines",
            lambda oauth: oauth.token_endpoint is None or re.fullmatch(_LOCAL_TOKEN_URL, oauth.token_endpoint) is None,
            "tokenEndpoint",
        ),
    )

    token_endpoint: Annotated[str, Field(min_length=10, max_length=2048, pattern=_PRINTABLE)] | None = None
    """URL of the token endpoint, which issues tokens for client credentials. It must begin with https://."""
    client_id: Annotated[str, Field(min_length=1, max_length=256, pattern=_PRINTABLE)] | None = None
    """Client ID at the token endpoint."""
    client_secret: ClientCredentialSecret | None = None
    """The Secret with the client secret, in the same namespace."""
    scope: Annotated[str, Field(min_length=1, max_length=1024, pattern=_PRINTABLE)] | None = None
    """Scope to request. If absent, the token endpoint decides."""
    ca_secret: CaSecret | None = None
    """The Secret with the CA certificates that verify the token endpoint. Defaults to the caBundle of the pod template,
    or else to those of the image's operating system."""
    token_secret: TokenSecret | None = None
    """The Secret with a token that another program renews. Pods read it again when it changes."""


class KeytabSecret(SecretKey):
    """The Secret with the keytab."""

    key: SecretEntry = "keytab"
    """Entry of the Secret."""


Kdc = Annotated[str, Field(min_length=1, max_length=263, pattern=_PRINTABLE)]


class Kerberos(ApiModel):
    """A login with Kerberos. The realm is that of the first principal in the keytab."""

    RULES: ClassVar = (
        Rule(
            f"self.kdcs.all(kdc, kdc.matches({cel_string(f'^{_KDC}$')}))",
            "write each KDC as a host or as host:port, such as kdc.example.org; write an IPv4 address as four numbers "
            "and an IPv6 address in brackets",
            lambda kerberos: all(re.fullmatch(_KDC, kdc) for kdc in kerberos.kdcs),
            "kdcs",
        ),
        Rule(
            f"self.kdcs.all(kdc, !kdc.matches({cel_string(f'^{_LOCAL_KDC}$')}))",
            f"{_NO_LOCAL}a KDC that is reachable from other machines",
            lambda kerberos: not any(re.fullmatch(_LOCAL_KDC, kdc) for kdc in kerberos.kdcs),
            "kdcs",
        ),
    )

    keytab_secret: KeytabSecret
    """The Secret with the keytab, in the same namespace. The first principal in the keytab logs in."""
    kdcs: Annotated[tuple[Kdc, ...], Field(min_length=1, max_length=16)]
    """KDCs of the principal's realm, as host or host:port. The default port is 88."""
    principal: Annotated[str, Field(min_length=1, max_length=256, pattern=_PRINTABLE)] | None = None
    """Principal that must be the first one in the keytab. If absent, any may be."""
    service_name: (
        Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$")] | None
    ) = None
    """First part of the brokers' principals. If absent, it is kafka."""


class Sasl(ApiModel):
    """SASL authentication."""

    RULES: ClassVar = (
        Rule(
            "self.mechanism in ['OAUTHBEARER', 'GSSAPI'] || (has(self.username) && has(self.passwordSecret) && "
            "!has(self.oauth) && !has(self.kerberos))",
            "PLAIN and SCRAM require username and passwordSecret, and neither oauth nor kerberos",
            lambda sasl: sasl.mechanism in {"OAUTHBEARER", "GSSAPI"} or sasl.has_only("username", "password_secret"),
        ),
        Rule(
            "self.mechanism != 'OAUTHBEARER' || (has(self.oauth) && !has(self.username) && "
            "!has(self.passwordSecret) && !has(self.kerberos))",
            "OAUTHBEARER requires oauth, and no username, passwordSecret or kerberos",
            lambda sasl: sasl.mechanism != "OAUTHBEARER" or sasl.has_only("oauth"),
        ),
        Rule(
            "self.mechanism != 'GSSAPI' || (has(self.kerberos) && !has(self.username) && "
            "!has(self.passwordSecret) && !has(self.oauth))",
            "GSSAPI requires kerberos, and no username, passwordSecret or oauth",
            lambda sasl: sasl.mechanism != "GSSAPI" or sasl.has_only("kerberos"),
        ),
    )

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] = "SCRAM-SHA-512"
    """SASL mechanism. GSSAPI is Kerberos."""
    username: Annotated[str, Field(min_length=1, max_length=256, pattern=_PRINTABLE)] | None = None
    """User name. Required by PLAIN and SCRAM."""
    password_secret: PasswordSecret | None = None
    """The Secret with the password, in the same namespace. Required by PLAIN and SCRAM."""
    oauth: OAuth | None = None
    """Where the token comes from. Required by OAUTHBEARER."""
    kerberos: Kerberos | None = None
    """The keytab and the KDCs. Required by GSSAPI."""

    def has_only(self, *fields: str) -> bool:
        """Whether exactly these fields of a login are given."""
        given = {
            name for name in ("username", "password_secret", "oauth", "kerberos") if getattr(self, name) is not None
        }
        return given == {*fields}


Access = Literal["Read", "Write"]
"""An operation that a connection may be used for."""
AllowedTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=PATTERN)]
AllowedGroup = Annotated[str, Field(min_length=1, max_length=249, pattern=allowed_groups.PATTERN)]


class KafkaConnectionSpec(ApiModel):
    """Address, authentication and permissions of a Kafka cluster. It names Secrets and contains none."""

    RULES: ClassVar = (
        Rule(
            f"self.bootstrapServers.matches({cel_string(f'^{_SERVERS}$')})",
            "bootstrapServers must be a comma-separated list of host:port, such as kafka-0:9092,kafka-1:9092; write an "
            "IPv4 address as four numbers and an IPv6 address in brackets",
            lambda kafka: _ADDRESSES.fullmatch(kafka.bootstrap_servers) is not None,
            "bootstrapServers",
        ),
        Rule(
            f"!self.bootstrapServers.matches({cel_string(_LOCAL_SERVER)})",
            f"{_NO_LOCAL}broker addresses that are reachable from other machines",
            lambda kafka: _LOCAL.match(kafka.bootstrap_servers) is None,
            "bootstrapServers",
        ),
    )

    bootstrap_servers: Annotated[str, Field(min_length=3, max_length=2048)]
    """The bootstrap servers, as host:port, separated by commas. Loopback, link-local and metadata addresses are
    refused."""
    tls: Tls | None = None
    """Encrypts the connection. If absent, the connection is not encrypted."""
    sasl: Sasl | None = None
    """SASL authentication. If absent, the client certificate is the only authentication."""
    # Lists and not sets: server-side apply would keep what others, or the default, have put into a set.
    allowed_topics: Annotated[tuple[AllowedTopic, ...], Field(min_length=1, max_length=256)]
    """Topics that may be used over this connection, by name or as a prefix that ends with *. "*" allows all topics. If
    a Diode translates a topic, also list its name on the wire: admission policies see that name, the sender sees the
    upstream name."""
    access: Annotated[tuple[Access, ...], Field(min_length=1, max_length=2)] = ("Read",)
    """Allowed operations. Resends, GapScans and Archives read; Restores write; a Mirror reads from its source and
    writes to its target."""
    allowed_mirror_names: Annotated[tuple[MirrorName, ...], Field(max_length=64)] = ()
    """Names that Mirrors which write over this connection may have. Names that begin with the namespace and a dot are
    always allowed: no other namespace has them."""
    allowed_groups: Annotated[tuple[AllowedGroup, ...], Field(max_length=256)] = ()
    """Consumer groups whose offsets Mirrors and Restores may commit over this connection, by name or as a prefix that
    ends with *. "*" allows all groups. Groups that spec.groups.names of a Mirror or spec.groupOffsets.groupName of a
    Restore names are always allowed."""
    pod_template: TemplateName | None = None
    """Name of what is added to the pods of checks, such as labels and tolerations. It must be listed in the chart's
    podTemplates. Defaults to the chart's podTemplate."""

    @property
    def topics(self) -> AllowedTopics:
        """The allowed topics."""
        return AllowedTopics(self.allowed_topics)

    @property
    def groups(self) -> AllowedGroups:
        """The allowed consumer groups, without those that an object names."""
        return AllowedGroups(self.allowed_groups)


class KafkaConnection(Resource):
    """A Kafka cluster that the platform team makes available to the namespace, limited to the listed topics."""

    KIND: ClassVar = "KafkaConnection"
    PLURAL: ClassVar = "kafkaconnections"
    SHORT_NAMES: ClassVar = ("kconn",)
    COLUMNS: ClassVar = (
        Column("Servers", "string", ".spec.bootstrapServers", "The bootstrap servers."),
        Column("Topics", "string", ".spec.allowedTopics", "Allowed topics."),
        Column("Access", "string", ".spec.access", "Allowed operations."),
        Column(
            "Healthy",
            "string",
            '.status.conditions[?(@.type=="Healthy")].status',
            "Whether the last check found no errors.",
        ),
        Column("Errors", "integer", ".status.doctor.errors", "Errors that the last check found.", wide=True),
        Column("Warnings", "integer", ".status.doctor.warnings", "Warnings of the last check.", wide=True),
        Column("Checked", "date", ".status.doctor.checkedAt", "Time of the last check.", wide=True),
        Column("User", "string", ".spec.sasl.username", "SASL user name.", wide=True),
        Column("Mechanism", "string", ".spec.sasl.mechanism", "SASL mechanism.", wide=True),
        Column("CA", "string", ".spec.tls.caSecret.name", "Secret with the CA certificates.", wide=True),
    )

    spec: KafkaConnectionSpec
    """Address, authentication and permissions of the Kafka cluster."""
    status: KafkaConnectionStatus = KafkaConnectionStatus()
    """Result of the last check. A new value of the annotation gapless.dev/doctor starts a check, and so does a changed
    spec while the annotation has a value."""
