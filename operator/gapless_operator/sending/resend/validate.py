"""Owns whether a Resend can be carried out as it is: limits, Kafka, storage, topics, window, settings and bundle.

Must not know what runs. What is refused here does not run: whoever calls this stops it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound, resend_sources
from gapless_operator.common.result import Result
from gapless_operator.sending.resend import conditions as condition_sets
from gapless_operator.sending.resend.bundle import bundle_name, check_digest, check_selection, inspect_bundle
from gapless_operator.sending.resend.filter_rules import with_rules
from gapless_operator.sending.resend.limits import check_limits
from gapless_operator.sending.resend.properties import filter_rules, properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_api.v1alpha1.diode import Diode
    from gapless_operator.common.references import ResendSources
    from gapless_operator.sending.resend.context import Context

RECHECK_AFTER = timedelta(seconds=30)
"""How soon to inspected again for something that nobody tells of when it comes."""


@dataclass(frozen=True, slots=True)
class Validated:
    """What is known of a Resend that can be carried out."""

    diode: Diode
    sources: ResendSources
    is_known: bool
    """Whether it is known which work this is; otherwise a pod has to inspect the bundle first."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that follow from it, by their Python names."""


def validate(context: Context) -> Validated | Result:
    """See whether the Resend can be carried out; a result says what it waits for, or why nobody may send it.

    Raises:
        ConfigurationError: it cannot, as it is.
    """
    resend, observed, diode = context.resend, context.observed, context.observed.diode
    if diode is None:
        raise ValueError("a Resend without a Diode is halted")
    check_limits(resend, diode)
    sources = resend_sources(resend, observed.referenced)
    if isinstance(sources, NotFound):
        return Result(conditions=condition_sets.waiting_for(sources.reason, sources.message), again_after=RECHECK_AFTER)
    window = (resend.spec.partition_window or diode.spec.partition_window).window()
    check_selection(resend, window)
    chosen = resend.spec.offsets or resend.spec.time_range
    _check_topics(() if chosen is None else (chosen.topic,), diode, sources, what="spec")
    waiting = _wait_for_rules(context)
    if waiting is not None:
        return waiting
    properties(resend, diode.spec, sources, plan=False)
    filter_rules(resend.spec)
    encryption = diode.spec.encryption
    if resend.spec.mode == "Send" and encryption is not None and encryption.shared_with_live_stream:
        message = (
            f"Diode {diode.metadata.name} encrypts for a receiver that the live stream uses, too; this resend would "
            f"make the live stream unreadable: give resends a receiver port of their own in another Diode."
        )
        return Result(conditions=condition_sets.failed(Reason.SHARED_KEY_LANE, message))
    source, update = resend.spec.bundle, dict[str, Any]()
    sha256 = context.status.bundle_sha256
    if source is not None and sha256 is None and source.storage_ref is None:
        content = observed.bundle_entry if source.inline is None else source.inline.encode()
        if content is None and observed.bundle_problem:
            conditions = condition_sets.waiting_for(Reason.BUNDLE_NOT_FOUND, observed.bundle_problem)
            return Result(conditions=conditions, again_after=RECHECK_AFTER)
        if content is None:
            message = f"There is no {bundle_name(source)} in the namespace {resend.metadata.namespace}; create it."
            return Result(
                conditions=condition_sets.waiting_for(Reason.BUNDLE_NOT_FOUND, message), again_after=RECHECK_AFTER
            )
        inspected = inspect_bundle(
            content,
            name=bundle_name(source),
            window=window,
            expected_sha256=source.sha256,
            trusted=diode.spec.trusted_keys,
        )
        _check_topics(inspected.topics, diode, sources, what=f"The bundle {bundle_name(source)}")
        sha256, update = inspected.sha256, {"bundle_sha256": inspected.sha256, "bundle_id": inspected.id}
    is_known = source is None or sha256 is not None
    if source is not None and sha256 is not None:
        check_digest(sha256, source.sha256, name=bundle_name(source))
    if is_known:
        update["identity"] = resend_identity(resend.spec, window=diode.spec.partition_window, bundle_sha256=sha256)
    return Validated(diode, sources, is_known, update)


def _wait_for_rules(context: Context) -> Result | None:
    """Wait for the ConfigMap with the filter rules; raises ConfigurationError for rules that cannot be read."""
    resend, observed = context.resend, context.observed
    given = resend.spec.input_filter
    if given is None or given.rules_from is None:
        return None
    with_rules(resend, observed.filter_entry)
    if given.rules is not None:
        return None
    entry = given.rules_from.config_map
    message = observed.filter_problem or (
        f"There is no entry {entry.key} in a ConfigMap {entry.name} in the namespace "
        f"{resend.metadata.namespace}; create it with one filter rule per line."
    )
    return Result(
        conditions=condition_sets.waiting_for(Reason.FILTER_RULES_NOT_FOUND, message), again_after=RECHECK_AFTER
    )


def _check_topics(wired: Iterable[str], diode: Diode, sources: ResendSources, *, what: str) -> None:
    """Make sure that topics, as the wire names them, may be read; raises ConfigurationError."""
    upstream = {wire: topic for topic, wire in (diode.spec.topic_translations or {}).items()}
    sources.kafka.topics.check((upstream.get(topic, topic) for topic in wired), what=what)
