"""Whether a Resend can be carried out as it is: limits, Kafka, storage, topics, window, settings and bundle.

Must not know what runs; the caller stops a Resend that is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.references import NotFound, ResendSources, resend_sources
from gapless_operator.common.result import Result
from gapless_operator.sending.link_profile import NoProfile, profile_of
from gapless_operator.sending.resend.bundle import bundle_name, check_digest, check_selection, inspect_bundle
from gapless_operator.sending.resend.filter_rules import with_rules
from gapless_operator.sending.resend.properties import filter_rules, properties

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_operator.sending.resend.context import Context

RECHECK_AFTER = timedelta(seconds=30)
"""How soon to check again for a missing object; not every kind of object is watched."""


@dataclass(frozen=True, slots=True)
class Validated:
    """What a Resend needs that can be carried out."""

    diode: Diode
    sources: ResendSources
    is_identified: bool
    """Whether the identity of the work is known; otherwise a pod has to inspect the bundle first."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that follow, by their Python names."""


def validate(context: Context) -> Validated | Result:
    """Check whether the Resend can be carried out; a `Result` says what it waits for, or why it must not be sent.

    Raises:
        ConfigurationError: the spec has to be changed.
    """
    resend, observed, diode = context.resend, context.observed, context.observed.diode
    if diode is None:
        raise ValueError("a Resend without a Diode must have been stopped before")
    sources = _sources(context, diode)
    if isinstance(sources, Result):
        return sources
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
            f"Diode {diode.metadata.name} encrypts for a receiver that the live stream also uses; this resend would "
            f"make the live stream unreadable. Use a Diode with a separate receiver port for resends."
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
    is_identified = source is None or sha256 is not None
    if source is not None and sha256 is not None:
        check_digest(sha256, source.sha256, name=bundle_name(source))
    if is_identified:
        update["identity"] = resend_identity(resend.spec, window=diode.spec.partition_window, bundle_sha256=sha256)
    return Validated(diode, sources, is_identified, update)


def _sources(context: Context, diode: Diode) -> ResendSources | Result:
    """Return the Kafka and the storage, or a wait for what does not exist: one of these, or the link profile."""
    observed = context.observed
    sources = resend_sources(context.resend, observed.referenced)
    profile = profile_of(diode, observed.profile_entry, observed.profile_problem)
    missing = profile if isinstance(profile, NoProfile) else sources
    if not isinstance(missing, NoProfile | NotFound):
        return missing
    conditions = condition_sets.waiting_for(missing.reason, missing.message)
    return Result(conditions=conditions, again_after=RECHECK_AFTER)


def _wait_for_rules(context: Context) -> Result | None:
    """Wait for the ConfigMap with the filter rules; raises ConfigurationError for rules that cannot be read."""
    resend, observed = context.resend, context.observed
    input_filter = resend.spec.input_filter
    if input_filter is None or input_filter.rules_from is None:
        return None
    with_rules(resend, observed.filter_entry)
    if input_filter.rules is not None:
        return None
    entry = input_filter.rules_from.config_map
    message = observed.filter_problem or (
        f"There is no entry {entry.key} in a ConfigMap {entry.name} in the namespace "
        f"{resend.metadata.namespace}; create it with one filter rule per line."
    )
    return Result(
        conditions=condition_sets.waiting_for(Reason.FILTER_RULES_NOT_FOUND, message), again_after=RECHECK_AFTER
    )


def _check_topics(wire_topics: Iterable[str], diode: Diode, sources: ResendSources, *, what: str) -> None:
    """Check that topics, by their names on the wire, may be read; raises ConfigurationError."""
    upstream = {wire: topic for topic, wire in (diode.spec.topic_translations or {}).items()}
    topics = [upstream.get(topic, topic) for topic in wire_topics]
    sources.kafka.topics.check(topics, what=what)
    if sources.archive is not None:
        sources.archive.check(topics, what=what)
