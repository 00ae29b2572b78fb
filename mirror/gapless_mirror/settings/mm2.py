"""How a flow of MirrorMaker 2's mm2.properties is translated to settings of a mirror.

A property has one of three scopes: ``A->B.name`` for a flow, ``A.name`` for a cluster, and ``name`` for all. In each,
``consumer.``, ``producer.`` and ``admin.`` restrict it to one client. The narrowest scope takes precedence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.client_properties import (
    CONSUMER,
    PRODUCER,
    Rule,
    mirror_name_of_group,
    rule_of,
)
from gapless_mirror.settings.config_types import words
from gapless_mirror.settings.login_properties import SECRETS, SECURITY
from gapless_mirror.settings.mm2_properties import (
    FLOW_RULES,
    WORKER,
    expression,
    policy_template,
    topic_expression,
)
from gapless_mirror.settings.old_mirror import refuse_limits
from gapless_mirror.settings.translation import ClientRules, Translation, apply_rule, settle, translate

if TYPE_CHECKING:
    from gapless_mirror.settings.java_properties import Property

_CLIENTS = ("consumer", "producer", "admin")
_FLOW = "->"
"""The scope of a property of the chosen flow."""
_DEFAULT_GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"


class FlowName(NamedTuple):
    """One direction between two clusters of the file."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def is_mm2(properties: Mapping[str, Property]) -> bool:
    """Whether these are properties of MirrorMaker 2: only it has a list of clusters (in YAML it is on other lines)."""
    return "clusters" in properties and bool(properties["clusters"].raw_value)


def translate_mm2(
    properties: Mapping[str, Property],
    flow: str | None,
    *,
    file: Path,
    given: Collection[str] = (),
    ignore_unknown: bool = False,
) -> Translation:
    """Translate one flow.

    Args:
        properties: of the file.
        flow: ``A->B``; ``None`` for the only one that is enabled.
        file: for messages.
        given: settings that are given elsewhere, which take precedence.
        ignore_unknown: whether unknown properties are ignored.

    Raises:
        ConfigurationError: no flow or several are enabled, or properties are unknown, or cannot work here.
    """
    translation, _ = collect_mm2(properties, flow, file=file, given=given)
    settle(translation, [*FLOW_RULES, *WORKER, *CONSUMER, *PRODUCER, *SECURITY], ignore_unknown=ignore_unknown)
    return translation


def collect_mm2(
    properties: Mapping[str, Property],
    flow: str | None,
    *,
    file: Path,
    given: Collection[str] = (),
    files_folder: str = "",
) -> tuple[Translation, FlowName]:
    """Translate one flow like `translate_mm2`, and return what is unknown or refused with the rest.

    Raises:
        ConfigurationError: no flow or several are enabled, or a cluster has an invalid alias.
    """
    clusters = [*filter(None, words(properties["clusters"].value))]
    if not all(map(str.isprintable, clusters)):
        raise ConfigurationError(
            f"The property clusters ({properties['clusters'].origin}) has an alias with control characters; correct it."
        )
    chosen = _select_flow(properties, clusters, flow, file)
    scopes = _Scopes(properties, clusters, chosen)
    translation = Translation(unknown=scopes.unknown)
    refusals = translation.refusals
    for each in [*scopes.flow.values(), *scopes.worker.values()]:
        rule = rule_of(each.key, FLOW_RULES) or rule_of(each.key, WORKER)
        if rule is not None:
            with refusals.collect():
                apply_rule(translation, each, rule, "")
    for side, cluster, client, rules in (
        ("source", chosen.source, "consumer", CONSUMER),
        ("target", chosen.target, "producer", PRODUCER),
    ):
        client_rules = ClientRules(rules, side, given, files_folder)
        translated = translate(scopes.client(cluster, side, client).values(), client_rules)
        # MirrorMaker 2's consumers have no group, and it refreshes topics at an interval of its own.
        translation.texts |= {
            name: text for name, text in translated.texts.items() if name not in {"name", "topicRefresh"}
        }
        translation.ignored |= translated.ignored
        translation.to_write |= translated.to_write
        scopes.unknown += translated.unknown
        refusals.sentences += translated.refusals.sentences
    with refusals.collect():
        refuse_limits(
            scopes.client(chosen.source, "source", "consumer"),
            scopes.client(chosen.target, "target", "producer"),
            producer=file,
        )
    with refusals.collect():
        _add_names(translation, scopes.flow, chosen, file=file, given=given)
    with refusals.collect():
        _add_choice(translation, scopes.flow, chosen, file)
    return translation, chosen


def _select_flow(properties: Mapping[str, Property], clusters: list[str], flow: str | None, file: Path) -> FlowName:
    enabled = []
    for source in clusters:
        for target in clusters:
            each = properties.get(f"{source}->{target}.enabled") or properties.get("enabled")
            if source != target and each is not None and each.value.lower() == "true":
                enabled.append(FlowName(source, target))
    if flow is not None:
        source, arrow, target = (part.strip() for part in flow.partition("->"))
        if not arrow or source not in clusters or target not in clusters or source == target:
            known = ", ".join(map(str, enabled)) or "none that is enabled"
            raise ConfigurationError(f"The file {file} has no flow {flow}; it has {known}. Correct --flow=A->B.")
        return FlowName(source, target)
    if len(enabled) != 1:
        what = "no flow that is enabled" if not enabled else f"{len(enabled)} flows ({', '.join(map(str, enabled))})"
        raise ConfigurationError(
            f"The file {file} has {what}; choose one with --flow=A->B, and run one mirror for each flow."
        )
    return enabled[0]


class _Scopes:
    """The properties of a file by scope, without prefixes; narrower scopes take precedence."""

    def __init__(self, properties: Mapping[str, Property], clusters: list[str], chosen: FlowName) -> None:
        self.flow: dict[str, Property] = {}
        self.worker: dict[str, Property] = {}
        self._clients: dict[tuple[str, str], dict[str, Property]] = {}
        self.unknown: list[Property] = []
        prefixes = sorted((f"{source}->{target}." for source in clusters for target in clusters), key=len, reverse=True)
        by_length = sorted(clusters, key=len, reverse=True)  # of dc1 and dc1.eu the longer alias counts
        ranked: list[tuple[int, str, Property]] = []
        for each in properties.values():
            prefix = next((prefix for prefix in prefixes if each.key.startswith(prefix)), None)
            if prefix is not None:
                if prefix == f"{chosen}.":
                    scope, bare = _side(_without(each, prefix))
                    ranked.append((2, f"{_FLOW}{scope}", bare))
                continue
            cluster = next((name for name in by_length if each.key.startswith(f"{name}.")), None)
            if cluster is not None and each.key not in FLOW_RULES:  # such as source.cluster.alias
                ranked.append((1, cluster, _without(each, f"{cluster}.")))
                continue
            scope, bare = _side(each)
            ranked.append((1 if scope else 0, scope, bare))
        for _, scope, each in sorted(ranked, key=lambda entry: entry[0]):
            self._assign(scope, each, chosen)

    def client(self, cluster: str, side: str, client: str) -> dict[str, Property]:
        """Return the properties of one client of a cluster, in ascending precedence of their scopes."""
        rules = CONSUMER if client == "consumer" else PRODUCER
        properties: dict[str, Property] = {}
        for scope in ("", cluster, f"{side}!", _FLOW, f"{_FLOW}{side}!"):
            general = self._clients.get((scope, ""), {})
            properties |= {key: each for key, each in general.items() if _is_of(key, rules)}
            properties |= self._clients.get((scope, client), {})
        return properties

    def _assign(self, scope: str, each: Property, chosen: FlowName) -> None:
        rule = rule_of(each.key, FLOW_RULES)
        client = next((name for name in _CLIENTS if each.key.startswith(f"{name}.")), "")
        if client and each.key not in FLOW_RULES and each.key not in WORKER:
            bare = _without(_without(each, f"{client}."), "override.")  # the prefix of a connector in Kafka Connect
            self._clients.setdefault((scope, client), {})[bare.key] = bare
        elif rule is not None:
            if scope in {"", chosen.target, "target!", _FLOW, f"{_FLOW}target!"}:
                self.flow[each.key] = each
        elif rule_of(each.key, WORKER) is not None:
            self.worker[each.key] = each
        elif _is_of(each.key, CONSUMER) or _is_of(each.key, PRODUCER):
            self._clients.setdefault((scope, ""), {})[each.key] = each
        else:
            self.unknown.append(each)


def _side(each: Property) -> tuple[str, Property]:
    """Return the scope of a property for one side, such as source.cluster.x, and the rest of it."""
    if each.key in FLOW_RULES:
        return "", each
    for side in ("source", "target"):
        for prefix in (f"{side}.cluster.", f"{side}."):
            if each.key.startswith(prefix):
                return f"{side}!", _without(each, prefix)
    return "", each


def _is_of(key: str, rules: Mapping[str, Rule]) -> bool:
    return key in SECRETS or rule_of(key, SECURITY) is not None or rule_of(key, rules) is not None


def _without(each: Property, prefix: str) -> Property:
    return each._replace(key=each.key.removeprefix(prefix))


def _add_names(
    translation: Translation, flow: Mapping[str, Property], chosen: FlowName, *, file: Path, given: Collection[str]
) -> None:
    """Add the names of the mirror and both clusters, and the rule for the names of topics.

    MirrorMaker 2 takes the aliases of the flow unless the properties of its connectors give others, which may be empty.
    """
    origin = f"from the flow {chosen} in {file}"
    source, target = (
        flow[f"{side}.cluster.alias"].value if f"{side}.cluster.alias" in flow else cluster
        for side, cluster in (("source", chosen.source), ("target", chosen.target))
    )
    translation.texts["name"] = (mirror_name_of_group(f"{chosen.source}-{chosen.target}"), origin)
    for setting, alias in (("sourceName", source), ("targetName", target)):
        if alias:
            translation.texts[setting] = (alias, origin)
    if "rename" not in given:
        translation.texts["rename"] = (policy_template(flow, source), origin)


def _add_choice(translation: Translation, flow: Mapping[str, Property], chosen: FlowName, file: Path) -> None:
    """Add the settings that combine several properties: topics and groups without the excluded ones."""
    origin = f"from the flow {chosen} in {file}"
    translation.texts["topicPattern"] = (topic_expression(flow), origin)
    syncs_groups = flow.get("sync.group.offsets.enabled")
    interval = flow.get("sync.group.offsets.interval.seconds")
    is_disabled = interval is not None and interval.value.startswith("-")
    if syncs_groups is not None and syncs_groups.value.lower() == "true" and not is_disabled:
        excluded = ("groups.exclude", "groups.blacklist")
        translation.texts["groupPattern"] = (
            expression(flow, ("groups", "groups.whitelist"), ".*", excluded, _DEFAULT_GROUPS_EXCLUDE),
            origin,
        )
