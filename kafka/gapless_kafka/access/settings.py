"""The settings by which a command connects to Kafka; must not know how a client is built from them.

Separate from the model in `connection`, because ``--help`` needs these names and nothing that is slow to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapless_api.base.quantities import Choice, boolean, seconds
from gapless_api.base.settings import Setting

KAFKA_GROUP = "Kafka"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "bootstrapServers",
        "Bootstrap servers of Kafka, as host:port separated by commas.",
        metavar="HOST:PORT,…",
        required=True,
        group=KAFKA_GROUP,
        peer=True,
    ),
    Setting(
        "groupID",
        "Consumer group ID of this reader; offsets are never committed.",
        default="",
        group=KAFKA_GROUP,
        peer=True,
    ),
    Setting(
        "caFile",
        "CA certificates (PEM) that verify the brokers; enables TLS.",
        parse=Path,
        group=KAFKA_GROUP,
        peer=True,
    ),
    Setting("certFile", "Client certificate (PEM) for mutual TLS.", parse=Path, peer=True, group=KAFKA_GROUP),
    Setting("keyFile", "Private key (PEM) of certFile, encrypted or not.", parse=Path, peer=True, group=KAFKA_GROUP),
    Setting("keyPasswordFile", "File with the password of keyFile.", parse=Path, peer=True, group=KAFKA_GROUP),
    Setting(
        "tls",
        "Whether to use TLS; without caFile the brokers are verified with the CA certificates of the system, or of "
        "SSL_CERT_FILE.",
        parse=boolean,
        shown_default="true when a CA file or certificate is given",
        group=KAFKA_GROUP,
    ),
    Setting(
        "saslMechanism",
        "SASL mechanism: PLAIN or SCRAM for a user name and password, OAUTHBEARER for a token, GSSAPI for Kerberos.",
        parse=Choice(MECHANISMS),
        group=KAFKA_GROUP,
    ),
    Setting("saslUsername", "SASL user name.", group=KAFKA_GROUP),
    Setting(
        "saslPasswordFile",
        "File with the SASL password.",
        parse=Path,
        group=KAFKA_GROUP,
    ),
    Setting(
        "oauthTokenEndpoint",
        "For OAUTHBEARER: URL of the token endpoint, from which tokens are requested with client credentials.",
        metavar="URL",
        group=KAFKA_GROUP,
    ),
    Setting("oauthClientId", "Client ID at the token endpoint.", group=KAFKA_GROUP),
    Setting("oauthClientSecretFile", "File with the client secret.", parse=Path, group=KAFKA_GROUP),
    Setting("oauthScope", "Scope to request from the token endpoint.", group=KAFKA_GROUP),
    Setting(
        "oauthCaFile",
        "CA certificates (PEM) that verify the token endpoint.",
        parse=Path,
        shown_default="those of the system",
        group=KAFKA_GROUP,
    ),
    Setting(
        "oauthTokenFile",
        "For OAUTHBEARER without a token endpoint: file with a token. It is read again before the token expires, and "
        "at least every 16 seconds.",
        parse=Path,
        group=KAFKA_GROUP,
    ),
    Setting(
        "oauthMskRegion",
        "For OAUTHBEARER at Amazon MSK with IAM: region of the cluster. Tokens are signed with the AWS credentials of "
        "this process (extra msk).",
        group=KAFKA_GROUP,
    ),
    Setting(
        "oauthMskProfile",
        "Profile of the AWS credentials for oauthMskRegion.",
        shown_default="AWS's usual order of places",
        group=KAFKA_GROUP,
    ),
    Setting(
        "kerberosKeytabFile",
        "For GSSAPI: keytab of the principal that logs in.",
        parse=Path,
        shown_default="the ticket in the user's cache",
        group=KAFKA_GROUP,
    ),
    Setting(
        "kerberosPrincipal",
        "For GSSAPI: principal that must be the first one of the keytab.",
        group=KAFKA_GROUP,
    ),
    Setting(
        "kerberosServiceName",
        "For GSSAPI: the first part of the brokers' principals.",
        shown_default="kafka",
        group=KAFKA_GROUP,
    ),
    Setting(
        "kerberosKdcs",
        "For GSSAPI: KDCs of the principal's realm, as host or host:port separated by commas.",
        metavar="HOST[:PORT],…",
        shown_default="those of krb5.conf",
        group=KAFKA_GROUP,
    ),
)
"""Settings of the peer under its names, and our own for what its programs lack."""
CONNECTION = Setting(
    "connection",
    "Connection of gapless.toml whose settings apply where no others are given.",
    metavar="NAME",
    group=KAFKA_GROUP,
    stands_for={setting.name: setting.name for setting in _SETTINGS},
)
KAFKA_SETTINGS = (*_SETTINGS, CONNECTION)

CONNECT_TIMEOUT = Setting(
    "connectTimeout",
    "Seconds to wait for the first response from Kafka.",
    parse=seconds(0.1, 3600),
    default=10.0,
    metavar="SECONDS",
    group=KAFKA_GROUP,
)
"""For commands that read."""


def settings_of_cluster(cluster: str, *, required: bool, group: str) -> tuple[Setting, ...]:
    """`KAFKA_SETTINGS` for a command that connects to several clusters.

    Args:
        cluster: the prefix of each name, such as ``target`` in ``targetCaFile``.
        required: whether the command needs the cluster.
        group: the heading in ``--help``.
    """
    return tuple(
        replace(
            setting,
            name=_of_cluster(cluster, setting.name),
            help=setting.help.replace(" certFile", f" {_of_cluster(cluster, 'certFile')}")
            .replace(" keyFile", f" {_of_cluster(cluster, 'keyFile')}")
            .replace(" caFile", f" {_of_cluster(cluster, 'caFile')}"),
            required=required and setting.required,
            aliases=(),
            environment="",
            peer=False,
            group=group,
            stands_for={name: _of_cluster(cluster, name) for name in setting.stands_for},
        )
        for setting in KAFKA_SETTINGS
    )


def values_of_cluster(cluster: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `settings_of_cluster` by the names of `KAFKA_SETTINGS`, for `connection_from`."""
    return {setting.name: values[_of_cluster(cluster, setting.name)] for setting in KAFKA_SETTINGS}


def _of_cluster(cluster: str, name: str) -> str:
    return f"{cluster}{name[0].upper()}{name[1:]}"
