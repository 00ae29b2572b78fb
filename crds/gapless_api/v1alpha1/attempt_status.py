"""Owns what a status says of the latest attempt at something; must not know what was attempted."""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Name
from gapless_api.v1alpha1.model import Message, Moment, StatusModel


class LastAttempt(StatusModel):
    """The latest attempt."""

    name: Name
    """Name of its Job or SparkApplication."""
    engine: Literal["Job", "SparkApplication"]
    """Kind of the object."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that it works for."""
    started: Moment | None = None
    """When it was created."""
    finished: Moment | None = None
    """When it ended."""
    outcome: Annotated[str, Field(max_length=64)] | None = None
    """Reason of its outcome; see docs/reference/conditions.md."""
    message: Message | None = None
    """Description of its outcome."""
