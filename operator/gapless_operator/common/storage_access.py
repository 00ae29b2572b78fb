"""Owns which entries of Secrets a pod needs to reach an S3-compatible store; must not know what is kept there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.v1alpha1.storage_location import S3Location
    from gapless_operator.common.projected import Wanted

ACCESS_KEY_ID, SECRET_ACCESS_KEY, CA = "s3-access-key-id", "s3-secret-access-key", "s3-ca.crt"
"""Files among the secrets of a pod."""


def store_secrets(s3: S3Location) -> list[Wanted]:
    """What a client of the store needs of Secrets."""
    wanted: list[Wanted] = []
    if (keys := s3.credentials_secret) is not None:
        wanted += [
            (keys.name, ACCESS_KEY_ID, keys.access_key_id_key),
            (keys.name, SECRET_ACCESS_KEY, keys.secret_access_key_key),
        ]
    if s3.ca_secret is not None:
        wanted.append((s3.ca_secret.name, CA, s3.ca_secret.key))
    return wanted
