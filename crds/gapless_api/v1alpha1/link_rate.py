"""The parts of a Diode that say how fast it sends; must not know how a rate is measured or kept."""

from typing import Annotated

from pydantic import Field

from gapless_api.v1alpha1.common import Name, Rate, SecretEntry
from gapless_api.v1alpha1.model import ApiModel


class Budget(ApiModel):
    """Limits of all Resends of the Diode together."""

    events_per_second: Rate = 0.0
    """Maximum events per second; fractions are allowed. 0 sets no limit."""
    bits_per_second: Annotated[int, Field(ge=0, le=10**12, json_schema_extra={"format": "int64"})] = 0
    """Maximum bits per second on the wire, including headers and copies. 0 sets no limit."""

    @property
    def is_limited(self) -> bool:
        """Whether it has a rate."""
        return bool(self.events_per_second or self.bits_per_second)


class LinkProfileEntry(ApiModel):
    """An entry of a ConfigMap in the Diode's namespace, with the file of gapless link receive --profile."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "link-profile.json"
    """Entry of the ConfigMap."""
