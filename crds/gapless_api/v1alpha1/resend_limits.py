"""The limits that a Diode sets for Resends, and the keys that verify bundles; must not know the kind Resend."""

import re
from typing import Annotated, ClassVar

from pydantic import Field

from gapless_api.keys.trusted_keys import PEM, public_key_base64
from gapless_api.v1alpha1.common import Label, PartitionWindow, Rate, int32
from gapless_api.v1alpha1.model import ApiModel, Rule

MIN_PRIORITY, MAX_PRIORITY = -1000, 1000
MAX_PARALLELISM = 64
_PUBLIC_KEY = re.compile(PEM)


class TrustedKey(ApiModel):
    """A public key that verifies bundles."""

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
    """Name of the signer, such as the receiving cluster. Messages show it."""
    public_key: Annotated[str, Field(min_length=60, max_length=256)]
    """Ed25519 public key in PEM form, as openssl pkey -in signing.pem -pubout prints it."""

    @property
    def encoded(self) -> str:
        """The key in Base64, as in the settings of a sender."""
        return public_key_base64(self.public_key)


class ResendLimits(ApiModel):
    """Limits of Resends over a Diode. A Resend that exceeds them is refused, and its senders are stopped."""

    RULES: ClassVar = (
        Rule(
            "self.minPriority <= self.maxPriority",
            "minPriority is greater than maxPriority: write the lower number as minPriority",
            lambda limits: limits.min_priority <= limits.max_priority,
            "minPriority",
        ),
    )

    max_eps: Rate = 0.0
    """Maximum eps of a Resend, and the rate of a Resend whose eps is 0 or absent. 0 sets no limit other than the
    Diode's budget."""
    max_parallelism: Annotated[int, int32(1, MAX_PARALLELISM)] = MAX_PARALLELISM
    """Maximum parallelism of a Resend."""
    min_priority: Annotated[int, int32(MIN_PRIORITY, MAX_PRIORITY)] = MIN_PRIORITY
    """Lowest priority of a Resend."""
    max_priority: Annotated[int, int32(MIN_PRIORITY, MAX_PRIORITY)] = MAX_PRIORITY
    """Highest priority of a Resend."""
    partition_windows: Annotated[tuple[PartitionWindow, ...], Field(max_length=16)] = ()
    """Windows that a Resend may use instead of the Diode's. They must have the same start and contain no other
    partitions. If absent, a Resend must use the Diode's window. A wrong window sends events under the IDs of another
    cluster."""
    allow_force: bool = True
    """Whether a Resend may set force to repeat work. Without force, the same work is never sent again, whatever the
    name of the Resend."""
    bundles_only: bool = False
    """Whether Resends must name a bundle. Together with trustedKeys, only events in a signed bundle can be sent. If
    false, a Resend may also select events by offsets or time range."""
