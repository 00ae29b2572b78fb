"""The settings of ``gapless doctor``; must not know the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, integer, seconds
from gapless_api.base.settings import Setting, SettingsTable
from gapless_kafka.access.connection import KafkaConnection, connection_from
from gapless_kafka.access.settings import KAFKA_SETTINGS, settings_of_cluster, values_of_cluster
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS, TopicChoice
from gapless_mirror.lanes.identity import MirrorIdentity, mirror_name

_WHAT, _OUTPUT, _LINK = "What to check", "Output", "Link"
_CLIENT_ID = "gapless-doctor"


def _list(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not names:
        raise ValueError("names separated by commas")
    return names


def _rename(text: str) -> str:
    if "{topic}" not in text:
        raise ValueError("a name that contains {topic}, such as north.{topic}")
    return text


_own = (
    *(
        replace(setting, help=setting.help.partition(" Topics that are created later")[0], group=_WHAT)
        for setting in TOPIC_CHOICE_SETTINGS
    ),
    Setting(
        "rename",
        "Topic name at the target; {topic} stands for the name at the source.",
        parse=_rename,
        default="{topic}",
        metavar="NAME",
        group=_WHAT,
    ),
    Setting(
        "groups",
        "Consumer groups of the source, separated by commas: checks their coordinators, committed offsets and lag.",
        parse=_list,
        aliases=("group",),
        default=(),
        metavar="GROUP,…",
        group=_WHAT,
    ),
    Setting(
        "transactionalIds",
        "Transactional IDs at the target, separated by commas: checks their coordinators and ACLs.",
        parse=_list,
        default=(),
        metavar="ID,…",
        group=_WHAT,
    ),
    Setting(
        "mirror",
        "Name of a mirror from this source to this target: also checks its group, transactional IDs, positions and "
        "topic IDs.",
        parse=mirror_name,
        metavar="NAME",
        group=_WHAT,
    ),
    Setting(
        "gapTopic",
        "Topic with gap records in the source cluster: it must be compacted.",
        metavar="TOPIC",
        group=_WHAT,
    ),
    Setting(
        "remembered",
        "Report of an earlier run: topics whose IDs have changed since were deleted and recreated. It may be the file "
        "of report, which the first run writes.",
        parse=Path,
        replaced_by="report",
        group=_WHAT,
    ),
    Setting(
        "certificateDays",
        "Warn of certificates that expire within this number of days.",
        parse=integer(0, 3650),
        default=30,
        metavar="DAYS",
        group=_WHAT,
    ),
    Setting(
        "timeout",
        "Timeout of each request, in seconds.",
        parse=seconds(0.5, 60),
        default=10.0,
        metavar="SECONDS",
        group=_WHAT,
    ),
    Setting(
        "targetIP",
        "Receiver behind the diode: checks this machine's interface, route and neighbour entry, and sends nothing.",
        metavar="HOST",
        group=_LINK,
        peer=True,
    ),
    Setting("targetPort", "UDP port of the receiver.", parse=integer(1, 65535), metavar="PORT", peer=True, group=_LINK),
    Setting(
        "nic",
        "Network interface to send from.",
        default="",
        shown_default="the one of the routing table",
        metavar="NAME",
        group=_LINK,
        peer=True,
    ),
    Setting(
        "payloadSize",
        "Maximum UDP payload, 0 for the maximum that the MTU allows.",
        parse=integer(0, 65507),
        default=0,
        metavar="BYTES",
        group=_LINK,
        peer=True,
    ),
    Setting("sourceAddress", "IP address to send from.", default="", metavar="IP", group=_LINK),
    Setting(
        "requireNeighbour",
        "Whether to require a permanent neighbour entry (ARP, NDP): no ARP reply returns through a diode.",
        parse=boolean,
        default=False,
        group=_LINK,
    ),
    Setting(
        "json",
        "Print the report as JSON instead of the page.",
        parse=boolean,
        default=False,
        group=_OUTPUT,
    ),
    Setting("report", "File for the report as JSON.", parse=Path, writes=True, group=_OUTPUT),
    Setting(
        "reportLine",
        "Print a shortened report as the last line on standard error, for the operator.",
        parse=boolean,
        default=False,
        group=_OUTPUT,
    ),
)
_REFUSE_LOCAL = Setting(
    "refuseLocalBrokers",
    "Whether to refuse bootstrap servers and brokers at loopback, link-local and metadata addresses.",
    parse=boolean,
    default=False,
    group="Kafka",
)
_settings = (
    *KAFKA_SETTINGS,
    _REFUSE_LOCAL,
    ALLOWED_TOPICS,
    *settings_of_cluster("target", required=False, group="Kafka, target"),
    *_own,
)
DOCTOR = SettingsTable(
    "GAPLESS_DOCTOR_",
    _settings,
    foreign_settings(_settings),
    common=(
        "bootstrapServers",
        "caFile",
        "targetBootstrapServers",
        "targetCaFile",
        "topics",
        "groups",
        "mirror",
        "gapTopic",
        "targetIP",
        "targetPort",
        "json",
        "report",
    ),
)
"""``gapless doctor``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorSettings:
    """The checks to make, and the outputs."""

    source: KafkaConnection
    target: KafkaConnection | None
    choice: TopicChoice
    """All topics, if it has no name, prefix or pattern."""
    allowed_topics: AllowedTopics | None
    rename: str
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    mirror: MirrorIdentity | None
    gap_topic: str | None
    remembered: Path | None
    certificate_days: int
    timeout_seconds: float
    link: Mapping[str, Any] | None
    """The settings of the link by name; ``None`` for no link."""
    is_json: bool
    report: Path | None
    report_line: bool

    def target_topic(self, topic: str) -> str:
        """Return the name of a topic at the target."""
        return self.rename.replace("{topic}", topic)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> DoctorSettings:
        """Build from resolved settings. Raises ConfigurationError for invalid combinations."""
        choice = TopicChoice(values["topics"], values["topicPrefix"], values["topicPattern"], values["exclude"])
        allowed: AllowedTopics | None = values["allowedTopics"]
        if allowed is not None:
            allowed.check([*choice.names, *filter(None, [values["gapTopic"]])], what="The doctor")
        target = None
        target_values = values_of_cluster("target", values)
        if target_values["bootstrapServers"] is not None:
            target = connection_from(
                {**target_values, "refuseLocalBrokers": values["refuseLocalBrokers"]}, client_id=_CLIENT_ID
            )
        elif values["mirror"] is not None:
            raise ConfigurationError("--mirror requires a target; give --target-bootstrap-servers.")
        link = None
        if values["targetIP"] is not None:
            if values["targetPort"] is None:
                raise ConfigurationError("targetIP is given without targetPort; give the UDP port of the receiver.")
            names = ("nic", "targetIP", "targetPort", "payloadSize", "sourceAddress", "requireNeighbour")
            link = {name: values[name] for name in names}
        return cls(
            source=connection_from(values, client_id=_CLIENT_ID),
            target=target,
            choice=choice,
            allowed_topics=allowed,
            rename=values["rename"],
            groups=values["groups"],
            transactional_ids=values["transactionalIds"],
            mirror=None if values["mirror"] is None else MirrorIdentity(values["mirror"]),
            gap_topic=values["gapTopic"],
            remembered=values["remembered"],
            certificate_days=values["certificateDays"],
            timeout_seconds=values["timeout"],
            link=link,
            is_json=values["json"],
            report=values["report"],
            report_line=values["reportLine"],
        )
