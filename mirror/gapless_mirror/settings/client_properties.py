"""The rules for properties of Kafka's clients: mapped to a setting, ignored, or refused. Pure.

The names are those of the consumers and producers from Kafka 0.8 to 4, and of the mirror that came with them. Those of
TLS and logins are in `login_properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gapless_mirror.settings.config_types import integer
from gapless_mirror.settings.java_patterns import python_pattern
from gapless_mirror.settings.java_tokens import JavaPatternError


@dataclass(frozen=True, slots=True)
class Mapped:
    """The property is mapped to a setting."""

    setting: str
    """With the placeholder ``{side}`` for source or target."""
    convert: Callable[[str], str] = str
    """Converts the value to the setting's text; raises ValueError with the completion of "must be …"."""
    without: str = "no value is given"
    """Why a value is ignored that is converted to the empty text."""


@dataclass(frozen=True, slots=True)
class NoMeaning:
    """The property is ignored, and logged once."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Some values are refused; the others are ignored."""

    values: frozenset[str]
    """Refused values, in lower case; empty to refuse all but the empty text."""
    reason: str
    """Why they are refused, and what to do."""
    otherwise: str
    """Why the other values are ignored."""
    accepted: str = ""
    """The name of the only class that is accepted, without its package."""

    def refuses(self, value: str) -> bool:
        """Whether `value` is refused."""
        if self.values:
            return value.lower() in self.values
        return bool(value) and value.rpartition(".")[2] != self.accepted


Rule = Mapped | NoMeaning | Refused


def seconds_of_milliseconds(text: str) -> str:
    """Convert milliseconds to seconds. Raises ValueError."""
    try:
        milliseconds = integer(text, bits=64)
    except ValueError:
        raise ValueError("a number of milliseconds") from None
    return f"{max(milliseconds, 1000) / 1000:g}"


def unless_negative(text: str) -> str:
    """Return the number; nothing for a negative one, with which Kafka takes a default or is idle. Raises ValueError."""
    number = integer(text)
    return "" if number < 0 else str(number)


def pattern_of_whitelist(text: str) -> str:
    """Return the regular expression for a whitelist of the old mirror. Raises ValueError.

    As in Kafka's TopicFilter, a comma means "or", spaces have no meaning, and quotes around the list are removed.
    """
    return translated_expression(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))


def pattern_without(text: str) -> str:
    """Return the regular expression for all topics except those of a blacklist of the old mirror. Raises ValueError."""
    return rf"(?!(?:{pattern_of_whitelist(text)})\Z).+"


def translated_expression(text: str, *, ascii_names: bool = True) -> str:
    """Translate an expression of Java. Raises ValueError with the completion of "must be …"."""
    try:
        return python_pattern(text, ascii_names=ascii_names)
    except JavaPatternError as error:
        raise ValueError(f"an expression of Java that can be translated; it {error}") from None


def mirror_name_of_group(text: str) -> str:
    """Return a valid mirror name that is similar to the name of a consumer group."""
    allowed = "".join(letter if letter.isascii() and (letter.isalnum() or letter in ".-") else "-" for letter in text)
    return allowed.lower().strip(".-")[:63].strip(".-") or "mirror"


def compression(text: str) -> str:
    """Return the compression codec, for which old producers accept numbers."""
    return {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4", "uncompressed": "none"}.get(text.lower(), text.lower())


def no_meaning(names: str, why: str) -> dict[str, Rule]:
    """Return the rules of properties that are ignored; `names` are separated by spaces."""
    return dict.fromkeys(names.split(), NoMeaning(why))


_TUNING = "buffers and batches are chosen for a mirror"
TIMES = "time limits and pauses are those of a mirror, which runs until it is stopped"
_LANES = "lanes are shared by Kafka's group protocol with fixed times, so that a worker that dies is replaced in 10 s"
_POSITIONS = "positions stand in the control topic of the target, in the transaction of the records"
_BYTES = "keys and values are copied byte by byte"
NO_CLASS = "is a class of Java, which cannot run here"
_METRICS = "metrics are served with metricsPort"
_SYSTEM = "the operating system sizes these buffers"

COMMON: Mapping[str, Rule] = {
    "bootstrap.servers": Mapped("{side}BootstrapServers"),
    "client.id": NoMeaning("clients are called gapless-mirror"),
    "metadata.max.age.ms": Mapped("topicRefresh", seconds_of_milliseconds),
    "topic.metadata.refresh.interval.ms": Mapped("topicRefresh", seconds_of_milliseconds),
    "interceptor.classes": Refused(
        frozenset(), f"{NO_CLASS}; delete the line if records may stay as they are", "no class is given"
    ),
    **no_meaning(
        "socket.receive.buffer.bytes socket.send.buffer.bytes receive.buffer.bytes send.buffer.bytes", _SYSTEM
    ),
    **no_meaning(
        "connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms "
        "request.timeout.ms default.api.timeout.ms socket.timeout.ms socket.connection.setup.timeout.ms "
        "socket.connection.setup.timeout.max.ms metadata.max.idle.ms metadata.recovery.strategy "
        "metadata.recovery.rebootstrap.trigger.ms client.dns.lookup",
        TIMES,
    ),
    **no_meaning(
        "metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms "
        "auto.include.jmx.reporter enable.metrics.push kafka.metrics.reporters kafka.metrics.polling.interval.secs",
        _METRICS,
    ),
    **no_meaning("config.providers config.providers.*", "references to files, directories and variables are resolved"),
    **no_meaning("security.providers", "only Java has such providers"),
}
"""Properties of both clients, except those of TLS and logins."""

CONSUMER: Mapping[str, Rule] = {
    **COMMON,
    "group.id": Mapped("name", mirror_name_of_group),
    "auto.offset.reset": Refused(
        frozenset({"latest", "largest"}),
        "would skip what the source has when the mirror starts, in new partitions, and when retention overtakes it, "
        "without a word; delete the line: a mirror starts at the earliest record and continues at its position",
        "a mirror starts at the earliest record, and stops with the lost range when retention overtakes it",
    ),
    **dict.fromkeys(
        ("enable.auto.commit", "auto.commit.enable"),
        Refused(
            frozenset({"true"}),
            "would commit positions before the records are delivered, which loses records when the mirror ends; set it "
            "to false",
            _POSITIONS,
        ),
    ),
    **no_meaning(
        "auto.commit.interval.ms offset.commit.interval.ms offsets.storage dual.commit.enabled "
        "offsets.channel.backoff.ms offsets.channel.socket.timeout.ms offsets.commit.max.retries",
        _POSITIONS,
    ),
    **no_meaning(
        "fetch.message.max.bytes max.partition.fetch.bytes",
        "a limit that grows for a larger record; it is compared with max.request.size",
    ),
    **no_meaning(
        "fetch.max.bytes fetch.min.bytes fetch.wait.max.ms fetch.max.wait.ms queued.max.message.chunks "
        "queued.max.messages num.consumer.fetchers max.poll.records",
        _TUNING,
    ),
    **no_meaning(
        "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms rebalance.max.retries rebalance.backoff.ms "
        "partition.assignment.strategy group.instance.id group.protocol group.remote.assignor consumer.id "
        "refresh.leader.backoff.ms",
        _LANES,
    ),
    **no_meaning(
        "zookeeper.connect zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.sync.time.ms",
        "Kafka is reached by its brokers, which bootstrap.servers or sourceBootstrapServers names",
    ),
    **no_meaning("key.deserializer value.deserializer check.crcs shallow.iterator.enable", _BYTES),
    "isolation.level": NoMeaning("a mirror reads committed records; what a transaction aborted is not copied"),
    "exclude.internal.topics": NoMeaning("internal topics are copied only when topics names them"),
    "client.rack": NoMeaning("records are read from the leader of a partition"),
    "allow.auto.create.topics": NoMeaning("topics of the source are never created"),
    "consumer.timeout.ms": NoMeaning("a mirror runs until it is stopped; once copies what there is now and ends"),
}
"""Properties of the consumer, old and new."""

PRODUCER: Mapping[str, Rule] = {
    **COMMON,
    "metadata.broker.list": Mapped("{side}BootstrapServers"),
    **dict.fromkeys(
        ("acks", "request.required.acks"),
        Refused(
            frozenset({"0", "1"}),
            "would count a record as delivered before every replica in sync has it, which loses records when a broker "
            "fails; set it to all",
            "every replica in sync confirms each record",
        ),
    ),
    **dict.fromkeys(("compression.type", "compression.codec"), Mapped("compression", compression)),
    "max.request.size": NoMeaning("the brokers' limits count; it is compared with the consumer's fetch limit"),
    **no_meaning(
        "linger.ms batch.size buffer.memory batch.num.messages queue.buffering.max.ms queue.buffering.max.messages "
        "producer.type compressed.topics compression.gzip.level compression.lz4.level compression.zstd.level",
        _TUNING,
    ),
    **no_meaning(
        "retries message.send.max.retries delivery.timeout.ms max.block.ms metadata.fetch.timeout.ms timeout.ms "
        "queue.enqueue.timeout.ms block.on.buffer.full",
        "the mirror waits and sends again until a record is written; none is dropped",
    ),
    **no_meaning(
        "max.in.flight.requests.per.connection enable.idempotence transactional.id transaction.timeout.ms",
        "the producer is idempotent and writes in transactions of its own, which keeps the order",
    ),
    **no_meaning("key.serializer value.serializer serializer.class key.serializer.class", _BYTES),
    **no_meaning(
        "partitioner.class partitioner.ignore.keys partitioner.adaptive.partitioning.enable "
        "partitioner.availability.timeout.ms",
        "a record keeps its partition",
    ),
}
"""Properties of the producer, old and new."""

MIRROR: Mapping[str, Rule] = {
    **dict.fromkeys(("whitelist", "include", "mirror.topics.whitelist"), Mapped("topicPattern", pattern_of_whitelist)),
    **dict.fromkeys(("blacklist", "mirror.topics.blacklist"), Mapped("topicPattern", pattern_without)),
    **dict.fromkeys(("num.streams", "mirror.consumer.numthreads"), Mapped("workers")),
    "abort.on.send.failure": Refused(
        frozenset({"false"}),
        "would drop records that the target refuses; delete the line: a mirror stops at such a record and names it",
        "a mirror stops at a record that the target refuses and names it",
    ),
    **dict.fromkeys(
        ("message.handler", "message.handler.args"),
        Refused(frozenset(), f"{NO_CLASS}; topics are renamed with rename", "no class is given"),
    ),
    **dict.fromkeys(
        ("consumer.rebalance.listener", "rebalance.listener.args"),
        NoMeaning("workers hand lanes over by themselves"),
    ),
    **no_meaning("new.consumer num.producers queue.size", _TUNING),
}
"""Options of the old mirror, which some scripts also store in these files."""


def rule_of(key: str, rules: Mapping[str, Rule]) -> Rule | None:
    """Return the rule for a property; ``None`` if unknown."""
    if key in rules:
        return rules[key]
    return next((rule for name, rule in rules.items() if name.endswith("*") and key.startswith(name[:-1])), None)
