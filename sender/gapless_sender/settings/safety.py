"""The settings of progress, parallel work and order; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.quantities import choice, integer
from gapless_api.base.typed_settings import TypedSettings, declare
from gapless_sender.base.sharding import INDEX_VARIABLE
from gapless_sender.settings.values import file_or_folder

_GROUP = "Progress, safety and speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings(TypedSettings):
    """Progress, parallel work and order."""

    checkpoint: Path | None = declare(
        "checkpoint",
        "File for the progress: a resend that was stopped or killed continues from it, and a finished one sends "
        "nothing twice. In a folder (DIR/) its name is resend.checkpoint. Each shard has its own file, with its number "
        "in the name.",
        parse=file_or_folder,
        writes=True,
        metavar="FILE|DIR/",
        group=_GROUP,
    )
    """This shard's own."""
    parallelism: int = declare(
        "parallelism",
        "Number of processes that share the partitions and the pace.",
        parse=integer(1, 64),
        default=1,
        metavar="N",
        group=_GROUP,
    )
    shard_count: int = declare(
        "shardCount",
        "Number of programs (such as the pods of a Job) over which the partitions are distributed, the same way in "
        "each of them; this one sends only its share.",
        parse=integer(1, 64),
        default=1,
        metavar="N",
        group=_GROUP,
    )
    shard_index: int | None = declare(
        "shardIndex",
        "Index of this program among them, from 0.",
        parse=integer(0, 63),
        shown_default=f"the variable {INDEX_VARIABLE}",
        metavar="N",
        group=_GROUP,
    )
    order: str = declare(
        "order",
        "grouped reorders datagrams within 2,000 offsets, which is faster and within the windows of the receiving "
        "side's gap detector; free reorders within 16,000, for sites without a detector; strict keeps offset order.",
        parse=choice("grouped", "free", "strict"),
        default="grouped",
        group=_GROUP,
    )


SAFETY = SafetySettings.declared()
