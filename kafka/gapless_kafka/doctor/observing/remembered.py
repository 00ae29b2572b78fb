"""Owns the topic IDs and cluster IDs in the report of an earlier run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.wire.doctor_report import DOCTOR_REPORT
from gapless_api.wire.form import WireError, parse_json
from gapless_kafka.doctor.observed import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_api.wire.doctor_report import Side


@dataclass(frozen=True, slots=True)
class Remembered:
    """Topic IDs and cluster IDs of an earlier run."""

    identities: tuple[Identity, ...] = ()
    clusters: Mapping[Side, str] = field(default_factory=dict)
    """The cluster IDs."""

    def topics(self, side: Side) -> list[str]:
        """Return the names of the topics of one cluster."""
        return [identity.topic for identity in self.identities if identity.side == side]


def remembered_in(file: Path | None) -> Remembered:
    """Read a report; ``None`` for no report. Raises ConfigurationError."""
    if file is None:
        return Remembered()
    try:
        report = DOCTOR_REPORT.from_json(parse_json(read_small(file).decode("utf-8", "replace")))
    except OSError as error:
        raise ConfigurationError(f"The report {file} cannot be read ({error.strerror}); give another file.") from None
    except WireError as error:
        raise ConfigurationError(
            f"The report {file} cannot be read ({error}); give a report of gapless doctor."
        ) from None
    cluster_ids: dict[Side, str] = {}
    identities = []
    for side, cluster in (("source", report.source), ("target", report.target)):
        if cluster is None:
            continue
        cluster_ids[side] = cluster.id  # type: ignore[index]
        identities += [Identity(side, topic.name, topic.id, str(file)) for topic in cluster.topics]  # type: ignore[arg-type]
    return Remembered(tuple(identities), cluster_ids)
