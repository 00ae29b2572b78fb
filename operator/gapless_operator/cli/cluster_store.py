"""What ``gapless cluster`` reads from and changes in a cluster, with the user's permissions.

Must not know the command line. Nothing here needs the operator: it acts on what is changed when it runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_operator.cli.cluster_page import FoundPlan, plan_of
from gapless_operator.cli.connection import as_ours
from gapless_operator.common.observed import UID_LABEL, ObservedJob, ObservedPod
from gapless_operator.common.plan import Ref
from gapless_operator.engines.sparkapplication import ObservedSparkApplication
from gapless_operator.shell.api.errors import ApiError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import (
    ARCHIVE,
    DIODE,
    GAP_SCAN,
    JOB,
    KAFKA_CONNECTION,
    MIRROR,
    NAMESPACE,
    POD,
    RESEND,
    RESTORE,
    SPARK_APPLICATION,
    Kind,
)
from gapless_operator.shell.cache.suspensions import RUNNING, SUSPEND_ANNOTATION

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

SHOWN = (DIODE, RESEND, GAP_SCAN, MIRROR, ARCHIVE, RESTORE, KAFKA_CONNECTION)
"""Kinds of the page, in its order."""
KINDS = {kind.name.lower(): kind for kind in SHOWN}
"""Kinds of the page, by their names as users write them."""
RETRIED = {kind.name.lower(): kind for kind in (RESEND, RESTORE)}
"""Kinds with a field spec.retry."""
_MANAGER = "kubectl-gapless"
_PAUSE_SECONDS = 0.5
_FORBIDDEN = " with 403: "
"""How the error of a missing right names its status; another refusal is a rule that no account may break."""


class ClusterStore:
    """The objects of Gapless in a cluster."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._served: dict[Kind, bool] = {}
        """By kind: whether the cluster has it, which does not change while a command runs."""

    def objects(self, namespace: str | None) -> list[dict[str, Any]]:
        """Read all objects of one namespace, or of all.

        Raises:
            ConfigurationError: the user may not, or the kinds of Gapless are not installed.
            SourceUnreachableError: the API server cannot be reached.
        """
        with _said():
            return [body for kind in SHOWN for listed in self._api.pages(kind, namespace) for body in listed.bodies]

    def suspended(self, namespaces: set[str]) -> dict[str, str | None]:
        """Return the value of the switch for those namespaces that are stopped; raises like `objects`.

        It is ``None`` for a namespace that the user may not read: an account may well have rights in it alone.
        """
        found: dict[str, str | None] = {}
        for name in sorted(namespaces):
            try:
                with _said():
                    body = self._api.get(NAMESPACE, None, name) or {}
            except ConfigurationError:
                found[name] = None
                continue
            value = (body.get("metadata", {}).get("annotations") or {}).get(SUSPEND_ANNOTATION, "")
            if value not in RUNNING:
                found[name] = value
        return found

    def listed(self, kind: Kind, namespace: str | None) -> list[dict[str, Any]]:
        """Read our objects of a kind; none of a kind that the cluster does not have. Raises like `objects`."""
        with _said():
            if kind not in self._served:
                self._served[kind] = self._api.serves(kind)
            if not self._served[kind]:
                return []
            return [body for listed in self._api.pages(kind, namespace) for body in listed.bodies]

    def version(self) -> str:
        """Return the version of the API server; raises like `objects`."""
        with _said():
            return self._api.version()

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, max_bytes: int) -> str:
        """Return the end of a log, or why it cannot be read: a lost node must not stop what is collected."""
        try:
            text = self._api.log(namespace, pod, container, tail_lines=tail_lines, max_bytes=max_bytes)
        except ApiError as error:
            return f"{error}\n"
        return text if text is not None else "There is no log.\n"

    def switch(self, namespace: str, value: str | None) -> None:
        """Set the switch of a namespace, or remove it; raises like `objects`."""
        self._change(NAMESPACE, None, namespace, {"metadata": {"annotations": {SUSPEND_ANNOTATION: value}}})

    def running(self, namespace: str) -> list[str]:
        """Return the pods that have not ended, and the work that may still get one; raises like `objects`."""
        work = [body for kind in (POD, JOB, SPARK_APPLICATION) for body in self.listed(kind, namespace)]
        return [f"{body['kind'].lower()}/{body['metadata']['name']}" for body in work if not _has_ended(body)]

    def await_end(self, namespace: str, seconds: float) -> list[str]:
        """Wait until nothing runs; return what still does after `seconds`. Raises like `objects`."""
        ends = time.monotonic() + seconds
        while (names := self.running(namespace)) and time.monotonic() < ends:
            time.sleep(_PAUSE_SECONDS)
        return names

    def delete_work(self, namespace: str) -> int:
        """Delete what runs, without the operator; return the number of deleted objects. Raises like `objects`."""
        deleted = 0
        with _said():
            for kind in (SPARK_APPLICATION, JOB, POD):
                for body in self.listed(kind, namespace):
                    name = body["metadata"]["name"]
                    deleted += self._api.delete(namespace, Ref(kind.api_version, kind.name, name))
        return deleted

    def await_plan(self, namespace: str, name: str, seconds: float) -> FoundPlan:
        """Wait until the plan of a Resend is known or has failed, for `seconds` at most.

        Raises:
            ConfigurationError: the Resend is not a plan; or as `objects`.
        """
        ends = time.monotonic() + seconds
        while True:
            body = self.object(RESEND, namespace, name)
            found = plan_of(body)
            if body["spec"].get("mode") != "Plan" and found.plan is None:
                raise ConfigurationError(
                    f"The Resend {name} is not a plan: it sends without one. Create it with spec.mode: Plan."
                )
            if found.is_final or time.monotonic() > ends:
                return found
            time.sleep(_PAUSE_SECONDS)

    def approve(self, namespace: str, name: str) -> bool:
        """Let a planned Resend send; return whether it was a plan. Raises like `objects`."""
        body = self.object(RESEND, namespace, name)
        if body["spec"].get("mode") != "Plan":
            return False
        self._change(RESEND, namespace, name, {"spec": {"mode": "Send"}})
        return True

    def retry(self, kind: Kind, namespace: str, name: str) -> str:
        """Start a new round of attempts; return the new value of spec.retry. Raises like `objects`."""
        self.object(kind, namespace, name)
        value = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._change(kind, namespace, name, {"spec": {"retry": value}})
        return value

    def find(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """Read an object; ``None`` if it does not exist. Raises like `objects`."""
        with _said():
            return self._api.get(kind, namespace, name)

    def object(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """Read an object that must exist; raises like `objects`."""
        body = self.find(kind, namespace, name)
        if body is None:
            raise ConfigurationError(
                f"There is no {kind.name} {name} in the namespace {namespace}; correct the name or the namespace."
            )
        return body

    def create_if_absent(self, manifest: Mapping[str, Any]) -> bool:
        """Create an object; return whether there was none of that name. Raises like `objects`."""
        with _said():
            return self._api.create_if_absent(manifest) is not None

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object without dependents, if it exists: it is gone afterwards. Raises like `objects`."""
        with _said():
            self._api.delete(namespace, Ref(kind.api_version, kind.name, name), before_dependents=True)

    def pods_of(self, kind: Kind, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return the pods of an object that must exist, oldest first; raises like `objects`."""
        uid = self.object(kind, namespace, name)["metadata"]["uid"]
        pods = [body for body in self.listed(POD, namespace) if body["metadata"]["labels"].get(UID_LABEL) == uid]
        return sorted(pods, key=lambda body: (body["metadata"]["creationTimestamp"], body["metadata"]["name"]))

    def _change(self, kind: Kind, namespace: str | None, name: str, changes: Mapping[str, Any]) -> None:
        with _said():
            self._api.merge(kind, namespace, name, changes, manager=_MANAGER)


def _has_ended(body: Mapping[str, Any]) -> bool:
    """Whether a Pod has ended, or a Job or a SparkApplication starts no further pod."""
    if body["kind"] == JOB.name:
        job = ObservedJob.of(body)
        return job.ended or job.suspended
    if body["kind"] == SPARK_APPLICATION.name:
        return ObservedSparkApplication.of(body).has_ended
    return ObservedPod.of(body).ended


@contextmanager
def _said() -> Iterator[None]:
    """Say the errors of the API server as those of a command."""
    try:
        yield
    except NotFoundError as error:
        raise ConfigurationError(
            f"The API server does not have it ({error}); correct the name, or install the CRDs of Gapless."
        ) from None
    except RefusedError as error:
        advice = " Use an account that may, or name a namespace with --namespace." if _FORBIDDEN in f"{error}" else ""
        raise ConfigurationError(f"{error}{advice}") from None
    except ApiError as error:
        raise as_ours(error) from None
