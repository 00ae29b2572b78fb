"""Owns the settings of ``gapless resend``: one table, a module for each heading of ``--help``, and what they become.

Must not know what the settings do; nothing slow may be imported here, because ``--help`` needs this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import SettingsTable
from gapless_kafka.access.settings import KAFKA_SETTINGS
from gapless_sender.settings.archive import ARCHIVE, ArchiveSettings
from gapless_sender.settings.bodies import BODIES, BodySettings
from gapless_sender.settings.kafka import KAFKA, KafkaSettings
from gapless_sender.settings.link import LINK, LinkSettings
from gapless_sender.settings.output import OUTPUT, OutputSettings
from gapless_sender.settings.pace import PACE, PaceSettings
from gapless_sender.settings.safety import SAFETY, SafetySettings
from gapless_sender.settings.selection import SELECTION, SelectionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_sender.base.sharding import Shard

_SETTINGS = (*SELECTION, *KAFKA_SETTINGS, *KAFKA, *ARCHIVE, *LINK, *PACE, *BODIES, *SAFETY, *OUTPUT)

RESEND = SettingsTable(
    prefix="AIRGAP_RESEND_",
    settings=_SETTINGS,
    foreign={**foreign_settings(_SETTINGS), "tcp*": "it belongs to the TCP transport of the live stream"},
)
"""Everything ``gapless resend`` can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSettings:
    """What one resend was told, with this shard's own files and the rates of the rate file."""

    selection: SelectionSettings
    kafka: KafkaSettings
    archive: ArchiveSettings | None
    link: LinkSettings
    pace: PaceSettings
    bodies: BodySettings
    safety: SafetySettings
    output: OutputSettings

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ResendSettings:
        """Take resolved settings. Little is checked; see `check_sharing`. Raises ConfigurationError."""
        if values["fill"] is not None and values["unavailable"] != "fill":
            raise ConfigurationError(
                "fill says what unavailable=fill may close, and unavailable is report; give unavailable=fill, or "
                "delete fill."
            )
        return cls(
            selection=SelectionSettings.of(values),
            kafka=KafkaSettings.of(values),
            archive=ArchiveSettings.of(values),
            link=LinkSettings.of(values),
            pace=PaceSettings.of(values),
            bodies=BodySettings.of(values),
            safety=SafetySettings.of(values),
            output=OutputSettings.of(values),
        )

    def check_sharing(self, shard: Shard) -> None:
        """Refuse settings that would make programs which send beside each other do harm. Raises ConfigurationError."""
        bodies, pace = self.bodies, self.pace
        if bodies.session_key_file is not None:
            if not bodies.encryption:
                raise ConfigurationError(
                    "sessionKeyFile is given and encryption is off; switch it on, or delete the key."
                )
            if bodies.rotate_key_every_seconds and bodies.key_rotation_file is None:
                raise ConfigurationError(
                    "generateNewSymmetricKeyEvery with sessionKeyFile needs keyRotationFile, the file by which the "
                    "senders that share the key replace it together; give it, or delete one of the two."
                )
        elif bodies.encryption and shard.count > 1:
            raise ConfigurationError(
                "Several shards that encrypt must share one key, because the receiver has one key for all its senders; "
                "give all of them the same sessionKeyFile."
            )
        if bodies.key_rotation_file is not None and not (
            bodies.session_key_file is not None and bodies.rotate_key_every_seconds
        ):
            raise ConfigurationError(
                "keyRotationFile is for senders that share sessionKeyFile and replace its key with "
                "generateNewSymmetricKeyEvery; give both, or delete keyRotationFile."
            )
        if pace.has_link_budget and pace.budget_file is None:
            raise ConfigurationError(
                "budgetEps and budgetBitsPerSecond need budgetFile, the file that the senders of this machine share; "
                "give it, or use eps and bitsPerSecond."
            )
