"""The typed settings of ``gapless mirror``, and what is built from them: connections and the lane setup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.access.connection import KafkaConnection, connection_from
from gapless_kafka.access.settings import values_of_cluster
from gapless_kafka.writing.transactions import ProducerOptions
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.limits import Limits, Rates
from gapless_mirror.lanes.setup import (
    LaneMemory,
    LaneSetup,
    OnBadRecord,
    OnDataLoss,
    OnMissingPosition,
    OnTargetLoss,
)
from gapless_mirror.settings.engines import WORKERS
from gapless_mirror.settings.values import MirrorValues
from gapless_mirror.sql.evaluation import Transform

if TYPE_CHECKING:
    from gapless_api.base.allowed_topics import AllowedTopics
    from gapless_mirror.topics.preflight import Clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings(MirrorValues):
    """The settings of a mirror, and what follows from them."""

    @property
    def identity(self) -> MirrorIdentity:
        """The names of the mirror in Kafka."""
        return MirrorIdentity(self.name)

    @property
    def on_missing_position(self) -> OnMissingPosition:
        """Where partitions without a position start whose targets have records. Raises ConfigurationError."""
        given = {
            "startAtGroup": self.start_at_group is not None,
            "startAtTarget": self.start_at_target,
            "copyAgain": self.copy_again,
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            raise ConfigurationError(f"{names[0]} and {names[1]} contradict each other; give one of them.")
        if self.start_at_target:
            return OnMissingPosition.START_AT_TARGET
        return OnMissingPosition.COPY_AGAIN if self.copy_again else OnMissingPosition.FAIL

    @property
    def parks_in(self) -> str:
        """The parking topic; empty if nothing is parked. Raises ConfigurationError."""
        parks = self.on_bad_record == OnBadRecord.PARK.value
        if parks and self.parking_topic is None:
            raise ConfigurationError("onBadRecord=park needs a topic; give parkingTopic.")
        if self.parking_topic is not None and not parks:
            raise ConfigurationError("parkingTopic has no effect without onBadRecord=park; delete it, or give both.")
        return self.parking_topic or ""

    @property
    def engine(self) -> str:
        """The engine that copies. With a transform these are always workers: Spark only evaluates the statement."""
        return WORKERS if self.transform is not None else self.chosen_engine

    @property
    def sql(self) -> Transform | None:
        """The SQL that is applied to each record, if there is one. Raises ConfigurationError."""
        if self.transform is None:
            if self.transform_topics or self.transform_socket is not None:
                name = "transformTopics" if self.transform_topics else "transformSocket"
                raise ConfigurationError(f"{name} has no effect without transform; delete it, or give both.")
            return None
        targets = frozenset(self.transform_topics or ())
        return Transform(statement=self.transform, socket=self.transform_socket or Path(), targets=targets)

    @property
    def processes(self) -> int:
        """The number of processes on this host that copy."""
        return self.workers if self.engine == WORKERS else 1

    def rates(self, processes: int) -> Rates:
        """Return the limits of each of `processes` processes."""
        return Rates(
            None if self.max_bytes_per_second is None else self.max_bytes_per_second / processes,
            None if self.max_records_per_second is None else self.max_records_per_second / processes,
        )


def cluster_connection(values: Mapping[str, Any], cluster: Literal["source", "target"]) -> KafkaConnection:
    """Return the connection to one of the two clusters. Raises ConfigurationError if it is invalid."""
    return connection_from(values_of_cluster(cluster, values), client_id="gapless-mirror")


def lane_setup(values: Mapping[str, Any], lanes: int, epoch: int, clusters: Clusters) -> LaneSetup:
    """Return the configuration that the lanes of a process share.

    Args:
        values: of the settings.
        lanes: of the mirror.
        epoch: of the run that the process belongs to.
        clusters: source and target.

    Raises:
        ConfigurationError: settings contradict each other, or the parking topic is not allowed.
    """
    settings = MirrorSettings.of(values)
    allowed: AllowedTopics | None = values["targetAllowedTopics"]
    if allowed is not None and settings.parks_in:
        allowed.check([settings.parks_in], what="The mirror's parking topic")
    if allowed is not None and settings.sql is not None:
        allowed.check(sorted(settings.sql.targets), what="The mirror's transform")
    return LaneSetup(
        identity=settings.identity,
        lanes=lanes,
        source=cluster_connection(values, "source"),
        target=cluster_connection(values, "target"),
        engine=settings.engine,
        epoch=epoch,
        producer=ProducerOptions(compression=settings.compression),
        transactional=settings.delivery == "exactly-once",
        commit_interval_seconds=settings.commit_interval,
        on_data_loss=OnDataLoss(settings.on_data_loss),
        on_bad_record=OnBadRecord(settings.on_bad_record),
        parking_topic=settings.parks_in,
        on_target_loss=OnTargetLoss(settings.on_target_loss),
        on_missing_position=settings.on_missing_position,
        once=settings.once,
        provenance=clusters.provenance,
        flow=clusters.record,
        memory=LaneMemory.of_process(-(-lanes // settings.processes)),
        transform=settings.sql,
        limits=Limits(settings.rates(settings.processes)),
    )
