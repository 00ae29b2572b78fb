"""Owns the table that shows what a run has archived; must not know how records are archived."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from gapless_spark.archiving.archive.account import newest_record, readable_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_spark.archiving.archive.account import TopicAccount

_MAX_ROWS = 60
_HEADINGS = ("segments", "records", "content", "stored", "newest record", "lag", "lost")


def show_account(accounts: Mapping[str, TopicAccount], stream: IO[str], text: str) -> None:
    """Write a table of the topics, and `text` below it."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("topic", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for topic, account in sorted(accounts.items(), key=lambda item: (-item[1].records, item[0]))[:_MAX_ROWS]:
        table.add_row(
            Text(topic),
            f"{account.segments:,}",
            f"{account.records:,}",
            readable_bytes(account.bytes),
            readable_bytes(account.stored_bytes),
            newest_record(account) or "-",
            f"{account.lag:,}",
            f"{account.lost_offsets:,}",
            style="" if account.segments or account.lost else "dim",
        )
    if accounts:
        console.print(table)
    if len(accounts) > _MAX_ROWS:
        console.print(f"… and {len(accounts) - _MAX_ROWS} more topics; --report lists all.", markup=False)
    if text:
        console.print(text, markup=False)
