"""The settings of the operator: namespaces, images, service accounts, ports; must not know their users."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.common import Memory
from gapless_operator.common.pod_template import (
    PodTemplate,
    PodTemplates,
    read_named_templates,
    read_pod_template,
    read_sender_template,
)

_LOG_LEVELS = ("debug", "info", "warning", "error")
_USER_IDS = ("fixed", "assigned")
_AUTHENTICATIONS = ("kubernetes", "none")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ALLOWED = {
    "allow-scan-image": "image, other than --spark-image,",
    "allow-scan-service-account": "service account, other than --spark-service-account,",
    "allow-signing-key-secret": "Secret with a key to sign bundles",
}
"""Options that allow values in a GapScan, with the nouns of their help texts."""
_OF_A_POD = "a driver, executor or mirror worker that an object may request"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """The most that a GapScan, Archive, Restore or Mirror may request; the default is the most that a CRD accepts."""

    cores: int = 128
    """Of one pod."""
    memory: str = "999999Gi"
    """Of one pod, as in a spec: the Java heap of a driver or executor, or the memory of a worker."""
    pods: int = 1000
    """Executors or workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Settings of the pods of a program; a resource may override some."""

    image: str
    service_account: str = ""
    """Empty for the default account of the namespace."""
    pull_policy: str = "IfNotPresent"
    allowed_images: frozenset[str] = frozenset()
    """Images that a resource may use instead."""
    allowed_service_accounts: frozenset[str] = frozenset()
    """Service accounts that a resource may use instead."""
    signing_key_secrets: frozenset[str] = frozenset()
    """Secrets with signing keys that a resource may use."""
    pod_limits: PodLimits = PodLimits()
    pod_templates: PodTemplates = field(default_factory=PodTemplates)
    """What is added to the pods."""
    priority_class: str = ""
    """It should be lower than that of the live stream; empty for the default of the cluster."""

    def with_template(self, name: str | None) -> Program:
        """Return the settings of the pods of a resource that names this template; ``None`` if it names none.

        Raises:
            KeyError: there is no such template.
        """
        return self if name is None else replace(self, pod_templates=self.pod_templates.choose(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of the operator."""

    namespaces: tuple[str, ...] = ()
    """The namespaces to watch; empty for all."""
    jobs_only_namespaces: frozenset[str] = frozenset()
    """Namespaces in which SparkApplications must not be created, because drivers there would create pods with their own
    permissions."""
    spark: Program = field(default_factory=lambda: Program(image="gapless/spark"))
    """For scans, archives, restores, and mirrors with engine Spark."""
    sender: Program = field(default_factory=lambda: Program(image="gapless/sender"))
    """For resends and preflight checks."""
    workers: Program = field(default_factory=lambda: Program(image="gapless/sender"))
    """For mirror workers and checks of KafkaConnections. They use the sender image, which contains the Kafka client but
    not Spark."""
    suspend_all: bool = False
    """Whether nothing may run in any namespace, as if each had the annotation gapless.dev/suspend."""
    instance: str = "gapless-operator"
    """Name of this process in events."""
    release: str = ""
    """The release that this process belongs to, unique in the cluster: of several of its operators, one serves."""
    own_namespace: str = ""
    """The namespace of this process; empty outside of a cluster."""
    log_level: str = "info"
    metrics_port: int = 8080
    metrics_authentication: bool = True
    """Whether metrics are served by HTTPS to accounts that are authorized to get /metrics; otherwise by HTTP without
    authentication."""
    metrics_certificate: Path | None = None
    """Folder with tls.crt and tls.key for the metrics port; ``None`` to generate a certificate at startup."""
    health_port: int = 8081
    resync_seconds: float = 10.0
    """Interval at which every resource is reconciled without an event."""
    relist_seconds: float = 60.0
    """Interval at which all objects are listed again, in case a watch missed an event."""
    canary_seconds: float = 60.0
    """Interval at which a canary object is changed, to test the watches."""
    stale_seconds: float = 200.0
    """Time without a watch event after which the liveness probe fails: slightly more than three canary intervals."""


def _memory(text: str) -> str:
    """Return an amount of memory. Raises ArgumentTypeError."""
    try:
        return TypeAdapter(Memory).validate_python(text)
    except ValidationError:
        raise argparse.ArgumentTypeError("give an amount such as 512Mi or 64Gi") from None


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> OperatorSettings:
    """Parse the command line; an invalid one ends the process with a usage message and exit code 2."""
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
        help="namespaces to watch; separate them by commas or repeat the option (default: all)",
    )
    parser.add_argument(
        "--jobs-only-namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="namespace in which Spark runs as Jobs even if the Spark operator is installed (default: none)",
    )
    parser.add_argument("--spark-image", default="gapless/spark", metavar="IMAGE", help="image of pods with Spark")
    parser.add_argument(
        "--spark-service-account",
        default="",
        metavar="NAME",
        help="service account of Spark drivers (default: default)",
    )
    for option, noun in _ALLOWED.items():
        parser.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{noun} that a GapScan may use; repeat the option for several (default: none)",
        )
    parser.add_argument("--max-pod-cores", default=128, type=int, metavar="N", help=f"cores of {_OF_A_POD}")
    parser.add_argument(
        "--max-pod-memory", default="999999Gi", type=_memory, metavar="MEMORY", help=f"memory of {_OF_A_POD}"
    )
    parser.add_argument(
        "--max-pods", default=1000, type=int, metavar="N", help="executors or workers that an object may request"
    )
    parser.add_argument(
        "--pod-template",
        metavar="FILE",
        type=Path,
        help="JSON file with what is added to all pods of scans, archives, restores, mirrors and checks, outside of "
        "jobs-only namespaces: labels, annotations, env, caBundle, nodeSelector, affinity, tolerations, and others "
        "(default: nothing)",
    )
    parser.add_argument(
        "--sender-pod-template",
        metavar="FILE",
        type=Path,
        help="JSON file with what is added to all pods of senders, and to all pods in jobs-only namespaces: labels, "
        "annotations, env, caBundle, priorityClassName, hostAliases, dnsConfig and imagePullSecrets (default: nothing)",
    )
    parser.add_argument(
        "--pod-templates",
        metavar="FILE",
        type=Path,
        help="JSON file with such additions by name: the pods of an object that names one in spec.podTemplate have it, "
        "and what --pod-template or --sender-pod-template adds besides (default: none)",
    )
    parser.add_argument(
        "--user-ids",
        default="fixed",
        choices=_USER_IDS,
        help="user and group IDs of the pods of scans, archives, restores, mirrors and checks: fixed (65532, the "
        "default), or assigned by the cluster, as OpenShift requires",
    )
    parser.add_argument(
        "--sender-image",
        default="gapless/sender",
        metavar="IMAGE",
        help="image of senders, mirror workers and checks",
    )
    parser.add_argument(
        "--sender-service-account", default="", metavar="NAME", help="service account of sender pods (default: default)"
    )
    parser.add_argument(
        "--sender-priority-class",
        default="",
        metavar="NAME",
        help="PriorityClass of sender pods (default: the cluster's)",
    )
    parser.add_argument(
        "--suspend-all",
        action="store_true",
        help="stop everything in all namespaces, and start nothing; for one namespace: kubectl annotate namespace NAME "
        "gapless.dev/suspend=true",
    )
    parser.add_argument(
        "--release",
        default="",
        metavar="NAMESPACE/NAME",
        help="the release of this operator: while another operator of the same release serves a namespace, this one is "
        "ready, and takes over when that one ends (default: none, and this one is not ready)",
    )
    parser.add_argument("--image-pull-policy", default="IfNotPresent", choices=_PULL_POLICIES)
    parser.add_argument("--log-level", default="info", choices=_LOG_LEVELS, type=str.lower)
    parser.add_argument("--metrics-port", default=8080, type=int, metavar="PORT", help="0 disables metrics")
    parser.add_argument(
        "--metrics-authentication",
        default="kubernetes",
        choices=_AUTHENTICATIONS,
        help="authentication for metrics: kubernetes (HTTPS; accounts that are authorized to get /metrics; the "
        "default) or none (HTTP without authentication)",
    )
    parser.add_argument(
        "--metrics-certificate",
        metavar="FOLDER",
        type=Path,
        help="folder with tls.crt and tls.key for the metrics port (default: generate a certificate at startup)",
    )
    parser.add_argument("--health-port", default=8081, type=int, metavar="PORT", help="0 disables the probes")
    parser.add_argument(
        "--resync-seconds", default=10.0, type=float, metavar="SECONDS", help="interval of reconciling all resources"
    )
    parser.add_argument(
        "--relist-seconds", default=60.0, type=float, metavar="SECONDS", help="interval of listing all objects again"
    )
    parser.add_argument(
        "--canary-seconds", default=60.0, type=float, metavar="SECONDS", help="interval of testing the watches"
    )
    parser.add_argument(
        "--stale-seconds",
        default=200.0,
        type=float,
        metavar="SECONDS",
        help="time without a watch event after which the liveness probe fails",
    )
    options = parser.parse_args(arguments)
    namespaces = (name.strip() for text in options.namespace for name in text.split(","))
    try:
        templates = _read_templates(options)
    except ConfigurationError as error:
        parser.error(str(error))
    pod_limits = PodLimits(cores=options.max_pod_cores, memory=options.max_pod_memory, pods=options.max_pods)
    return OperatorSettings(
        namespaces=tuple(dict.fromkeys(name for name in namespaces if name)),
        jobs_only_namespaces=frozenset(options.jobs_only_namespace),
        spark=Program(
            image=options.spark_image,
            service_account=options.spark_service_account,
            pull_policy=options.image_pull_policy,
            allowed_images=frozenset(options.allow_scan_image),
            allowed_service_accounts=frozenset(options.allow_scan_service_account),
            signing_key_secrets=frozenset(options.allow_signing_key_secret),
            pod_limits=pod_limits,
            pod_templates=templates,
        ),
        sender=Program(
            image=options.sender_image,
            service_account=options.sender_service_account,
            pull_policy=options.image_pull_policy,
            priority_class=options.sender_priority_class,
            # Their IDs are fixed: the files of a Diode's volume belong to one user.
            pod_templates=replace(templates, sender_namespaces=None, has_assigned_ids=False),
        ),
        # The account is only for its image pull secrets; no token is mounted.
        workers=Program(
            image=options.sender_image,
            service_account=options.spark_service_account,
            pull_policy=options.image_pull_policy,
            pod_limits=pod_limits,
            pod_templates=templates,
        ),
        suspend_all=options.suspend_all,
        instance=environment.get("POD_NAME") or environment.get("HOSTNAME") or "gapless-operator",
        release=options.release,
        own_namespace=environment.get("POD_NAMESPACE", ""),
        log_level=options.log_level,
        metrics_port=options.metrics_port,
        metrics_authentication=options.metrics_authentication == "kubernetes",
        metrics_certificate=options.metrics_certificate,
        health_port=options.health_port,
        resync_seconds=options.resync_seconds,
        relist_seconds=options.relist_seconds,
        canary_seconds=options.canary_seconds,
        stale_seconds=options.stale_seconds,
    )


def _read_templates(options: argparse.Namespace) -> PodTemplates:
    """Read what is added to pods; raises ConfigurationError."""
    of_all, of_senders, named = options.pod_template, options.sender_pod_template, options.pod_templates
    return PodTemplates(
        default=PodTemplate() if of_all is None else read_pod_template(of_all),
        senders=PodTemplate() if of_senders is None else read_sender_template(of_senders),
        sender_namespaces=frozenset(options.jobs_only_namespace),
        named={} if named is None else read_named_templates(named),
        has_assigned_ids=options.user_ids == "assigned",
    )
