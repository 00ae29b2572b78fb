"""The filter rules that a Resend takes from a ConfigMap: reading them into its spec, and the copy of them.

Must not know what rules do. A copy is made with the first pod, and from then on only the copy counts: the rules of
started work do not change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.input_filter import RulesConfigMap
from gapless_operator.common.children import child_name, owned_manifest
from gapless_operator.sending.resend.properties import run_id

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.common.plan import Manifest

FILTER = "filter"
"""Role of the copy."""
_ENTRY = "filter.rules"


def required_rules_entry(resend: Resend) -> RulesConfigMap | None:
    """Return the ConfigMap entry with the rules; ``None`` for a Resend without such rules, or one that has ended."""
    input_filter = resend.spec.input_filter
    ended = resend.status.finished_at is not None and resend.status.observed_generation == resend.metadata.generation
    if input_filter is None or input_filter.rules_from is None or ended:
        return None
    return input_filter.rules_from.config_map


def copy_name(resend: Resend) -> str:
    """Return the name of the ConfigMap with the copy; each `force` has its own."""
    run = run_id(resend)
    return child_name(resend, f"{FILTER}-{run}" if run else FILTER)


def copy_entry(resend: Resend) -> RulesConfigMap:
    """Return the ConfigMap entry of the copy."""
    return RulesConfigMap(name=copy_name(resend), key=_ENTRY)


def rules_copy(resend: Resend) -> Manifest | None:
    """Return the ConfigMap with a copy of the rules that `with_rules` has put into the spec; ``None`` without any."""
    input_filter = resend.spec.input_filter
    if input_filter is None or input_filter.rules_from is None:
        return None
    text = "".join(f"{rule}\n" for rule in input_filter.rules or ())
    content = {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {_ENTRY: text}}
    return owned_manifest(resend, content, name=copy_name(resend), role=FILTER)


def with_rules(resend: Resend, content: bytes | None) -> Resend:
    """Return the Resend with the rules of its ConfigMap in its spec, where they are treated like inline rules.

    Args:
        resend: any.
        content: of the entry that `required_rules_entry` names; ``None`` if there is none.

    Raises:
        ConfigurationError: the content is not a list of rules.
    """
    input_filter = resend.spec.input_filter
    if input_filter is None or input_filter.rules_from is None or content is None:
        return resend
    rules = _parse_rules(content, input_filter.rules_from.config_map)
    spec = resend.spec.model_copy(update={"input_filter": input_filter.model_copy(update={"rules": rules})})
    return resend.model_copy(update={"spec": spec})


def _parse_rules(content: bytes, source: RulesConfigMap) -> tuple[str, ...]:
    where = f"entry {source.key} of ConfigMap {source.name}"
    try:
        lines = re.split(r"\r?\n", content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"The {where} is not UTF-8 text; write one rule per line.") from None
    rules = []
    for number, line in enumerate(lines, start=1):
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        action, colon, pattern = rule.partition(":")
        if not colon or action.strip().lower() not in {"allow", "deny"} or not pattern.strip():
            # The line is not quoted: the author of the Resend may not be allowed to read this ConfigMap.
            raise ConfigurationError(f"Line {number} of the {where} is not a rule; write allow:REGEX or deny:REGEX.")
        rules.append(rule)
    if not rules:
        raise ConfigurationError(f"The {where} has no rules; write one per line, or delete spec.inputFilter.")
    return tuple(rules)
