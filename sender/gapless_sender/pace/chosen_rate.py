"""The rule that a sender is told its rate: by settings, by a link profile, or by ``unlimited``.

Must not know how a rate is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.peer_settings import is_peer_call
from gapless_sender.base.lazy_log import log

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_RATES = ("eps", "bitsPerSecond")


def with_profile(found: Resolved, values: Mapping[str, Any], *, counts_datagrams: bool = False) -> dict[str, Any]:
    """Return `values` with what the link profile says where nothing else is set; log what applies, and doubts.

    Args:
        found: the settings as they were given.
        values: the same, with a shard's own files.
        counts_datagrams: whether ``eps`` counts datagrams with their copies, whose number is then not the profile's.

    Raises:
        ConfigurationError: the profile cannot be used, or contradicts ``unlimited``.
    """
    path = values["linkProfile"]
    given_rates = [name for name in _RATES if name in found.sources and values[name]]
    if values["unlimited"] and (path is not None or given_rates):
        other = "linkProfile" if path is not None else given_rates[0]
        raise ConfigurationError(f"unlimited and {other} contradict each other; remove one of the two.")
    if path is None:
        return {**values, **{name: 0.0 for name in _RATES if name in values}} if values["unlimited"] else dict(values)
    from gapless_api.wire.link_profile import read_link_profile  # noqa: PLC0415 -- not needed without a profile

    profile = read_link_profile(path)
    copies = values["copies"] if "copies" in found.sources or counts_datagrams else profile.copies
    chosen: dict[str, Any] = {
        "eps": profile.datagrams_per_second if counts_datagrams else profile.events_per_second(copies),
        "bitsPerSecond": profile.bits_per_second,
        "payloadSize": values["payloadSize"] if "payloadSize" in found.sources else profile.payload_size,
        "copies": copies,
    }
    chosen = {name: value for name, value in chosen.items() if name in values}
    chosen |= {name: values[name] for name in given_rates}
    log(
        "info",
        "the link profile sets the rate",
        profile=str(path),
        measured=profile.measured_at,
        **chosen,
        **({"given": ", ".join(given_rates)} if given_rates else {}),
    )
    for doubt in profile.doubts(
        now=datetime.now(UTC), target=values["targetIP"] or "", payload_size=chosen["payloadSize"]
    ):
        log("warning", "the link profile may not hold", profile=str(path), message=doubt)
    return {**values, **chosen}


def check_rate(found: Resolved, *, is_limited: bool, unlimited: bool) -> None:
    """Refuse to send without a rate, unless that is wanted or the command was called as the peer's program.

    Args:
        found: the settings as they were given.
        is_limited: whether any rate is set, also by a rate file or a link profile.
        unlimited: whether no limit is wanted.

    Raises:
        ConfigurationError: no rate is set.
    """
    if is_limited or unlimited:
        return
    if not is_peer_call(found):
        raise ConfigurationError(
            "No rate above 0 is set, and sending as fast as possible may lose events and disturb the live stream; "
            "measure the link with gapless link test and give --link-profile=FILE, give a rate such as --eps=1000, or "
            "send without a limit with --unlimited."
        )
    log(
        "warning",
        "no rate is set, so events are sent as fast as possible, as by air-gap's resend; this may lose events and "
        "disturb the live stream",
        advice="measure the link with gapless link test, and give --link-profile=FILE or --eps",
    )
