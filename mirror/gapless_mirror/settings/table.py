"""The settings of ``gapless mirror``; must not know what they mean."""

from __future__ import annotations

from dataclasses import replace

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.missing_code import EXIT_CODE
from gapless_api.base.quantities import boolean, choice, integer
from gapless_api.base.settings import Setting, SettingsTable
from gapless_kafka.access.settings import CONNECT_TIMEOUT, settings_of_cluster
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_mirror.groups.choice import GROUP_SETTINGS
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, NEVER
from gapless_mirror.settings.engines import engines
from gapless_mirror.settings.peer_settings import PEER_SETTINGS
from gapless_mirror.settings.values import NAME, OUTPUT, WHAT, WORK, MirrorValues
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


SOURCE, TARGET = "source", "target"


def _allowed(cluster: str, heading: str, verb: str) -> Setting:
    text = f"Topics of the {cluster} that may be {verb}, by name or as a prefix with *; any other topic is not copied."
    return replace(ALLOWED_TOPICS, name=f"{cluster}AllowedTopics", help=text, group=heading)


JSON = Setting("json", "Print JSON instead of a table.", parse=boolean, default=False, group=OUTPUT)
PLAN = Setting(
    "plan",
    "Show what would be written, and write nothing.",
    parse=boolean,
    default=False,
    aliases=("dryRun",),
    group=OUTPUT,
)
IMPORT_OUTPUT = (
    Setting(
        "print",
        "What to print: the settings file, the manifests, or both.",
        parse=choice("properties", "manifests", "all"),
        default="all",
        group=OUTPUT,
    ),
    Setting("namespace", "Namespace in the manifests.", metavar="NAME", group=OUTPUT),
    Setting(
        "filesFolder",
        "Folder in which the settings expect secrets and certificates that FILE does not have in a file.",
        default="secrets",
        metavar="FOLDER",
        group=OUTPUT,
    ),
)
"""Settings of the subcommands only."""
_OF_SUBCOMMANDS = (JSON, PLAN, EXIT_CODE, *IMPORT_OUTPUT)
MIRROR = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        _allowed(SOURCE, "Source cluster", "read"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        _allowed(TARGET, "Target cluster", "written"),
        replace(CONNECT_TIMEOUT, group=WORK),
        NAME,
        *(replace(setting, group=WHAT) for setting in TOPIC_CHOICE_SETTINGS),
        *MirrorValues.declared(),
        *(setting for engine in engines().values() for setting in engine.settings),
        *TOPIC_SETTINGS,
        *GROUP_SETTINGS,
        *PEER_SETTINGS,
        *LOG_SETTINGS,
    ),
    siblings=_OF_SUBCOMMANDS,
    common=(
        "name",
        "sourceBootstrapServers",
        "targetBootstrapServers",
        "topics",
        "topicPattern",
        "exclude",
        "rename",
        "once",
        "groups",
        "onDataLoss",
        "onTargetLoss",
        "report",
    ),
)
_SHARED = ("name", "connectTimeout")
STATUS = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        *(setting for setting in MIRROR.settings if setting.name in _SHARED),
        JSON,
    ),
    foreign={setting.name: "a setting of gapless mirror itself" for setting in MIRROR.settings},
    siblings=(*MIRROR.settings, *_OF_SUBCOMMANDS),
    common=("name", "sourceBootstrapServers", "sourceCaFile", "targetBootstrapServers", "targetCaFile", "json"),
)
