"""The Job that checks a KafkaConnection with ``gapless doctor``; must not know when a check is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.access import config_map_source, kafka_arguments, kafka_secrets, kafka_settings
from gapless_operator.common.children import digest, labels_of, owned_manifest
from gapless_operator.engines.engine import attempt_annotations
from gapless_operator.engines.pod import CONFIGURATION_FOLDER, SECRETS_FOLDER, Content, container, pod
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.lifecycle.tracks import SETTINGS_ROLE

if TYPE_CHECKING:
    from gapless_api.v1alpha1.kafka_connection import KafkaConnection
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program

DOCTOR_ROLE = "doctor"
SETTINGS_FILE = "doctor.properties"
_MEMORY = "256Mi"


def settings_map(connection: KafkaConnection, attempt: str) -> Manifest:
    """Return the ConfigMap with the settings of a check. It contains no secrets."""
    lines = kafka_settings(connection.spec, SECRETS_FOLDER)
    return owned_manifest(
        connection,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {SETTINGS_FILE: "".join(f"{name}={value}\n" for name, value in lines.items())},
        },
        name=settings_name(attempt),
        role=SETTINGS_ROLE,
    )


def doctor_job(
    connection: KafkaConnection, attempt: str, request: str, program: Program, *, deadline_seconds: int
) -> Manifest:
    """Return the Job of a check, without retries."""
    source = config_map_source(settings_name(attempt), {SETTINGS_FILE: SETTINGS_FILE})
    content = Content(sources=(source,), secrets=tuple(kafka_secrets(connection.spec)))
    runner = container(content, name=DOCTOR_ROLE) | {
        "image": program.image,
        "imagePullPolicy": program.pull_policy,
        "command": ["gapless"],
        "args": [
            "doctor",
            f"{CONFIGURATION_FOLDER}/{SETTINGS_FILE}",
            "--report-line",
            *kafka_arguments(connection.spec),
        ],
        "resources": {"requests": {"cpu": "100m", "memory": _MEMORY}, "limits": {"memory": _MEMORY}},
    }
    template: dict[str, Any] = {
        **pod(content, [runner]),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
    }
    if program.service_account:
        template["serviceAccountName"] = program.service_account  # for its image pull secrets; no token is mounted
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": deadline_seconds,
        "template": program.pod_templates.applied_to(
            connection.metadata.namespace, labels_of(connection, role=DOCTOR_ROLE), template
        ),
    }
    return owned_manifest(
        connection,
        {"apiVersion": "batch/v1", "kind": "Job", "spec": spec},
        name=attempt,
        role=DOCTOR_ROLE,
        annotations=attempt_annotations(connection.metadata.generation, digest(request)),
    )
