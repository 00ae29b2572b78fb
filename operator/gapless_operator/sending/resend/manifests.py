"""The manifests of a Resend's children: settings, session key, bundle, report, and the Jobs that plan and send.

Must not know when they are needed.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.exit_codes import ExitCode
from gapless_operator.common.access import (
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
    SESSION_TOKEN,
    STORE_CA,
    SecretFile,
    config_map_source,
    kafka_arguments,
    kafka_secrets,
    secret_sources,
    store_secrets,
)
from gapless_operator.common.children import child_name, digest, label_value, labels_of, owned_manifest
from gapless_operator.common.observed import DIODE_LABEL
from gapless_operator.sending.diode_children import state_claim_name
from gapless_operator.sending.queries import PLAN, SEND
from gapless_operator.sending.resend.filter_rules import rules_copy
from gapless_operator.sending.resend.limits import limit_arguments
from gapless_operator.sending.resend.properties import (
    ARCHIVE_FOLDER,
    ARCHIVE_PREFIX,
    BUNDLE_FOLDER,
    BUNDLE_NAME,
    CONFIGURATION_FOLDER,
    FETCHED_NAME,
    FILTER_NAME,
    PROPERTIES_NAME,
    RATES_NAME,
    RECEIVER,
    SECRETS_FOLDER,
    SESSION_KEY,
    STATE_FOLDER,
    filter_rules,
    properties,
    rates,
    run_id,
)
from gapless_operator.sending.sender_pods import container, pod_spec, pod_template

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.storage_location import S3Location
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import ResendSources
    from gapless_operator.common.settings import Program

BUNDLE, KEY_ROLE, REPORT = "bundle", "key", "report"
"""Roles of the children other than Jobs."""
RUN_LABEL = "gapless.dev/run"
"""Distinguishes the Jobs of one `force` from those of another."""
KEY_ANNOTATION = "gapless.dev/session-key"
"""Name of the Secret with the session key that a Job's pods use."""
SETTINGS_ANNOTATION = "gapless.dev/settings"
"""Digest of the settings that a Job runs with; when they change, the Job is replaced."""
_MODE = 0o440


class SessionKey(NamedTuple):
    """The one key of all shards, and the Secret that holds it."""

    secret: str
    """Name of the Secret."""
    content: bytes
    """32 random bytes for a Secret that has to be created; empty for an existing one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderAttempt:
    """What the objects of an attempt to plan or to send are made from."""

    resend: Resend
    diode: Diode
    sources: ResendSources
    """The Kafka and the storage that the Resend names."""
    program: Program
    """The sender image."""
    role: str
    """`SEND` or `PLAN`."""
    name: str
    """Of the Job and of its settings."""
    number: int
    key: SessionKey | None
    """For a Diode that encrypts."""


def job_name(resend: Resend, role: str, attempt: int) -> str:
    """Return the name of the Job of an attempt, and of the ConfigMap with its settings."""
    return child_name(resend, f"{role}-{attempt}")


def run_label(resend: Resend) -> str:
    """Return the value of `RUN_LABEL` for the current work."""
    return run_id(resend) or "first"


def settings_digest(resend: Resend, diode: Diode, sources: ResendSources, *, role: str) -> str:
    """Return a digest of the settings of a Job, without the rates, which a running sender reloads.

    Raises:
        ConfigurationError: a properties file cannot hold a setting.
    """
    settings = _settings(resend, diode, sources, role=role)
    if role == PLAN:
        # The checkpoint folder can follow from the result of a plan, which is no reason to plan again.
        lines = settings[PROPERTIES_NAME].splitlines()
        settings[PROPERTIES_NAME] = "\n".join(line for line in lines if not line.startswith("checkpoint="))
    return digest([settings, *_arguments(resend, diode, sources)])


def attempt_manifests(attempt: SenderAttempt) -> tuple[Manifest, ...]:
    """Return all objects of an attempt in the order to apply them; the Job is last.

    Raises:
        ConfigurationError: a properties file cannot hold a setting.
    """
    resend, diode, role = attempt.resend, attempt.diode, attempt.role
    entries = _settings(resend, diode, attempt.sources, role=role)
    if role == SEND:
        entries[RATES_NAME] = rates(resend.spec, diode.spec)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": entries}
    parts = [owned_manifest(resend, settings, name=attempt.name, role=role, attempt=attempt.number)]
    if resend.spec.bundle is not None and resend.spec.bundle.inline is not None:
        bundle = {"apiVersion": "v1", "kind": "ConfigMap", "data": {BUNDLE_NAME: resend.spec.bundle.inline}}
        parts.append(owned_manifest(resend, bundle, name=_bundle_name(resend), role=BUNDLE))
    if (rules := rules_copy(resend)) is not None:
        parts.append(rules)
    parts.append(_job(attempt))
    return tuple(parts)


def report_map(resend: Resend, name: str, report: str) -> Manifest:
    """Return the ConfigMap that keeps the complete report after the pods are deleted."""
    content = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"report.json": report}}
    return owned_manifest(resend, content, name=name, role=REPORT)


def report_name(resend: Resend) -> str:
    """Return the name of that ConfigMap."""
    run = run_id(resend)
    return child_name(resend, f"{REPORT}-{run}" if run else REPORT)


def _arguments(resend: Resend, diode: Diode, sources: ResendSources) -> list[str]:
    """Return the arguments of a sender, which no settings file can override."""
    bounds = [] if sources.archive is None else sources.archive.location.archive_bounds.arguments()
    return [
        *kafka_arguments(sources.kafka),
        *bounds,
        "--refuse-local-brokers=true",
        *limit_arguments(resend, diode.spec),
    ]


def _settings(resend: Resend, diode: Diode, sources: ResendSources, *, role: str) -> dict[str, str]:
    settings = {PROPERTIES_NAME: properties(resend, diode.spec, sources, plan=role == PLAN)}
    rules = filter_rules(resend.spec)
    return settings if rules is None else {**settings, FILTER_NAME: rules}


def _bundle_name(resend: Resend) -> str:
    return child_name(resend, BUNDLE)


def session_key_name(resend: Resend, mark: str) -> str:
    """Return the name of a Secret with a session key; `mark` is random, so that no Secret can be planted there."""
    return child_name(resend, f"{KEY_ROLE}-{mark}")


def needs_key(diode: Diode, role: str) -> bool:
    """Return whether the pods of a `role` encrypt."""
    return diode.spec.encryption is not None and role == SEND


def key_secret(resend: Resend, key: SessionKey) -> Manifest:
    """Return the immutable Secret with the session key."""
    secret = {"apiVersion": "v1", "kind": "Secret", "immutable": True, "type": "Opaque"}
    # The key is added afterwards, so that no digest of it gets into the annotations.
    secret_body = owned_manifest(resend, secret, name=key.secret, role=KEY_ROLE)
    return {**secret_body, "data": {SESSION_KEY: base64.b64encode(key.content).decode("ascii")}}


def _job(attempt: SenderAttempt) -> Manifest:
    resend, diode, role, key = attempt.resend, attempt.diode, attempt.role, attempt.key
    spec = resend.spec
    labels = {DIODE_LABEL: label_value(diode.metadata.name), RUN_LABEL: run_label(resend)}
    template = pod_template(
        diode,
        attempt.program,
        labels={**labels_of(resend, role=role, attempt=attempt.number), **labels},
        spec=_pod(attempt),
    )
    job: dict[str, Any] = {"template": template}
    if role == SEND:
        job |= {
            "completionMode": "Indexed",
            "completions": spec.parallelism,
            "parallelism": spec.parallelism,
            "backoffLimitPerIndex": spec.backoff_limit,
        }
    else:
        job |= {"backoffLimit": spec.backoff_limit}
    job["podFailurePolicy"] = {"rules": _failure_rules(role)}
    if spec.active_deadline_seconds is not None:
        job["activeDeadlineSeconds"] = spec.active_deadline_seconds
    return owned_manifest(
        resend,
        {"apiVersion": "batch/v1", "kind": "Job", "spec": job},
        name=attempt.name,
        role=role,
        attempt=attempt.number,
        labels=labels,
        annotations={
            SETTINGS_ANNOTATION: settings_digest(resend, diode, attempt.sources, role=role),
            **({} if key is None else {KEY_ANNOTATION: key.secret}),
        },
    )


def _failure_rules(role: str) -> list[dict[str, Any]]:
    """Return what Kubernetes does about a failed pod.

    A drained node does not count as a failure. A bad configuration fails the Job, because a retry cannot help. For a
    source that cannot be reached the operator waits itself, so that other Resends can use the link meanwhile. Exit code
    INCOMPLETE means that the shard has finished.
    """
    final, shard_final = [ExitCode.BAD_CONFIGURATION], [ExitCode.SOURCE_UNREACHABLE, ExitCode.INCOMPLETE]
    if role == PLAN:
        final, shard_final = sorted([*final, *shard_final]), []
    rules: list[dict[str, Any]] = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [int(code) for code in final]}},
    ]
    if shard_final:
        codes = {"operator": "In", "values": [int(code) for code in shard_final]}
        rules.append({"action": "FailIndex", "onExitCodes": codes})
    return rules


def _pod(attempt: SenderAttempt) -> dict[str, Any]:
    resend, diode, sources, program = attempt.resend, attempt.diode, attempt.sources, attempt.program
    volumes: list[dict[str, Any]] = [
        {
            "name": "configuration",
            "projected": {"defaultMode": _MODE, "sources": _configuration_sources(attempt)},
        },
        {"name": "state", "persistentVolumeClaim": {"claimName": state_claim_name(diode.metadata.name)}},
    ]
    configuration = {"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True}
    mounts: list[dict[str, Any]] = [configuration, {"name": "state", "mountPath": STATE_FOLDER}]
    location, init_containers = sources.bundle, []
    if location is not None and (volume := location.persistent_volume_claim) is not None:
        volumes.append({"name": "bundle", "persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": True}})
        mounts.append({"name": "bundle", "mountPath": BUNDLE_FOLDER, "readOnly": True})
    elif location is not None and location.s3 is not None:
        volumes.append({"name": "bundle", "emptyDir": {}})
        mounts.append({"name": "bundle", "mountPath": BUNDLE_FOLDER, "readOnly": True})
        init_containers.append(
            container(
                diode.spec,
                program,
                name="fetch-bundle",
                arguments=_fetch_arguments(resend, location.s3),
                mounts=[configuration, {"name": "bundle", "mountPath": BUNDLE_FOLDER}],
            )
        )
    archive_volumes, archive_mounts = _archive_volume(sources)
    volumes += archive_volumes
    mounts += archive_mounts
    arguments = ["resend", f"{CONFIGURATION_FOLDER}/{PROPERTIES_NAME}", *_arguments(resend, diode, sources)]
    sender = container(diode.spec, program, name=attempt.role, arguments=arguments, mounts=mounts)
    return pod_spec(diode.spec, program, containers=[sender], init_containers=init_containers, volumes=volumes)


def _archive_volume(sources: ResendSources) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volume with the archive and its mount; no volume if the pod already has it for the bundle."""
    place = sources.archive
    volume = place.location.persistent_volume_claim if place is not None else None
    if place is None or volume is None:
        return [], []
    bundle = sources.bundle.persistent_volume_claim if sources.bundle is not None else None
    # A pod with two volumes of one claim may never start.
    is_shared = bundle is not None and bundle.claim_name == volume.claim_name
    name = "bundle" if is_shared else "archive"
    mount: dict[str, Any] = {"name": name, "mountPath": ARCHIVE_FOLDER, "readOnly": True}
    mount |= {"subPath": path} if (path := place.volume_path()) else {}
    claim = {"name": name, "persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": True}}
    return [] if is_shared else [claim], [mount]


def _fetch_arguments(resend: Resend, s3: S3Location) -> list[str]:
    bundle = resend.spec.bundle
    if bundle is None or bundle.path is None:
        raise ValueError("this Resend has no bundle to fetch")
    arguments = ["bundle", "fetch", s3.address(bundle.path), f"--output={BUNDLE_FOLDER}/{FETCHED_NAME}"]
    arguments += [f"--s3-endpoint-url={s3.endpoint}", "--refuse-local-endpoint"]
    # The bundle may have been replaced since it was planned; then the sender sends nothing.
    sha256 = resend.status.bundle_sha256 or bundle.sha256
    if sha256 is not None:
        arguments.append(f"--sha256={sha256}")
    if s3.region is not None:
        arguments.append(f"--s3-region={s3.region}")
    if (keys := s3.credentials_secret) is not None:
        arguments += [
            f"--s3-access-key-file={SECRETS_FOLDER}/{ACCESS_KEY_ID}",
            f"--s3-secret-key-file={SECRETS_FOLDER}/{SECRET_ACCESS_KEY}",
        ]
        if keys.session_token_key is not None:
            arguments.append(f"--s3-session-token-file={SECRETS_FOLDER}/{SESSION_TOKEN}")
    if s3.ca_secret is not None:
        arguments.append(f"--s3-ca-file={SECRETS_FOLDER}/{STORE_CA}")
    return arguments


def _configuration_sources(attempt: SenderAttempt) -> list[dict[str, Any]]:
    """Return the sources of the configuration folder: one projected volume, because mounts cannot be nested."""
    resend = attempt.resend
    names = [
        PROPERTIES_NAME,
        *([FILTER_NAME] if resend.spec.input_filter is not None else []),
        *([RATES_NAME] if attempt.role == SEND else []),
    ]
    projected: list[dict[str, Any]] = [config_map_source(attempt.name, {name: name for name in names})]
    bundle = resend.spec.bundle
    if bundle is not None and bundle.inline is not None:
        projected.append(config_map_source(_bundle_name(resend), {BUNDLE_NAME: BUNDLE_NAME}))
    elif bundle is not None and bundle.config_map is not None:
        projected.append(config_map_source(bundle.config_map.name, {bundle.config_map.key: BUNDLE_NAME}))
    return [*projected, *secret_sources(_secret_entries(attempt))]


def _secret_entries(attempt: SenderAttempt) -> list[SecretFile]:
    """Return the entries of Secrets that a pod needs."""
    diode, sources, key = attempt.diode, attempt.sources, attempt.key
    files = kafka_secrets(sources.kafka)
    if diode.spec.encryption is not None:
        certificate = diode.spec.encryption.certificate_secret
        files.append((certificate.name, RECEIVER, certificate.key))
    if key is not None:
        files.append((key.secret, SESSION_KEY, SESSION_KEY))
    if sources.bundle is not None and sources.bundle.s3 is not None:
        files += store_secrets(sources.bundle.s3)
    if sources.archive is not None and (s3 := sources.archive.location.s3) is not None:
        files += store_secrets(s3, prefix=ARCHIVE_PREFIX)
    return files
