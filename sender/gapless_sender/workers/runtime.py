"""What one process needs to send, created from the settings; must not know how processes share the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, StoppedError
from gapless_sender.base.lazy_log import log
from gapless_sender.base.sharding import UNSHARDED, Shard
from gapless_sender.link.opening import open_link
from gapless_sender.link.transmitter import MAX_BATCH_EVENTS, Transmitter
from gapless_sender.pace.shared_pace import SharedPace
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.replay.replay import DISORDER_OFFSETS, ReplayOptions
from gapless_sender.replay.report import Traffic
from gapless_sender.source.event_source import EventSource
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import Reason
from gapless_sender.wire.packets import finished_text, starting_text, status_packet, stopping_text

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.link.session_keys import AnnouncedKeys
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.settings.resend import ResendSettings
    from gapless_sender.settings.selection import SelectionSettings
    from gapless_sender.wire.encryption import KeyExchange, SessionKey


@dataclass(slots=True)
class SenderRuntime:
    """The link, and everything that batches pass before it."""

    settings: ResendSettings
    shutdown: Shutdown
    link: UdpLink
    payload_size: int
    options: ReplayOptions
    exchange: KeyExchange | None
    given_key: SessionKey | None
    """The key of a resend whose shards share one."""
    secret: SessionKey | None
    """The secret from which all shards derive their keys, if these are rotated."""
    pace: SharedPace
    """Shared by the processes of this resend."""
    shard: Shard

    @classmethod
    def create(cls, settings: ResendSettings, shutdown: Shutdown, shard: Shard = UNSHARDED) -> SenderRuntime:
        """Create everything that needs no Kafka, so that errors are found before anything is sent.

        Raises:
            ConfigurationError: a rule, a certificate, the interface or the target is invalid.
        """
        bodies, order = settings.bodies, settings.safety.order
        input_filter = InputFilter.parse(bodies.input_filter_rules or "", bodies.input_filter_default_action)
        exchange, given_key, secret, encryption_overhead_bytes = None, None, None, 0
        settings.check_sharing(shard)
        if bodies.encryption:
            if bodies.public_key_file is None:
                raise ConfigurationError(
                    "encryption is on and publicKeyFile is missing; give the certificate of the receiver, or remove "
                    "encryption."
                )
            from gapless_sender.wire.encryption import OVERHEAD_BYTES, KeyExchange, SessionKey  # noqa: PLC0415 -- slow to load

            exchange, encryption_overhead_bytes = KeyExchange.load(bodies.public_key_file), OVERHEAD_BYTES
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
        options = ReplayOptions(
            payload_size=payload_size,
            input_filter=input_filter,
            compress_above_bytes=bodies.compress_above_bytes,
            fill=fill_reasons(settings.selection),
            max_fragments=settings.link.max_fragments,
            keeps_order=order == "strict",
            disorder_offsets=MAX_BATCH_EVENTS if order == "free" else DISORDER_OFFSETS,
            encryption_overhead_bytes=encryption_overhead_bytes,
        )
        return cls(
            settings,
            shutdown,
            link,
            payload_size,
            options,
            exchange,
            given_key,
            secret,
            pace,
            shard,
        )

    def transmitter(self, link: UdpLink, *, senders: int = 1) -> Transmitter:
        """Create the transmitter over `link`, at a pace that is shared by `senders` processes in each shard."""

        def on_send() -> None:
            self.shutdown.in_batch = True

        return Transmitter(
            link,
            self.pace.pace,
            self.settings.link.copies,
            on_send=on_send,
            senders=senders * self.shard.count,
            follow_rates=self.pace.follow,
        )

    def announced_keys(self) -> AnnouncedKeys | None:
        """Create the session keys of this process; ``None`` without encryption."""
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
        assert path is not None, "the secret is loaded only with a key rotation file"  # noqa: S101
        senders = self.shard.count
        return SharedKeys(self.exchange, self.link, secret=self.secret, path=path, senders=senders, **common)

    def source(
        self,
        connection: KafkaConnection,
        known_ids: Mapping[str, str],
        pulse: Callable[[], None] | None = None,
    ) -> EventSource:
        """Create the source of events; it is not yet connected.

        Args:
            connection: to Kafka.
            known_ids: the topic IDs of an earlier run.
            pulse: called while waiting for Kafka; it may raise to end the work.
        """
        kafka = KafkaSource.of(self.settings.kafka, connection, pulse or self.shutdown.check)
        return EventSource(kafka, self.settings.archive, known_ids)

    def send_start_status(self) -> None:
        """Send the status of a resend that starts."""
        self._send_status(starting_text(_now(), self.settings.output.id, str(self.settings.selection.bundle or "")))

    def send_end_status(self, error: BaseException | None) -> None:
        """Send the status of a resend that has finished or was stopped; nothing after another `error`."""
        if error is None:
            self._send_status(finished_text(_now(), self.settings.output.id))
        elif isinstance(error, StoppedError):
            self._send_status(stopping_text(_now(), self.settings.output.id))

    def _send_status(self, text: str) -> None:
        if self.settings.link.status_packets:
            self.link.send([status_packet(text, self.payload_size)])

    def traffic(self, link: UdpLink, *, with_interface: bool = False) -> Traffic:
        """Return the traffic of `link`; the drops of the interface need a query, and are counted by one process."""
        stats = link.stats
        drops = link.interface_drops() if with_interface else 0
        return Traffic(stats.datagrams, stats.payload_bytes, stats.calls, stats.refused, stats.retries, drops)


def _check_announcement(packets: Sequence[bytes], payload_size: int) -> None:
    """Check that announcements of the same key by several shards cannot be mixed up. Raises ConfigurationError."""
    if len(packets) > 1:
        raise ConfigurationError(
            f"With the key of the receiver's certificate, an announcement needs {len(packets)} datagrams at "
            f"payloadSize {payload_size}, which the receiver would mix up between shards; raise payloadSize, or use "
            f"one shard."
        )


def fill_reasons(settings: SelectionSettings) -> frozenset[Reason]:
    """Return the reasons for which an unavailable event is sent empty."""
    if settings.unavailable != "fill":
        return frozenset()
    return frozenset({Reason.NON_EXISTENT} if settings.fill is None else map(Reason, settings.fill))


def _now() -> datetime:
    return datetime.now().astimezone()
