"""The topic IDs and cluster IDs in the report of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.wire.doctor_report import DOCTOR_REPORT, Side
from gapless_api.wire.form import WireError, parse_json
from gapless_mirror.doctor.observed import Identity


@dataclass(frozen=True, slots=True)
class Remembered:
    """Topic IDs and cluster IDs of an earlier run."""

    identities: tuple[Identity, ...] = ()
    clusters: Mapping[Side, str] = field(default_factory=dict)
    """The cluster IDs."""

    def topics(self, side: Side) -> list[str]:
        """Return the names of the topics of one cluster."""
        return [identity.topic for identity in self.identities if identity.side == side]


def remembered_in(file: Path | None, report: Path | None = None) -> Remembered:
    """Read the report of an earlier run.

    Args:
        file: the report; ``None`` for none.
        report: what this run will write. If that is the same file, it need not exist yet: this is the first run.

    Raises:
        ConfigurationError: the file is missing, or no report.
    """
    if file is None or (file == report and not file.exists()):
        return Remembered()
    try:
        found = DOCTOR_REPORT.from_json(parse_json(read_small(file).decode("utf-8", "replace")))
    except OSError as error:
        raise ConfigurationError(f"The report {file} cannot be read ({error.strerror}); give another file.") from None
    except WireError as error:
        raise ConfigurationError(
            f"The report {file} cannot be read ({error}); give a report of gapless doctor."
        ) from None
    cluster_ids: dict[Side, str] = {}
    identities = []
    for side, cluster in (("source", found.source), ("target", found.target)):
        if cluster is None:
            continue
        cluster_ids[side] = cluster.id  # type: ignore[index]
        identities += [Identity(side, topic.name, topic.id, str(file)) for topic in cluster.topics]  # type: ignore[arg-type]
    return Remembered(tuple(identities), cluster_ids)
