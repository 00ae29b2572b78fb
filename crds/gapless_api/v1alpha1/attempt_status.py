"""The status of the latest attempt at some work; must not know the work."""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import Name
from gapless_api.v1alpha1.model import Message, Moment, StatusModel


class LastAttempt(StatusModel):
    """The latest attempt."""

    name: Name
    """Name of the Job or SparkApplication."""
    engine: Literal["Job", "SparkApplication"]
    """Kind of the object."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec for which the attempt was started."""
    started: Moment | None = None
    """Time at which the attempt was created."""
    finished: Moment | None = None
    """Time at which the attempt ended."""
    outcome: Annotated[str, Field(max_length=64)] | None = None
    """Reason of the outcome; see docs/reference/conditions.md."""
    message: Message | None = None
    """Description of the outcome."""
