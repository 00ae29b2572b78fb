"""Filter rules that a Resend takes from a ConfigMap are waited for, kept once it has begun, and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from conftest import World

FILTER = {"rulesFrom": {"configMap": {"name": "site"}}, "defaultAction": "Deny"}
RULES = "# by the site's order\ndeny:secret\n\n  allow:.  \n"


def mounted_rules(world: World) -> str:
    job = str(world.a_resend().status.job)
    assert world.property_of(job, "inputFilterRules") == "inputFilterRules=/etc/gapless/filter.rules"
    assert world.property_of(job, "inputFilterDefaultAction") == "inputFilterDefaultAction=deny"
    return str(world.bodies["ConfigMap", job]["data"]["filter.rules"])


def copies(world: World) -> list[str]:
    maps = [name for kind, name in world.bodies if kind == "ConfigMap"]
    roles = {name: world.bodies["ConfigMap", name]["metadata"].get("labels", {}) for name in maps}
    return [name for name, labels in roles.items() if labels.get("gapless.dev/role") == "filter"]


def test_waits_for_rules_that_are_not_there_and_sends_with_them_when_they_are(ready: World) -> None:
    ready.resend(inputFilter=FILTER)
    ready.settle()
    assert ready.standing() == ("FilterRulesNotFound", "False", "True", "False", "Unknown")
    assert ready.said(Type.ACCEPTED).status == "False"
    assert "no entry filter.rules in a ConfigMap site in the namespace gapless-sender" in ready.said(Type.READY).message
    assert ready.running_jobs() == []
    ready.refuses_to_read = "configmaps is forbidden"
    ready.settle()
    assert "configmaps is forbidden" in ready.said(Type.READY).message
    ready.refuses_to_read = ""
    ready.config_map("site", other=RULES)
    ready.settle()
    assert ready.standing()[0] == "FilterRulesNotFound"
    ready.config_map("site", **{"filter.rules": RULES})
    ready.settle()
    assert ready.standing()[0] == "Starting"
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_the_rules_of_what_has_begun_stay_whatever_becomes_of_the_config_map(ready: World) -> None:
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
    ready.later(minutes=5)
    ready.settle()
    assert ready.a_resend().status.job != job, "another attempt"
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_another_force_takes_the_rules_that_are_there_now(ready: World) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    before = ready.a_resend().status.identity
    ready.config_map("site", **{"filter.rules": "deny:more"})
    ready.settle()
    assert ready.standing()[0] == "Sent"
    ready.resend(inputFilter=FILTER, force="with the new rules")
    ready.settle()
    assert mounted_rules(ready) == "deny:more\n"
    assert ready.a_resend().status.identity != before


def test_the_same_rules_are_the_same_work_wherever_they_stand(ready: World) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    ready.resend("again", inputFilter={"rules": ["deny:secret", "allow:."], "defaultAction": "Deny"})
    ready.settle()
    assert ready.standing("again")[0] == "AlreadySent"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("deny:a\nmaybe:b", "Line 2 of the entry filter.rules of ConfigMap site is not a rule; write allow:"),
        ("deny:", "Line 1 of the entry filter.rules of ConfigMap site is not a rule; write"),
        ("# nothing\n\n", "The entry filter.rules of ConfigMap site has no rules; write one per line, or"),
    ],
)
def test_rules_that_are_none_are_refused_with_their_line(rules: str, words: str, ready: World) -> None:
    ready.config_map("site", **{"filter.rules": rules})
    ready.resend(inputFilter=FILTER)
    ready.settle()
    assert ready.standing()[0] == "BadConfiguration"
    assert words in ready.said(Type.READY).message
    assert "maybe" not in ready.said(Type.READY).message, "who reads the status may perhaps not read the ConfigMap"
    ready.config_map("site", **{"filter.rules": RULES})
    ready.settle()
    assert ready.standing()[0] == "Starting"


def test_the_copy_goes_with_the_settings_when_all_is_over(ready: World) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.finished(inputFilter=FILTER)
    (copy,) = copies(ready)
    assert ready.bodies["ConfigMap", copy]["immutable"] is True
    ready.later(hours=2)
    ready.settle()
    assert copies(ready) == []
    assert ("ConfigMap", "site") in ready.bodies


@pytest.mark.parametrize("crash_at", range(1, 12))
def test_a_crash_at_any_write_changes_no_rule(crash_at: int, ready: World) -> None:
    ready.config_map("site", **{"filter.rules": RULES})
    ready.resend(inputFilter=FILTER)
    ready.crash_at = ready.writes + crash_at
    ready.settle_in_spite_of_crashes()
    assert mounted_rules(ready) == "deny:secret\nallow:.\n"


def test_a_key_rotation_without_encryption_is_refused(ready: World) -> None:
    options: dict[str, Any] = {"generateNewSymmetricKeyEverySeconds": 60}
    ready.resend(**options)
    ready.settle()
    assert ready.standing()[0] == "BadConfiguration"
    assert "Diode hall does not encrypt" in ready.said(Type.READY).message
