"""The limits of a Diode for its Resends: the checks with their messages, and the arguments of a sender.

Must not know how a Resend is carried out. The chart's admission policy `resend-limits` makes the same checks with the
same messages at kubectl apply; these apply where the policy is off or the Diode was changed later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.trusted_keys import format_keys

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode, DiodeSpec
    from gapless_api.v1alpha1.resend import Resend, ResendSpec


def check_limits(resend: Resend, diode: Diode) -> None:
    """Check that the Diode allows what the Resend requests.

    Raises:
        ConfigurationError: it does not; the message names the field, the limit and the Diode.
    """
    spec, name, limits = resend.spec, diode.metadata.name, diode.spec.limits
    if limits.bundles_only and spec.bundle is None:
        raise ConfigurationError(f"Diode {name} sends only bundles (limits.bundlesOnly); name one in spec.bundle.")
    _check_window(spec, diode)
    if spec.force is not None and not limits.allow_force:
        raise ConfigurationError(
            f"Diode {name} does not allow spec.force (limits.allowForce), which sends again what was sent before; "
            f"delete it, or ask the platform team."
        )
    if limits.max_eps and (spec.eps or 0) > limits.max_eps:
        raise ConfigurationError(
            f"spec.eps is {spec.eps:,.12g} and Diode {name} allows at most {limits.max_eps:,.12g}; write a lower one."
        )
    if spec.parallelism > limits.max_parallelism:
        raise ConfigurationError(
            f"spec.parallelism is {spec.parallelism} and Diode {name} allows at most {limits.max_parallelism}; write "
            f"it in a new Resend."
        )
    if not limits.min_priority <= spec.priority <= limits.max_priority:
        raise ConfigurationError(
            f"spec.priority is {spec.priority} and Diode {name} allows {limits.min_priority} to {limits.max_priority}; "
            f"write one of these."
        )


def pace(spec: ResendSpec, diode: DiodeSpec) -> float:
    """Return the limit of the Resend in events per second: its own or that of the Diode, the lower one; 0 for none."""
    return min((limit for limit in (spec.eps or 0, diode.limits.max_eps) if limit), default=0.0)


def limit_arguments(resend: Resend, diode: DiodeSpec) -> list[str]:
    """Return the limits that no settings file can override; the Job with these arguments is immutable."""
    window = resend.spec.partition_window or diode.partition_window
    arguments = [f"--partition-start-value={window.start}", f"--partition-stop-value={window.count}"]
    if resend.spec.bundle is not None and diode.trusted_keys:
        arguments.append(f"--trusted-keys={format_keys({key.name: key.encoded for key in diode.trusted_keys})}")
    return arguments


def _check_window(spec: ResendSpec, diode: Diode) -> None:
    if spec.partition_window is None:
        return
    requested, own = spec.partition_window.window(), diode.spec.partition_window
    allowed = [window.window() for window in (own, *diode.spec.limits.partition_windows)]
    if not any(window.covers(requested) for window in allowed):
        raise ConfigurationError(
            f"spec.partitionWindow (start {requested.start}, count {requested.count}) is none of those that Diode "
            f"{diode.metadata.name} allows; delete it in a new Resend, or ask the platform team to add it to "
            f"limits.partitionWindows."
        )
