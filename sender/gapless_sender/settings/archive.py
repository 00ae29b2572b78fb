"""The settings of the archive from which a resend reads expired events; must not know what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.archive_bounds import ALL_ARCHIVED, ARCHIVE_BOUNDS, ArchiveBounds
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting
from gapless_archive.store.access import S3_SETTINGS, S3Access, access_from
from gapless_sender.settings.values import archive_place, archive_region

if TYPE_CHECKING:
    from gapless_archive.store.places import PlaceAddress

_GROUP = "Archive"

ARCHIVE: tuple[Setting, ...] = (
    Setting(
        "archive",
        "Folder or s3://BUCKET/PREFIX of the archive that 'gapless archive' writes; events that Kafka has deleted are "
        "read from there.",
        parse=archive_place,
        metavar="PLACE",
        group=_GROUP,
    ),
    Setting(
        "archiveRegion",
        "Region in the archive; required only if the archive has several.",
        parse=archive_region,
        metavar="NAME",
        aliases=("region",),
        group=_GROUP,
    ),
    Setting(
        "archiveTopicId",
        "Topic ID in the archive; required only if Kafka no longer has the topic, and the archive has several topic "
        "IDs of which no commit proves the newest.",
        metavar="ID",
        group=_GROUP,
    ),
    *ARCHIVE_BOUNDS,
    *S3_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """Where expired events come from."""

    address: PlaceAddress
    region: str | None
    """``None`` for the only one."""
    access: S3Access
    refuse_local: bool
    """Whether a store at a local address is refused."""
    topic_id: str | None = None
    """Of a topic that Kafka no longer has; ``None`` for the newest."""
    bounds: ArchiveBounds = ALL_ARCHIVED
    """The regions and topics that may be read."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ArchiveSettings | None:
        """Take resolved settings; ``None`` without an archive. Raises ConfigurationError when they conflict."""
        if values["archive"] is None:
            for name in ("archiveRegion", "archiveTopicId"):
                if values[name] is not None:
                    raise ConfigurationError(f"{name} is set without archive; remove it, or set archive.")
            return None
        return cls(
            values["archive"],
            values["archiveRegion"],
            access_from(values),
            values["refuseLocalBrokers"],
            values["archiveTopicId"],
            ArchiveBounds.of(values),
        )
