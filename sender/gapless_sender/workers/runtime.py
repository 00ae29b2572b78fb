"""Owns what one process needs to send, made from the settings; must not know how processes share the work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, StoppedError
from gapless_sender.base.lazy_log import log
from gapless_sender.base.sharding import UNSHARDED, Shard
from gapless_sender.link.transmitter import MOST_BATCH_EVENTS, Transmitter
from gapless_sender.link.udp_link import open_link
from gapless_sender.pace.shared_pace import SharedPace
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.replay.replay import DISORDER_OFFSETS, Treatment
from gapless_sender.replay.report import Traffic
from gapless_sender.source.event_source import EventSource
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import Reason
from gapless_sender.wire.packets import finished_text, starting_text, status_packet, stopping_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.link.session_keys import AnnouncedKeys
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.settings.resend import ResendSettings
    from gapless_sender.settings.selection import SelectionSettings
    from gapless_sender.wire.encryption import KeyExchange, SessionKey


@dataclass(slots=True)
class SenderRuntime:
    """The link and everything between a batch and it."""

    settings: ResendSettings
    shutdown: Shutdown
    link: UdpLink
    payload_size: int
    treatment: Treatment
    exchange: KeyExchange | None
    given_key: SessionKey | None
    """The key that all shards use, if there are several."""
    secret: SessionKey | None
    """What all shards derive their keys from instead, if these are replaced."""
    pace: SharedPace
    """The resend's own and that of the link, which the processes of this resend share."""
    shard: Shard

    @classmethod
    def create(cls, settings: ResendSettings, shutdown: Shutdown, shard: Shard = UNSHARDED) -> SenderRuntime:
        """Make everything that needs no Kafka, so that whatever is wrong shows before anything is sent.

        Raises:
            ConfigurationError: a rule, a certificate, the interface or the target is wrong.
        """
        bodies, order = settings.bodies, settings.safety.order
        input_filter = InputFilter.parse(bodies.input_filter_rules or "", bodies.input_filter_default_action)
        exchange, given_key, secret, sealing_bytes = None, None, None, 0
        settings.check_sharing(shard)
        if bodies.encryption:
            if bodies.public_key_file is None:
                raise ConfigurationError(
                    "encryption is on and publicKeyFile is missing; give the certificate of the receiver, or leave "
                    "encryption out."
                )
            from gapless_sender.wire.encryption import OVERHEAD_BYTES, KeyExchange, SessionKey  # noqa: PLC0415 -- slow to load

            exchange, sealing_bytes = KeyExchange.load(bodies.public_key_file), OVERHEAD_BYTES
            if exchange.warning:
                log("warning", exchange.warning)
            if bodies.session_key_file is not None:
                loaded = SessionKey.load(bodies.session_key_file, series=shard.index)
                given_key, secret = (loaded, None) if bodies.key_rotation_file is None else (None, loaded)
        pace = SharedPace.of(settings.pace, shutdown, shard, processes=settings.safety.parallelism)
        link = open_link(settings.link, shutdown, order=order)
        try:
            payload_size = settings.link.payload_size or link.mtu_payload_size()
            if (shared := given_key or secret) is not None and exchange is not None and shard.count > 1:
                _check_announcement(exchange.packets(shared, payload_size), payload_size)
        except BaseException:
            link.close()
            raise
        treatment = Treatment(
            payload_size=payload_size,
            input_filter=input_filter,
            compress_above_bytes=bodies.compress_above_bytes,
            fill=fillable(settings.selection),
            most_fragments=settings.link.max_fragments,
            keeps_order=order == "strict",
            disorder_offsets=MOST_BATCH_EVENTS if order == "free" else DISORDER_OFFSETS,
            sealing_bytes=sealing_bytes,
        )
        return cls(
            settings,
            shutdown,
            link,
            payload_size,
            treatment,
            exchange,
            given_key,
            secret,
            pace,
            shard,
        )

    def transmitter(self, link: UdpLink, *, sharers: int = 1) -> Transmitter:
        """What sends batches over `link` at the pace that `sharers` processes and all shards share."""
        sharers *= self.shard.count

        def under_way() -> None:
            self.shutdown.in_batch = True

        return Transmitter(
            link,
            self.pace.pace,
            self.settings.link.copies,
            under_way=under_way,
            sharers=sharers,
            follow_rates=self.pace.follow,
        )

    def announced_keys(self) -> AnnouncedKeys | None:
        """What makes and announces session keys; ``None`` without encryption."""
        if self.exchange is None:
            return None
        from gapless_sender.link.session_keys import AnnouncedKeys  # noqa: PLC0415 -- slow to load
        from gapless_sender.wire.key_schedule import KeyTimings  # noqa: PLC0415 -- only encryption needs it

        bodies = self.settings.bodies
        common: dict[str, Any] = {
            "payload_size": self.payload_size,
            "timings": KeyTimings(announcements=bodies.key_repeats, settle_seconds=bodies.key_settle_seconds),
            "every_seconds": bodies.rotate_key_every_seconds,
            "clock": self.shutdown,
        }
        if self.secret is None:
            return AnnouncedKeys(self.exchange, self.link, given=self.given_key, **common)
        from gapless_sender.link.shared_keys import SharedKeys  # noqa: PLC0415 -- only shards that replace keys need it

        path = bodies.key_rotation_file
        assert path is not None, "a secret is loaded for the senders that share this file"  # noqa: S101
        senders = self.shard.count
        return SharedKeys(self.exchange, self.link, secret=self.secret, path=path, senders=senders, **common)

    def source(
        self,
        connection: KafkaConnection,
        known_ids: Mapping[str, str],
        pulse: Callable[[], None] | None = None,
    ) -> EventSource:
        """The source of events, with a connection to Kafka that is not yet made.

        Args:
            connection: to Kafka.
            known_ids: the IDs that topics had in an earlier run.
            pulse: called while Kafka is waited for; it may end the work.
        """
        kafka = KafkaSource.of(self.settings.kafka, connection, pulse or self.shutdown.check)
        return EventSource(kafka, self.settings.archive, known_ids)

    def say_starting(self) -> None:
        """Tell the receiver that a resend begins."""
        self._say(starting_text(_now(), self.settings.output.id, str(self.settings.selection.bundle or "")))

    def say_ended(self, error: BaseException | None) -> None:
        """Tell the receiver how it ended, if it was not by an error."""
        if error is None:
            self._say(finished_text(_now(), self.settings.output.id))
        elif isinstance(error, StoppedError):
            self._say(stopping_text(_now(), self.settings.output.id))

    def _say(self, text: str) -> None:
        if self.settings.link.status_packets:
            self.link.send([status_packet(text, self.payload_size)])

    def traffic(self, link: UdpLink) -> Traffic:
        """What `link` has done."""
        stats = link.stats
        return Traffic(stats.datagrams, stats.payload_bytes, stats.calls, stats.refused, stats.retries)


def _check_announcement(packets: Sequence[bytes], payload_size: int) -> None:
    """Make sure that shards which announce one key at the same moment do not mix it up. Raises ConfigurationError."""
    if len(packets) > 1:
        raise ConfigurationError(
            f"The receiver's certificate has so long a key that its announcement needs {len(packets)} datagrams at "
            f"payloadSize {payload_size}, which several shards would mix up; raise payloadSize, or use one shard."
        )


def fillable(settings: SelectionSettings) -> frozenset[Reason]:
    """The reasons for which an event that cannot be sent is sent empty."""
    if settings.unavailable != "fill":
        return frozenset()
    return frozenset({Reason.NON_EXISTENT} if settings.fill is None else map(Reason, settings.fill))


def _now() -> datetime:
    return datetime.now().astimezone()
