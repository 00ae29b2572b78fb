"""Whether work may start: its references, the lists and limits of the platform team, and the engine.

Must not know what the work is. The chart's admission policies reject images, accounts and sizes with the same messages.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal, check_listed, refusal_of
from gapless_operator.engines.choice import engine_for
from gapless_operator.engines.pod import mebibytes, millicores

if TYPE_CHECKING:
    from gapless_api.v1alpha1.mirror import MirrorWorkers
    from gapless_api.v1alpha1.spark_options import Driver, Executor, SparkOptions
    from gapless_operator.common.settings import PodLimits, Program
    from gapless_operator.engines.engine import SparkEngine

RECHECK_AFTER = timedelta(seconds=10)
"""When to check again for a change without an event."""


def check_engine(options: SparkOptions, program: Program, *, field: str = "engine") -> None:
    """Check the image, the account and the resources of an engine against what the platform team allows.

    Args:
        options: of the engine.
        program: with what is allowed.
        field: the field of the spec that has the options.

    Raises:
        ConfigurationError: one of them is not allowed.
    """
    images = {program.image, *program.allowed_images}
    accounts = {program.service_account, *program.allowed_service_accounts}
    check_listed(f"{field}.image", "scan.allowedImages", options.image, images)
    check_listed(f"{field}.serviceAccountName", "scan.allowedServiceAccounts", options.service_account_name, accounts)
    check_number(f"{field}.executor.instances", "pods", options.executor.instances, program.pod_limits.pods)
    for name, pod in ((f"{field}.driver", options.driver), (f"{field}.executor", options.executor)):
        check_number(f"{name}.cores", "cores", pod.cores, program.pod_limits.cores)
        check_pod(name, pod, program.pod_limits)


def check_pod(field: str, pod: Driver | Executor | MirrorWorkers, limits: PodLimits) -> None:
    """Check the CPU and memory of one pod. Raises ConfigurationError."""
    if pod.cpu is not None and millicores(pod.cpu) > 1000 * limits.cores:
        raise _too_much(f"{field}.cpu", "cores", pod.cpu, limits.cores)
    if mebibytes(pod.memory) > mebibytes(limits.memory):
        raise _too_much(f"{field}.memory", "memory", pod.memory, limits.memory)


def check_number(field: str, limit: str, number: int, allowed: int) -> None:
    """Check a number against the one of `PodLimits` that is called `limit`. Raises ConfigurationError."""
    if number > allowed:
        raise _too_much(field, limit, number, allowed)


def _too_much(field: str, limit: str, given: object, allowed: object) -> ConfigurationError:
    return ConfigurationError(
        f"spec.{field} is {given}, and the platform team allows at most {allowed}; lower it, or ask them to raise the "
        f"chart's value podLimits.{limit}."
    )


def validated_engine(
    options: SparkOptions, access: object, program: Program, *, spark_operator: bool, field: str = "engine"
) -> SparkEngine | Refusal:
    """Return the engine, or why the work may not start.

    Args:
        options: the options of the spec.
        access: the resolved references of the spec, or a `NotFound`.
        program: the settings of the pods, with the allowlists of the platform team.
        spark_operator: whether SparkApplications are available in the namespace.
        field: the field of the spec that has the options.
    """
    if isinstance(access, NotFound):
        return Refusal(*access)
    refusal = refusal_of(lambda: check_engine(options, program, field=field))
    if refusal is not None:
        return refusal
    engine = engine_for(options, spark_operator=spark_operator)
    if engine is None:
        return Refusal(
            Reason.ENGINE_UNAVAILABLE,
            f"{field}.type is SparkApplication, but SparkApplications are not available in this namespace; install the "
            f"Spark operator, or set {field}.type to Auto or Job.",
        )
    return engine
