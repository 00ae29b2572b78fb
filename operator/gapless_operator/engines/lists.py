"""Owns what the platform team's lists allow an engine to name; must not know what the work is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.settings import Program


def not_listed(options: SparkOptions, program: Program) -> str:
    """Why the lists do not let an engine be used, in a sentence; empty when they do."""
    images = {program.image, *program.allowed_images}
    accounts = {program.service_account, *program.allowed_service_accounts}
    return unlisted("engine.image", "scan.allowedImages", options.image, images) or unlisted(
        "engine.serviceAccountName", "scan.allowedServiceAccounts", options.service_account_name, accounts
    )


def unlisted(field: str, value: str, name: str | None, allowed: Collection[str]) -> str:
    """Why a field of the spec may not name something, in a sentence; empty when it may, or names nothing.

    Args:
        field: of the spec.
        value: of the chart, which holds the list.
        name: what the field names.
        allowed: the list.
    """
    if name is None or name in allowed:
        return ""
    return (
        f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it to the "
        f"chart's value {value}."
    )
