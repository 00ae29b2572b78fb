"""The rules for properties of TLS and logins in files of Kafka's clients: mapped, ignored, or refused. Pure.

The names are those of the clients for Java and Amazon MSK, and the few of librdkafka by which files are named.
"""

from __future__ import annotations

from collections.abc import Mapping

from gapless_mirror.settings.client_properties import NO_CLASS, TIMES, Mapped, Refused, Rule, no_meaning

_LOGINS = "log in with PLAIN, SCRAM, OAUTHBEARER with client credentials or at Amazon MSK, Kerberos, or a certificate"
_TLS_CLIENT = "the TLS library of this program decides"
AWS_MSK_IAM = "AWS_MSK_IAM"
"""The name that Amazon's client for Java gives OAUTHBEARER with signed tokens."""


def mechanism(text: str) -> str:
    """Return the SASL mechanism of a value of ``sasl.mechanism``."""
    return "OAUTHBEARER" if text == AWS_MSK_IAM else text


SECURITY: Mapping[str, Rule] = {
    "security.protocol": Mapped("{side}Tls"),
    "ssl.truststore.location": Mapped("{side}CaFile"),
    "ssl.ca.location": Mapped("{side}CaFile"),
    "ssl.certificate.location": Mapped("{side}CertFile"),
    "ssl.key.location": Mapped("{side}KeyFile"),
    "ssl.keystore.location": Mapped("{side}CertFile"),
    **dict.fromkeys(("sasl.mechanism", "sasl.mechanisms"), Mapped("{side}SaslMechanism", mechanism)),
    "sasl.username": Mapped("{side}SaslUsername"),
    **no_meaning(
        "ssl.truststore.type ssl.keystore.type", "says whether the store is a PEM file, which is what can be read"
    ),
    **no_meaning("ssl.truststore.password", "a PEM file of certificates has no password"),
    "ssl.endpoint.identification.algorithm": Refused(
        frozenset({"", "none"}),
        "would accept any broker with a valid certificate; delete the line, and give the brokers certificates for "
        "their host names",
        "the names in the brokers' certificates are always verified",
    ),
    **no_meaning(
        "ssl.protocol ssl.enabled.protocols ssl.provider ssl.cipher.suites ssl.keymanager.algorithm "
        "ssl.trustmanager.algorithm ssl.secure.random.implementation",
        _TLS_CLIENT,
    ),
    "ssl.engine.factory.class": Refused(frozenset(), f"{NO_CLASS}; {_LOGINS}", "no class is given"),
    "sasl.client.callback.handler.class": Refused(
        frozenset(),
        f"{NO_CLASS}; {_LOGINS}",
        "the login at Amazon MSK signs its tokens in this way",
        accepted="IAMClientCallbackHandler",
    ),
    "sasl.login.callback.handler.class": Refused(
        frozenset(),
        f"{NO_CLASS}; {_LOGINS}",
        "OAUTHBEARER requests its tokens in this way",
        accepted="OAuthBearerLoginCallbackHandler",
    ),
    **no_meaning("sasl.login.*", TIMES),
    "sasl.oauthbearer.token.endpoint.url": Mapped("{side}OauthTokenEndpoint"),
    **dict.fromkeys(
        ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"), Mapped("{side}OauthClientId")
    ),
    "sasl.oauthbearer.scope": Mapped("{side}OauthScope"),
    "https.ca.location": Mapped("{side}OauthCaFile"),
    "sasl.oauthbearer.method": Refused(
        frozenset({"default"}),
        "needs a callback in the program's own code; give a token endpoint, or the file of a token with oauthTokenFile",
        "OAUTHBEARER requests its tokens in this way",
    ),
    "sasl.oauthbearer.jwt.retriever.class": Refused(
        frozenset(),
        f"{NO_CLASS}; give a token endpoint, or the file of a token with oauthTokenFile",
        "OAUTHBEARER requests its tokens in this way",
        accepted="ClientCredentialsJwtRetriever",
    ),
    **no_meaning(
        "sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.jwks.* sasl.oauthbearer.expected.* "
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name",
        "the brokers verify the tokens",
    ),
    "sasl.kerberos.service.name": Mapped("{side}KerberosServiceName"),
    **no_meaning(
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.*",
        "the Kerberos library renews the ticket by itself",
    ),
    "sasl.kerberos.keytab": Mapped("{side}KerberosKeytabFile"),
    "sasl.kerberos.principal": Mapped("{side}KerberosPrincipal"),
    "sasl.oauthbearer.*": Refused(frozenset(), f"belongs to a login that this program lacks; {_LOGINS}", "it is empty"),
}
"""Properties of TLS and logins, except secrets."""

SECRETS: Mapping[str, str] = {
    "sasl.password": "{side}SaslPasswordFile",
    "sasl.jaas.config": "{side}SaslPasswordFile",
    "sasl.oauthbearer.client.credentials.client.secret": "{side}OauthClientSecretFile",
    "sasl.oauthbearer.client.secret": "{side}OauthClientSecretFile",
    "ssl.key.password": "{side}KeyPasswordFile",
    "ssl.keystore.password": "{side}KeyPasswordFile",
    "ssl.keystore.key": "{side}KeyFile",
    "ssl.keystore.certificate.chain": "{side}CertFile",
    "ssl.truststore.certificates": "{side}CaFile",
}
"""Properties with a secret or the content of a file, and the setting that names a file instead."""
