"""Owns the settings of what a resend keeps and how it shares its work; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.settings import Setting, choice, integer
from gapless_api.base.typed_settings import TypedSettings
from gapless_sender.base.sharding import INDEX_VARIABLE
from gapless_sender.settings.values import file_or_folder

if TYPE_CHECKING:
    from pathlib import Path

_GROUP = "Progress, safety and speed"

SAFETY: tuple[Setting, ...] = (
    Setting(
        "checkpoint",
        "File that keeps the progress; a resend that was stopped or killed goes on from it, and a finished one "
        "sends nothing twice. In a folder (DIR/) it is resend.checkpoint; each shard has its own, with its number "
        "in the name.",
        parse=file_or_folder,
        metavar="FILE|DIR/",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "parallelism",
        "Processes that share the partitions and the pace.",
        parse=integer(1, 64),
        default=1,
        shown_default="1",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "shardCount",
        "Programs (such as the pods of a Job) among which the partitions are shared out, the same way in each of "
        "them; this one sends its share only.",
        parse=integer(1, 64),
        default=1,
        shown_default="1",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "shardIndex",
        "Which of them this is, from 0 up.",
        parse=integer(0, 63),
        shown_default=f"the variable {INDEX_VARIABLE}",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "order",
        "grouped lets datagrams change places within 2,000 offsets, which is faster and within the memory of the "
        "receiving side's gap detector; free lets them within 16,000, for sites without one; strict keeps the order of "
        "offsets.",
        parse=choice("grouped", "free", "strict"),
        default="grouped",
        shown_default="grouped",
        metavar="grouped|free|strict",
        own=True,
        group=_GROUP,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings(TypedSettings):
    """What a resend keeps and how it shares its work."""

    checkpoint: Path | None
    """This shard's own."""
    parallelism: int
    order: str
