"""The types that several kinds share: names, references, Secrets, windows; must not know any kind."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_snake

from gapless_api.offsets import windows
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.v1alpha1.model import ApiModel, Rule

# Bounds are in the schema for two reasons: an object must stay far below etcd's limit of 1.5 MB, and the API server
# rejects a CRD whose rules would exceed the CEL cost budget on unbounded lists and strings.
_DOTS = re.compile(r"(^|/)[.]{1,2}(/|$)")
_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

MAX_MIRROR_NAME_LENGTH = 63
MirrorName = Annotated[
    str, Field(min_length=1, max_length=MAX_MIRROR_NAME_LENGTH, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
]
"""The name of a mirror in the target cluster."""
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=_NAME)]
"""The name of a Kubernetes object."""
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A name that is also used as a label value."""
TemplateName = Label
"""The name of a pod template of the chart."""
SecretEntry = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a Secret or a ConfigMap."""
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET, json_schema_extra={"format": "int64"})]
"""A Kafka offset."""
Count = Annotated[int, Field(ge=0, le=MAX_OFFSET, json_schema_extra={"format": "int64"})]
"""A non-negative 64-bit number."""
Partition = Annotated[int, Field(ge=0, le=MAX_PARTITION, json_schema_extra={"format": "int32"})]
"""A Kafka partition."""
KafkaTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9]+$")]
"""The name of a Kafka topic."""
WireTopic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A topic as the receiving side names it. It may be translated, and need not be a valid Kafka topic name."""
Rate = Annotated[float, Field(ge=0, le=1e12)]
"""Events per second; 0 for no limit."""
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")]
"""A container image."""
Memory = Annotated[str, Field(max_length=8, pattern=r"^[1-9][0-9]{0,5}(Mi|Gi)$")]
"""An amount of memory such as 512Mi or 2Gi."""
Cpu = Annotated[str, Field(max_length=8, pattern=r"^([1-9][0-9]{0,5}m|[1-9][0-9]{0,2})$")]
"""An amount of CPU such as 500m or 2."""
FolderPath = Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*)?$")]
"""A folder, without leading or trailing slash; empty for the root."""
Sha256 = Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 digest in hexadecimal."""


def int32(minimum: int, maximum: int) -> Any:
    """Return the field of a 32-bit integer; both limits are inclusive."""
    return Field(ge=minimum, le=maximum, json_schema_extra={"format": "int32"})


def no_dot_segments(field: str) -> Rule:
    """Return the rule that a path has no . or .. segments, so that it cannot leave its root."""
    snake = to_snake(field)
    return Rule(
        f"!has(self.{field}) || !self.{field}.matches('(^|/)[.]{{1,2}}(/|$)')",
        "write the path from the root, without . or .. segments",
        lambda model: _DOTS.search(getattr(model, snake) or "") is None,
        field,
    )


class SecretKey(ApiModel):
    """An entry of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: SecretEntry
    """Entry of the Secret."""


class PartitionWindow(ApiModel):
    """Downstream partitions of this upstream cluster, where several clusters share one downstream cluster."""

    RULES: ClassVar = (
        Rule(
            f"self.start + self.count <= {MAX_PARTITION + 1}",
            f"the last partition, start + count - 1, must be at most {MAX_PARTITION}: lower start or count",
            lambda window: window.start + window.count <= MAX_PARTITION + 1,
            "count",
        ),
    )

    start: Partition = 0
    """Number that the live sender adds to this cluster's partition numbers (air-gap's partitionStartValue)."""
    count: Partition = 0
    """Number of partitions of this cluster, counted from start (air-gap's partitionStopValue). 0 means all partitions
    from start."""

    def window(self) -> windows.PartitionWindow:
        """Return the same window for the functions of `gapless_api.offsets.windows`."""
        return windows.PartitionWindow(self.start, self.count)


class Reference(ApiModel):
    """Reference to another object in the same namespace."""

    name: Name
    """Name of the object."""


class Resources(ApiModel):
    """Compute resources of a container."""

    cpu: Cpu | None = None
    """CPU request, such as 500m or 2. There is no CPU limit."""
    memory: Memory | None = None
    """Memory request and limit, such as 256Mi."""


class Toleration(ApiModel):
    """A taint that the pods tolerate."""

    RULES: ClassVar = (
        Rule(
            "self.operator != 'Exists' || !has(self.value)",
            "operator Exists takes no value: delete value, or set operator to Equal",
            lambda toleration: toleration.operator != "Exists" or toleration.value is None,
        ),
        Rule(
            "has(self.key) || self.operator == 'Exists'",
            "a toleration without key must have operator Exists: add the key of the taint",
            lambda toleration: toleration.key is not None or toleration.operator == "Exists",
        ),
    )

    key: Annotated[str, Field(min_length=1, max_length=316)] | None = None
    """Key of the taint. If absent, all taints match."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Relationship of the key to the value: Equal requires the same value; Exists ignores the value."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. If absent, all effects match."""
