"""The proof of what a mirror calls, creates and changes at its target, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.allowed_topics import AllowedTopics, HiddenTopicError
from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.mirror_drift import DRIFT_REPORT, Drift, PositionDifference
from gapless_kafka.reading.cuts import TopicCut
from gapless_kafka.topics.target_topics import TopicDescription
from gapless_mirror.topics.assembly import refusals
from gapless_mirror.topics.carried import NOT_CARRIED, new_configuration, why_not_carried
from gapless_mirror.topics.drift import drift_report, drift_table
from gapless_mirror.topics.keeper import KeepResult
from gapless_mirror.topics.names import RenameRule, rename_template, topic_names
from gapless_mirror.topics.plan import Growth, plan_topics
from gapless_mirror.topics.router import TopicRouter

DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
}


def topic(name: str, partitions: int = 3, *, identity: str = "", **own: str) -> TopicDescription:
    settings = {setting.replace("_", "."): value for setting, value in own.items()}
    return TopicDescription(
        name=name,
        id=identity or f"id-of-{name}",
        partitions=partitions,
        replicas=1,
        configuration={**DEFAULTS, **settings},
        own=settings,
    )


@pytest.mark.parametrize("text", ["{topic}", "{source}.{topic}", "copy-of-{topic}", "{topic}.{source}"])
def test_a_rename_rule_names_the_topic_once(text: str) -> None:
    assert rename_template(text) == text


@pytest.mark.parametrize("text", ["", "copy", "{topic}{topic}", "{Topic}", "a/{topic}", "{topic} b", "{topic}{x}"])
def test_other_rename_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        rename_template(text)


def test_the_rule_places_topic_and_source() -> None:
    assert RenameRule("{source}.{topic}", "east").target("{source}") == "east.{source}"
    with pytest.raises(ConfigurationError, match="sourceName"):
        RenameRule("{source}.{topic}")


@given(st.sets(st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in {".", ".."})))
def test_two_topics_never_get_one_name(topics: set[str]) -> None:
    targets = topic_names(topics, RenameRule("{source}-{topic}", "a")).targets
    assert len(set(targets.values())) == len(targets) == len(topics)


def test_names_that_kafka_refuses_are_refused_with_the_cure() -> None:
    assert len(topic_names(["a" * 249], RenameRule()).targets) == 1
    with pytest.raises(ConfigurationError, match="250 characters"):
        topic_names(["a" * 249], RenameRule("x{topic}"))
    with pytest.raises(ConfigurationError, match="does not allow"):
        topic_names(["."], RenameRule())
    with pytest.raises(ConfigurationError, match="belong to control topics"):
        topic_names(["positions"], RenameRule("_gapless_{topic}"))


def test_names_that_share_metrics_are_a_warning() -> None:
    assert topic_names(["a.b", "c"], RenameRule()).warnings == ()
    (warning,) = topic_names(["a.b", "a_b"], RenameRule()).warnings
    assert "a.b and a_b" in warning


def test_a_copy_is_created_with_the_partitions_and_own_settings_of_the_source() -> None:
    source = topic("t", 5, retention_ms="1000", cleanup_policy="compact", min_insync_replicas="2")
    plan = plan_topics({"t": "x.t"}, {"t": source}, {}, defaults=DEFAULTS, copied={}, creates=True)
    (new,) = plan.creations
    assert (new.source, new.topic, new.partitions) == ("t", "x.t", 5)
    assert new.configuration == {
        "cleanup.policy": "compact",
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "message.timestamp.type": "CreateTime",
        "retention.ms": "1000",
    }
    assert plan.ready == {"t": 5}


def test_a_decisive_setting_is_carried_where_the_defaults_of_the_clusters_differ() -> None:
    source = topic("t")
    target_defaults = {**DEFAULTS, "max.message.bytes": "1000", "retention.ms": "1"}
    found = new_configuration(source, target_defaults)
    assert (found["max.message.bytes"], found["retention.ms"]) == ("1048588", "604800000")
    assert "cleanup.policy" not in found
    assert new_configuration(source, {}) == {"message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize("setting", NOT_CARRIED)
def test_settings_of_the_source_cluster_alone_are_not_carried(setting: str) -> None:
    name = setting.replace("*", "anything")
    assert why_not_carried(name)
    found = new_configuration(TopicDescription(name="t", id="", partitions=1, replicas=1, own={name: "7"}), {})
    assert found.get(name, "CreateTime") == "CreateTime"


def test_partitions_that_the_source_gets_are_added_at_the_target() -> None:
    plan = plan_topics(
        {"t": "t"},
        {"t": topic("t", 4, identity="a")},
        {"t": topic("t", 3, identity="b")},
        defaults={},
        copied={"t": 3},
        creates=True,
    )
    assert plan.growths == (Growth(source="t", topic="t", before=3, partitions=4),)
    assert (plan.refusals, plan.ready) == ((), {"t": 4})


@pytest.mark.parametrize(
    ("source", "target", "copied", "create_topics", "words"),
    [
        (None, None, 0, "true", "has no topic t"),
        (topic("t", 2), topic("t", 3, identity="b"), 3, "true", "recreated with fewer"),
        (topic("t", 3), None, 0, "false", "createTopics is false; create it with 3 partitions"),
        (topic("t", 3), topic("t", 2, identity="b"), 0, "false", "add partitions"),
        (topic("t", 3), topic("t", 3), 0, "true", "the same topic"),
    ],
)
def test_a_topic_that_cannot_be_copied_is_refused_and_the_others_go_on(
    source: TopicDescription | None, target: TopicDescription | None, copied: int, create_topics: str, words: str
) -> None:
    plan = plan_topics(
        {"t": "t", "u": "u"},
        {"u": topic("u"), **({"t": source} if source else {})},
        {"u": topic("u", identity="other"), **({"t": target} if target else {})},
        defaults={},
        copied={"t": copied},
        creates=create_topics == "true",
    )
    ((name, sentence, _),) = plan.refusals
    assert (name, plan.ready) == ("t", {"u": 3})
    assert words in sentence


def test_a_target_with_more_partitions_or_its_own_timestamps_is_a_warning() -> None:
    found = topic("t", 5, identity="b", message_timestamp_type="LogAppendTime")
    plan = plan_topics({"t": "t"}, {"t": topic("t")}, {"t": found}, defaults={}, copied={}, creates=True)
    assert plan.ready == {"t": 3}
    assert [
        words in warning
        for words, warning in zip(("the additional ones stay empty", "CreateTime"), plan.warnings, strict=True)
    ]
    assert "additional ones stay empty" in plan.warnings[0]
    assert "LogAppendTime" in plan.warnings[1]


def test_drift_names_setting_source_and_target() -> None:
    source = {
        "same": topic("same", retention_ms="5", min_insync_replicas="2"),
        "set": topic("set", retention_ms="5", message_timestamp_type="LogAppendTime"),
        "grown": topic("grown", 4),
        "new": topic("new"),
    }
    target = {
        "same": topic("same", retention_ms="5"),
        "set": topic("set", retention_ms="6", segment_bytes="9", message_timestamp_type="LogAppendTime"),
        "grown": topic("grown", 3),
        "gone": topic("gone"),
    }
    report = drift_report({name: name for name in (*source, "gone")}, source, target)
    assert {each.topic: each.differences for each in report.topics} == {
        "gone": (Drift(what="topic", source="missing", target="present"),),
        "grown": (Drift(what="partitions", source="4", target="3"),),
        "new": (Drift(what="topic", source="present", target="missing"),),
        "set": (
            Drift(what="retention.ms", source="5", target="6"),
            Drift(what="segment.bytes", source=None, target="9"),
            Drift(what="message.timestamp.type", source="CreateTime", target="LogAppendTime"),
        ),
    }
    assert DRIFT_REPORT.from_json(DRIFT_REPORT.to_json(report)) == report
    lines = drift_table(report).splitlines()
    assert lines[0].split() == ["TOPIC", "TARGET", "SETTING", "SOURCE", "TARGET", "HAS"]
    assert ["set", "set", "retention.ms", "5", "6"] in [line.split() for line in lines]
    assert lines[-1] == "Drift in 4 of 5 topics."
    lost = PositionDifference(topic="t", partition=0, target="t", state="TargetDeleted", message="It was deleted.")
    compared = replace(report, positions_compared=3, positions=(lost,))
    assert DRIFT_REPORT.from_json(DRIFT_REPORT.to_json(compared)) == compared
    assert drift_table(compared).splitlines()[-2:] == [
        "TargetDeleted: It was deleted.",
        "1 of 3 positions do not hold.",
    ]


def test_a_topic_that_was_just_created_has_no_drift() -> None:
    source = topic("t", retention_ms="5", min_insync_replicas="2", message_timestamp_type="LogAppendTime")
    defaults = {**DEFAULTS, "max.message.bytes": "77"}
    own = new_configuration(source, defaults)
    copy = TopicDescription(name="t", id="", partitions=3, replicas=1, configuration={**defaults, **own}, own=own)
    assert drift_report({"t": "t"}, {"t": source}, {"t": copy}).topics == ()


def test_settings_that_kafka_does_not_show_are_named_as_not_compared() -> None:
    hidden = TopicDescription(name="t", id="", partitions=3, replicas=1)
    report = drift_report({"t": "t"}, {"t": topic("t")}, {"t": hidden})
    assert (report.topics, report.settings_unknown) == ((), ("t",))
    assert "DescribeConfigs: t." in drift_table(report)


def test_only_topics_that_both_clusters_open_are_copied() -> None:
    told: list[str] = []
    opened = {
        "sourceAllowedTopics": AllowedTopics(("orders*",)),
        "targetAllowedTopics": AllowedTopics(("north.orders",)),
        "parkingTopic": None,
        "topics": ("orders", "secret", "orders-7"),
    }
    refuse = refusals({"rename": "north.{topic}", "sourceName": "", **opened}, told.append)
    refuse("orders")
    assert told == ["orders"], "what else refuses topics was asked, too"
    with pytest.raises(ConfigurationError, match="The mirror's source requests the topic secret"):
        refuse("secret")
    with pytest.raises(ConfigurationError, match=r"The mirror's target requests the topic north\.orders-7"):
        refuse("orders-7")
    assert told == ["orders"]


@pytest.mark.parametrize("closed", ["source", "target"])
def test_a_topic_that_a_pattern_has_found_and_that_is_not_open_is_not_named(closed: str) -> None:
    opened: dict[str, Any] = {f"{side}AllowedTopics": None for side in ("source", "target")}
    opened[f"{closed}AllowedTopics"] = AllowedTopics(("orders*",))
    values = {"rename": "{topic}", "sourceName": "", "parkingTopic": None, "topics": ("orders",), **opened}
    refuse = refusals(values, lambda _topic: None)
    refuse("orders")
    with pytest.raises(HiddenTopicError, match=r"a prefix or a pattern that may not be used .*only orders\*") as raised:
        refuse("payroll")
    assert "payroll" not in str(raised.value)
    keeper: Any = Keeper()
    router = TopicRouter(keeper, refuse=refuse, follows_recreated=False)
    first = [TopicCut("orders", (0,), (0,), 0)]
    assert router.routes(first).problems == ()
    found = router.routes([*first, TopicCut("payroll", (0,), (0,), 0), TopicCut("salaries", (0,), (0,), 0)])
    assert set(found.targets) == {"orders"}
    assert [problem.topic for problem in found.problems] == [""]
    assert not any(name in found.problems[0].message for name in ("payroll", "salaries"))


def test_clusters_that_name_no_topics_open_all() -> None:
    told: list[str] = []
    values: dict[str, Any] = {"rename": "{topic}", "sourceName": "", "parkingTopic": "parked", "topics": None}
    refuse = refusals({**values, "sourceAllowedTopics": None, "targetAllowedTopics": None}, told.append)
    refuse("any")
    assert told == ["any"]
    with pytest.raises(ConfigurationError, match="The target topic of parked is the parking topic parked"):
        refuse("parked")


class Keeper:
    """Finds every topic as it must be, and counts how often it is asked."""

    asked = 0

    def keep(self, topics: list[str], _copied: object) -> KeepResult:
        self.asked += 1
        return KeepResult((), (), (), (), {name: name for name in topics}, dict.fromkeys(topics, 1))


def test_a_topic_that_would_come_back_is_left_out_at_each_look_from_then_on() -> None:
    refused: set[str] = set()

    def refuse(name: str) -> None:
        if name in refused:
            raise ConfigurationError("It would come back.")

    keeper: Any = Keeper()
    router = TopicRouter(keeper, refuse=refuse, follows_recreated=False)
    cuts = [TopicCut(name, (0,), (0,), 0) for name in ("a", "b")]
    assert sorted(router.routes(cuts).targets) == ["a", "b"]
    refused.add("b")
    for _ in range(3):
        routes = router.routes(cuts)
        assert (sorted(routes.targets), [one.topic for one in routes.problems]) == (["a"], ["b"])
    assert keeper.asked == 1, "nothing else has changed"
