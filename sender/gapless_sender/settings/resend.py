"""The settings of ``gapless resend``: one table, and a module for each heading of ``--help``.

Must not know what the settings do; nothing slow may be imported here, because ``--help`` needs this package.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    from gapless_sender.base.sharding import Shard

_SETTINGS = (*SELECTION, *KAFKA_SETTINGS, *KAFKA, *ARCHIVE, *LINK, *PACE, *BODIES, *SAFETY, *OUTPUT)

RESEND = SettingsTable(
    prefix="AIRGAP_RESEND_",
    settings=_SETTINGS,
    foreign=foreign_settings(_SETTINGS),
    bundle_setting="resendFileName",
    common=(
        "resendFileName",
        "topic",
        "from",
        "plan",
        "bootstrapServers",
        "targetIP",
        "targetPort",
        "nic",
        "linkProfile",
        "checkpoint",
        "report",
    ),
)
"""All settings of ``gapless resend``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSettings:
    """The settings of one resend, with this shard's own files and the rates of the rate file."""

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
                "fill has an effect only with unavailable=fill, and unavailable is report; set unavailable=fill, or "
                "remove fill."
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
        """Refuse settings with which concurrent senders would disturb each other. Raises ConfigurationError."""
        bodies, pace = self.bodies, self.pace
        if bodies.session_key_file is not None:
            if not bodies.encryption:
                raise ConfigurationError(
                    "sessionKeyFile is set and encryption is off; enable it, or remove sessionKeyFile."
                )
            if bodies.rotate_key_every_seconds and bodies.key_rotation_file is None:
                raise ConfigurationError(
                    "generateNewSymmetricKeyEvery with sessionKeyFile requires keyRotationFile, with which the senders "
                    "that share the key replace it together; set it, or remove one of the two."
                )
        elif bodies.encryption and shard.count > 1:
            raise ConfigurationError(
                "Several shards with encryption must share one key, because the receiver has one key for all its "
                "senders; give all of them the same sessionKeyFile."
            )
        if bodies.key_rotation_file is not None and not (
            bodies.session_key_file is not None and bodies.rotate_key_every_seconds
        ):
            raise ConfigurationError(
                "keyRotationFile requires sessionKeyFile and generateNewSymmetricKeyEvery; set both, or remove "
                "keyRotationFile."
            )
        if pace.has_link_budget and pace.budget_file is None:
            raise ConfigurationError(
                "budgetEps and budgetBitsPerSecond require budgetFile, the file that the senders of this machine "
                "share; set it, or use eps and bitsPerSecond."
            )
