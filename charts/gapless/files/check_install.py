"""Owns the answer of `helm test`: are the kinds served, has the operator its rights, and is it healthy?

Must not know what the operator does, nor need anything but Python's own library.
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
"""By namespace: the kinds, in the plural, whose objects the operator serves there."""


def ask(path: str, body: object = None) -> dict:
    """Send one request to the API server, as the account of this pod."""
    request = urllib.request.Request(f"{API}{path}", None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text()}")
    request.add_header("Content-Type", "application/json")
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt") if API.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return json.load(answer)


def rights() -> list[tuple[str, str, str, str]]:
    """Namespace, verb, API group and resource of what each role of the operator begins with."""
    needed = []
    for namespace, kinds in SERVED.items():
        needed.append((namespace, "create", "batch", "jobs"))
        for kind in kinds:
            needed += [(namespace, "watch", "gapless.dev", kind), (namespace, "patch", "gapless.dev", f"{kind}/status")]
    return needed


def is_allowed(namespace: str, verb: str, group: str, resource: str) -> bool:
    """Ask whether this account, which is the operator's, may do something; every account may ask."""
    name, _, part = resource.partition("/")
    right = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": part}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right},
    }
    return ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"]


def problem() -> str | None:
    """One sentence on what is wrong; nothing when all is well."""
    try:
        missing = KINDS - {resource["kind"] for resource in ask("/apis/gapless.dev/v1alpha1")["resources"]}
    except OSError as error:
        return f"The API server does not serve gapless.dev/v1alpha1 ({error}); install the CRDs (crds.enabled=true)."
    if missing:
        return f"The API server does not serve {', '.join(sorted(missing))}; install the CRDs (crds.enabled=true)."
    try:
        denied = next((right for right in rights() if not is_allowed(*right)), None)
    except OSError as error:
        return f"The API server does not answer which rights the operator has ({error}); look at its log."
    if denied is not None:
        namespace, verb, group, resource = denied
        return (
            f"The operator may not {verb} {resource} of {group} in the namespace {namespace}; "
            f"let the chart make its roles (rbac.create=true), or grant it."
        )
    try:
        with urllib.request.urlopen(HEALTH, timeout=15):
            return None
    except OSError as error:
        return f"The operator is not healthy ({HEALTH}: {error}); look at its log."


def main() -> None:
    """Try until the deadline, because a fresh install needs a moment."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while (found := problem()) is not None:
        if time.monotonic() > ends:
            sys.exit(found)
        time.sleep(1)
    # What `helm test --logs` shows.
    print("All kinds are served, and the operator has its rights and is healthy.")  # noqa: T201


if __name__ == "__main__":
    main()
