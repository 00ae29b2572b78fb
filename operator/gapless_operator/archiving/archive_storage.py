"""How a pod accesses an archive: settings, Secrets, and the mounted volume; must not know what the pod does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_operator.common.access import SecretFile, archived_object_settings, store_secrets, store_settings
from gapless_operator.engines.pod import SECRETS_FOLDER, Folder

if TYPE_CHECKING:
    from gapless_operator.common.references import ArchiveLocation

ARCHIVE_FOLDER = "/archive"


def archive_settings(place: ArchiveLocation, *, writes: bool) -> dict[str, str]:
    """Return the settings of all commands for the archive and its store.

    Args:
        place: of the archive.
        writes: whether the command writes objects.
    """
    lines = {"archive": place.address(ARCHIVE_FOLDER), "region": place.region}
    s3 = place.location.s3
    if s3 is not None:
        lines |= store_settings(s3, SECRETS_FOLDER)
        lines |= archived_object_settings(s3) if writes else {}
    return lines


def archive_arguments(place: ArchiveLocation) -> list[str]:
    """Return the arguments about the archive, which settings must not override."""
    return place.location.archive_bounds.arguments()


def compaction_arguments(place: ArchiveLocation) -> list[str]:
    """Return the same for a compaction, with the least age of what it deletes."""
    least = place.location.min_retention_seconds
    return [*archive_arguments(place), *([] if least is None else [f"--min-retention={least}s"])]


def archive_secrets(place: ArchiveLocation) -> list[SecretFile]:
    """Return the Secrets that these settings need."""
    return store_secrets(place.location.s3) if place.location.s3 is not None else []


def archive_folders(place: ArchiveLocation, *, read_only: bool = False) -> tuple[Folder, ...]:
    """Return the mount of the archive's volume, if it is in one."""
    volume = place.location.persistent_volume_claim
    if volume is None:
        return ()
    return (Folder("archive", ARCHIVE_FOLDER, volume.claim_name, place.volume_path(), read_only=read_only),)
