"""Owns which images, accounts and signing keys a GapScan may name: those that the platform team lists.

Must not know what a scan does with them. The chart's admission policy ``<fullname>-gapscans`` refuses the same
in the same words; this holds where the policy is off or a list was changed later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.settings import Program


def refusal(scan: GapScan, program: Program) -> str:
    """Why the scan may not begin, in a sentence; empty when it may."""
    engine, secret = scan.spec.engine, scan.spec.signing_key_secret
    named = (
        ("engine.image", "scan.allowedImages", engine.image, {program.image, *program.allowed_images}),
        (
            "engine.serviceAccountName",
            "scan.allowedServiceAccounts",
            engine.service_account_name,
            {program.service_account, *program.allowed_service_accounts},
        ),
        (
            "signingKeySecret",
            "scan.signingKeySecrets",
            secret.name if secret is not None else None,
            program.signing_key_secrets,
        ),
    )
    for field, value, name, allowed in named:
        if name is not None and name not in allowed:
            return (
                f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it "
                f"to the chart's value {value}."
            )
    return ""
