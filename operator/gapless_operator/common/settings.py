"""Owns what an installation tells the operator: namespaces, images, accounts, ports; must not know who uses which."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG_LEVELS = ("debug", "info", "warning", "error")
_AUTHENTICATIONS = ("kubernetes", "none")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ALLOWED = {
    "allow-scan-image": "image, other than --spark-image,",
    "allow-scan-service-account": "service account, other than --spark-service-account,",
    "allow-signing-key-secret": "Secret with a key to sign bundles",
}
"""Options for what GapScans may name, and nouns for their help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the pods of one of our programs are made of, unless a resource says otherwise."""

    image: str
    service_account: str = ""
    """Empty for the namespace's default."""
    pull_policy: str = "IfNotPresent"
    allowed_images: frozenset[str] = frozenset()
    """Images that a resource may name instead."""
    allowed_service_accounts: frozenset[str] = frozenset()
    """Service accounts that a resource may name instead."""
    signing_key_secrets: frozenset[str] = frozenset()
    """Secrets that a resource may name to sign with."""
    priority_class: str = ""
    """Below that of the live stream; empty for the namespace's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What the installation says."""

    namespaces: tuple[str, ...] = ()
    """The namespaces to serve; none for all of the cluster."""
    jobs_only_namespaces: frozenset[str] = frozenset()
    """Where no SparkApplications may be created, because drivers start pods there with rights of their own."""
    spark: Program = field(default_factory=lambda: Program(image="gapless/spark"))
    """Runs scans, archives and restores, and mirrors of engine Spark."""
    sender: Program = field(default_factory=lambda: Program(image="gapless/sender"))
    """Runs resends and preflights."""
    workers: Program = field(default_factory=lambda: Program(image="gapless/sender"))
    """Runs the workers of mirrors and the checks of KafkaConnections: in the image of the senders, which has Kafka's
    client and nothing of Spark."""
    instance: str = "gapless-operator"
    """Name of this process in events."""
    own_namespace: str = ""
    """The namespace of this process; empty outside of a cluster."""
    log_level: str = "info"
    metrics_port: int = 8080
    metrics_authentication: bool = True
    """Whether metrics are served by HTTPS, to accounts that Kubernetes lets get /metrics; else to everybody by HTTP."""
    metrics_certificate: Path | None = None
    """Folder with tls.crt and tls.key for the metrics port; ``None`` to make a certificate at the start."""
    health_port: int = 8081
    resync_seconds: float = 10.0
    """How often every resource is reconciled, whatever has happened."""
    relist_seconds: float = 60.0
    """How often the cluster is listed again, for what the watches missed."""
    canary_seconds: float = 60.0
    """How often an object of our own is changed, which the watches must bring back."""
    stale_seconds: float = 200.0
    """After how long without that the liveness probe fails: three canaries, and a little."""


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> OperatorSettings:
    """Read the command line; a wrong one ends the process with a usage message and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="gapless-operator",
        description="Finds and closes gaps: reconciles the kinds of gapless.dev/v1alpha1.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME,…",
        help="namespaces to serve, separated by commas or by repeating the option (default: all)",
    )
    parser.add_argument(
        "--jobs-only-namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="namespace in which work on Spark runs as Jobs, also where there is a Spark operator (default: none)",
    )
    parser.add_argument(
        "--spark-image", default="gapless/spark", metavar="IMAGE", help="image that runs what is on Spark"
    )
    parser.add_argument(
        "--spark-service-account", default="", metavar="NAME", help="account of Spark drivers (default: default)"
    )
    for what, noun in _ALLOWED.items():
        parser.add_argument(
            f"--{what}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{noun} that a GapScan may name; repeat the option for several (default: none)",
        )
    parser.add_argument(
        "--sender-image",
        default="gapless/sender",
        metavar="IMAGE",
        help="image that runs resends, workers of mirrors and checks",
    )
    parser.add_argument(
        "--sender-service-account", default="", metavar="NAME", help="account of sender pods (default: default)"
    )
    parser.add_argument(
        "--sender-priority-class",
        default="",
        metavar="NAME",
        help="PriorityClass of sender pods (default: the cluster's)",
    )
    parser.add_argument("--image-pull-policy", default="IfNotPresent", choices=_PULL_POLICIES)
    parser.add_argument("--log-level", default="info", choices=_LOG_LEVELS, type=str.lower)
    parser.add_argument("--metrics-port", default=8080, type=int, metavar="PORT", help="0 for none")
    parser.add_argument(
        "--metrics-authentication",
        default="kubernetes",
        choices=_AUTHENTICATIONS,
        help="who may read the metrics: kubernetes (by HTTPS, accounts that may get /metrics; the default) or none "
        "(by HTTP, everybody who reaches the port)",
    )
    parser.add_argument(
        "--metrics-certificate",
        metavar="FOLDER",
        type=Path,
        help="folder with tls.crt and tls.key for the metrics port (default: a certificate made at the start)",
    )
    parser.add_argument("--health-port", default=8081, type=int, metavar="PORT", help="0 for none")
    parser.add_argument(
        "--resync-seconds", default=10.0, type=float, metavar="SECONDS", help="how often all resources are reconciled"
    )
    parser.add_argument(
        "--relist-seconds", default=60.0, type=float, metavar="SECONDS", help="how often the cluster is listed again"
    )
    parser.add_argument(
        "--canary-seconds", default=60.0, type=float, metavar="SECONDS", help="how often the watches are tested"
    )
    parser.add_argument(
        "--stale-seconds",
        default=200.0,
        type=float,
        metavar="SECONDS",
        help="after how long without a watch event the liveness probe fails",
    )
    given = parser.parse_args(arguments)
    named = (name.strip() for text in given.namespace for name in text.split(","))
    return OperatorSettings(
        namespaces=tuple(dict.fromkeys(name for name in named if name)),
        jobs_only_namespaces=frozenset(given.jobs_only_namespace),
        spark=Program(
            image=given.spark_image,
            service_account=given.spark_service_account,
            pull_policy=given.image_pull_policy,
            allowed_images=frozenset(given.allow_scan_image),
            allowed_service_accounts=frozenset(given.allow_scan_service_account),
            signing_key_secrets=frozenset(given.allow_signing_key_secret),
        ),
        sender=Program(
            image=given.sender_image,
            service_account=given.sender_service_account,
            pull_policy=given.image_pull_policy,
            priority_class=given.sender_priority_class,
        ),
        # Their account is there for its image pull secrets, in every namespace with work on Spark; no token is mounted.
        workers=Program(
            image=given.sender_image,
            service_account=given.spark_service_account,
            pull_policy=given.image_pull_policy,
        ),
        instance=environment.get("POD_NAME") or environment.get("HOSTNAME") or "gapless-operator",
        own_namespace=environment.get("POD_NAMESPACE", ""),
        log_level=given.log_level,
        metrics_port=given.metrics_port,
        metrics_authentication=given.metrics_authentication == "kubernetes",
        metrics_certificate=given.metrics_certificate,
        health_port=given.health_port,
        resync_seconds=given.resync_seconds,
        relist_seconds=given.relist_seconds,
        canary_seconds=given.canary_seconds,
        stale_seconds=given.stale_seconds,
    )
