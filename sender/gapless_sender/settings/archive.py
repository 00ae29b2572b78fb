"""Owns the settings of the archive that a resend takes expired events from; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting
from gapless_archive.store.access import S3_SETTINGS, access_from
from gapless_sender.settings.values import archive_place, archive_region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import PlaceAddress

_GROUP = "Archive"

ARCHIVE: tuple[Setting, ...] = (
    Setting(
        "archive",
        "Folder or s3://BUCKET/PREFIX where 'gapless archive' keeps the topics; events that Kafka no longer has come "
        "from there.",
        parse=archive_place,
        metavar="PLACE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "archiveRegion",
        "Region of the archive that holds the topics; needed only if it has several.",
        parse=archive_region,
        metavar="NAME",
        aliases=("region",),
        own=True,
        group=_GROUP,
    ),
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

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ArchiveSettings | None:
        """Take resolved settings; ``None`` without an archive. Raises ConfigurationError when they do not fit."""
        if values["archive"] is None:
            if values["archiveRegion"] is not None:
                raise ConfigurationError("archiveRegion is given without an archive; delete it, or give the archive.")
            return None
        return cls(values["archive"], values["archiveRegion"], access_from(values), values["refuseLocalBrokers"])
