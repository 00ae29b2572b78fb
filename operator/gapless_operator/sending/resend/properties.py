"""The properties file of ``gapless resend`` for a Resend and its Diode, and the paths of all files in a pod.

Must not know how the files get there, nor how the sender uses the settings. The tests compare the names of the settings
with the sender's table of settings.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.link_rate import Budget
from gapless_api.v1alpha1.sender_options import DEFAULT_MAX_FRAGMENTS, STALL_SECONDS
from gapless_operator.common.access import kafka_settings, store_settings
from gapless_operator.common.children import digest
from gapless_operator.sending.resend.limits import pace

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import DiodeSpec
    from gapless_api.v1alpha1.resend import Resend, ResendSpec
    from gapless_api.v1alpha1.resend_source import BundleSource
    from gapless_operator.common.references import ResendSources

CONFIGURATION_FOLDER = "/etc/gapless"
PROPERTIES_NAME, FILTER_NAME, BUNDLE_NAME = "resend.properties", "filter.rules", "bundle"
"""Files in it; the bundle is there when it comes from a ConfigMap."""
RATES_NAME = "rates.properties"
"""The file in it that a sender follows while it runs."""
SECRETS_FOLDER = f"{CONFIGURATION_FOLDER}/secrets"
RECEIVER, SESSION_KEY = "receiver.crt", "session-key"
BUNDLE_FOLDER, FETCHED_NAME = "/bundle", "fetched"
"""Mount path of the volume with the bundle, and the name of the file that an init container fetches."""
STATE_FOLDER = "/var/lib/gapless"
ARCHIVE_FOLDER, ARCHIVE_PREFIX = "/archive", "archive-"
"""Mount path of the volume with the archive, and the prefix of the files with credentials of its store."""
_IDENTITY_CHARACTERS = 32
_PROGRESS_SECONDS = 2
"""Often enough for a status that is written every five seconds."""


def run_id(resend: Resend) -> str:
    """Return a short digest of `force`, for names and checkpoints; empty without `force`."""
    return digest(resend.spec.force)[:8] if resend.spec.force is not None else ""


def checkpoint_folder(resend: Resend) -> str | None:
    """Return the folder on the Diode's volume for the progress of the work; ``None`` before the work is identified.

    It is named after the work, so that another Resend for the same work continues where the last one stopped.
    """
    status = resend.status
    if status.checkpoint is not None:
        return status.checkpoint
    work = (status.identity or "")[:_IDENTITY_CHARACTERS]
    return "-".join(filter(None, (work, run_id(resend)))) if work else None


def properties(resend: Resend, diode: DiodeSpec, sources: ResendSources, *, plan: bool) -> str:
    """Return the content of the properties file.

    Args:
        resend: what to send.
        diode: over which link.
        sources: the Kafka and the storage that the Resend names.
        plan: whether to count only what would be sent.

    Raises:
        ConfigurationError: a properties file cannot hold a value.
    """
    spec = resend.spec
    if spec.generate_new_symmetric_key_every_seconds and diode.encryption is None:
        raise ConfigurationError(
            f"spec.generateNewSymmetricKeyEverySeconds is set, but Diode {spec.diode_ref.name} does not encrypt; "
            f"remove it, or choose another Diode."
        )
    values: dict[str, str | int | float | bool | None] = {
        **_selection(spec, sources),
        **kafka_settings(sources.kafka, SECRETS_FOLDER),
        **_archive(sources),
        **_options(spec),
        **_link(spec, diode),
        "id": f"{resend.metadata.namespace}/{resend.metadata.name}",
        "reportLine": True,
        "progressInterval": _PROGRESS_SECONDS,
        "checkpoint": f"{STATE_FOLDER}/{folder}/" if (folder := checkpoint_folder(resend)) else None,
    }
    budget = diode.budget or Budget()
    if plan:
        values["plan"] = True
        values["eps"] = min((limit for limit in (pace(spec, diode), budget.events_per_second) if limit), default=None)
        values["bitsPerSecond"] = budget.bits_per_second or None
    else:
        values["shardCount"] = spec.parallelism
        # The bundle may have been replaced since it was inspected; then the sender sends nothing.
        values["bundleSha256"] = resend.status.bundle_sha256
        values["rateFile"] = f"{CONFIGURATION_FOLDER}/{RATES_NAME}"
        values["paceFile"] = f"{STATE_FOLDER}/{resend.metadata.uid}.pace"
        if budget.is_limited:
            values["budgetFile"] = f"{STATE_FOLDER}/budget"
        if diode.encryption is not None:
            values["sessionKeyFile"] = f"{SECRETS_FOLDER}/{SESSION_KEY}"
            if seconds := _key_seconds(spec, diode):
                values["generateNewSymmetricKeyEvery"] = seconds
                values["keyRotationFile"] = f"{STATE_FOLDER}/{resend.metadata.uid}.keys"
    return _render(values)


def rates(spec: ResendSpec, diode: DiodeSpec) -> str:
    """Return the properties file with the rates; senders reload it while they run.

    Args:
        spec: of the Resend.
        diode: with the budget that follows from its link profile, if it has one.
    """
    values: dict[str, str | int | float | bool | None] = {"eps": pace(spec, diode) or 0}
    if diode.budget is not None and diode.budget.is_limited:
        values["budgetEps"] = diode.budget.events_per_second
        values["budgetBitsPerSecond"] = diode.budget.bits_per_second
    elif diode.unlimited and not values["eps"]:
        values["unlimited"] = True
    return _render(values)


def filter_rules(spec: ResendSpec) -> str | None:
    """Return the file of filter rules, one per line; ``None`` without a filter.

    Raises:
        ConfigurationError: a rule contains a line break, which would split it into two.
    """
    if spec.input_filter is None:
        return None
    rules = spec.input_filter.rules or ()
    for number, rule in enumerate(rules):
        if rule.splitlines() != [rule]:
            raise ConfigurationError(
                f"spec.inputFilter.rules.{number} contains a line break; write \\n instead in a new Resend."
            )
    return "".join(f"{rule}\n" for rule in rules)


def bundle_path(bundle: BundleSource, sources: ResendSources) -> str:
    """Return the path of the bundle in a sender's pod."""
    if sources.bundle is not None and (volume := sources.bundle.persistent_volume_claim) is not None:
        return f"{BUNDLE_FOLDER}/{volume.path(bundle.path or '')}"
    if sources.bundle is not None:
        return f"{BUNDLE_FOLDER}/{FETCHED_NAME}"
    return f"{CONFIGURATION_FOLDER}/{BUNDLE_NAME}"


def _selection(spec: ResendSpec, sources: ResendSources) -> dict[str, str | int | None]:
    selection: dict[str, str | int | None] = {}
    if spec.bundle is not None:
        selection = {"resendFileName": bundle_path(spec.bundle, sources)}
    elif spec.offsets is not None:
        selection = {
            "topic": spec.offsets.topic,
            "partition": spec.offsets.partition,
            "offsetFrom": spec.offsets.from_,
            "offsetTo": spec.offsets.to,
        }
    elif spec.time_range is not None:
        selection = {
            "topic": spec.time_range.topic,
            "partition": spec.time_range.partition,
            "from": _timestamp(spec.time_range.from_),
            "to": _timestamp(spec.time_range.to),
        }
    if (times := spec.time_filter) is not None:
        selection |= {"from": _timestamp(times.from_), "to": _timestamp(times.to)}
    return {
        **selection,
        "unavailable": spec.unavailable.lower(),
        "fill": ",".join(spec.fillable) or None,
        "compressWhenLengthExceeds": spec.compress_when_length_exceeds,
        "inputFilterRules": f"{CONFIGURATION_FOLDER}/{FILTER_NAME}" if spec.input_filter is not None else None,
        "inputFilterDefaultAction": spec.input_filter.default_action.lower() if spec.input_filter else None,
    }


def _archive(sources: ResendSources) -> dict[str, str]:
    """Return where the sender finds events that Kafka no longer has."""
    place = sources.archive
    if place is None:
        return {}
    lines = {"archive": place.address(ARCHIVE_FOLDER), "archiveRegion": place.region}
    s3 = place.location.s3
    return lines if s3 is None else lines | store_settings(s3, SECRETS_FOLDER, prefix=ARCHIVE_PREFIX)


def _options(spec: ResendSpec) -> dict[str, str | int | None]:
    """Return the options that differ from the sender's defaults."""
    isolation = "read_committed" if spec.isolation_level == "ReadCommitted" else None
    return {
        "clientID": spec.client_id,
        "groupID": spec.group_id,
        "isolationLevel": isolation,
        "stallTimeout": None if spec.stall_timeout_seconds == STALL_SECONDS else spec.stall_timeout_seconds,
        "maxFragments": None if spec.max_fragments == DEFAULT_MAX_FRAGMENTS else spec.max_fragments,
        "logLevel": None if spec.log_level == "Info" else spec.log_level.upper(),
    }


def _key_seconds(spec: ResendSpec, diode: DiodeSpec) -> int:
    """Return after how many seconds an event key is replaced; 0 for never."""
    own = spec.generate_new_symmetric_key_every_seconds
    if own is not None or diode.encryption is None:
        return own or 0
    return diode.encryption.generate_new_symmetric_key_every_seconds


def _link(spec: ResendSpec, diode: DiodeSpec) -> dict[str, str | int | float | bool | None]:
    translations = diode.topic_translations
    values: dict[str, str | int | float | bool | None] = {
        "topicTranslations": json.dumps(translations, sort_keys=True, ensure_ascii=False) if translations else None,
        "targetIP": diode.target.host,
        "targetPort": diode.target.port,
        "nic": diode.nic,
        "sourceAddress": diode.source_address,
        "dscp": diode.dscp,
        "ttl": diode.ttl,
        "payloadSize": diode.payload_size,
        "copies": spec.copies or diode.copies,
    }
    if diode.encryption is not None:
        values["encryption"] = True
        values["publicKeyFile"] = f"{SECRETS_FOLDER}/{RECEIVER}"
    return values


def _timestamp(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _render(values: dict[str, str | int | float | bool | None]) -> str:
    return "".join(f"{_line(name, value)}\n" for name, value in values.items() if value is not None)


def _line(name: str, value: str | float | bool) -> str:  # noqa: FBT001 -- a value of any type
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text != text.strip() or len(text.splitlines()) > 1:
        raise ConfigurationError(
            f"The value {text!r} for {name} begins or ends with a space or contains a line break, which the sender's "
            f"settings cannot hold; correct it in a new Resend."
        )
    return f"{name}={text}"
