"""Owns the settings by which a mirror names and creates topics; must not know how it does."""

from __future__ import annotations

from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_kafka.mirror.lanes.provenance import ALWAYS, AUTO, NEVER
from gapless_kafka.mirror.topics.names import SAME_NAME, rename_template

_GROUP = "Topics of the target"
TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "rename",
        "What a topic is called in the target: {topic} stands for its name in the source, {source} for sourceName.",
        parse=rename_template,
        default=SAME_NAME,
        shown_default=SAME_NAME,
        metavar="RULE",
        own=True,
        group=_GROUP,
    ),
    Setting("sourceName", "What {source} stands for in rename.", default="", own=True, group=_GROUP),
    Setting(
        "createTopics",
        "Whether missing topics are created, with the settings and the partition count of the source, and partitions "
        "added that the source gets.",
        parse=boolean,
        default=True,
        shown_default="true",
        metavar="true|false",
        switch=True,
        own=True,
        group=_GROUP,
    ),
    Setting(
        "replicationFactor",
        "Replicas of topics that are created.",
        parse=integer(1, 1000),
        shown_default="that of the target's brokers",
        metavar="NUMBER",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "provenance",
        "Whether records get the header gapless-mirror, which lists the clusters that they came from, so that a mirror "
        "the other way leaves them out. auto: where a mirror goes the other way; always: circles of three clusters "
        "need it; never: the header is not looked at either.",
        parse=choice(AUTO, ALWAYS, NEVER),
        default=AUTO,
        shown_default=AUTO,
        metavar="auto|always|never",
        own=True,
        group=_GROUP,
    ),
)
