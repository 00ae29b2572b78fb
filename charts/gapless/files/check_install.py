"""Owns the answer of `helm test`: are the kinds served, and is the operator healthy?

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
KINDS = {"Diode", "GapScan", "KafkaConnection", "Resend", "StorageLocation"}


def served_kinds() -> set[str]:
    """Ask the API server which kinds of ours it serves; every account may ask."""
    request = urllib.request.Request(f"{API}/apis/gapless.dev/v1alpha1")
    request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text()}")
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt") if API.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return {resource["kind"] for resource in json.load(answer)["resources"]}


def problem() -> str | None:
    """One sentence on what is wrong; nothing when all is well."""
    try:
        missing = KINDS - served_kinds()
    except OSError as error:
        return f"The API server does not serve gapless.dev/v1alpha1 ({error}); install the CRDs (crds.enabled=true)."
    if missing:
        return f"The API server does not serve {', '.join(sorted(missing))}; install the CRDs (crds.enabled=true)."
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
    print("All kinds are served and the operator is healthy.")  # noqa: T201 -- this is what `helm test --logs` shows


if __name__ == "__main__":
    main()
