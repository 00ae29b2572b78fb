"""Owns what a Diode allows its Resends: limits, and the keys that bundles must be signed with.

Must not know a Resend, nor who compares the two.
"""

import re
from typing import Annotated, ClassVar

from pydantic import Field

from gapless_api.keys.trusted_keys import PEM, public_key_base64
from gapless_api.v1alpha1.common import Label, PartitionWindow, Rate, int32
from gapless_api.v1alpha1.model import ApiModel, Rule

LOWEST_PRIORITY, HIGHEST_PRIORITY = -1000, 1000
MOST_PARALLEL = 64
_PUBLIC_KEY = re.compile(PEM)


class TrustedKey(ApiModel):
    """A public key. Bundles that are signed with its private key may be resent."""

    RULES: ClassVar = (
        Rule(
            f"self.publicKey.matches('^{PEM}$')".replace("\\", "\\\\"),
            "publicKey must be an Ed25519 public key in PEM form: write what openssl pkey -in signing.pem -pubout "
            "prints, as a block of three lines",
            lambda key: _PUBLIC_KEY.fullmatch(key.public_key) is not None,
            "publicKey",
        ),
    )

    name: Label
    """Name of the owner of the key, such as the receiving cluster; shown in messages."""
    public_key: Annotated[str, Field(min_length=60, max_length=256)]
    """Ed25519 public key in PEM form, as openssl pkey -in signing.pem -pubout prints it."""

    @property
    def encoded(self) -> str:
        """The key as settings have it, in Base64."""
        return public_key_base64(self.public_key)


class ResendLimits(ApiModel):
    """Limits of Resends over a Diode. A Resend beyond them is refused, and its senders are stopped."""

    RULES: ClassVar = (
        Rule(
            "self.minPriority <= self.maxPriority",
            "minPriority is above maxPriority: write the lower number as minPriority",
            lambda limits: limits.min_priority <= limits.max_priority,
            "minPriority",
        ),
    )

    max_eps: Rate = 0.0
    """Maximum events per second (`eps`) of one Resend. Also the rate of a Resend whose `eps` is 0 or absent. 0
    sets no limit besides the Diode's budget."""
    max_parallelism: Annotated[int, int32(1, MOST_PARALLEL)] = MOST_PARALLEL
    """Maximum number of pods of one Resend."""
    min_priority: Annotated[int, int32(LOWEST_PRIORITY, HIGHEST_PRIORITY)] = LOWEST_PRIORITY
    """Lowest priority of a Resend."""
    max_priority: Annotated[int, int32(LOWEST_PRIORITY, HIGHEST_PRIORITY)] = HIGHEST_PRIORITY
    """Highest priority of a Resend."""
    partition_windows: Annotated[tuple[PartitionWindow, ...], Field(max_length=16)] = ()
    """Windows that a Resend may use instead of the Diode's, with the same start and no further partitions. If absent,
    only the Diode's own. A wrong window sends events under the ids of another cluster."""
    allow_force: bool = True
    """Whether a Resend may repeat work (spec.force). Without spec.force, the same bundle is never sent again, whatever
    the name of the Resend."""
    bundles_only: bool = False
    """Whether a Resend must name a bundle. Together with trustedKeys, only events that a signed bundle lists can be
    sent. If false, a Resend may also select events by offsets or by time."""
