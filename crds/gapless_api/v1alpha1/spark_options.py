"""Owns where the pods of scans, archives and restores run: engine, image, account and resources.

Must not know what runs in them.
"""

from typing import Annotated, ClassVar, Literal

from gapless_api.v1alpha1.common import Cpu, Image, Memory, Name, int32
from gapless_api.v1alpha1.model import ApiModel, Rule


class Driver(ApiModel):
    """Resources of Spark's driver. With engine type Job there are no others."""

    cores: Annotated[int, int32(1, 128)] = 1
    """Number of cores, and of tasks that run at the same time."""
    cpu: Cpu | None = None
    """CPU request, such as 500m. Defaults to the number of cores."""
    memory: Memory = "1Gi"
    """Java heap. The pod gets more, for Spark's memory outside of the heap."""


class Executor(ApiModel):
    """Resources of Spark's executors. Engine type Job has none."""

    instances: Annotated[int, int32(1, 1000)] = 1
    """Number of executors."""
    cores: Annotated[int, int32(1, 128)] = 1
    """Number of cores of each, and of tasks that it runs at the same time."""
    cpu: Cpu | None = None
    """CPU request of each, such as 500m. Defaults to the number of cores."""
    memory: Memory = "1Gi"
    """Java heap of each."""


class SparkOptions(ApiModel):
    """Where the work runs, and what reads Kafka."""

    RULES: ClassVar = (
        Rule(
            "self.type != 'SparkApplication' || self.reader != 'Local'",
            "reader Local reads without Spark and cannot run as a SparkApplication: set type to Job or Auto, or reader "
            "to Spark",
            lambda engine: engine.type != "SparkApplication" or engine.reader != "Local",
            "reader",
        ),
    )

    type: Literal["Auto", "Job", "SparkApplication"] = "Auto"
    """Job runs Spark in one pod; SparkApplication has executors and needs the Spark operator; Auto takes
    SparkApplication where its CRD is installed, and Job where it is not (event NoSparkOperator) or reader is Local."""
    reader: Literal["Spark", "Local"] = "Spark"
    """What reads Kafka, and what a Restore writes with. Local is one process without Spark, which is quicker for small
    topics; a scan that would have to hold more than 256 MiB of what it reads is refused. A GapScan and an Archive say
    in status.readBy what read last."""
    image: Image | None = None
    """Image with Spark and Gapless, one of those that the platform team lists (the chart's scan.allowedImages).
    Defaults to the operator's."""
    service_account_name: Name | None = None
    """Service account of the driver, which must be allowed to start executors, one of those that the platform team
    lists (the chart's scan.allowedServiceAccounts). Defaults to the operator's. Engine type Job needs none."""
    driver: Driver = Driver()
    """Resources of Spark's driver."""
    executor: Executor = Executor()
    """Resources of Spark's executors."""
    start_deadline_seconds: Annotated[int, int32(30, 86400)] = 600
    """Seconds until the driver must run. After that the attempt fails, for example because its image cannot be
    pulled."""
