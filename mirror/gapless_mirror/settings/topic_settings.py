"""Owns the settings for naming and creating topics in the target."""

from __future__ import annotations

from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, NEVER
from gapless_mirror.topics.names import SAME_NAME, rename_template

_GROUP = "Topics of the target"
TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "rename",
        "Name of a topic in the target: {topic} is replaced by its name in the source, {source} by sourceName.",
        parse=rename_template,
        default=SAME_NAME,
        metavar="RULE",
        group=_GROUP,
    ),
    Setting("sourceName", "Value of {source} in rename.", default="", group=_GROUP),
    Setting(
        "targetName",
        "Value of {source} in the names of topics that were copied from the target, with the same rename rule. Such "
        "topics, and their copies, are not copied back. Mirrors of Gapless in the opposite direction are found without "
        "it.",
        default="",
        group=_GROUP,
    ),
    Setting(
        "createTopics",
        "Whether to create missing topics, with the configuration and the number of partitions of the source, and to "
        "add partitions when the source gets more.",
        parse=boolean,
        default=True,
        group=_GROUP,
    ),
    Setting(
        "replicationFactor",
        "Replication factor of created topics.",
        parse=integer(1, 1000),
        shown_default="that of the target's brokers",
        metavar="NUMBER",
        group=_GROUP,
    ),
    Setting(
        "provenance",
        "Whether records get the header gapless-mirror with the clusters that they came from, so that a mirror in the "
        "opposite direction does not copy them back. auto: if there is such a mirror; always: needed for loops of "
        "three clusters; never: the header is not read either.",
        parse=choice(AUTO, ALWAYS, NEVER),
        default=AUTO,
        group=_GROUP,
    ),
)
