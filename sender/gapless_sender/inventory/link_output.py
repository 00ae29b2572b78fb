"""Owns sending an inventory over the link, as status texts; must not know how it was made.

A status text is one datagram: all texts have the same id, so the receiver would mix up fragments of two. No session key
is announced, so that an encrypted live stream to the same receiver is not disturbed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.parts import part_texts
from gapless_api.inventory.writer import inventory_pieces
from gapless_sender.link.opening import open_link
from gapless_sender.pace.pacing import Pace
from gapless_sender.wire.packets import HEADER_BYTES, STATUS_ID, rfc3339, status_packet

if TYPE_CHECKING:
    from typing import Self

    from gapless_api.inventory.form import Inventory
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.pace.pacing import Clock
    from gapless_sender.settings.inventory import InventorySettings
    from gapless_sender.settings.link import LinkSettings


class InventoryLink:
    """The link to the receiver of an inventory."""

    def __init__(self, link: UdpLink, settings: InventorySettings, link_settings: LinkSettings, clock: Clock) -> None:
        self._link = link
        self._sender = settings.id
        self._copies = link_settings.copies
        self._payload_size = link_settings.payload_size or link.mtu_payload_size()
        self._pace = Pace(settings.datagrams_per_second, clock=clock)

    @classmethod
    def of(cls, settings: InventorySettings, link_settings: LinkSettings, clock: Clock) -> Self | None:
        """Open the link that the settings describe; ``None`` when the inventory is not sent.

        Raises:
            ConfigurationError: the settings of the link are incomplete or conflict.
            LinkError: datagrams would not leave this machine.
        """
        needed = {"targetIP": settings.target_ip, "targetPort": settings.target_port}
        if not any(value is not None for value in needed.values()):
            return None
        for name, value in needed.items():
            if value is None:
                raise ConfigurationError(f"To send the inventory, {name} is missing; set targetIP and targetPort.")
        link = open_link(link_settings, clock, order="strict")
        try:
            link.begin()  # now, because reading may take hours
            return cls(link, settings, link_settings, clock)
        except BaseException:
            link.close()
            raise

    def send(self, inventory: Inventory) -> str:
        """Send `inventory` and return the message about it.

        Raises:
            ConfigurationError: it is too large to be sent.
            LinkError: the link accepts no datagrams.
        """
        texts = part_texts(
            inventory.metadata.id,
            inventory_pieces(inventory),
            opening=f"{rfc3339(datetime.now().astimezone())} {self._sender}",
            text_bytes=self._payload_size - HEADER_BYTES - len(STATUS_ID),
        )

        def send_all() -> None:
            for _ in range(self._copies):  # one after the other: a burst of losses must not take all copies of a part
                for text in texts:
                    self._pace.admit(1, 0)
                    self._link.send([status_packet(text, self._payload_size)])

        send_all()
        self._link.confirm(send_all)
        self._link.settle_replies()
        times = "once" if self._copies == 1 else f"{self._copies} times"
        message = f"Sent as {len(texts)} status text{'' if len(texts) == 1 else 's'}, {times}."
        return " Warning: ".join((message, *self._link.warnings()))

    def close(self) -> None:
        """Close the link."""
        self._link.close()
