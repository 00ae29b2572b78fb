"""Owns what the settings of ``gapless mirror`` become: frozen dataclasses, one for each idea."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_kafka.access.connection import connection_from
from gapless_kafka.access.settings import values_of_cluster
from gapless_kafka.mirror.lanes.identity import MirrorIdentity
from gapless_kafka.mirror.lanes.limits import Limits, Rates
from gapless_kafka.mirror.lanes.setup import LaneMemory, LaneSetup, OnDataLoss
from gapless_kafka.mirror.settings.engines import WORKERS
from gapless_kafka.writing.transactions import ProducerOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.topics.preflight import Clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings(TypedSettings):
    """What a mirror copies, and how."""

    name: str
    topic_refresh: float
    start_at_group: str | None
    once: bool
    delivery: Literal["exactly-once", "at-least-once"]
    commit_interval: float
    compression: str
    engine: str
    workers: int
    lanes: int
    max_bytes_per_second: int | None
    max_records_per_second: int | None
    limits_file: Path | None
    on_data_loss: str
    heartbeat: bool
    look_interval: float
    metrics_port: int | None
    progress_interval: float
    report: Path | None
    connect_timeout_seconds: float = setting("connectTimeout")
    log_level: str
    log_file_name: Path | None

    @property
    def identity(self) -> MirrorIdentity:
        """The mirror."""
        return MirrorIdentity(self.name)

    @property
    def processes(self) -> int:
        """How many processes of this host copy."""
        return self.workers if self.engine == WORKERS else 1

    def rates(self, processes: int) -> Rates:
        """The part that each of some processes has of the limits."""
        return Rates(
            None if self.max_bytes_per_second is None else self.max_bytes_per_second / processes,
            None if self.max_records_per_second is None else self.max_records_per_second / processes,
        )


def cluster_connection(values: Mapping[str, Any], cluster: Literal["source", "target"]) -> KafkaConnection:
    """The connection to one of the two clusters, checked. Raises ConfigurationError."""
    return connection_from(values_of_cluster(cluster, values), client_id="gapless-mirror")


def lane_setup(values: Mapping[str, Any], lanes: int, epoch: int, clusters: Clusters) -> LaneSetup:
    """What the lanes of a process have in common.

    Args:
        values: of the settings.
        lanes: how many the mirror has.
        epoch: of the run that the process belongs to.
        clusters: which they are.

    Raises:
        ConfigurationError: settings of a connection do not fit together.
    """
    told = MirrorSettings.of(values)
    return LaneSetup(
        identity=told.identity,
        lanes=lanes,
        source=cluster_connection(values, "source"),
        target=cluster_connection(values, "target"),
        engine=told.engine,
        epoch=epoch,
        producer=ProducerOptions(compression=told.compression),
        transactional=told.delivery == "exactly-once",
        commit_interval_seconds=told.commit_interval,
        on_data_loss=OnDataLoss(told.on_data_loss),
        once=told.once,
        provenance=clusters.provenance,
        flow=clusters.record,
        memory=LaneMemory.of_process(-(-lanes // told.processes)),
        limits=Limits(told.rates(told.processes)),
    )
