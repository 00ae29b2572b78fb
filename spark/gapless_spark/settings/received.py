"""Owns the settings for what an audit reads and expects to find; must not know how it finds out."""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.settings import Setting, boolean
from gapless_spark.settings.values import files, state_place, topic_ids, words

RECEIVED = (
    Setting(
        "topics",
        "Topics with received events, separated by commas; their keys are topic_partition_offset.",
        parse=words,
        aliases=("topic",),
        required=True,
        metavar="TOPIC,…",
        own=True,
        group="What to read",
    ),
    Setting(
        "expect",
        "What should be there, as topic:partition:first-last; repeat it, or separate several by commas. A partition "
        "that is not listed is expected from the lowest to the highest offset seen.",
        parse=words,
        default=(),
        metavar="TOPIC:PARTITION:FIRST-LAST",
        repeatable=True,
        own=True,
        group="What to read",
    ),
    Setting(
        "expectFile",
        "File with such lines; blank ones and ones that begin with # do not count.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="What to read",
    ),
    Setting(
        "expectInventory",
        "What should be there, as gapless inventory wrote it on the sending side; repeat it, or separate several by "
        "commas. Of each partition the newest one counts.",
        parse=files,
        default=(),
        aliases=("expectManifest",),
        metavar="FILE,…",
        repeatable=True,
        own=True,
        group="What to read",
    ),
    Setting(
        "expectInventoryTopic",
        "Topic in which the receiver leaves status texts (its internalTopic), with inventories that gapless inventory "
        "sent over the link.",
        aliases=("expectManifestTopic",),
        metavar="TOPIC",
        own=True,
        group="What to read",
    ),
    Setting(
        "expectTopics",
        "Topics of the inventories that count, as ids name them, separated by commas; others are not expected here.",
        parse=words,
        default=(),
        shown_default="all",
        metavar="TOPIC,…",
        own=True,
        group="What to read",
    ),
    Setting(
        "newGeneration",
        "An upstream topic that was deleted and recreated, as events' keys name it, with its new topic ID; repeat it, "
        "or separate several by commas. What the state has read before counts for the old topic, and all other records "
        "for the new one.",
        parse=topic_ids,
        default=(),
        metavar="TOPIC:ID,…",
        repeatable=True,
        own=True,
        group="What to read",
    ),
    Setting(
        "includeUnknown",
        "Whether the bundle shall also list events that are unknown, because Kafka deleted records before an audit "
        "read them. Without it they are only counted.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group="Output",
    ),
    Setting(
        "verifyKey",
        "Ed25519 public key (PEM); an inventory without a valid signature of it is refused.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="What to read",
    ),
    Setting(
        "state",
        "Folder, or s3://BUCKET/PREFIX (also s3a://), to keep what was received; a later audit with the same one reads "
        "only records that are new. An empty place starts from the beginning.",
        parse=state_place,
        metavar="DIR|URL",
        own=True,
        group="What to read",
    ),
)
