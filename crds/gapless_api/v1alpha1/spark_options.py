"""How the pods of scans, archives, restores and mirrors run: engine, image, account and resources.

Must not know what runs in them.
"""

from typing import Annotated, ClassVar, Literal

from gapless_api.v1alpha1.common import Cpu, Image, Memory, Name, int32
from gapless_api.v1alpha1.model import ApiModel, Rule


class Driver(ApiModel):
    """Resources of the Spark driver. Engine type Job has no other pods."""

    cores: Annotated[int, int32(1, 128)] = 1
    """Number of cores, and of tasks that run in parallel."""
    cpu: Cpu | None = None
    """CPU request, such as 500m. Defaults to the number of cores."""
    memory: Memory = "1Gi"
    """Java heap size. The memory limit of the pod is higher, because Spark also uses memory outside of the heap."""


class Executor(ApiModel):
    """Resources of the Spark executors. Engine type Job has none."""

    instances: Annotated[int, int32(1, 1000)] = 1
    """Number of executors."""
    cores: Annotated[int, int32(1, 128)] = 1
    """Number of cores of each executor, and of tasks that it runs in parallel."""
    cpu: Cpu | None = None
    """CPU request of each executor, such as 500m. Defaults to the number of cores."""
    memory: Memory = "1Gi"
    """Java heap size of each executor."""


class SparkOptions(ApiModel):
    """How and where the work runs."""

    RULES: ClassVar = (
        Rule(
            "self.type != 'SparkApplication' || self.reader != 'Local'",
            "reader Local does not use Spark and cannot run as a SparkApplication: set type to Job or Auto, or reader "
            "to Spark",
            lambda engine: engine.type != "SparkApplication" or engine.reader != "Local",
            "reader",
        ),
    )

    type: Literal["Auto", "Job", "SparkApplication"] = "Auto"
    """Kind of object that runs the work. Job runs Spark in one pod. SparkApplication uses executors and requires the
    Spark operator. Auto uses SparkApplication if its CRD is installed, and Job if it is not (event NoSparkOperator) or
    if reader is Local."""
    reader: Literal["Spark", "Local"] = "Spark"
    """Program that reads Kafka, and with which a Restore writes. Local is one process without Spark, which is faster
    for small topics. A scan that would need to keep more than 256 MiB in memory is refused. status.readBy of a GapScan
    or an Archive shows the last reader."""
    image: Image | None = None
    """Image with Spark and Gapless. It must be listed in the chart's scan.allowedImages. Defaults to the operator's."""
    service_account_name: Name | None = None
    """Service account of the driver, which must be allowed to create executors. It must be listed in the chart's
    scan.allowedServiceAccounts. Defaults to the operator's. Not needed for engine type Job."""
    driver: Driver = Driver()
    """Resources of the Spark driver."""
    executor: Executor = Executor()
    """Resources of the Spark executors."""
    start_deadline_seconds: Annotated[int, int32(30, 86400)] = 600
    """Maximum time in seconds until the driver runs. After that the attempt fails, for example if its image cannot be
    pulled."""
