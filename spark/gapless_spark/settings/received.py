"""Owns the settings for what an audit reads and expects; must not know how it compares them."""

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
        group="What to read",
    ),
    Setting(
        "expect",
        "Expected offsets, as topic:partition:first-last; repeat it, or separate several by commas. In a partition "
        "that is not listed, all offsets from the lowest to the highest received are expected.",
        parse=words,
        default=(),
        metavar="TOPIC:PARTITION:FIRST-LAST",
        repeatable=True,
        group="What to read",
    ),
    Setting(
        "expectFile",
        "File with such lines; blank lines and lines that begin with # are ignored.",
        parse=Path,
        group="What to read",
    ),
    Setting(
        "expectInventory",
        "Inventory that gapless inventory wrote on the sending side, with the expected offsets; repeat it, or separate "
        "several by commas. For each partition the newest one is used.",
        parse=files,
        default=(),
        aliases=("expectManifest",),
        metavar="FILE,…",
        repeatable=True,
        group="What to read",
    ),
    Setting(
        "expectInventoryTopic",
        "Topic to which the receiver writes status texts (its internalTopic), with inventories that gapless inventory "
        "sent over the link.",
        aliases=("expectManifestTopic",),
        metavar="TOPIC",
        group="What to read",
    ),
    Setting(
        "expectTopics",
        "Topics of the inventories to use, as the keys of events name them, separated by commas; others are not "
        "expected.",
        parse=words,
        default=(),
        shown_default="all",
        metavar="TOPIC,…",
        group="What to read",
    ),
    Setting(
        "newGeneration",
        "An upstream topic that was deleted and recreated, as the keys of events name it, with its new topic ID; "
        "repeat it, or separate several by commas. Records that the state has already read belong to the old topic, "
        "all others to the new one.",
        parse=topic_ids,
        default=(),
        metavar="TOPIC:ID,…",
        repeatable=True,
        group="What to read",
    ),
    Setting(
        "includeUnknown",
        "Whether the bundle also lists events that are unknown, because Kafka deleted records before an audit read "
        "them, or because an open transaction holds records back. Without it they are only counted.",
        parse=boolean,
        default=False,
        group="Output",
    ),
    Setting(
        "verifyKey",
        "Ed25519 public key (PEM); inventories without a valid signature of this key are refused.",
        parse=Path,
        group="What to read",
    ),
    Setting(
        "state",
        "Folder, or s3://BUCKET/PREFIX (also s3a://), that stores what was received; a later audit with the same state "
        "reads only new records. An empty place starts from the beginning.",
        parse=state_place,
        metavar="DIR|URL",
        group="What to read",
    ),
)
