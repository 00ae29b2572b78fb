"""How the status of an Archive or a Mirror says that nothing looks at its lag: without figures.

Must not know when that is so. A lag that was seen before is no longer true, because records are written meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless_api.v1alpha1.archive_status import ArchiveStatus
    from gapless_api.v1alpha1.mirror_status import MirrorStatus

_OF_TOPIC = {"lag_records": "lagRecords", "lag_seconds": "lagSeconds"}
"""By field of the model: the field of the object."""
_FIELDS = {**_OF_TOPIC, "retention_seconds": "retentionSeconds", "heartbeat_age_seconds": "heartbeatAgeSeconds"}


def unknown_lag(status: ArchiveStatus | MirrorStatus) -> dict[str, Any]:
    """Return the fields to write into a status."""
    unknown = dict.fromkeys(_OF_TOPIC)
    return {
        **{name: None for name in _FIELDS if name in type(status).model_fields},
        "topics": tuple(topic.model_copy(update=unknown) for topic in status.topics),
    }


def without_lag(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of an object, which need not be valid, without the lag."""
    kept = {name: value for name, value in status.items() if name not in _FIELDS.values()}
    if isinstance(kept.get("topics"), list):
        kept["topics"] = [
            {name: value for name, value in topic.items() if name not in _OF_TOPIC.values()} for topic in kept["topics"]
        ]
    return kept
