"""The part of a spec that filters events; must not know how rules are evaluated."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Name, SecretEntry
from gapless_api.v1alpha1.model import ApiModel, Rule

FilterRule = Annotated[str, Field(min_length=6, max_length=1006)]


class RulesConfigMap(ApiModel):
    """An entry of a ConfigMap in the Resend's namespace, with one rule per line as in `rules`."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "filter.rules"
    """Entry of the ConfigMap. Blank lines and lines that start with # are skipped."""


class RulesSource(ApiModel):
    """Location of the rules."""

    config_map: RulesConfigMap
    """The ConfigMap with the rules. They are read when the first pod starts. Later changes apply to new Resends, and to
    this one only with a new force."""


class InputFilter(ApiModel):
    """Filters events by their value.

    Denied events are sent with an empty value, so that the receiving side counts them as received.
    """

    RULES: ClassVar = (
        Rule(
            "has(self.rules) != has(self.rulesFrom)",
            "give exactly one of rules and rulesFrom",
            lambda spec: (spec.rules is None) != (spec.rules_from is None),
        ),
        Rule(
            r"!has(self.rules) || self.rules.all(rule, rule.matches('^(allow|deny):.'))",
            "write every rule as allow:REGEX or deny:REGEX",
            lambda spec: all(rule[: rule.find(":") + 1] in {"allow:", "deny:"} for rule in spec.rules or ()),
            "rules",
        ),
    )

    rules: Annotated[tuple[FilterRule, ...], Field(min_length=1, max_length=64)] | None = None
    """Rules as allow:REGEX or deny:REGEX (RE2, searched in the value). The first rule that matches applies."""
    rules_from: RulesSource | None = None
    """Reads the rules from a ConfigMap, for example to share them between Resends. Exactly one of rules and rulesFrom
    is required."""
    default_action: Literal["Allow", "Deny"] = "Allow"
    """Action for events that no rule matches."""
