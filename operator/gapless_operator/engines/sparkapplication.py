"""How work runs as a SparkApplication of the Spark operator (v1beta2), and the attempts of such objects.

Must not know when work is due or what its result means. Retries of the Spark operator are disabled, and an image that
cannot be pulled ends the attempt: one object is one attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import labels_of, owned_manifest
from gapless_operator.common.observed import Meta, ObservedPod, moment
from gapless_operator.common.plan import Manifest, Ref
from gapless_operator.common.pod_trouble import pod_trouble
from gapless_operator.engines.engine import Attempt, EngineName, Phase, Run, pods_of
from gapless_operator.engines.pod import container, java_memory, pod

if TYPE_CHECKING:
    from gapless_operator.common.settings import Program

API_VERSION, KIND = "sparkoperator.k8s.io/v1beta2", "SparkApplication"
MAIN_FILE = "local:///opt/gapless/gapless.py"
"""The file in the Spark image that spark-submit runs: the command ``gapless``."""
APPLICATION_LABEL = "sparkoperator.k8s.io/app-name"
"""Label of the pods of a SparkApplication: its name."""
SPARK_VERSION = "4.3.0"
"""Required by the Spark operator, but without effect; the image determines the version."""
_NETWORK_POLICY = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"

_DRIVER = {"spark-role": "driver"}
_PHASES = {
    "": Phase.PENDING,
    "SUBMITTED": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "SUCCEEDING": Phase.RUNNING,
    "FAILING": Phase.RUNNING,
    "COMPLETED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "SUBMISSION_FAILED": Phase.FAILED,
}
"""By applicationState.state. The other states are those of retries, which restartPolicy Never disables."""
_ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


class SparkApplicationEngine:
    """Spark with executors, run by the Spark operator."""

    name: EngineName = "SparkApplication"

    def manifest(self, run: Run, program: Program) -> Manifest:
        """Return a SparkApplication.

        Volumes and security contexts are in pod templates: the equivalent fields of a SparkApplication require the
        webhook of the Spark operator in this namespace, and are silently ignored without it.
        """
        engine = run.options
        labels = labels_of(run.owner, role=run.role)
        driver = pod(run.driver, [container(run.driver, name="spark-kubernetes-driver")])
        executor = pod(run.executor, [container(run.executor, name="spark-kubernetes-executor")]) | {
            "automountServiceAccountToken": False
        }
        driver, executor = (
            program.pod_templates.applied_to(run.owner.metadata.namespace, labels, each) for each in (driver, executor)
        )
        account = engine.service_account_name or program.service_account
        spec: dict[str, Any] = {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": SPARK_VERSION,
            "image": engine.image or program.image,
            "imagePullPolicy": program.pull_policy,
            "mainApplicationFile": MAIN_FILE,
            "arguments": list(run.arguments),
            "restartPolicy": {"type": "Never"},
            "sparkConf": {
                "spark.ui.enabled": "false",
                # The logs of executors are not needed; the result is in the log of the driver.
                "spark.kubernetes.executor.deleteOnTermination": "true",
                # The driver may access pods only; its other objects are deleted with its pod.
                "spark.kubernetes.executor.disableConfigMap": "true",
                "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
                "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
                "spark.kubernetes.driver.service.deleteOnTermination": "false",
                # The Spark operator may not create the NetworkPolicy that newer versions of Spark add.
                "spark.kubernetes.driver.pod.excludedFeatureSteps": _NETWORK_POLICY,
            },
            "driver": {
                "cores": engine.driver.cores,
                "memory": java_memory(engine.driver.memory),
                **driver["metadata"],
                "template": {"spec": driver["spec"]},
            }
            | _cpu(engine.driver.cpu)
            | ({"serviceAccount": account} if account else {}),
            "executor": {
                "instances": engine.executor.instances,
                "cores": engine.executor.cores,
                "memory": java_memory(engine.executor.memory),
                **executor["metadata"],
                "template": {"spec": executor["spec"]},
            }
            | _cpu(engine.executor.cpu),
        }
        return owned_manifest(
            run.owner,
            {"apiVersion": API_VERSION, "kind": KIND, "spec": spec},
            name=run.name,
            role=run.role,
            annotations=run.annotations,
        )

    def ref(self, attempt: Attempt) -> Ref:
        """Return the SparkApplication, for deletion."""
        return Ref(API_VERSION, KIND, attempt.name, attempt.meta.uid)


def _cpu(request: str | None) -> dict[str, str]:
    return {} if request is None else {"coreRequest": request}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSparkApplication:
    """A SparkApplication that the operator created."""

    meta: Meta
    state: str = ""
    error: str = ""
    driver_pod: str = ""
    submitted: datetime | None = None
    ended: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it will start no more pods."""
        return self.ended is not None or _PHASES.get(self.state) in _ENDED

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObservedSparkApplication:
        """Parse a SparkApplication."""
        status = body.get("status") or {}
        application = status.get("applicationState") or {}
        return cls(
            meta=Meta.of(body),
            state=str(application.get("state") or ""),
            error=str(application.get("errorMessage") or ""),
            driver_pod=str((status.get("driverInfo") or {}).get("podName") or ""),
            submitted=moment(status.get("lastSubmissionAttemptTime")),
            ended=moment(status.get("terminationTime")),
        )


def running_applications(applications: Iterable[ObservedSparkApplication]) -> tuple[Ref, ...]:
    """Return the SparkApplications that have not ended and are not being deleted, also those without a pod yet."""
    return tuple(
        Ref(API_VERSION, KIND, application.meta.name, application.meta.uid)
        for application in applications
        if not (application.meta.deleting or application.has_ended)
    )


def application_attempts(
    applications: Iterable[ObservedSparkApplication], pods: Iterable[ObservedPod], now: datetime, *, role: str
) -> list[Attempt]:
    """Return the attempts of the SparkApplications with a `role`."""
    pods = list(pods)
    return [_attempt(application, pods, now) for application in applications if application.meta.role == role]


def _attempt(application: ObservedSparkApplication, pods: list[ObservedPod], now: datetime) -> Attempt:
    name = application.meta.name
    drivers = pods_of(pods, _DRIVER | {APPLICATION_LABEL: name})
    driver = drivers[-1] if drivers else None
    phase = _PHASES.get(application.state, Phase.PENDING)
    trouble = None
    if driver is not None and driver.ended:
        # The Spark operator may be late, or report a driver that ended quickly as lost.
        phase = Phase.SUCCEEDED if driver.exit_code == 0 else Phase.FAILED
    elif phase is Phase.PENDING and driver is not None:
        trouble = pod_trouble(driver, now)
        if driver.has_begun:
            phase, trouble = Phase.RUNNING, None
    return Attempt(
        meta=application.meta,
        engine="SparkApplication",
        phase=phase,
        started=None
        if phase is Phase.PENDING
        else ((driver.began if driver is not None else None) or application.submitted),
        finished=application.ended or (driver.finished if driver is not None else None),
        error_message=application.error,
        trouble=trouble,
        driver=driver,
    )
