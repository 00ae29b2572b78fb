"""Owns the filter rules that a Resend takes from a ConfigMap: how they become part of its spec, and the copy of them.

Must not know what rules do. With the first pod a copy is made, and from then on only the copy counts: the rules of work
that has begun do not change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.input_filter import RulesConfigMap
from gapless_operator.common.children import child_name, owned_manifest
from gapless_operator.sending.resend.properties import run_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.common.plan import Manifest

FILTER = "filter"
"""Role of the copy."""
_ENTRY = "filter.rules"


def rules_needed(resend: Resend) -> RulesConfigMap | None:
    """The ConfigMap entry with the rules; ``None`` for a Resend without such rules, or one that has ended."""
    given = resend.spec.input_filter
    ended = resend.status.finished_at is not None and resend.status.observed_generation == resend.metadata.generation
    return None if given is None or given.rules_from is None or ended else given.rules_from.config_map


def copy_name(resend: Resend) -> str:
    """Name of the ConfigMap with the copy; another `force` has its own."""
    run = run_of(resend)
    return child_name(resend, f"{FILTER}-{run}" if run else FILTER)


def copied_entry(resend: Resend) -> RulesConfigMap:
    """The entry of the copy."""
    return RulesConfigMap(name=copy_name(resend), key=_ENTRY)


def rules_copy(resend: Resend) -> Manifest | None:
    """The ConfigMap that keeps the rules of a Resend for whose spec `with_rules` has found them."""
    given = resend.spec.input_filter
    if given is None or given.rules_from is None:
        return None
    text = "".join(f"{rule}\n" for rule in given.rules or ())
    content = {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {_ENTRY: text}}
    return owned_manifest(resend, content, name=copy_name(resend), role=FILTER)


def with_rules(resend: Resend, content: bytes | None) -> Resend:
    """The Resend with the rules of its ConfigMap in its spec, where they are treated like those that it says itself.

    Args:
        resend: any.
        content: of the entry that `rules_needed` names; ``None`` if there is none.

    Raises:
        ConfigurationError: the content is no list of rules.
    """
    given = resend.spec.input_filter
    if given is None or given.rules_from is None or content is None:
        return resend
    rules = _rules_in(content, given.rules_from.config_map)
    spec = resend.spec.model_copy(update={"input_filter": given.model_copy(update={"rules": rules})})
    return resend.model_copy(update={"spec": spec})


def _rules_in(content: bytes, source: RulesConfigMap) -> tuple[str, ...]:
    where = f"The entry {source.key} of ConfigMap {source.name}"
    try:
        lines = re.split(r"\r?\n", content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{where} is not UTF-8 text; write one rule per line.") from None
    rules = []
    for number, line in enumerate(lines, start=1):
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        action, colon, pattern = rule.partition(":")
        if not colon or action.strip().lower() not in {"allow", "deny"} or not pattern.strip():
            # Its content is not shown: who may create a Resend may perhaps not read this ConfigMap.
            raise ConfigurationError(f"{where} has no rule in line {number}; write allow:REGEX or deny:REGEX.")
        rules.append(rule)
    if not rules:
        raise ConfigurationError(f"{where} has no rules; write one per line, or delete spec.inputFilter.")
    return tuple(rules)
