"""The check of `helm test`: the CRDs are installed, and the operator has its permissions and is healthy.

Must not know what the operator does. It uses only the standard library.
"""

import json
import os
import ssl
import sys
import time
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("GAPLESS_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
API = os.environ.get("GAPLESS_API", "https://kubernetes.default.svc")
HEALTH = os.environ["GAPLESS_HEALTH"]
DEADLINE_SECONDS = float(os.environ.get("GAPLESS_DEADLINE_SECONDS", "60"))
KINDS = {"Archive", "Diode", "GapScan", "KafkaConnection", "Mirror", "Resend", "Restore", "StorageLocation"}
SERVED = json.loads(os.environ.get("GAPLESS_SERVED", "{}"))
"""By namespace: the plural names of the kinds that the operator reconciles there."""


def request_json(path: str, body: object = None) -> dict:
    """Send a request to the API server with the service account of this pod, and return the response."""
    request = urllib.request.Request(f"{API}{path}", None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text()}")
    request.add_header("Content-Type", "application/json")
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt") if API.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=5, context=context) as response:
        return json.load(response)


def required_permissions() -> list[tuple[str, str, str, str]]:
    """Return namespace, verb, API group and resource of the most important permissions of the operator."""
    permissions = []
    for namespace, kinds in SERVED.items():
        permissions.append((namespace, "create", "batch", "jobs"))
        for kind in kinds:
            permissions.append((namespace, "watch", "gapless.dev", kind))
            permissions.append((namespace, "patch", "gapless.dev", f"{kind}/status"))
    return permissions


def is_allowed(namespace: str, verb: str, group: str, resource: str) -> bool:
    """Return whether the service account of this pod, which is the operator's, has a permission."""
    name, _, subresource = resource.partition("/")
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": name,
        "subresource": subresource,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return request_json("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"]


def problem() -> str | None:
    """Return a message about the first problem; ``None`` if there is none."""
    try:
        missing = KINDS - {resource["kind"] for resource in request_json("/apis/gapless.dev/v1alpha1")["resources"]}
    except OSError as error:
        return f"The API server does not serve gapless.dev/v1alpha1 ({error}); install the CRDs (crds.enabled=true)."
    if missing:
        return f"The API server does not serve {', '.join(sorted(missing))}; install the CRDs (crds.enabled=true)."
    try:
        denied = next((permission for permission in required_permissions() if not is_allowed(*permission)), None)
    except OSError as error:
        return f"The API server does not return the permissions of the operator ({error}); check its log."
    if denied is not None:
        namespace, verb, group, resource = denied
        return (
            f"The operator may not {verb} {resource} of {group} in the namespace {namespace}; "
            f"let the chart create its roles (rbac.create=true), or grant the permission."
        )
    try:
        with urllib.request.urlopen(HEALTH, timeout=15):
            return None
    except OSError as error:
        return f"The operator is not healthy ({HEALTH}: {error}); check its log."


def main() -> None:
    """Repeat the check until the deadline, because a new installation needs some time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (message := problem()) is not None:
        if time.monotonic() > deadline:
            sys.exit(message)
        time.sleep(1)
    # `helm test --logs` shows this.
    print("The CRDs are installed, and the operator has its permissions and is healthy.")  # noqa: T201


if __name__ == "__main__":
    main()
