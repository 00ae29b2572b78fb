"""Filter rules from a ConfigMap are waited for, copied at the start, and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from conftest import SenderCluster

FILTER = {"rulesFrom": {"configMap": {"name": "site"}}, "defaultAction": "Deny"}
RULES = "# by the site's order\ndeny:secret\n\n  allow:.  \n"


def mounted_rules(cluster: SenderCluster) -> str:
    job = str(cluster.a_resend().status.job)
    assert cluster.property_of(job, "inputFilterRules") == "inputFilterRules=/etc/gapless/filter.rules"
    assert cluster.property_of(job, "inputFilterDefaultAction") == "inputFilterDefaultAction=deny"
    return str(cluster.bodies["ConfigMap", job]["data"]["filter.rules"])


def copies(cluster: SenderCluster) -> list[str]:
    maps = [name for kind, name in cluster.bodies if kind == "ConfigMap"]
    roles = {name: cluster.bodies["ConfigMap", name]["metadata"].get("labels", {}) for name in maps}
    return [name for name, labels in roles.items() if labels.get("gapless.dev/role") == "filter"]


def test_waits_for_rules_that_are_not_there_and_sends_with_them_when_they_are(ready: SenderCluster) -> None:
    ready.resend(inputFilter=FILTER)
    ready.settle()
    assert ready.summary() == ("FilterRulesNotFound", "False", "True", "False", "Unknown")
    assert ready.condition(Type.ACCEPTED).status == "False"
    assert (
        "no entry filter.rules in a ConfigMap site in the namespace gapless-sender"
        in ready.condition(Type.READY).message
    )
    assert ready.running_jobs() == []
    ready.refuses_to_read = "configmaps is forbidden"
    ready.settle()
    assert "configmaps is forbidden" in ready.condition(Type.READY).message
    ready.refuses_to_read = ""
    ready.config_map("site", other=RULES)
    ready.settle()
    assert ready.summary()[0] == "FilterRulesNotFound"
    ready.config_map("site", **{"filter.rules": RULES})
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_rules_of_started_work_do_not_follow_the_config_map(ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    job = ready.begin(inputFilter=FILTER)
    identity = ready.a_resend().status.identity
    for change in ("allow:.", "no rule", None):
        if change is None:
            ready.delete("ConfigMap", "site")
        else:
            ready.config_map("site", **{"filter.rules": change})
        ready.settle()
        assert (ready.a_resend().status.job, ready.a_resend().status.identity) == (job, identity)
        assert mounted_rules(ready) == "deny:secret\nallow:.\n"
    ready.end(f"{job}-0-0", 3, ready.report(10))
    ready.settle()
    ready.advance(minutes=5)
    ready.settle()
    assert ready.a_resend().status.job != job, "another attempt"
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_another_force_uses_the_current_rules(ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    before = ready.a_resend().status.identity
    ready.config_map("site", **{"filter.rules": "deny:more"})
    ready.settle()
    assert ready.summary()[0] == "Sent"
    ready.resend(inputFilter=FILTER, force="with the new rules")
    ready.settle()
    assert mounted_rules(ready) == "deny:more\n"
    assert ready.a_resend().status.identity != before


def test_identical_rules_are_the_same_work_inline_or_in_a_config_map(ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    ready.resend("again", inputFilter={"rules": ["deny:secret", "allow:."], "defaultAction": "Deny"})
    ready.settle()
    assert ready.summary("again")[0] == "AlreadySent"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("deny:a\nmaybe:b", "Line 2 of the entry filter.rules of ConfigMap site is not a rule; write allow:"),
        ("deny:", "Line 1 of the entry filter.rules of ConfigMap site is not a rule; write"),
        ("# nothing\n\n", "The entry filter.rules of ConfigMap site has no rules; write one per line, or"),
    ],
)
def test_invalid_rules_are_refused_with_their_line(rules: str, words: str, ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": rules})
    ready.resend(inputFilter=FILTER)
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert words in ready.condition(Type.READY).message
    assert "maybe" not in ready.condition(Type.READY).message, "who reads the status may perhaps not read the ConfigMap"
    ready.config_map("site", **{"filter.rules": RULES})
    ready.settle()
    assert ready.summary()[0] == "Starting"


def test_the_copy_is_deleted_with_the_settings(ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    (copy,) = copies(ready)
    assert ready.bodies["ConfigMap", copy]["immutable"] is True
    ready.advance(hours=2)
    ready.settle()
    assert copies(ready) == []
    assert ("ConfigMap", "site") in ready.bodies


@pytest.mark.parametrize("crash_at", range(1, 12))
def test_a_crash_at_any_write_changes_no_rule(crash_at: int, ready: SenderCluster) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.resend(inputFilter=FILTER)
    ready.crash_at = ready.writes + crash_at
    ready.settle_despite_crashes()
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_a_key_rotation_without_encryption_is_refused(ready: SenderCluster) -> None:
    options: dict[str, Any] = {"generateNewSymmetricKeyEverySeconds": 60}
    ready.resend(**options)
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert "Diode hall does not encrypt" in ready.condition(Type.READY).message
