"""Owns the settings of ``gapless resend`` as one table, a module for each heading of ``--help``.

Must not know what the settings do; nothing slow may be imported here, because ``--help`` needs this package.
"""

from __future__ import annotations

from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import SettingsTable
from gapless_kafka.settings import KAFKA_SETTINGS
from gapless_sender.settings.bodies import BODIES
from gapless_sender.settings.kafka import KAFKA
from gapless_sender.settings.link import LINK
from gapless_sender.settings.output import OUTPUT
from gapless_sender.settings.pace import PACE
from gapless_sender.settings.safety import SAFETY
from gapless_sender.settings.selection import SELECTION

_SETTINGS = (*SELECTION, *KAFKA_SETTINGS, *KAFKA, *LINK, *PACE, *BODIES, *SAFETY, *OUTPUT)

RESEND = SettingsTable(
    prefix="AIRGAP_RESEND_",
    settings=_SETTINGS,
    foreign={**foreign_settings(_SETTINGS), "tcp*": "it belongs to the TCP transport of the live stream"},
)
"""Everything ``gapless resend`` can be told."""
